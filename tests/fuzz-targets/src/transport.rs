use crate::input::Input;
use crate::pair::{Pair, Side};
use culvert_session::{DATA_HEADER_LEN, DATA_OVERHEAD, MAX_RECORDS, Suite};
use std::collections::BTreeSet;

/// Records sealed by the genuine sender.
const SEALED: usize = 24;
/// Batches that are opened.
const MAX_BATCHES: usize = 16;

/// A receiver opens each packet that its peer sealed once, at any place in a batch. It opens
/// nothing else: no packet that was tampered with, made up, or repeated within a batch or in a
/// later one.
///
/// # Panics
/// If a property does not hold.
pub fn transport(data: &[u8]) {
    let mut input = Input::new(data);
    let suite = match input.u8() % 2 {
        0 => Suite::ChaCha20Poly1305,
        _ => Suite::Aes256Gcm,
    };
    let content_len = usize::from(input.u8() % 80);
    let pair = Pair::established(suite);
    let now = pair.clock().now;
    let genuine = sealed(&pair, content_len);
    let stride = content_len + DATA_OVERHEAD;
    let receiver = pair.end(Side::Right).sending();

    let mut opened_before = BTreeSet::new();
    for _ in 0..MAX_BATCHES {
        if input.is_empty() {
            break;
        }
        let mut batch = batch(&genuine, stride, &mut input);
        let before = batch.clone();
        let outcome = receiver.open_batch(&mut batch, stride, now);
        let sets = [
            outcome.opened(),
            outcome.replayed(),
            outcome.too_old(),
            outcome.not_authentic(),
            outcome.expired(),
            outcome.malformed(),
        ];
        let records = before.len().div_ceil(stride);
        for (index, record) in before.chunks(stride).enumerate() {
            let outcomes = sets.iter().filter(|set| set.contains(index)).count();
            assert_eq!(outcomes, usize::from(index < MAX_RECORDS));
            let number = genuine.chunks(stride).position(|genuine| genuine == record);
            let fresh = number.is_some_and(|number| !opened_before.contains(&number));
            assert_eq!(
                outcome.opened().contains(index),
                fresh && index < MAX_RECORDS
            );
            if let Some(number) = number.filter(|_| outcome.opened().contains(index)) {
                opened_before.insert(number);
                let content = &batch[index * stride..][DATA_HEADER_LEN..][..content_len];
                assert!(content.iter().all(|byte| usize::from(*byte) == number));
            }
        }
        let total: usize = sets.iter().map(|set| set.len()).sum();
        assert_eq!(total, records.min(MAX_RECORDS));
    }
}

/// [`SEALED`] records, each of whose content is its number over and over.
fn sealed(pair: &Pair, content_len: usize) -> Vec<u8> {
    let stride = content_len + DATA_OVERHEAD;
    let mut buffer = vec![0; SEALED * stride];
    for (number, record) in buffer.chunks_mut(stride).enumerate() {
        record[DATA_HEADER_LEN..][..content_len].fill(number as u8);
    }
    let sender = pair.end(Side::Left).sending();
    let reservation = sender
        .reserve(SEALED as u32, pair.clock().now)
        .expect("the session is young");
    sender.seal_batch(reservation, &mut buffer, stride);
    buffer
}

/// Genuine, damaged and made-up records in any order; the last may be cut short.
fn batch(genuine: &[u8], stride: usize, input: &mut Input<'_>) -> Vec<u8> {
    let mut batch = Vec::new();
    // Sometimes more than a batch may hold.
    for _ in 0..input.u8() % 140 {
        let choice = input.u8();
        let number = usize::from(choice) % SEALED;
        let mut record = genuine[number * stride..][..stride].to_vec();
        match choice >> 6 {
            0 | 1 => {}
            2 => input.damage(&mut record),
            _ => {
                let made_up = input.take(stride);
                record[..made_up.len()].copy_from_slice(made_up);
            }
        }
        batch.extend(record);
    }
    let cut = usize::from(input.u8());
    if cut < stride && batch.len() > cut {
        batch.truncate(batch.len() - cut);
    }
    batch
}
