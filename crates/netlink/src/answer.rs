//! The kernel's answer to a request.

use crate::messages::{Messages, read};
use netlink_packet_core::{NLM_F_DUMP_INTR, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use std::io;

/// An answer in the making.
#[derive(Debug)]
#[must_use = "the socket has an answer to read"]
pub struct Answer {
    /// The number of its request.
    sequence: u32,
    /// The entries so far.
    pub entries: Vec<RouteNetlinkMessage>,
    /// True if something changed while a dump was being written: entries may be missing or there twice.
    pub interrupted: bool,
    /// Entries of a form that the library does not know.
    pub unreadable: usize,
}

impl Answer {
    pub(crate) const fn to(sequence: u32) -> Self {
        Self {
            sequence,
            entries: Vec::new(),
            interrupted: false,
            unreadable: 0,
        }
    }

    /// Takes a datagram in; true once the answer is complete. Messages of other requests are passed over: nobody waits
    /// for them any more.
    ///
    /// # Errors
    /// The kernel's, which completes the answer too; `InvalidData` for a datagram that can't be read.
    pub fn take(&mut self, datagram: &[u8]) -> io::Result<bool> {
        for message in Messages::of(datagram) {
            let message = message.map_err(|_| io::ErrorKind::InvalidData)?;
            if message.sequence_number() != self.sequence {
                continue;
            }
            self.interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
            match read(&message).map(|read| read.payload) {
                Ok(NetlinkPayload::InnerMessage(entry)) => self.entries.push(entry),
                // An error of zero is the acknowledgement.
                Ok(NetlinkPayload::Error(error)) => match error.code {
                    None => return Ok(true),
                    Some(_) => return Err(error.to_io()),
                },
                Ok(NetlinkPayload::Done(done)) => match done.code {
                    0.. => return Ok(true),
                    code => return Err(io::Error::from_raw_os_error(code.saturating_neg())),
                },
                Ok(NetlinkPayload::Overrun(_)) => return Err(io::ErrorKind::InvalidData.into()),
                Ok(_) => {}
                Err(_) => self.unreadable += 1,
            }
        }
        Ok(false)
    }
}
