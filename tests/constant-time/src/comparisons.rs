//! The comparisons that are measured. The fixed guess of each is nearly right or right, so that a comparison that
//! stops at the first difference takes longer for it than for random guesses.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use culvert_aead::{Key, Layout, Suite, TAG_LEN};
use culvert_base::BootTime;
use culvert_session::{Clock, DropReason, Handshaker, Output, PrivateKey, Tai64n};
use culvert_wire::PresharedKey;
use culvert_wire::token::SecretDigest;
use std::net::SocketAddr;
use std::ops::Range;

/// Returns true if a guess is accepted.
type Accepts = Box<dyn FnMut(&[u8]) -> bool>;

/// Something that compares a secret with a guess.
pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    /// The guess of the fixed class.
    pub(crate) guess: Vec<u8>,
    /// True if that guess is accepted.
    pub(crate) is_good: bool,
    pub(crate) accepts: Accepts,
}

const SECRET: [u8; 32] = *b"a secret of this many octets: 32";

/// Bytes of a plaintext: small, so that the comparison is a good part of the work.
const PLAINTEXT_LEN: usize = 32;

/// Characters of a form token: an HMAC-SHA256 in base64url.
const FORM_TOKEN_LEN: usize = 43;

/// Every comparison of the product.
pub(crate) fn all() -> Vec<Comparison> {
    let mut all = vec![
        Comparison {
            name: "SHA-256 of a token (SecretDigest)",
            guess: SECRET.to_vec(),
            is_good: true,
            accepts: Box::new(|guess| {
                SecretDigest::from_bytes(SECRET) == SecretDigest::from_bytes(array(guess))
            }),
        },
        Comparison {
            name: "pre-shared key (PresharedKey)",
            guess: SECRET.to_vec(),
            is_good: true,
            accepts: Box::new(|guess| {
                PresharedKey::from_bytes(SECRET) == PresharedKey::from_bytes(array(guess))
            }),
        },
        Comparison {
            name: "token of a form, tag of a passkey (verify_slices_are_equal)",
            guess: vec![b'x'; FORM_TOKEN_LEN],
            is_good: true,
            accepts: Box::new(|guess| {
                verify_slices_are_equal(&[b'x'; FORM_TOKEN_LEN], guess).is_ok()
            }),
        },
        mac1(),
    ];
    for (suite, single, batch) in [
        (
            Suite::ChaCha20Poly1305,
            [
                "ChaCha20-Poly1305, first byte wrong",
                "ChaCha20-Poly1305, last byte wrong",
            ],
            "ChaCha20-Poly1305, batch, last byte wrong",
        ),
        (
            Suite::Aes256Gcm,
            [
                "AES-256-GCM, first byte wrong",
                "AES-256-GCM, last byte wrong",
            ],
            "AES-256-GCM, batch, last byte wrong",
        ),
    ] {
        all.push(tag(suite, single[0], 0));
        all.push(tag(suite, single[1], TAG_LEN - 1));
        all.push(batch_tag(suite, batch));
    }
    all
}

/// The comparison that must be found to leak: it stops at the first difference.
pub(crate) fn early_exit() -> Comparison {
    Comparison {
        name: "early exit",
        guess: SECRET.to_vec(),
        is_good: true,
        accepts: Box::new(|guess| {
            // By single bytes, because the compiler would compare eight or more at once.
            SECRET
                .iter()
                .zip(guess)
                .all(|(a, b)| std::hint::black_box(a == b))
        }),
    }
}

/// The tag of a single record. Random guesses are wrong from the first byte, the fixed one at `wrong` alone.
fn tag(suite: Suite, name: &'static str, wrong: usize) -> Comparison {
    let key = Key::new(suite, &SECRET);
    let mut sealed = [0; PLAINTEXT_LEN + TAG_LEN];
    let tag = key.seal(7, &[], &mut sealed[..PLAINTEXT_LEN]);
    let mut guess = tag.to_vec();
    guess[wrong] ^= 1;
    Comparison {
        name,
        guess,
        is_good: false,
        accepts: Box::new(move |guess| {
            let mut record = sealed;
            record[PLAINTEXT_LEN..].copy_from_slice(guess);
            key.open(7, &[], &mut record).is_ok()
        }),
    }
}

/// The tag of every record of a batch, which the vector code compares where the processor has it.
fn batch_tag(suite: Suite, name: &'static str) -> Comparison {
    const COUNT: usize = 8;
    const STRIDE: usize = PLAINTEXT_LEN + TAG_LEN;
    let layout = Layout {
        head_len: 0,
        stride: STRIDE,
    };
    let key = Key::new(suite, &SECRET);
    let mut sealed = [0; COUNT * STRIDE];
    key.seal_batch(7, &mut sealed, layout);
    let nonces: Vec<u64> = (7..).take(COUNT).collect();
    let mut guess = Vec::new();
    for record in sealed.chunks_exact(STRIDE) {
        guess.extend_from_slice(&record[PLAINTEXT_LEN..]);
        *guess.last_mut().expect("a tag") ^= 1;
    }
    Comparison {
        name,
        guess,
        is_good: false,
        accepts: Box::new(move |guess| {
            let mut batch = sealed;
            for (record, tag) in batch
                .chunks_exact_mut(STRIDE)
                .zip(guess.chunks_exact(TAG_LEN))
            {
                record[PLAINTEXT_LEN..].copy_from_slice(tag);
            }
            key.open_batch(&nonces, &mut batch, layout).count() > 0
        }),
    }
}

/// The `mac1` of an initiation, by a handshaker that refuses it. The last byte of the fixed guess is wrong.
fn mac1() -> Comparison {
    // §5.4.2: `mac1` lies before `mac2`, which ends the message.
    const MAC1: Range<usize> = 116..132;
    let clock = Clock {
        now: BootTime::from_nanos(1_000_000_000),
        wall: Tai64n::from_unix(1_700_000_000, 0),
    };
    let end = |own: u8, other: u8| {
        let mut handshaker = Handshaker::new([own; 32]);
        handshaker.set_private_key(Some(PrivateKey::from_bytes([own; 32])), clock);
        let other = PrivateKey::from_bytes([other; 32]).public_key();
        let peer = handshaker.add_peer(other).expect("there is room for one");
        handshaker.set_up(true, clock);
        (handshaker, peer)
    };
    let (mut initiator, responder) = end(1, 2);
    initiator.handle_wanted(responder, clock);
    let initiation =
        std::iter::from_fn(|| initiator.poll_output()).find_map(|output| match output {
            Output::Send { datagram, .. } => Some(datagram.to_vec()),
            _ => None,
        });
    let mut initiation = initiation.expect("a wanted session begins with an initiation");
    let mut guess = initiation[MAC1].to_vec();
    *guess.last_mut().expect("16 bytes") ^= 1;
    let (mut responder, _) = end(2, 1);
    let source = SocketAddr::from(([192, 0, 2, 1], 51820));
    Comparison {
        name: "mac1 of an initiation, last byte wrong",
        guess,
        is_good: false,
        accepts: Box::new(move |guess| {
            initiation[MAC1].copy_from_slice(guess);
            let heard = responder.handle_datagram(&initiation, source, false, clock);
            !matches!(heard, Err(DropReason::InvalidMac1))
        }),
    }
}

fn array(bytes: &[u8]) -> [u8; 32] {
    bytes.try_into().expect("a guess has 32 bytes")
}
