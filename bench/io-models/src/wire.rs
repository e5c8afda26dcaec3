//! A link that delays and loses packets, one direction of it: from one TUN interface to another.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use culvert_base::frames::MAX_FRAME_BYTES;
use culvert_tun::Queue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Delay and loss of a wire, each way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    /// There and back.
    pub round_trip: Duration,
    /// The share of packets that is lost, 0 to 1.
    pub lost_share: f64,
}

/// The most that a wire holds each way: 10 Gbit/s for 50 ms is 62 MB, and as much again for a burst.
const HELD_MAX_BYTES: usize = 128 << 20;

/// The longest until a wire that is dropped notices.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// One direction.
#[derive(Debug)]
pub struct Way {
    delay: Duration,
    lost_share: f64,
    random: u64,
    held: VecDeque<(Instant, Box<[u8]>)>,
    held_bytes: usize,
}

impl Way {
    /// A direction that draws its lots from `seed`, and so the same ones each time.
    pub fn new(weather: Weather, seed: u64) -> Self {
        Self {
            delay: weather.round_trip / 2,
            lost_share: weather.lost_share,
            random: seed,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// Carries frames until `over` is set.
    ///
    /// # Errors
    /// When the interface is gone.
    pub fn forward(mut self, from: &Queue, to: &Queue, over: &AtomicBool) -> io::Result<()> {
        let mut frame = vec![0; MAX_FRAME_BYTES];
        while !over.load(Ordering::Relaxed) {
            self.wait(from)?;
            loop {
                self.let_go(to);
                match from.receive(&mut frame) {
                    Ok(len) => self.take(&frame[..len], to),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Waits until something comes, or something is due.
    fn wait(&self, from: &Queue) -> io::Result<()> {
        let due = self.held.front().map(|(due, _)| *due);
        let left = due.map_or(LOOK_EVERY, |due| {
            due.saturating_duration_since(Instant::now())
        });
        let left = left.min(LOOK_EVERY);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut fds = [PollFd::new(from, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn take(&mut self, frame: &[u8], to: &Queue) {
        if self.lost_share > 0.0 && self.draw() < self.lost_share {
            return;
        }
        if self.delay.is_zero() {
            pass(frame, to);
        } else if self.held_bytes + frame.len() <= HELD_MAX_BYTES {
            self.held_bytes += frame.len();
            self.held
                .push_back((Instant::now() + self.delay, frame.into()));
        }
    }

    fn let_go(&mut self, to: &Queue) {
        while let Some((due, frame)) = self.held.front() {
            if *due > Instant::now() {
                break;
            }
            pass(frame, to);
            self.held_bytes -= frame.len();
            self.held.pop_front();
        }
    }

    /// A number from 0 to 1: splitmix64 (Steele, Lea, Flood, OOPSLA 2014), which tells the same in
    /// every run.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Frames that the interface refuses are lost, as on any link.
fn pass(frame: &[u8], to: &Queue) {
    let _refused = to.send(&[IoSlice::new(frame)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_lost_as_the_weather_says() {
        let weather = Weather {
            round_trip: Duration::ZERO,
            lost_share: 0.01,
        };
        let mut way = Way::new(weather, 7);
        let lost = (0..100_000).filter(|_| way.draw() < 0.01).count();
        assert!((900..1100).contains(&lost), "{lost}");
    }
}
