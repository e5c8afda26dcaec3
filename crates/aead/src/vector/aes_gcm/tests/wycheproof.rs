//! AES-CTR and GHASH against every vector of Wycheproof as it is: any nonce, with associated data.

use super::*;
use crate::wycheproof::{Vector, vectors};

/// The input of the hash with associated data: both padded to whole blocks, then both lengths in
/// bits (NIST SP 800-38D §7.1).
fn hashed(vector: &Vector) -> Vec<u128> {
    let blocks = |bytes: &[u8]| {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(16), 0);
        let (blocks, _) = padded.as_chunks();
        blocks
            .iter()
            .map(|block| u128::from_be_bytes(*block))
            .collect::<Vec<_>>()
    };
    let bits = |bytes: &[u8]| 8 * bytes.len() as u128;
    let lens = bits(&vector.associated) << 64 | bits(&vector.cipher);
    [
        blocks(&vector.associated),
        blocks(&vector.cipher),
        vec![lens],
    ]
    .concat()
}

/// The tag with associated data: a batch has none, so the hash is put together from its parts.
fn tag<const LANES: usize>(
    vectors: impl Vectors<LANES>,
    secrets: &Secrets<impl Vectors<LANES>, LANES>,
    vector: &Vector,
) -> Block {
    let blocks = hashed(vector);
    let mut sum = Sum::zero(vectors);
    for (row, powers) in blocks.chunks(LANES).zip(secrets.powers.from(blocks.len())) {
        let mut bytes = [[0; 16]; LANES];
        for (bytes, block) in bytes.iter_mut().zip(row) {
            *bytes = block.to_be_bytes();
        }
        sum.add(vectors.reverse(vectors.load(&bytes)), vectors.load(powers));
    }
    let hash = vectors.blocks(vectors.reverse(sum.hash()))[0];
    let mut first = block_of(vector);
    first[15] = 1;
    let mask = vectors.blocks(secrets.schedule.encrypt(vectors, vectors.spread(&first)))[0];
    core::array::from_fn(|at| hash[at] ^ mask[at])
}

/// The nonce in front of a block counter that is zero.
fn block_of(vector: &Vector) -> Block {
    let mut block = [0; 16];
    block[..12].copy_from_slice(&vector.nonce);
    block
}

/// As many records of the same content as there are lanes.
fn records<const LANES: usize>(data: &[u8], tag: [u8; TAG_LEN]) -> (Vec<u8>, Layout) {
    let record = [data, &tag].concat();
    let layout = Layout {
        head_len: 0,
        stride: record.len(),
    };
    (record.repeat(LANES), layout)
}

fn assert_agrees<const LANES: usize, V: Vectors<LANES>>(vectors: V, vector: &Vector) {
    let key = Key::new(vectors, &vector.key);
    let nonces = [block_of(vector); LANES];
    let len = vector.clear.len();

    let (mut buffer, layout) = records::<LANES>(&vector.clear, [0; TAG_LEN]);
    let sealed = key
        .secrets
        .crypt::<true>(0..LANES, &nonces, &mut buffer, layout);
    for record in buffer.chunks(layout.stride) {
        assert_eq!(record[..len], vector.cipher, "{}", vector.id);
    }

    let (mut buffer, layout) = records::<LANES>(&vector.cipher, vector.tag);
    let opened = key
        .secrets
        .crypt::<false>(0..LANES, &nonces, &mut buffer, layout);
    for record in buffer.chunks(layout.stride) {
        assert_eq!(record[..len], vector.clear, "{}", vector.id);
    }

    let with_associated = tag(vectors, &key.secrets, vector);
    assert_eq!(with_associated == vector.tag, vector.valid, "{}", vector.id);
    if vector.associated.is_empty() {
        let received = vectors.load(&[vector.tag; LANES]);
        for tags in [sealed, opened] {
            assert_eq!(vectors.blocks(tags), [with_associated; LANES]);
            for lane in 0..LANES {
                let different = vectors.differences(tags, received) >> (2 * lane) & 0b11;
                assert_eq!(different == 0, vector.valid, "{}", vector.id);
            }
        }
    }
}

#[test]
fn every_width_seals_and_opens_the_vectors_of_wycheproof() {
    let mut ran = 0;
    for vector in vectors(Suite::Aes256Gcm) {
        with_every_width!(assert_agrees(&vector));
        ran += 1;
    }
    eprintln!("{ran} vectors");
    assert_eq!(ran, 66);
}
