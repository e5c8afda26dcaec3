//! `io_uring`: one call hands over what to send and takes what came, in both directions.
//!
//! Each direction has one read at a time, since two could end in the wrong order, and as many writes as there
//! are buffers.

use crate::ends::{Ends, FRAME_MAX_BYTES};
use crate::error::{Error, TUN, UDP, WAIT};
use crate::ring::{Completion, Operation, Ring};
use culvert_base::frames::VNET_HEADER_BYTES;
use rustix::io::Errno;
use std::convert::Infallible;
use std::io;

/// Buffers of each direction: packets that may be on their way at once.
const BUFFERS: usize = 32;

pub(super) fn run(ends: &Ends) -> Result<Infallible, Error> {
    // A non-blocking descriptor answers a read of the ring "try again" at once.
    ends.set_blocking().map_err(Error::system(WAIT))?;
    rustix::net::connect(ends.udp(), &ends.peer.address).map_err(Error::system("connect"))?;
    let mut ring = Ring::new(2 * BUFFERS, FRAME_MAX_BYTES).map_err(Error::system("make a ring"))?;
    let mut directions = [Direction::new(true), Direction::new(false)];
    let mut ended = Vec::with_capacity(2 * BUFFERS);
    loop {
        for direction in &mut directions {
            direction.read(&mut ring, ends);
        }
        ring.submit(&mut ended).map_err(Error::system(WAIT))?;
        for completion in &ended {
            let direction = &mut directions[completion.buffer / BUFFERS];
            let forwarded = direction.forward(&mut ring, ends, *completion);
            forwarded.map_err(Error::system(if direction.is_out { TUN } else { UDP }))?;
        }
    }
}

struct Direction {
    is_out: bool,
    /// Buffers that hold nothing.
    free: Vec<usize>,
    /// The buffer that is being read into.
    reading: Option<usize>,
}

impl Direction {
    fn new(is_out: bool) -> Self {
        let first = if is_out { 0 } else { BUFFERS };
        Self {
            is_out,
            free: (first..first + BUFFERS).collect(),
            reading: None,
        }
    }

    /// Reads the next packet, where no read is under way and there is room.
    fn read<'ends>(&mut self, ring: &mut Ring<'ends>, ends: &'ends Ends) {
        if self.reading.is_some() {
            return;
        }
        self.reading = self.free.pop();
        if let Some(buffer) = self.reading {
            let (operation, what, start) = if self.is_out {
                (Operation::Read, ends.tun(), 0)
            } else {
                (Operation::Receive, ends.udp(), VNET_HEADER_BYTES)
            };
            ring.push(operation, what, buffer, start..FRAME_MAX_BYTES);
        }
    }

    /// Sends on what was read; frees what was sent.
    fn forward<'ends>(
        &mut self,
        ring: &mut Ring<'ends>,
        ends: &'ends Ends,
        completion: Completion,
    ) -> io::Result<()> {
        let Completion { buffer, result } = completion;
        if self.reading != Some(buffer) {
            // Sent or dropped, as IP does.
            self.free.push(buffer);
            return Ok(());
        }
        self.reading = None;
        let Ok(len) = usize::try_from(result) else {
            self.free.push(buffer);
            let error = Errno::from_raw_os_error(-result);
            // The last is the peer's machine telling that nobody listens there yet.
            return match error {
                Errno::AGAIN | Errno::INTR | Errno::CONNREFUSED => Ok(()),
                error => Err(error.into()),
            };
        };
        if self.is_out {
            if len <= VNET_HEADER_BYTES {
                self.free.push(buffer);
                return Ok(());
            }
            ring.push(Operation::Send, ends.udp(), buffer, VNET_HEADER_BYTES..len);
        } else {
            ring.buffer(buffer)[..VNET_HEADER_BYTES].fill(0);
            ring.push(
                Operation::Write,
                ends.tun(),
                buffer,
                0..VNET_HEADER_BYTES + len,
            );
        }
        Ok(())
    }
}
