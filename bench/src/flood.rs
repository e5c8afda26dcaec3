//! UDP at a given rate, and how much of it arrives.
//!
//! iperf3 spends four system calls on a datagram, as much time as a fast tunnel needs for it. On a
//! machine whose cores both share, it would be half of the measured load. This sender and receiver take
//! many datagrams a call, and the receiver's buffer holds 15 ms at the highest rates, so that what is
//! lost is lost in between.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use culvert_lab::Namespace;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike, recvmmsg,
    sendmmsg, sendmsg, setsockopt, sockopt,
};

/// The way in which the sender hands datagrams to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sending {
    /// Each by itself: games, calls, DNS.
    Datagrams,
    /// In runs that the kernel segments (`UDP_SEGMENT`): QUIC.
    Runs,
}

/// A rate to try.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flood {
    /// Payload offered, in bits a second.
    pub(crate) rate_bits_per_s: u64,
    pub(crate) payload_bytes: u32,
    pub(crate) sending: Sending,
    pub(crate) duration: Duration,
}

/// The datagrams that arrived of a flood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Payload that was sent, in bits a second: less than offered where the sender can do no more.
    pub(crate) sent_bits_per_second: f64,
    /// Payload that arrived, in bits a second.
    pub(crate) bits_per_second: f64,
    /// Share of the datagrams sent that did not arrive.
    pub(crate) lost_share: f64,
}

/// Datagrams of one `sendmmsg` or `recvmmsg`; of a run, what 64 KB hold at most.
const BATCH: usize = 32;

/// Bytes of one run.
const RUN_BYTES: usize = 60_000;

/// The sender sleeps this long where nothing is due: at 2 Gbit/s of 1350 bytes 20 datagrams.
const PAUSE: Duration = Duration::from_micros(100);

/// The most that the sender catches up with at once after it did not run: 2 ms at the offered rate.
const CATCH_UP: Duration = Duration::from_millis(2);

/// The receiver's buffer: more than what a time slice of another thread lets pile up.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// After the sender has ended, what is under way arrives within this time.
const IDLE_PAUSE: Duration = Duration::from_millis(300);

impl Flood {
    /// Sends from `client` to `address` in `server`, and counts what arrives there.
    pub(crate) fn run(
        self,
        client: &Namespace,
        server: &Namespace,
        address: IpAddr,
    ) -> Result<Arrival> {
        let receiver = server.inside(|| Ok(UdpSocket::bind((address, 0))?))?;
        setsockopt(&receiver, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES)
            .context("cannot enlarge the receive buffer")?;
        receiver.set_read_timeout(Some(Duration::from_millis(50)))?;
        let to = receiver.local_addr()?;
        let sender = client.inside(|| {
            let any: IpAddr = match address {
                IpAddr::V4(_) => "0.0.0.0".parse()?,
                IpAddr::V6(_) => "::".parse()?,
            };
            let sender = UdpSocket::bind((any, 0))?;
            sender.connect(to)?;
            Ok(sender)
        })?;
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let counting = scope.spawn(|| self.count(&receiver, &has_ended));
            let sent = self.send(&sender);
            thread::sleep(IDLE_PAUSE);
            has_ended.store(true, Ordering::Release);
            let received = counting.join().expect("the receiver does not panic")?;
            Ok(self.arrival(sent?, received))
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn arrival(self, sent: u64, received: u64) -> Arrival {
        let bits_per_datagram = f64::from(self.payload_bytes) * 8.0;
        let rate = |count: u64| count as f64 * bits_per_datagram / self.duration.as_secs_f64();
        Arrival {
            sent_bits_per_second: rate(sent),
            bits_per_second: rate(received),
            lost_share: 1.0 - received as f64 / sent.max(1) as f64,
        }
    }

    /// Sends at the rate, as far as the machine allows. Returns the datagrams sent.
    fn send(self, socket: &UdpSocket) -> Result<u64> {
        let payload = vec![0x5a; RUN_BYTES];
        let mut headers = MultiHeaders::preallocate(BATCH, None);
        let start = Instant::now();
        let (mut sent, mut forgiven) = (0, 0);
        loop {
            let elapsed = start.elapsed();
            if elapsed >= self.duration {
                return Ok(sent);
            }
            let mut due = self.datagrams_in(elapsed) - sent - forgiven;
            let most = self.datagrams_in(CATCH_UP).max(self.least_at_once());
            if due > most {
                forgiven += due - most;
                due = most;
            }
            if due < self.least_at_once() {
                thread::sleep(PAUSE);
                continue;
            }
            sent += match self.sending {
                Sending::Datagrams => self.send_datagrams(socket, &mut headers, &payload, due)?,
                Sending::Runs => self.send_run(socket, &payload)?,
            };
        }
    }

    /// Datagrams that the sender waits for before it sends: a run is a whole one.
    fn least_at_once(self) -> u64 {
        match self.sending {
            Sending::Datagrams => 1,
            Sending::Runs => self.datagrams_of_a_run(),
        }
    }

    fn datagrams_of_a_run(self) -> u64 {
        const MAX_SEGMENTS: u64 = 64;
        (RUN_BYTES as u64 / u64::from(self.payload_bytes)).min(MAX_SEGMENTS)
    }

    /// Datagrams that are due after this time.
    fn datagrams_in(self, time: Duration) -> u64 {
        let bits = u128::from(self.rate_bits_per_s) * time.as_nanos() / 1_000_000_000;
        u64::try_from(bits / u128::from(self.payload_bytes * 8)).unwrap_or(u64::MAX)
    }

    fn send_datagrams(
        self,
        socket: &UdpSocket,
        headers: &mut MultiHeaders<SockaddrIn>,
        payload: &[u8],
        due: u64,
    ) -> Result<u64> {
        let count = BATCH.min(usize::try_from(due)?);
        let datagram = [IoSlice::new(&payload[..self.payload_bytes as usize])];
        let sent = sendmmsg(
            socket.as_raw_fd(),
            headers,
            [&datagram; BATCH].into_iter().take(count),
            // The socket is connected.
            [None::<SockaddrIn>; BATCH],
            [],
            MsgFlags::empty(),
        )?;
        Ok(sent.count() as u64)
    }

    fn send_run(self, socket: &UdpSocket, payload: &[u8]) -> Result<u64> {
        let count = self.datagrams_of_a_run();
        let run = [IoSlice::new(
            &payload[..usize::try_from(count)? * self.payload_bytes as usize],
        )];
        let segment = u16::try_from(self.payload_bytes)?;
        let cut = [ControlMessage::UdpGsoSegments(&segment)];
        sendmsg::<SockaddrIn>(socket.as_raw_fd(), &run, &cut, MsgFlags::empty(), None)?;
        Ok(count)
    }

    /// Counts what arrives until `has_ended`.
    fn count(self, socket: &UdpSocket, has_ended: &AtomicBool) -> Result<u64> {
        match socket.local_addr()? {
            SocketAddr::V4(_) => count_from::<SockaddrIn>(socket, has_ended),
            SocketAddr::V6(_) => count_from::<SockaddrIn6>(socket, has_ended),
        }
    }
}

/// Counts what arrives from addresses of one family. The receiver's work is part of what is measured, for
/// every subject alike, and more so the faster it is.
fn count_from<A: SockaddrLike + Copy>(socket: &UdpSocket, has_ended: &AtomicBool) -> Result<u64> {
    let mut buffers = vec![[0; 2048]; BATCH];
    let mut headers = MultiHeaders::<A>::preallocate(BATCH, None);
    let mut received = 0;
    while !has_ended.load(Ordering::Acquire) {
        let mut slices: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| [IoSliceMut::new(buffer)])
            .collect();
        let flags = MsgFlags::MSG_WAITFORONE;
        let batch = recvmmsg(
            socket.as_raw_fd(),
            &mut headers,
            slices.iter_mut(),
            flags,
            None,
        );
        match batch.map(Iterator::count) {
            Ok(count) => received += count as u64,
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot receive"),
        }
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_met_in_datagrams() {
        let flood = Flood {
            rate_bits_per_s: 1_080_000_000,
            payload_bytes: 1350,
            sending: Sending::Datagrams,
            duration: Duration::from_secs(1),
        };
        assert_eq!(flood.datagrams_in(Duration::from_secs(1)), 100_000);
        assert_eq!(flood.datagrams_in(Duration::from_micros(9)), 0);
        assert_eq!(flood.datagrams_in(Duration::from_micros(10)), 1);
    }

    #[test]
    fn a_run_is_as_long_as_the_kernel_takes() {
        let flood = |payload_bytes| Flood {
            rate_bits_per_s: 1,
            payload_bytes,
            sending: Sending::Runs,
            duration: Duration::from_secs(1),
        };
        assert_eq!(flood(1350).least_at_once(), 44, "64 KB");
        assert_eq!(flood(200).least_at_once(), 64, "UDP_MAX_SEGMENTS");
    }

    #[test]
    fn what_does_not_arrive_is_lost() {
        let flood = Flood {
            rate_bits_per_s: 8_000,
            payload_bytes: 100,
            sending: Sending::Runs,
            duration: Duration::from_secs(2),
        };
        let arrival = flood.arrival(20, 15);
        assert!((arrival.lost_share - 0.25).abs() < 1e-9);
        assert!((arrival.bits_per_second - 6_000.0).abs() < 1e-9);
    }
}
