//! Prints how fast each suite seals and opens a full batch of full-size records on one core:
//! `cargo run --release -p culvert-aead --example speed`.

use culvert_aead::{Key, Layout, Suite};
use std::time::{Duration, Instant};

const RECORD_LEN: usize = 1452;
const RECORDS: usize = 45;
const MEASURE_FOR: Duration = Duration::from_secs(1);

#[expect(clippy::print_stdout, reason = "printing is what the example is for")]
fn main() {
    let layout = Layout {
        head_len: 16,
        stride: RECORD_LEN,
    };
    let nonces: Vec<u64> = (0..RECORDS as u64).collect();
    for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
        let key = Key::new(suite, &[7; 32]);
        let mut buffer = vec![0; RECORD_LEN * RECORDS];
        let seal = rate_gigabytes_per_s(|| key.seal_batch(0, &mut buffer, layout));
        let sealed = {
            key.seal_batch(0, &mut buffer, layout);
            buffer.clone()
        };
        let mut scratch = sealed.clone();
        let open = rate_gigabytes_per_s(|| {
            scratch.copy_from_slice(&sealed);
            assert_eq!(
                key.open_batch(&nonces, &mut scratch, layout).count(),
                RECORDS
            );
        });
        println!("{suite:?}: seal {seal:.2} GB/s, open (with a copy) {open:.2} GB/s");
    }
}

fn rate_gigabytes_per_s(mut batch: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut batches = 0u32;
    while start.elapsed() < MEASURE_FOR {
        batch();
        batches += 1;
    }
    let bytes = f64::from(batches) * (RECORD_LEN * RECORDS) as f64;
    bytes / start.elapsed().as_secs_f64() / 1e9
}
