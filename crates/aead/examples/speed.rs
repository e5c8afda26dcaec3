//! Prints how fast one core seals and opens batches, AWS-LC record by record beside the batched
//! implementation, for several record lengths and batch sizes:
//! `cargo run --release -p culvert-aead --example speed`.
//!
//! Rates are of bytes sealed or opened, the best of several windows: other work on the machine only
//! ever makes a window slower.

use culvert_aead::{Key, Layout, Suite, TAG_LEN};
use std::time::{Duration, Instant};

const HEAD_LEN: usize = 16;
const PLAINTEXT_LENS: [usize; 7] = [0, 32, 96, 544, 1280, 1420, 8000];
const RECORDS: [usize; 9] = [1, 2, 3, 4, 8, 16, 32, 45, 128];
const WINDOWS: usize = 15;
const WINDOW: Duration = Duration::from_millis(4);

#[expect(clippy::print_stdout, reason = "printing is what the example is for")]
fn main() {
    let key = [7; 32];
    println!("GB/s of records (16 bytes of head and 16 of tag included)");
    println!("                            ChaCha20-Poly1305                          AES-256-GCM");
    println!("                            seal                 open                  seal   open");
    println!("plaintext  records   AWS-LC batched      AWS-LC batched                 AWS-LC");
    for plaintext_len in PLAINTEXT_LENS {
        for records in RECORDS {
            let batch = Batch::new(plaintext_len, records);
            let portable = batch.measure(&Key::new_portable(Suite::ChaCha20Poly1305, &key));
            let batched = batch.measure(&Key::new(Suite::ChaCha20Poly1305, &key));
            let aes = batch.measure(&Key::new(Suite::Aes256Gcm, &key));
            println!(
                "{plaintext_len:9}  {records:7}   {:6.2} {:6.2} ×{:4.2}   {:6.2} {:6.2} ×{:4.2}   {:6.2} {:6.2}",
                portable.seal,
                batched.seal,
                batched.seal / portable.seal,
                portable.open,
                batched.open,
                batched.open / portable.open,
                aes.seal,
                aes.open,
            );
        }
    }
}

/// Gigabytes per second.
struct Rates {
    seal: f64,
    open: f64,
}

struct Batch {
    layout: Layout,
    nonces: Vec<u64>,
    len: usize,
}

impl Batch {
    fn new(plaintext_len: usize, records: usize) -> Self {
        let stride = HEAD_LEN + plaintext_len + TAG_LEN;
        Self {
            layout: Layout {
                head_len: HEAD_LEN,
                stride,
            },
            nonces: (0..records as u64).collect(),
            len: stride * records,
        }
    }

    fn measure(&self, key: &Key) -> Rates {
        let mut buffer = vec![0; self.len];
        let seal = self.rate(&mut buffer, |buffer| {
            key.seal_batch(0, buffer, self.layout);
        });
        buffer.fill(0);
        key.seal_batch(0, &mut buffer, self.layout);
        let sealed = buffer.clone();
        let copy = seconds(|| buffer.copy_from_slice(&sealed));
        let open = seconds(|| {
            buffer.copy_from_slice(&sealed);
            let opened = key.open_batch(&self.nonces, &mut buffer, self.layout);
            assert_eq!(opened.count(), self.nonces.len());
        });
        let open = self.len as f64 / (open - copy) / 1e9;
        Rates { seal, open }
    }

    fn rate(&self, buffer: &mut [u8], mut work: impl FnMut(&mut [u8])) -> f64 {
        self.len as f64 / seconds(|| work(buffer)) / 1e9
    }
}

/// Seconds that one call takes, in the best window.
fn seconds(mut call: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..WINDOWS {
        let start = Instant::now();
        let mut calls = 0u32;
        while start.elapsed() < WINDOW {
            for _ in 0..8 {
                call();
            }
            calls += 8;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(calls));
    }
    best
}
