//! The payload behind the header: chunks of 64 KiB, each with its number and whether it is the last.

use crate::AgeError;
use crate::cipher::cipher;
use crate::derive::Key;
use aws_lc_rs::aead::{Aad, Nonce};
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// The length of a chunk of the plaintext; only the last one may be shorter.
pub(crate) const CHUNK_LEN: usize = 65_536;

const TAG_LEN: usize = 16;

/// Counts chunks. The file ends long before 2⁶⁴ of them.
#[derive(Default)]
struct Counter(u64);

impl Counter {
    /// Eleven bytes of number, big end first, and one that marks the last chunk.
    fn next(&mut self, is_last: bool) -> Nonce {
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.0.to_be_bytes());
        nonce[11] = u8::from(is_last);
        self.0 += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

pub(crate) fn seal(
    key: &Key,
    mut source: impl Read,
    mut target: impl Write,
) -> Result<(), AgeError> {
    let key = cipher(key);
    let mut counter = Counter::default();
    let mut chunk = Zeroizing::new(Vec::with_capacity(CHUNK_LEN));
    let mut following = Zeroizing::new(Vec::with_capacity(CHUNK_LEN));
    fill(&mut source, &mut chunk, CHUNK_LEN)?;
    loop {
        // A full chunk is the last if nothing follows.
        fill(&mut source, &mut following, CHUNK_LEN)?;
        let is_last = following.is_empty();
        let nonce = counter.next(is_last);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut chunk);
        let tag =
            tag.unwrap_or_else(|_| unreachable!("a chunk is shorter than the bound of 256 GiB"));
        target.write_all(&chunk).map_err(AgeError::Write)?;
        target.write_all(tag.as_ref()).map_err(AgeError::Write)?;
        if is_last {
            return target.flush().map_err(AgeError::Write);
        }
        std::mem::swap(&mut chunk, &mut following);
    }
}

pub(crate) fn open(
    key: &Key,
    mut source: impl Read,
    mut target: impl Write,
) -> Result<(), AgeError> {
    let key = cipher(key);
    let mut counter = Counter::default();
    let mut chunk = Zeroizing::new(Vec::with_capacity(CHUNK_LEN + TAG_LEN));
    let mut following = Zeroizing::new(Vec::with_capacity(CHUNK_LEN + TAG_LEN));
    fill(&mut source, &mut chunk, CHUNK_LEN + TAG_LEN)?;
    let mut is_first = true;
    loop {
        fill(&mut source, &mut following, CHUNK_LEN + TAG_LEN)?;
        let is_last = following.is_empty();
        if chunk.len() < TAG_LEN || (chunk.len() == TAG_LEN && !is_first) {
            // Only an empty file has an empty chunk.
            return Err(AgeError::CutOff);
        }
        let is_full = chunk.len() == CHUNK_LEN + TAG_LEN;
        let opened = key.open_in_place(counter.next(is_last), Aad::empty(), &mut chunk);
        let Ok(plain) = opened else {
            // The last chunk of a file that was cut off between two was not marked as the last.
            let is_cut = is_last && is_full;
            return Err(if is_cut {
                AgeError::CutOff
            } else {
                AgeError::Forged
            });
        };
        target.write_all(plain).map_err(AgeError::Write)?;
        if is_last {
            return target.flush().map_err(AgeError::Write);
        }
        std::mem::swap(&mut chunk, &mut following);
        is_first = false;
    }
}

/// Reads until `chunk` has `len` bytes, or `source` ends.
fn fill(source: &mut impl Read, chunk: &mut Vec<u8>, len: usize) -> Result<(), AgeError> {
    chunk.clear();
    let mut bounded = source.take(len as u64);
    bounded.read_to_end(chunk).map_err(AgeError::Read)?;
    Ok(())
}
