//! Batches of datagrams, and the decisions about them.

use crate::message::ASK_LEN;
use culvert_base::{Destination, LocalAddress};
use std::net::SocketAddr;

/// A batch of datagrams from one source, all of `stride` bytes but for the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// The address of this machine that it sent to, from which it is answered.
    pub local: Option<LocalAddress>,
    /// The datagrams, one after the other.
    pub bytes: &'a [u8],
    /// Bytes of each of them.
    pub stride: usize,
}

/// A part of a batch that goes to one address: whole datagrams, as many as one send takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubRun {
    /// The place of its first byte.
    pub start: usize,
    /// The place behind its last byte.
    pub end: usize,
    /// The receiver.
    pub to: Destination,
}

/// An answer to the sender of a batch, at the address from which the batch came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    bytes: [u8; ASK_LEN],
    len: usize,
}

/// The decisions about a batch.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Forward these, in order.
    pub sends: Vec<SubRun>,
    /// Send these back.
    pub replies: Vec<Reply>,
}

impl Reply {
    pub(super) fn new(message: &[u8]) -> Self {
        let mut bytes = [0; ASK_LEN];
        bytes[..message.len()].copy_from_slice(message);
        Self {
            bytes,
            len: message.len(),
        }
    }

    /// The answer, for the wire.
    #[must_use]
    pub fn datagram(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Decisions {
    pub(super) fn clear(&mut self) {
        self.sends.clear();
        self.replies.clear();
    }
}

impl<'a> Run<'a> {
    pub(super) fn records(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.stride.max(1))
    }

    pub(super) const fn sender(&self) -> Destination {
        Destination {
            address: self.source,
            source: self.local,
        }
    }
}
