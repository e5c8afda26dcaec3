//! Prints what splitting, coalescing and summing cost on one core:
//! `cargo run --release -p culvert-packet --example packet_speed`.

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use culvert_packet::checksum::Sum;
use culvert_packet::{Accept, Coalescer, Cut, Gso, VnetHeader};

/// Payload of a segment under a tunnel MTU of 1420 with TCP timestamps.
const SEGMENT: usize = 1368;
const SEGMENTS: usize = 44;
/// Distance of the packets in a receive buffer: a sealed packet of 1420 bytes.
const STRIDE: usize = 1452;
const ROUNDS: usize = 20_000;

fn main() {
    let frame = superframe();
    let vnet = VnetHeader {
        needs_checksum: true,
        gso: Gso::Tcp4,
        gso_size: SEGMENT as u16,
        checksum_start: 20,
        checksum_offset: 16,
        ..VnetHeader::default()
    };
    let mut buffer = vec![0; STRIDE * SEGMENTS];
    let mut ranges: Vec<Range<usize>> = Vec::new();

    measure("sum of a payload", SEGMENT * SEGMENTS, || {
        for payload in frame[52..].chunks(SEGMENT) {
            black_box(Sum::of(black_box(payload)));
        }
    });
    measure("copy and sum of a payload", SEGMENT * SEGMENTS, || {
        for (payload, slot) in frame[52..].chunks(SEGMENT).zip(buffer.chunks_mut(STRIDE)) {
            black_box(Sum::of_copy(black_box(payload), &mut slot[68..][..SEGMENT]));
        }
    });
    measure("split a superframe", SEGMENT * SEGMENTS, || {
        ranges.clear();
        let cut = Cut::plan(&vnet, black_box(&frame)).expect("the frame is well-formed");
        for index in 0..cut.segments() {
            let start = index * STRIDE + 16;
            let range = start..start + cut.segment_len(index);
            cut.write_segment(&frame, index, &mut buffer[range.clone()]);
            ranges.push(range);
        }
    });
    let mut coalescer = Coalescer::new(Accept::ALL);
    // A flush patches the first header: it is put back each round.
    let header = buffer[ranges[0].clone()][..52].to_vec();
    measure("coalesce a superframe", SEGMENT * SEGMENTS, || {
        buffer[ranges[0].clone()][..52].copy_from_slice(&header);
        for range in &ranges {
            coalescer.push(&buffer, range.clone()).expect("it fits");
        }
        coalescer.flush(&mut buffer, |gathered| {
            assert_eq!(gathered.packets(), SEGMENTS);
            black_box(gathered.finish());
        });
    });
}

fn measure(what: &str, bytes: usize, mut round: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUNDS / 5 {
            round();
        }
        best = best.min(start.elapsed().as_secs_f64() / (ROUNDS / 5) as f64);
    }
    println!(
        "{what:<28} {:7.1} ns/packet {:7.1} Gbit/s",
        best * 1e9 / SEGMENTS as f64,
        bytes as f64 * 8.0 / best / 1e9
    );
}

/// TCP over IPv4 with twelve bytes of options.
fn superframe() -> Vec<u8> {
    let mut frame = vec![0; 52 + SEGMENT * SEGMENTS];
    let total_len = frame.len() as u16;
    frame[0] = 0x45;
    frame[2..4].copy_from_slice(&total_len.to_be_bytes());
    frame[6] = 0x40;
    frame[8] = 64;
    frame[9] = 6;
    frame[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[32] = 8 << 4;
    frame[33] = 0x10;
    for (index, byte) in frame[52..].iter_mut().enumerate() {
        *byte = (index * 7) as u8;
    }
    frame
}
