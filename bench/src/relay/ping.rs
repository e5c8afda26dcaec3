//! Round trips through the relay: from a client to its gateway and back.

use super::ends::{End, record};
use anyhow::Result;
use culvert_udp::{ReceiveBatch, Socket};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::time::{Duration, Instant};

/// The receiver index of the client.
const INDEX: u32 = 77;

/// Bytes of a ping: one of 64 bytes in a tunnel.
const LEN: usize = 128;

/// A ping without an answer by then is lost.
const LOST_AFTER: Duration = Duration::from_secs(1);

/// The time between two pings.
const PAUSE: Duration = Duration::from_millis(2);

/// The median of `count` round trips.
pub(super) fn median(client: &End, gateway: &End, count: usize) -> Result<Duration> {
    client.send(&record(1, INDEX, 148), 148)?;
    wait(&gateway.socket)?;
    let mut trips = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        client.send(&record(4, 1, LEN), LEN)?;
        let arrived = wait(&gateway.socket)?;
        gateway.send(&record(4, INDEX, LEN), LEN)?;
        if arrived && wait(&client.socket)? {
            trips.push(began.elapsed());
        }
        std::thread::sleep(PAUSE);
    }
    anyhow::ensure!(
        trips.len() * 10 >= count * 9,
        "{} of {count} pings came back",
        trips.len()
    );
    trips.sort_unstable();
    Ok(trips[trips.len() / 2])
}

/// Waits for a datagram; false if none comes. It sleeps meanwhile, as `ping` does: a thread that looks again and again
/// would wait for a processor behind those that carry the load.
fn wait(socket: &Socket) -> Result<bool> {
    let mut batch = ReceiveBatch::new(1);
    let began = Instant::now();
    while let Some(rest) = LOST_AFTER.checked_sub(began.elapsed()) {
        let rest = Timespec::try_from(rest)?;
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&rest))?;
        if socket.receive_batch(&mut batch)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
