//! AES-256-GCM (NIST SP 800-38D) of a whole batch, with vectors of four blocks
//! ([ADR 0007](../../../../../docs/adr/0007-batched-aes-gcm.md)) or of two
//! ([ADR 0008](../../../../../docs/adr/0008-batched-aes-gcm-avx2.md)).

mod avx2;
mod avx512;
mod ghash;
mod record;
mod schedule;
mod secrets;
mod vectors;

use super::openable::openable;
use crate::{KEY_LEN, Layout, Opened, TAG_LEN};
use avx2::Avx2;
use avx512::Avx512;
use core::ops::Range;
use ghash::Sum;
use secrets::{Derive, Secrets};
use vectors::{Block, Vectors, Work};

/// A key for the widest vectors that this processor has.
pub(crate) struct Wide(Lanes);

enum Lanes {
    Four(Key<Avx512, 4>),
    Two(Key<Avx2, 2>),
}

impl Wide {
    /// `None` where the processor has no vector forms of the AES instructions and of the carry-less
    /// product.
    pub(super) fn detect(bytes: &[u8; KEY_LEN]) -> Option<Self> {
        if let Some(vectors) = Avx512::detect() {
            return Some(Self(Lanes::Four(Key::new(vectors, bytes))));
        }
        let vectors = Avx2::detect()?;
        Some(Self(Lanes::Two(Key::new(vectors, bytes))))
    }

    /// As [`crate::Key::seal_batch`].
    pub(super) fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout) {
        match &self.0 {
            Lanes::Four(key) => key.seal_batch(first_nonce, buffer, layout),
            Lanes::Two(key) => key.seal_batch(first_nonce, buffer, layout),
        }
    }

    /// As [`crate::Key::open_batch`]; the data of refused records is wiped.
    pub(super) fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
        match &self.0 {
            Lanes::Four(key) => key.open_batch(nonces, buffer, layout),
            Lanes::Two(key) => key.open_batch(nonces, buffer, layout),
        }
    }
}

/// A key for vectors of `LANES` blocks. As many records get their tags together, one in each block
/// of a vector.
struct Key<V: Vectors<LANES>, const LANES: usize> {
    /// Boxed, so that moving it leaves no copies behind.
    secrets: Box<Secrets<V, LANES>>,
}

impl<V: Vectors<LANES>, const LANES: usize> Key<V, LANES> {
    fn new(vectors: V, bytes: &[u8; KEY_LEN]) -> Self {
        let secrets = vectors.enter(Derive { vectors, bytes });
        vectors.wipe_stack();
        Self { secrets }
    }

    fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout) {
        let vectors = self.secrets.vectors;
        vectors.enter(Seal {
            secrets: &self.secrets,
            first_nonce,
            buffer,
            layout,
        });
        vectors.wipe_stack();
    }

    fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
        let vectors = self.secrets.vectors;
        let opened = vectors.enter(Open {
            secrets: &self.secrets,
            nonces,
            buffer,
            layout,
        });
        vectors.wipe_stack();
        opened
    }
}

impl<V: Vectors<LANES>, const LANES: usize> Drop for Key<V, LANES> {
    fn drop(&mut self) {
        self.secrets.schedule.zeroize();
        self.secrets.powers.zeroize();
    }
}

struct Seal<'a, V: Vectors<LANES>, const LANES: usize> {
    secrets: &'a Secrets<V, LANES>,
    first_nonce: u64,
    buffer: &'a mut [u8],
    layout: Layout,
}

impl<V: Vectors<LANES>, const LANES: usize> Work for Seal<'_, V, LANES> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            secrets,
            first_nonce,
            buffer,
            layout,
        } = self;
        let count = layout.count(buffer.len());
        for first in (0..count).step_by(LANES) {
            let records = first..(first + LANES).min(count);
            let nonces = core::array::from_fn(|lane| {
                nonce_block(first_nonce.wrapping_add((first + lane) as u64))
            });
            let tags = secrets.crypt::<true>(records.clone(), &nonces, buffer, layout);
            for (tag, index) in secrets.vectors.blocks(tags).into_iter().zip(records) {
                *split(buffer, layout, index).1 = tag;
            }
        }
    }
}

struct Open<'a, V: Vectors<LANES>, const LANES: usize> {
    secrets: &'a Secrets<V, LANES>,
    nonces: &'a [u64],
    buffer: &'a mut [u8],
    layout: Layout,
}

impl<V: Vectors<LANES>, const LANES: usize> Work for Open<'_, V, LANES> {
    type Output = Opened;

    #[inline(always)]
    fn run(self) -> Opened {
        let Self {
            secrets,
            nonces,
            buffer,
            layout,
        } = self;
        let vectors = secrets.vectors;
        let count = openable(nonces, buffer.len(), layout);
        let mut opened = Opened::NONE;
        for first in (0..count).step_by(LANES) {
            let records = first..(first + LANES).min(count);
            let nonces = core::array::from_fn(|lane| {
                nonce_block(nonces.get(first + lane).copied().unwrap_or_default())
            });
            let tags = secrets.crypt::<false>(records.clone(), &nonces, buffer, layout);
            let mut received = [[0; TAG_LEN]; LANES];
            for (tag, index) in received.iter_mut().zip(records.clone()) {
                *tag = *split(buffer, layout, index).1;
            }
            let different = vectors.differences(tags, vectors.load(&received));
            for (lane, index) in records.enumerate() {
                if different >> (2 * lane) & 0b11 == 0 {
                    opened.set(index);
                } else {
                    split(buffer, layout, index).0.fill(0);
                }
            }
        }
        opened
    }
}

impl<V: Vectors<LANES>, const LANES: usize> Secrets<V, LANES> {
    /// Encrypts (`SEAL`) or decrypts as many `records` as a vector has blocks, or fewer, and returns
    /// the tags that they must have.
    #[inline(always)]
    fn crypt<const SEAL: bool>(
        &self,
        records: Range<usize>,
        nonces: &[Block; LANES],
        buffer: &mut [u8],
        layout: Layout,
    ) -> V::Vector {
        let vectors = self.vectors;
        // The blocks under counter 1, to which the hashes are XORed.
        let mut firsts = *nonces;
        for block in &mut firsts {
            block[15] = 1;
        }
        let masks = self.schedule.encrypt(vectors, vectors.load(&firsts));
        let mut sums = [Sum::zero(vectors); LANES];
        let mut bit_lens = [0; LANES];
        for (lane, index) in records.enumerate() {
            let (data, _) = split(buffer, layout, index);
            bit_lens[lane] = 8 * data.len() as u64;
            sums[lane] = record::crypt::<V, LANES, SEAL>(self, &nonces[lane], data);
        }
        vectors.xor(ghash::hashes(&self.powers, &sums, bit_lens), masks)
    }
}

/// A nonce as Noise §12 has it, 32 zero bits and the number in big-endian order, in front of a block
/// counter that is zero.
#[inline(always)]
fn nonce_block(nonce: u64) -> Block {
    (u128::from(nonce) << 32).to_be_bytes()
}

/// The data and the tag of a record.
///
/// # Panics
/// If it has no room for head and tag.
fn split(buffer: &mut [u8], layout: Layout, index: usize) -> (&mut [u8], &mut [u8; TAG_LEN]) {
    let sealed = layout
        .sealed(index, buffer.len())
        .expect("every record has room for head and tag");
    buffer[sealed]
        .split_last_chunk_mut()
        .expect("Layout::sealed leaves room for the tag")
}

#[cfg(test)]
pub(super) mod tests;
