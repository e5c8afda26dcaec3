//! The cipher of file keys and of chunks: ChaCha20-Poly1305.

use crate::derive::Key;
use aws_lc_rs::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};

pub(crate) fn cipher(key: &Key) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_slice());
    LessSafeKey::new(
        key.unwrap_or_else(|_| unreachable!("a key of ChaCha20-Poly1305 has 32 bytes")),
    )
}
