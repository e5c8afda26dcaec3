//! Records for one peer, laid out as they leave in one segmented send.

use crate::peer::Peer;
use crate::sending::Sending;
use culvert_base::BootTime;
use culvert_base::datagrams::{MAX_DATAGRAM_BYTES, MAX_GSO_BYTES, MAX_SEGMENTS};
use std::sync::Arc;

/// A batch under construction, or sealed and on its way out.
///
/// All records have the length of the first, but the last may be shorter: that is what
/// `UDP_SEGMENT` can cut, and what `culvert_aead::Layout` describes.
pub(crate) struct Batch {
    buffer: Box<[u8]>,
    len: usize,
    stride: usize,
    records: usize,
    /// A record shorter than the others was added: nothing may follow it.
    closed: bool,
    class: u8,
    to: Option<(Arc<Peer>, Arc<Sending>)>,
    sealed: Option<Sealed>,
}

/// Reasons for a sealed batch to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The socket's send buffer is full.
    Socket,
    /// An earlier batch of another worker under the same key.
    Turn,
}

/// The state of a batch whose records have their counters.
pub(crate) struct Sealed {
    /// The counter of the first record.
    pub(crate) first: u64,
    /// The counter after that of the last record.
    pub(crate) end: u64,
    /// Bytes that have left already: a send that would block halfway goes on from here.
    pub(crate) sent: usize,
    waits_for: Option<Blocked>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; MAX_DATAGRAM_BYTES].into_boxed_slice(),
            len: 0,
            stride: 0,
            records: 0,
            closed: false,
            class: 0,
            to: None,
            sealed: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// True if no further record of the length of the first can leave in the same send.
    pub(crate) fn is_full(&self) -> bool {
        self.records > 0
            && (self.closed
                || self.records == MAX_SEGMENTS
                || self.len + self.stride > MAX_GSO_BYTES)
    }

    pub(crate) fn records(&self) -> usize {
        self.records
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The outer traffic class: DSCP and ECN.
    pub(crate) fn class(&self) -> u8 {
        self.class
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    pub(crate) fn to(&self) -> Option<&(Arc<Peer>, Arc<Sending>)> {
        self.to.as_ref()
    }

    pub(crate) fn sealed_mut(&mut self) -> Option<&mut Sealed> {
        self.sealed.as_mut()
    }

    pub(crate) fn sealed(&self) -> Option<&Sealed> {
        self.sealed.as_ref()
    }

    /// The reason for which the sealed batch waits.
    pub(crate) fn waits_for(&self) -> Option<Blocked> {
        self.sealed.as_ref()?.waits_for
    }

    /// The sealed batch waits for this.
    pub(crate) fn wait_for(&mut self, reason: Blocked) {
        if let Some(sealed) = &mut self.sealed {
            sealed.waits_for = Some(reason);
        }
    }

    /// The sealed batch waits for nothing.
    pub(crate) fn try_again(&mut self) {
        if let Some(sealed) = &mut self.sealed {
            sealed.waits_for = None;
        }
    }

    /// True if records for `to`, with outer traffic class `class`, may join what is here.
    pub(crate) fn takes(&self, to: &Peer, sending: &Arc<Sending>, class: u8) -> bool {
        match &self.to {
            None => true,
            Some((peer, own)) => {
                self.class == class
                    && peer.id == to.id
                    // A batch never spans two keys.
                    && Arc::ptr_eq(own, sending)
            }
        }
    }

    /// Addresses an empty batch; one that [`Self::takes`] the same stays as it is.
    pub(crate) fn address(&mut self, to: &Arc<Peer>, sending: &Arc<Sending>, class: u8) {
        if self.to.is_none() {
            self.to = Some((Arc::clone(to), Arc::clone(sending)));
            self.class = class;
        }
    }

    /// Room for one more record of `record_len` bytes, to be filled by the caller; `None` where it
    /// can't leave in the same send.
    pub(crate) fn add(&mut self, record_len: usize) -> Option<&mut [u8]> {
        let end = self.len + record_len;
        if self.records == 0 {
            self.stride = record_len;
        } else if self.closed
            || record_len > self.stride
            || self.records == MAX_SEGMENTS
            || end > MAX_GSO_BYTES
        {
            return None;
        }
        let slot = self.buffer.get_mut(self.len..end)?;
        self.len = end;
        self.records += 1;
        self.closed = record_len < self.stride;
        Some(slot)
    }

    /// Gives the records their counters and seals them. False where the key has none left: the
    /// batch is then as before.
    pub(crate) fn seal(&mut self, now: BootTime) -> bool {
        let Some((_, sending)) = &self.to else {
            return false;
        };
        let count = u32::try_from(self.records).expect("at most MAX_SEGMENTS records");
        let Some(reservation) = sending.transport.reserve(count, now) else {
            return false;
        };
        let first = reservation.first();
        self.sealed = Some(Sealed {
            first,
            end: first + u64::from(count),
            sent: 0,
            waits_for: None,
        });
        let buffer = &mut self.buffer[..self.len];
        sending
            .transport
            .seal_batch(reservation, buffer, self.stride);
        true
    }

    /// Empties the batch for the next one.
    pub(crate) fn reset(&mut self) {
        self.len = 0;
        self.records = 0;
        self.closed = false;
        self.to = None;
        self.sealed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_full_where_no_record_like_its_first_fits() {
        for record_len in [100, 1000, 1452, 9000, 60_000, MAX_DATAGRAM_BYTES] {
            let mut batch = Batch::new();
            assert!(!batch.is_full());
            batch.add(record_len).unwrap();
            while !batch.is_full() {
                assert!(batch.add(record_len).is_some(), "{record_len}");
            }
            assert!(batch.add(record_len).is_none(), "{record_len}");
        }
    }

    #[test]
    fn a_batch_with_a_shorter_record_is_full() {
        let mut batch = Batch::new();
        batch.add(1000).unwrap();
        batch.add(999).unwrap();
        assert!(batch.is_full());
        assert!(batch.add(10).is_none());
    }
}
