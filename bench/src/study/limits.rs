//! How fast this machine copies and encrypts, which is what a tunnel can't be faster than.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use culvert_aead::{Key, Layout, Suite, TAG_LEN};

use super::Lab;
use super::sheet::{At, Sheet};

/// How long each speed is measured.
const MEASURE_FOR: Duration = Duration::from_millis(300);

/// A block that the second-level cache of one core holds, and one that no cache does.
const CACHED_BYTES: usize = 256 << 10;
const UNCACHED_BYTES: usize = 256 << 20;

/// A batch of full records, as the road seals it.
const RECORDS: usize = 45;
const RECORD_BYTES: usize = 1420;

/// Runs the part.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    for round in 1..=lab.rounds() {
        lab.progress(round, "copying and sealing");
        let mut add = |row, value: f64| {
            let table = "speeds of this machine, one core";
            sheet.add(
                At {
                    table,
                    row,
                    column: "GB/s",
                },
                value,
            );
            sheet.add(
                At {
                    table,
                    row,
                    column: "nanoseconds a byte",
                },
                1.0 / value,
            );
        };
        add("copy within the caches", copy(CACHED_BYTES));
        add("copy through memory", copy(UNCACHED_BYTES));
        add("seal, ChaCha20-Poly1305", seal(Suite::ChaCha20Poly1305));
        add("seal, AES-256-GCM", seal(Suite::Aes256Gcm));
        lab.keep(sheet)?;
    }
    Ok(())
}

/// Gigabytes a second.
fn copy(block_bytes: usize) -> f64 {
    let from = vec![1_u8; block_bytes];
    let mut to = vec![0_u8; block_bytes];
    speed(block_bytes, || {
        black_box(&mut to).copy_from_slice(black_box(&from));
    })
}

fn seal(suite: Suite) -> f64 {
    let key = Key::new(suite, &[7; 32]);
    let layout = Layout {
        head_len: 16,
        stride: 16 + RECORD_BYTES + TAG_LEN,
    };
    let mut buffer = vec![0; RECORDS * layout.stride];
    let mut nonce = 0;
    speed(RECORDS * RECORD_BYTES, || {
        key.seal_batch(nonce, black_box(&mut buffer), layout);
        nonce += RECORDS as u64;
    })
}

/// How fast `work` on `bytes` is, in gigabytes a second.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53 bytes")]
fn speed(bytes: usize, mut work: impl FnMut()) -> f64 {
    // The first touches pages for the first time.
    work();
    let began = Instant::now();
    let mut done = 0;
    while began.elapsed() < MEASURE_FOR {
        work();
        done += bytes;
    }
    done as f64 / 1e9 / began.elapsed().as_secs_f64()
}
