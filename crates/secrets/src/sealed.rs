//! The format of a sealed value.

use crate::{KeyId, SecretsKey};
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

/// Bytes of a nonce. Under 2³² values of one key two have the same nonce with a probability of 2⁻³³; GCM-SIV
/// then shows whether the two are the same secret of the same place (RFC 8452, section 9).
pub const NONCE_LEN: usize = 12;

/// Bytes of the longest secret: a form that waits for a proof of its person, which is up to 64 KiB of what people type,
/// and twice that as JSON.
pub const MAX_PLAIN_LEN: usize = 128 << 10;

/// Bytes by which a sealed value is longer than its secret.
pub const OVERHEAD: usize = HEAD_LEN + NONCE_LEN + TAG_LEN;

const MAGIC: [u8; 4] = *b"CVSV";
const VERSION: u8 = 1;
const HEAD_LEN: usize = MAGIC.len() + 1 + KeyId::LEN;
const TAG_LEN: usize = 16;

/// The place of a value. A value that is copied elsewhere does not decrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The id of the account.
    pub account: &'a [u8],
    /// The table.
    pub table: &'a str,
    /// The column.
    pub column: &'a str,
    /// The row's primary key without the account.
    pub row: &'a [u8],
}

impl Place<'_> {
    /// The head of the value and the place. Each part has its length before it, so that no two places are alike.
    fn associated_data(&self, head: &[u8]) -> Vec<u8> {
        let parts = [
            self.account,
            self.table.as_bytes(),
            self.column.as_bytes(),
            self.row,
        ];
        let mut data = head.to_vec();
        for part in parts {
            data.extend((part.len() as u64).to_be_bytes());
            data.extend(part);
        }
        data
    }
}

/// The cause for which a value does not decrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It has no head of a sealed value, or is too short or too long for one.
    #[error("it is not encrypted")]
    NotSealed,
    /// A later version of the program wrote it.
    #[error("it has format {0}, and this version of culvert knows format {VERSION}")]
    Version(u8),
    /// Another key encrypted it.
    #[error("it is encrypted with key {found}, not with key {given}")]
    OtherKey {
        /// The key that encrypted it.
        found: KeyId,
        /// The key that was to decrypt it.
        given: KeyId,
    },
    /// The tag is wrong.
    #[error("it was changed, or belongs to another row")]
    Forged,
}

/// The key that a value says that it is encrypted with.
///
/// # Errors
/// [`OpenError::NotSealed`] and [`OpenError::Version`].
pub fn key_id_of(sealed: &[u8]) -> Result<KeyId, OpenError> {
    let (head, rest) = sealed
        .split_at_checked(HEAD_LEN)
        .ok_or(OpenError::NotSealed)?;
    let fits = (NONCE_LEN + TAG_LEN..=NONCE_LEN + TAG_LEN + MAX_PLAIN_LEN).contains(&rest.len());
    let (magic, head) = head.split_at(MAGIC.len());
    let (&version, id) = head.split_first().ok_or(OpenError::NotSealed)?;
    match (magic == MAGIC, version, fits) {
        (true, VERSION, true) => {}
        (true, other, _) if other != VERSION => return Err(OpenError::Version(other)),
        _ => return Err(OpenError::NotSealed),
    }
    let id = id.try_into().map_err(|_| OpenError::NotSealed)?;
    Ok(KeyId::from_bytes(id))
}

impl SecretsKey {
    /// Encrypts a secret for its place. `nonce` was drawn at random for this value.
    ///
    /// # Panics
    /// If the secret is longer than [`MAX_PLAIN_LEN`], which the caller has checked.
    pub fn seal(&self, place: &Place<'_>, plain: &[u8], nonce: [u8; NONCE_LEN]) -> Vec<u8> {
        assert!(
            plain.len() <= MAX_PLAIN_LEN,
            "a secret has a bound before it is sealed"
        );
        let mut sealed = Vec::with_capacity(plain.len() + OVERHEAD);
        sealed.extend(MAGIC);
        sealed.push(VERSION);
        sealed.extend(self.id().as_bytes());
        let data = place.associated_data(&sealed);
        sealed.extend(nonce);
        // Its capacity never grows, so no copy of the plaintext stays behind.
        sealed.extend(plain);
        let content = &mut sealed[HEAD_LEN + NONCE_LEN..];
        let tag = self.aead().seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(data),
            content,
        );
        let tag = tag.unwrap_or_else(|_| unreachable!("a secret is shorter than 64 GiB"));
        sealed.extend(tag.as_ref());
        sealed
    }

    /// Decrypts what [`Self::seal`] made for this place.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self, place: &Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let found = key_id_of(sealed)?;
        if found != self.id() {
            let given = self.id();
            return Err(OpenError::OtherKey { found, given });
        }
        let (head, rest) = sealed.split_at(HEAD_LEN);
        let (nonce, content) = rest.split_at(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce);
        let nonce = nonce.unwrap_or_else(|_| unreachable!("it has the length of a nonce"));
        let mut plain = Zeroizing::new(content.to_vec());
        let data = Aad::from(place.associated_data(head));
        let opened = self.aead().open_in_place(nonce, data, &mut plain);
        let len = opened.map_err(|_| OpenError::Forged)?.len();
        plain.truncate(len);
        Ok(plain)
    }

    fn aead(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM_SIV, self.cipher());
        LessSafeKey::new(key.unwrap_or_else(|_| unreachable!("a key of AES-256 has 32 bytes")))
    }
}
