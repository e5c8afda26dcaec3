//! Prints how fast one core seals and opens batches: AWS-LC record by record, and beside it whatever
//! `Key::new` chooses for such a batch.
//! `cargo run --release -p culvert-aead --example speed [plaintext length] [records]`.
//!
//! Rates are of whole records, and each the best of many short windows in turn with the others:
//! other work on the machine only ever makes a window slower.

use culvert_aead::{Key, Layout, Suite, TAG_LEN};
use std::time::{Duration, Instant};

const HEAD_LEN: usize = 16;
const PLAINTEXT_LENS: [usize; 7] = [0, 32, 96, 544, 1280, 1420, 8000];
const RECORDS: [usize; 9] = [1, 2, 3, 4, 8, 16, 32, 45, 128];
const WINDOWS: usize = 25;
const WINDOW: Duration = Duration::from_millis(1);

#[expect(clippy::print_stdout, reason = "printing is what the example is for")]
fn main() {
    let arguments: Vec<usize> = std::env::args()
        .skip(1)
        .map_while(|number| number.parse().ok())
        .collect();
    let chosen = |at: usize, all: &[usize]| match arguments.get(at) {
        Some(&one) => vec![one],
        None => all.to_vec(),
    };
    let keys = [
        Key::new_portable(Suite::ChaCha20Poly1305, &[7; 32]),
        Key::new(Suite::ChaCha20Poly1305, &[7; 32]),
        Key::new_portable(Suite::Aes256Gcm, &[7; 32]),
        Key::new(Suite::Aes256Gcm, &[7; 32]),
    ];
    println!("GB/s of records, 16 bytes of head and 16 of tag included");
    println!(
        "                       ChaCha20-Poly1305 seal, open             AES-256-GCM seal, open"
    );
    println!("plaintext  records    {HEADS}   {HEADS}   {HEADS}   {HEADS}");
    for plaintext_len in chosen(0, &PLAINTEXT_LENS) {
        for records in chosen(1, &RECORDS) {
            let [chacha, wide_chacha, aes, wide_aes] = measure(&keys, plaintext_len, records);
            println!(
                "{plaintext_len:9}  {records:7}    {}   {}   {}   {}",
                gain(chacha.seal, wide_chacha.seal),
                gain(chacha.open, wide_chacha.open),
                gain(aes.seal, wide_aes.seal),
                gain(aes.open, wide_aes.open),
            );
        }
    }
}

const HEADS: &str = "AWS-LC  chosen   gain";

fn gain(portable: f64, chosen: f64) -> String {
    format!("{portable:6.2}  {chosen:6.2}  ×{:4.2}", chosen / portable)
}

/// Gigabytes per second.
struct Rates {
    seal: f64,
    open: f64,
}

fn measure<const KEYS: usize>(
    keys: &[Key; KEYS],
    plaintext_len: usize,
    records: usize,
) -> [Rates; KEYS] {
    let layout = Layout {
        head_len: HEAD_LEN,
        stride: HEAD_LEN + plaintext_len + TAG_LEN,
    };
    let nonces: Vec<u64> = (0..records as u64).collect();
    let len = layout.stride * records;
    let mut buffer = vec![0; len];
    let mut copy = f64::INFINITY;
    let mut seal = [f64::INFINITY; KEYS];
    let mut open = [f64::INFINITY; KEYS];
    for _ in 0..WINDOWS {
        for (at, key) in keys.iter().enumerate() {
            seal[at] = seal[at].min(window(|| key.seal_batch(0, &mut buffer, layout)));
            buffer.fill(0);
            key.seal_batch(0, &mut buffer, layout);
            let sealed = buffer.clone();
            copy = copy.min(window(|| buffer.copy_from_slice(&sealed)));
            open[at] = open[at].min(window(|| {
                buffer.copy_from_slice(&sealed);
                let opened = key.open_batch(&nonces, &mut buffer, layout);
                assert_eq!(opened.count(), records);
            }));
        }
    }
    let rate = |seconds: f64| len as f64 / seconds / 1e9;
    core::array::from_fn(|at| Rates {
        seal: rate(seal[at]),
        open: rate(open[at] - copy),
    })
}

/// Seconds that one call takes.
fn window(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut calls = 0u32;
    while start.elapsed() < WINDOW {
        for _ in 0..8 {
            call();
        }
        calls += 8;
    }
    start.elapsed().as_secs_f64() / f64::from(calls)
}
