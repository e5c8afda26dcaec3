//! From a stream back to datagrams.

use culvert_base::datagrams::{MAX_DATAGRAM_BYTES, MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_relay_core::stream::{FrameError, Unframer, write_frames};
use proptest::prelude::*;

/// The batches of a stream that comes in these parts.
fn batches(parts: &[&[u8]]) -> Result<Vec<(Vec<u8>, usize)>, FrameError> {
    let mut found = Vec::new();
    let mut emit = |bytes: &[u8], stride: usize| found.push((bytes.to_vec(), stride));
    let mut unframer = Unframer::default();
    for part in parts {
        unframer.push(part, &mut emit)?;
    }
    unframer.flush(&mut emit);
    Ok(found)
}

fn frames(lengths: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, len) in lengths.iter().enumerate() {
        write_frames(&vec![number as u8; *len], *len, &mut out);
    }
    out
}

#[test]
fn datagrams_of_one_length_become_a_batch_that_a_shorter_one_ends() {
    let found = batches(&[&frames(&[100, 100, 40, 100, 120, 120])]).unwrap();
    let shapes = found.iter().map(|(bytes, stride)| (bytes.len(), *stride));
    let shapes: Vec<_> = shapes.collect();
    assert_eq!(shapes, [(240, 100), (100, 100), (240, 120)]);
    assert_eq!(found[0].0[200..], [2; 40]);
}

#[test]
fn a_batch_is_as_long_as_the_kernel_takes_it() {
    let found = batches(&[&frames(&[1_420; 100])]).unwrap();
    assert_eq!(found[0].0.len(), 46 * 1_420);
    let small = batches(&[&frames(&[20; 100])]).unwrap();
    assert_eq!(small[0].0.len(), MAX_SEGMENTS * 20);
    let big = batches(&[&frames(&[MAX_DATAGRAM_BYTES, 1])]).unwrap();
    assert_eq!(big.len(), 2, "together they are longer than one send takes");
}

#[test]
fn keepalives_are_nothing_and_a_length_beyond_datagrams_is_an_error() {
    assert_eq!(batches(&[&[0, 0, 0, 0, 0]]), Ok(Vec::new()));
    assert_eq!(batches(&[&[0xff, 0xff, 1]]), Err(FrameError(0xffff)));
    assert_eq!(batches(&[&[0xff], &[0xe4]]), Err(FrameError(65_508)));
    assert_eq!(batches(&[&[0xff, 0xe3, 1, 2, 3]]), Ok(Vec::new()));
}

#[test]
fn a_batch_goes_before_the_rest_of_a_datagram_has_come() {
    let stream = frames(&[50, 50]);
    let mut found = Vec::new();
    let mut emit = |bytes: &[u8], stride: usize| found.push((bytes.to_vec(), stride));
    let mut unframer = Unframer::default();
    unframer.push(&stream[..70], &mut emit).unwrap();
    unframer.flush(&mut emit);
    unframer.push(&stream[70..], &mut emit).unwrap();
    unframer.flush(&mut emit);
    unframer.rest();
    assert_eq!(found, [(vec![0; 50], 50), (vec![1; 50], 50)]);
}

proptest! {
    #[test]
    fn every_datagram_comes_once_and_in_order_however_the_stream_is_cut(
        lengths in proptest::collection::vec(prop_oneof![
            4 => Just(1_420_usize), 2 => 1_usize..200, 1 => Just(0), 1 => 60_000..=MAX_DATAGRAM_BYTES,
        ], 0..80),
        cuts in proptest::collection::vec(1_usize..20_000, 1..40),
    ) {
        let mut stream = Vec::new();
        let mut sent = Vec::new();
        for (number, len) in lengths.iter().enumerate() {
            let datagram = vec![number as u8; *len];
            stream.extend_from_slice(&(*len as u16).to_be_bytes());
            stream.extend_from_slice(&datagram);
            if *len > 0 {
                sent.push(datagram);
            }
        }
        let mut parts = Vec::new();
        let mut rest = stream.as_slice();
        for cut in cuts.iter().cycle() {
            let (part, after) = rest.split_at((*cut).min(rest.len()));
            parts.push(part);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let mut came = Vec::new();
        for (bytes, stride) in batches(&parts).unwrap() {
            prop_assert!(bytes.len() <= MAX_GSO_BYTES.max(stride));
            prop_assert!(bytes.len().div_ceil(stride) <= MAX_SEGMENTS);
            came.extend(bytes.chunks(stride).map(<[u8]>::to_vec));
        }
        prop_assert_eq!(came, sent);
    }
}
