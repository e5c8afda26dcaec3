//! The header: a file key, wrapped for each recipient, and a MAC over that.

use crate::cipher::cipher;
use crate::derive::{Key, derive};
use crate::{AgeError, Identity, Recipient, stream};
use aws_lc_rs::aead::{Aad, Nonce};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hmac;
use data_encoding::BASE64_NOPAD;
use std::io::{BufRead, Read, Write};
use zeroize::Zeroizing;

/// The first line of every file.
pub const MAGIC: &[u8] = b"age-encryption.org/v1\n";

/// A stanza of ours has some 100 bytes, and one of a post-quantum recipient some 1,600: room for 40 of those.
pub const MAX_HEADER_LEN: usize = 65_536;

/// A bound that always fits the header: 100 × 100 bytes are less than a sixth of it.
pub const MAX_RECIPIENTS: usize = 100;

const X25519_INFO: &[u8] = b"age-encryption.org/v1/X25519";
const FILE_KEY_LEN: usize = 16;
const TAG_LEN: usize = 16;
const NONCE_LEN: usize = 16;

/// The length of a full line of a stanza's body. A shorter one ends it.
const BODY_LINE_LEN: usize = 64;

type FileKey = Zeroizing<[u8; FILE_KEY_LEN]>;

/// A header that is ready, and the key of what follows. It encrypts one file.
pub struct Envelope {
    head: Vec<u8>,
    key: Key,
}

impl Envelope {
    /// An envelope that each of `recipients` opens. `fill` makes random bytes.
    ///
    /// # Errors
    /// [`AgeError::Recipients`] and [`AgeError::WeakRecipient`].
    pub fn new(
        recipients: &[Recipient],
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<Self, AgeError> {
        if recipients.is_empty() || recipients.len() > MAX_RECIPIENTS {
            return Err(AgeError::Recipients);
        }
        let mut file_key = FileKey::default();
        fill(file_key.as_mut_slice());
        let mut head = MAGIC.to_vec();
        for recipient in recipients {
            let mut ephemeral = Zeroizing::new([0; 32]);
            fill(ephemeral.as_mut_slice());
            let (share, body) = wrap(recipient, &ephemeral, &file_key)?;
            let share = BASE64_NOPAD.encode(&share);
            let body = BASE64_NOPAD.encode(&body);
            head.extend(format!("-> X25519 {share}\n{body}\n").bytes());
        }
        head.extend(b"---");
        let mac = hmac::sign(&mac_key(&file_key), &head);
        head.extend(format!(" {}\n", BASE64_NOPAD.encode(mac.as_ref())).bytes());
        let mut nonce = [0; NONCE_LEN];
        fill(&mut nonce);
        head.extend(nonce);
        let key = derive(file_key.as_slice(), &nonce, b"payload");
        Ok(Self { head, key })
    }

    /// Encrypts `source` to its end.
    ///
    /// # Errors
    /// [`AgeError::Read`] and [`AgeError::Write`].
    pub fn seal(self, source: impl Read, mut target: impl Write) -> Result<(), AgeError> {
        target.write_all(&self.head).map_err(AgeError::Write)?;
        stream::seal(&self.key, source, target)
    }
}

/// The key of what follows the header, if one of `identities` opens it.
pub(crate) fn open(source: &mut impl BufRead, identities: &[Identity]) -> Result<Key, AgeError> {
    let mut head = Vec::new();
    let line = read_line(source, &mut head)?;
    if line != MAGIC {
        return Err(AgeError::Header);
    }
    let mut file_key = None;
    loop {
        let line = read_line(source, &mut head)?;
        let text = std::str::from_utf8(&line).map_err(|_| AgeError::Header)?;
        if let Some(mac) = text.strip_prefix("--- ") {
            let signed = head.len() - line.len() + "---".len();
            let mac = BASE64_NOPAD.decode(mac.trim_end_matches('\n').as_bytes());
            let mac = mac.map_err(|_| AgeError::Header)?;
            let file_key: FileKey = file_key.ok_or(AgeError::NoMatch)?;
            hmac::verify(&mac_key(&file_key), &head[..signed], &mac)
                .map_err(|_| AgeError::Forged)?;
            let mut nonce = [0; NONCE_LEN];
            source.read_exact(&mut nonce).map_err(read_error)?;
            return Ok(derive(file_key.as_slice(), &nonce, b"payload"));
        }
        let arguments = text.trim_end_matches('\n').strip_prefix("-> ");
        let arguments: Vec<_> = arguments.ok_or(AgeError::Header)?.split(' ').collect();
        let body = read_body(source, &mut head)?;
        if let ["X25519", share] = arguments[..] {
            let share = decode(share.as_bytes())?;
            let body = decode(&body)?;
            let found = identities.iter().find_map(|it| unwrap(it, &share, &body));
            file_key = file_key.or(found);
        }
    }
}

/// The lines of a stanza's body, joined. The last is shorter than the others, and may be empty.
fn read_body(source: &mut impl BufRead, head: &mut Vec<u8>) -> Result<Vec<u8>, AgeError> {
    let mut body = Vec::new();
    loop {
        let line = read_line(source, head)?;
        let line = &line[..line.len() - 1];
        let is_last = line.len() < BODY_LINE_LEN;
        if line.len() > BODY_LINE_LEN {
            return Err(AgeError::Header);
        }
        body.extend_from_slice(line);
        if is_last {
            return Ok(body);
        }
    }
}

/// A line with its end, which is also appended to `head`.
fn read_line(source: &mut impl BufRead, head: &mut Vec<u8>) -> Result<Vec<u8>, AgeError> {
    let room = MAX_HEADER_LEN - head.len();
    let mut line = Vec::new();
    let mut bounded = source.take(room as u64);
    bounded
        .read_until(b'\n', &mut line)
        .map_err(AgeError::Read)?;
    if line.last() != Some(&b'\n') {
        let is_full = line.len() == room;
        return Err(if is_full {
            AgeError::Header
        } else {
            AgeError::CutOff
        });
    }
    head.extend_from_slice(&line);
    Ok(line)
}

fn decode<const N: usize>(text: &[u8]) -> Result<[u8; N], AgeError> {
    let bytes = BASE64_NOPAD.decode(text).map_err(|_| AgeError::Header)?;
    bytes.try_into().map_err(|_| AgeError::Header)
}

type Wrapped = [u8; FILE_KEY_LEN + TAG_LEN];

/// The public half of `ephemeral`, and the file key under the secret that it shares with the recipient.
fn wrap(
    recipient: &Recipient,
    ephemeral: &[u8; 32],
    file_key: &FileKey,
) -> Result<([u8; 32], Wrapped), AgeError> {
    let ephemeral = Identity::from_bytes(ephemeral).ok_or(AgeError::WeakRecipient)?;
    let share = ephemeral.recipient();
    let key = wrap_key(ephemeral.private(), &recipient.0, &share, recipient);
    let key = key.ok_or(AgeError::WeakRecipient)?;
    let mut body = [0; FILE_KEY_LEN + TAG_LEN];
    let (content, tag) = body.split_at_mut(FILE_KEY_LEN);
    content.copy_from_slice(file_key.as_slice());
    let sealed = cipher(&key).seal_in_place_separate_tag(zero_nonce(), Aad::empty(), content);
    tag.copy_from_slice(sealed.map_err(|_| AgeError::WeakRecipient)?.as_ref());
    Ok((share.0, body))
}

fn unwrap(identity: &Identity, share: &[u8; 32], body: &Wrapped) -> Option<FileKey> {
    let recipient = identity.recipient();
    let key = wrap_key(identity.private(), share, &Recipient(*share), &recipient)?;
    let mut body = Zeroizing::new(*body);
    let opened = cipher(&key).open_in_place(zero_nonce(), Aad::empty(), body.as_mut_slice());
    let mut file_key = FileKey::default();
    file_key.copy_from_slice(opened.ok()?);
    Some(file_key)
}

/// Fails where the other's point has a small order (RFC 7748, section 6.1).
fn wrap_key(
    private: &[u8; 32],
    public: &[u8; 32],
    share: &Recipient,
    to: &Recipient,
) -> Option<Key> {
    let private = PrivateKey::from_private_key(&X25519, private).ok()?;
    let public = UnparsedPublicKey::new(&X25519, public);
    let salt = [share.0, to.0].concat();
    agree(&private, public, (), |shared| {
        Ok(derive(shared, &salt, X25519_INFO))
    })
    .ok()
}

/// Each wrapping key encrypts once, so that its nonce is zero.
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn mac_key(file_key: &FileKey) -> hmac::Key {
    let key = derive(file_key.as_slice(), &[], b"header");
    hmac::Key::new(hmac::HMAC_SHA256, key.as_slice())
}

pub(crate) fn read_error(error: std::io::Error) -> AgeError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => AgeError::CutOff,
        _ => AgeError::Read(error),
    }
}
