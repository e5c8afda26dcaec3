//! The system calls that a TUN descriptor takes: each is tried, on the running kernel, with a packet that waits
//! or one to deliver.

mod outcome;
mod take;
mod wait;
mod write;

use std::io;

use culvert_base::frames::MAX_FRAME_BYTES;
use culvert_tun::Queue;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;

pub use outcome::Outcome;

/// The longest that a packet takes into the queue of its interface. It is there when the call that sends it
/// returns.
const PACKET_DEADLINE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Takes a packet from the interface.
    Take,
    /// Delivers a packet to it.
    Deliver,
    /// Tells when there is one.
    Wait,
}

impl Purpose {
    /// The purpose in a few words.
    pub fn what(self) -> &'static str {
        match self {
            Self::Take => "take a packet",
            Self::Deliver => "deliver a packet",
            Self::Wait => "wait for a packet",
        }
    }
}

/// A call, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// Its name, with what matters of its arguments.
    pub name: &'static str,
    /// Its job.
    pub purpose: Purpose,
    /// Its result.
    pub outcome: Outcome,
}

/// Tries every call on `queue`, of an interface without superframes that is up.
///
/// `feed` sends one packet through the interface, so that it waits in the queue; `packet` is one that the
/// interface may deliver, without the virtio-net header.
///
/// # Errors
/// When `feed` fails, or its packet does not come.
pub fn probe(
    queue: &Queue,
    packet: &[u8],
    feed: &dyn Fn() -> io::Result<()>,
) -> io::Result<Vec<Call>> {
    let mut calls = Vec::new();
    for (name, attempt) in take::ATTEMPTS {
        drain(queue)?;
        feed()?;
        arrives(queue)?;
        calls.push(Call {
            name,
            purpose: Purpose::Take,
            outcome: attempt(queue),
        });
    }
    let mut frame = vec![0; culvert_base::frames::VNET_HEADER_BYTES];
    frame.extend_from_slice(packet);
    for (name, attempt) in write::ATTEMPTS {
        calls.push(Call {
            name,
            purpose: Purpose::Deliver,
            outcome: attempt(queue, &frame),
        });
    }
    for (name, attempt) in wait::ATTEMPTS {
        drain(queue)?;
        calls.push(Call {
            name,
            purpose: Purpose::Wait,
            outcome: attempt(queue, feed)?,
        });
    }
    Ok(calls)
}

/// Takes everything that waits.
fn drain(queue: &Queue) -> io::Result<()> {
    let mut buffer = vec![0; MAX_FRAME_BYTES];
    loop {
        match queue.receive(&mut buffer) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Waits until a packet waits.
fn arrives(queue: &Queue) -> io::Result<()> {
    let mut poll = [PollFd::new(queue, PollFlags::IN)];
    match rustix::event::poll(&mut poll, Some(&PACKET_DEADLINE))? {
        0 => Err(io::Error::other("the packet for the probe did not come")),
        _ => Ok(()),
    }
}
