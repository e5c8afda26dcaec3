//! Our handshake against `snow`, in both roles and both suites.
//!
//! `snow` knows Noise and not WireGuard, so the tests cut the Noise message out of ours: WireGuard
//! puts type and indices before it and the two MACs after it.

use super::symmetric::IDENTIFIER;
use super::*;
use culvert_aead::Key;
use proptest::prelude::*;
use snow::{HandshakeState, TransportState};

const NOISE_IN_INITIATION: core::ops::Range<usize> = 8..116;
const NOISE_IN_RESPONSE: core::ops::Range<usize> = 12..60;
const STAMP: Tai64n = Tai64n::from_bytes([0x40, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);

fn snow(suite: Suite, own: [u8; 32], peer: Option<&PublicKey>, psk: &[u8; 32]) -> HandshakeState {
    let name = match suite {
        Suite::ChaCha20Poly1305 => "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s",
        Suite::Aes256Gcm => "Noise_IKpsk2_25519_AESGCM_BLAKE2s",
    };
    let builder = snow::Builder::new(name.parse().unwrap())
        .prologue(IDENTIFIER)
        .unwrap()
        .local_private_key(&own)
        .unwrap()
        .psk(2, psk)
        .unwrap();
    match peer {
        Some(peer) => builder
            .remote_public_key(peer.as_bytes())
            .unwrap()
            .build_initiator()
            .unwrap(),
        None => builder.build_responder().unwrap(),
    }
}

fn identity(private: [u8; 32]) -> Identity {
    Identity::new(Scalar::new(&private))
}

/// Sends a record in each direction between our keys and snow's.
fn exchange(suite: Suite, ours: &SessionKeys, theirs: &mut TransportState) {
    for counter in 0..3u64 {
        let mut record = b"from us to snow".to_vec();
        let tag = Key::new(suite, &ours.send).seal(counter, &[], &mut record);
        record.extend(tag);
        let mut opened = [0; 100];
        let len = theirs.read_message(&record, &mut opened).unwrap();
        assert_eq!(&opened[..len], b"from us to snow");

        let mut sealed = [0; 100];
        let len = theirs.write_message(b"from snow", &mut sealed).unwrap();
        let opened = Key::new(suite, &ours.receive)
            .open(counter, &[], &mut sealed[..len])
            .unwrap();
        assert_eq!(opened, b"from snow");
    }
}

fn initiate(
    own: &Identity,
    peer: &PublicKey,
    suite: Suite,
    ephemeral: [u8; 32],
) -> (SentInitiation, [u8; INITIATION_LEN]) {
    let static_static = own.static_static(peer).unwrap();
    let ephemeral = Scalar::new(&ephemeral);
    SentInitiation::new(own, peer, &static_static, suite, ephemeral, STAMP, Index(7)).unwrap()
}

fn read(
    own: &Identity,
    peer: &PublicKey,
    suites: &[Suite],
    message: &[u8],
) -> Result<VerifiedInitiation, HandshakeRefusal> {
    let initiation = Initiation::parse(message).unwrap();
    let received = ReceivedInitiation::read(own, suites.iter().copied(), &initiation)?;
    assert_eq!(received.initiator(), peer);
    received.verify(&own.static_static(peer).unwrap(), &initiation)
}

const SUITES: [Suite; 2] = [Suite::ChaCha20Poly1305, Suite::Aes256Gcm];

fn suite() -> impl Strategy<Value = Suite> {
    proptest::sample::select(SUITES.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn snow_answers_our_initiation(
        suite in suite(), ours: [u8; 32], theirs: [u8; 32], ephemeral: [u8; 32], psk: [u8; 32],
    ) {
        let (us, them) = (identity(ours), identity(theirs));
        let (sent, initiation) = initiate(&us, them.public_key(), suite, ephemeral);
        let mut snow = snow(suite, theirs, None, &psk);
        let mut payload = [0; 100];
        let len = snow.read_message(&initiation[NOISE_IN_INITIATION], &mut payload).unwrap();
        prop_assert_eq!(&payload[..len], STAMP.to_bytes());
        prop_assert_eq!(snow.get_remote_static().unwrap(), us.public_key().as_bytes());

        let mut response = [0; RESPONSE_LEN];
        response[..4].copy_from_slice(&RESPONSE_TYPE);
        let len = snow.write_message(&[], &mut response[NOISE_IN_RESPONSE]).unwrap();
        prop_assert_eq!(len, NOISE_IN_RESPONSE.len());
        let parsed = Response::parse(&response).unwrap();
        let keys = sent.read_response(&us, &PresharedKey::from_bytes(psk), &parsed).unwrap();
        exchange(suite, &keys, &mut snow.into_transport_mode().unwrap());
    }

    #[test]
    fn we_answer_the_initiation_of_snow(
        suite in suite(), ours: [u8; 32], theirs: [u8; 32], ephemeral: [u8; 32], psk: [u8; 32],
    ) {
        let (us, them) = (identity(ours), identity(theirs));
        let mut snow = snow(suite, theirs, Some(us.public_key()), &psk);
        let mut initiation = [0; INITIATION_LEN];
        initiation[..4].copy_from_slice(&INITIATION_TYPE);
        let noise = &mut initiation[NOISE_IN_INITIATION];
        let len = snow.write_message(&STAMP.to_bytes(), noise).unwrap();
        prop_assert_eq!(len, NOISE_IN_INITIATION.len());

        let verified = read(&us, them.public_key(), &SUITES, &initiation).unwrap();
        prop_assert_eq!(verified.timestamp(), STAMP);
        let ephemeral = Scalar::new(&ephemeral);
        let (keys, response) = verified
            .respond(&PresharedKey::from_bytes(psk), &ephemeral, Index(1), Index(2))
            .unwrap();
        let mut payload = [0; 100];
        prop_assert_eq!(snow.read_message(&response[NOISE_IN_RESPONSE], &mut payload).unwrap(), 0);
        exchange(suite, &keys, &mut snow.into_transport_mode().unwrap());
    }

    #[test]
    fn ends_that_disagree_on_the_suite_share_nothing(
        suite in suite(), ours: [u8; 32], theirs: [u8; 32], ephemeral: [u8; 32],
    ) {
        let (us, them) = (identity(ours), identity(theirs));
        let (_, initiation) = initiate(&them, us.public_key(), suite, ephemeral);
        let other: Vec<_> = SUITES.into_iter().filter(|other| *other != suite).collect();
        let refused = read(&us, them.public_key(), &other, &initiation).err();
        prop_assert_eq!(refused, Some(HandshakeRefusal::NotAuthentic));
        prop_assert!(read(&us, them.public_key(), &SUITES, &initiation).is_ok());
    }

    #[test]
    fn ends_that_disagree_on_the_preshared_key_share_nothing(
        suite in suite(), ours: [u8; 32], theirs: [u8; 32], ephemeral: [u8; 32], psk: [u8; 32],
    ) {
        let (us, them) = (identity(ours), identity(theirs));
        let (sent, initiation) = initiate(&us, them.public_key(), suite, ephemeral);
        let verified = read(&them, us.public_key(), &SUITES, &initiation).unwrap();
        let (_, response) = verified
            .respond(&PresharedKey::from_bytes(psk), &Scalar::new(&[1; 32]), Index(1), Index(7))
            .unwrap();
        let mut other = psk;
        other[31] ^= 1;
        let parsed = Response::parse(&response).unwrap();
        let refused = sent.read_response(&us, &PresharedKey::from_bytes(other), &parsed).err();
        prop_assert_eq!(refused, Some(HandshakeRefusal::NotAuthentic));
        let accepted = sent.read_response(&us, &PresharedKey::from_bytes(psk), &parsed);
        prop_assert!(accepted.is_ok(), "a refused response must not end the handshake");
    }

    #[test]
    fn any_flipped_bit_of_the_noise_part_is_refused(
        suite in suite(), ours: [u8; 32], theirs: [u8; 32], bit in 0usize..108 * 8,
    ) {
        let (us, them) = (identity(ours), identity(theirs));
        let (_, mut initiation) = initiate(&them, us.public_key(), suite, [9; 32]);
        let noise = &mut initiation[NOISE_IN_INITIATION];
        // Curve25519 ignores the top bit of a public key; the transcript hash does not.
        noise[bit / 8] ^= 1 << (bit % 8);
        let refused = read(&us, them.public_key(), &SUITES, &initiation).err();
        prop_assert!(refused.is_some());
    }
}

#[test]
fn ephemeral_keys_of_low_order_are_refused() {
    let (us, them) = (identity([1; 32]), identity([2; 32]));
    let (sent, mut initiation) = initiate(&us, them.public_key(), Suite::default(), [3; 32]);
    let verified = read(&them, us.public_key(), &SUITES, &initiation).unwrap();
    let (_, mut response) = verified
        .respond(
            &PresharedKey::NONE,
            &Scalar::new(&[4; 32]),
            Index(1),
            Index(7),
        )
        .unwrap();

    initiation[8..40].fill(0);
    let refused = read(&them, us.public_key(), &SUITES, &initiation).err();
    assert_eq!(refused, Some(HandshakeRefusal::LowOrderKey));

    response[12..44].fill(0);
    let parsed = Response::parse(&response).unwrap();
    let refused = sent.read_response(&us, &PresharedKey::NONE, &parsed).err();
    assert_eq!(refused, Some(HandshakeRefusal::LowOrderKey));
}
