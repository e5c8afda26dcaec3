//! The cost of handing memory over between two cores. A host does that with each packet that one core sends and another
//! receives. The lines of a page are still in the caches of the core that read or wrote it last.

use std::hint::{black_box, spin_loop};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The largest piece of memory that the kernel allocates for the data of a socket
/// (`SKB_FRAG_PAGE_ORDER`).
const CHUNK_BYTES: usize = 32 << 10;

/// Gigabytes a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speeds {
    /// Of copying into what another core has read.
    pub(super) into: f64,
    /// Of copying out of what another core has written.
    pub(super) out_of: f64,
}

/// Copies into a ring of `ring_bytes` while another thread copies out of it, for `duration`; nothing where there is one
/// core only.
pub(super) fn between_cores(ring_bytes: usize, duration: Duration) -> Option<Speeds> {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let ring = Ring::new(ring_bytes / CHUNK_BYTES);
    thread::scope(|scope| {
        let reader = scope.spawn(|| ring.read());
        let into = ring.write(duration);
        let out_of = reader.join().expect("copying does not panic");
        Some(Speeds { into, out_of })
    })
}

struct Ring {
    /// Never locked by both: the counts below say whose turn it is.
    chunks: Vec<Mutex<Vec<u8>>>,
    written: AtomicUsize,
    read: AtomicUsize,
    is_over: AtomicBool,
}

impl Ring {
    fn new(chunks: usize) -> Self {
        let chunk = || Mutex::new(vec![1; CHUNK_BYTES]);
        Self {
            chunks: std::iter::repeat_with(chunk).take(chunks).collect(),
            written: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Writes for `duration`, and round the ring at least once. Returns how fast.
    fn write(&self, duration: Duration) -> f64 {
        let from = vec![2; CHUNK_BYTES];
        let mut spent = Duration::ZERO;
        let mut written = 0;
        let began = Instant::now();
        while began.elapsed() < duration || written <= self.chunks.len() {
            if written - self.read.load(Ordering::Acquire) == self.chunks.len() {
                spin_loop();
                continue;
            }
            spent += self.with_chunk(written, |chunk| chunk.copy_from_slice(&from));
            written += 1;
            self.written.store(written, Ordering::Release);
        }
        self.is_over.store(true, Ordering::Release);
        speed(written, spent)
    }

    /// Reads until the writer is done. Returns how fast.
    fn read(&self) -> f64 {
        let mut to = vec![0; CHUNK_BYTES];
        let mut spent = Duration::ZERO;
        let mut read = 0;
        while !self.is_over.load(Ordering::Acquire) {
            if read == self.written.load(Ordering::Acquire) {
                spin_loop();
                continue;
            }
            spent += self.with_chunk(read, |chunk| {
                black_box(&mut to).copy_from_slice(chunk);
            });
            read += 1;
            self.read.store(read, Ordering::Release);
        }
        speed(read, spent)
    }

    /// The duration of `work` on chunk `number`.
    fn with_chunk(&self, number: usize, work: impl FnOnce(&mut [u8])) -> Duration {
        let mut chunk = self.chunks[number % self.chunks.len()]
            .lock()
            .expect("copying does not panic");
        let began = Instant::now();
        work(&mut chunk);
        began.elapsed()
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53 bytes")]
fn speed(chunks: usize, spent: Duration) -> f64 {
    (chunks * CHUNK_BYTES) as f64 / 1e9 / spent.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_on_one_core_is_read_on_another() {
        let ring = Ring::new(2);
        thread::scope(|scope| {
            scope.spawn(|| ring.read());
            ring.write(Duration::ZERO);
        });
        let (written, read) = (ring.written.into_inner(), ring.read.into_inner());
        assert_eq!(written, 3, "round the ring");
        assert!(read >= 1, "the first chunk was free again");
        let chunk = ring.chunks[0].lock().expect("nobody panicked");
        assert!(chunk.iter().all(|&byte| byte == 2));
    }
}
