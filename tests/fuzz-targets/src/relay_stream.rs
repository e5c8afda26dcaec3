//! The stream that carries datagrams to and from a relay.

use crate::input::Input;
use culvert_base::BootTime;
use culvert_base::datagrams::{MAX_DATAGRAM_BYTES, MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_relay_core::stream::{
    FrameError, KEEPALIVE, Outbox, PREFACE_LEN, Preface, Unframer, parse_answer, write_frames,
};

/// A stream may be anything, and come in any parts. Batches are such as the kernel takes. They hold the datagrams that a
/// reading from end to end finds, up to the same fault. Datagrams that an outbox writes are read back.
///
/// # Panics
/// If a property does not hold.
pub fn relay_stream(data: &[u8]) {
    preface(data);
    let mut input = Input::new(data);
    let part_len = usize::from(input.u16()).max(1);
    let stream = input.rest();
    let (expected, fault) = datagrams(stream);
    let (found, found_fault) = unframe(stream, part_len);
    assert_eq!(found_fault, fault, "the fault");
    assert_eq!(found, expected, "the datagrams");
    outbox(&expected);
}

/// Reads the datagrams of a stream one after the other.
fn datagrams(mut stream: &[u8]) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let mut found = Vec::new();
    while let [high, low, rest @ ..] = stream {
        let len = u16::from_be_bytes([*high, *low]);
        if usize::from(len) > MAX_DATAGRAM_BYTES {
            return (found, Some(FrameError(len)));
        }
        let Some((datagram, rest)) = rest.split_at_checked(usize::from(len)) else {
            break;
        };
        if !datagram.is_empty() {
            found.push(datagram.to_vec());
        }
        stream = rest;
    }
    (found, None)
}

fn unframe(stream: &[u8], part_len: usize) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let mut found = Vec::new();
    let mut emit = |batch: &[u8], stride: usize| {
        assert!(!batch.is_empty() && stride > 0, "an empty batch");
        assert!(batch.len() <= MAX_GSO_BYTES.max(stride), "a batch too long");
        assert!(batch.len().div_ceil(stride) <= MAX_SEGMENTS);
        found.extend(batch.chunks(stride).map(<[u8]>::to_vec));
    };
    let mut unframer = Unframer::default();
    let mut fault = None;
    for part in stream.chunks(part_len) {
        let pushed = unframer.push(part, &mut emit);
        unframer.flush(&mut emit);
        if let Err(error) = pushed {
            fault = Some(error);
            break;
        }
        unframer.rest();
    }
    (found, fault)
}

/// Each datagram is taken as it was put in.
fn outbox(datagrams: &[Vec<u8>]) {
    let mut outbox = Outbox::default();
    let mut taken = Vec::new();
    for datagram in datagrams {
        outbox.push(datagram, datagram.len(), BootTime::ZERO);
        while let Some(frames) = outbox.take(1, BootTime::ZERO) {
            taken.extend_from_slice(frames);
        }
    }
    assert!(outbox.is_empty() && outbox.dropped() == 0);
    assert_eq!(self::datagrams(&taken), (datagrams.to_vec(), None));
}

fn preface(data: &[u8]) {
    let Some(bytes) = data.first_chunk::<PREFACE_LEN>() else {
        return;
    };
    if let Ok(preface) = Preface::parse(bytes) {
        assert_eq!(preface.encode(), *bytes);
        assert_eq!(parse_answer(bytes, preface), Ok(Ok(())));
    }
    let other = Preface {
        gateway_port: 3_479,
    };
    let is_accepted = parse_answer(bytes, other) == Ok(Ok(()));
    assert_eq!(is_accepted, *bytes == other.encode());
}

/// Prefaces, their answers, and streams of frames of each kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let preface = Preface {
        gateway_port: 3_479,
    }
    .encode();
    let mut seeds = vec![
        preface.to_vec(),
        b"CVR\x55\x01\0\0\0".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ];
    let frames = |lengths: &[usize]| {
        let mut out = Vec::new();
        for len in lengths {
            write_frames(&vec![7; *len], *len, &mut out);
        }
        out
    };
    let streams = [
        frames(&[148, 92, 32]),
        frames(&[100; 70]),
        frames(&[100, 100, 40, 100, 120]),
        [&KEEPALIVE, frames(&[1]).as_slice(), &KEEPALIVE].concat(),
        // Unfinished, and longer than any datagram.
        frames(&[500])[..300].to_vec(),
        [frames(&[64]).as_slice(), &[0xff, 0xff, 1, 2, 3]].concat(),
        vec![0xff, 0xe3, 1, 2],
    ];
    for stream in streams {
        for part_len in [1_u16, 2, 37, u16::MAX] {
            seeds.push([&part_len.to_be_bytes()[..], &stream].concat());
        }
    }
    seeds
}
