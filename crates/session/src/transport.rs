//! One pair of transport keys (§5.4.6): what workers seal and open batches with.

mod counter;
mod lazy_key;
mod opened;
mod window;

pub use opened::{OpenedBatch, RecordSet};

use crate::constants::{
    KEEPALIVE_TIMEOUT, REJECT_AFTER_MESSAGES, REJECT_AFTER_TIME, REKEY_AFTER_TIME, REKEY_TIMEOUT,
};
use crate::ids::{Index, PeerId};
use crate::noise::SessionKeys;
use crate::parse::DataHeader;
use crate::replay::ReplayVerdict;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use core::fmt;
use counter::Counters;
use culvert_aead::{Layout, Suite};
use culvert_base::BootTime;
use lazy_key::LazyKey;
use opened::Outcome;
use window::SharedWindow;

pub use crate::parse::DATA_HEADER_LEN;
pub use culvert_aead::MAX_RECORDS;

/// Bytes that sealing adds to a packet: header and tag.
pub const DATA_OVERHEAD: usize = DATA_HEADER_LEN + culvert_aead::TAG_LEN;

/// Our role in the handshake that led to a key pair, by the sender of its initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We sent it: we renew the session, and may send at once.
    Initiator,
    /// The peer sent it: we may send once the peer has shown that it has the keys.
    Responder,
}

/// One pair of transport keys, shared by all workers.
pub struct Transport {
    peer: PeerId,
    role: Role,
    local_index: Index,
    remote_index: Index,
    created_at: BootTime,
    send_key: LazyKey,
    receive_key: LazyKey,
    counters: Counters,
    window: SharedWindow,
    /// Data that arrives from this time on, in nanoseconds, tells the handshaker something: that the
    /// peer has the keys, or has settled on them. [`NO_NEWS`] where it tells nothing.
    news_from: AtomicU64,
}

const NO_NEWS: u64 = u64::MAX;

/// Consecutive counters that nobody else seals under. Sealing consumes it, so that no counter is
/// used twice; counters not used for want of records are lost, which harms nothing.
#[must_use = "its counters are lost unless something is sealed under them"]
#[derive(Debug)]
pub struct Reservation {
    transport: Index,
    first: u64,
    count: u32,
}

impl Reservation {
    /// The first counter.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of counters.
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Transport {
    pub(crate) fn new(
        peer: PeerId,
        role: Role,
        (local_index, remote_index): (Index, Index),
        suite: Suite,
        keys: &SessionKeys,
        now: BootTime,
    ) -> Self {
        Self {
            peer,
            role,
            local_index,
            remote_index,
            created_at: now,
            send_key: LazyKey::new(suite, &keys.send),
            receive_key: LazyKey::new(suite, &keys.receive),
            counters: Counters::new(),
            window: SharedWindow::new(),
            news_from: AtomicU64::new(match role {
                Role::Initiator => NO_NEWS,
                Role::Responder => 0,
            }),
        }
    }

    /// The index under which the peer sends to us.
    pub fn local_index(&self) -> Index {
        self.local_index
    }

    /// The index under which we send to the peer.
    pub fn remote_index(&self) -> Index {
        self.remote_index
    }

    /// The peer that the keys belong to.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The time at which the keys were derived.
    pub fn created_at(&self) -> BootTime {
        self.created_at
    }

    /// Our role in the handshake.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The cipher.
    pub fn suite(&self) -> Suite {
        self.send_key.suite()
    }

    /// Reserves `count` consecutive counters.
    ///
    /// `None` once the keys must not be used any more. §6.2: "after Reject-After-Messages transport
    /// data messages or after the current secure session is Reject-After-Time seconds old …
    /// WireGuard will refuse to send any more transport data messages using the current secure
    /// session".
    pub fn reserve(&self, count: u32, now: BootTime) -> Option<Reservation> {
        if self.is_expired(now) {
            return None;
        }
        let first = self.counters.reserve(count)?;
        Some(Reservation {
            transport: self.local_index,
            first,
            count,
        })
    }

    /// Ends the keys for sending, for good: no counter is handed out any more. For a machine whose
    /// copy may have these keys as well, and would use the same counters.
    pub fn retire(&self) {
        self.counters.retire();
    }

    /// Writes the data header of every record and seals the record in place.
    ///
    /// `buffer` holds records of `stride` bytes, the last may be shorter: each has
    /// [`DATA_HEADER_LEN`] bytes of room, the padded packet, and room for the tag.
    ///
    /// # Panics
    /// If the reservation is of another transport or has fewer counters than there are records, or
    /// if a record has no room for header and tag. The caller is responsible for the layout of the
    /// batch.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "taking the reservation away is what keeps a counter from being used twice"
    )]
    pub fn seal_batch(&self, reservation: Reservation, buffer: &mut [u8], stride: usize) {
        let Reservation {
            transport,
            first,
            count,
        } = reservation;
        assert_eq!(
            transport, self.local_index,
            "the reservation is of another transport"
        );
        let layout = layout(stride);
        let records = layout.count(buffer.len());
        assert!(
            records <= count as usize,
            "more records than reserved counters"
        );
        for (record, counter) in buffer.chunks_mut(stride).zip(first..) {
            let header = DataHeader {
                receiver: self.remote_index,
                counter,
            };
            record[..DATA_HEADER_LEN].copy_from_slice(&header.to_bytes());
        }
        self.send_key.prepared().seal_batch(first, buffer, layout);
    }

    /// Opens consecutive records in place: `buffer` holds datagrams of `stride` bytes, the last may
    /// be shorter. Says for every record what became of it; only opened ones hold plaintext,
    /// between header and tag. Records past [`MAX_RECORDS`] are in none of the sets.
    ///
    /// Counters are judged before opening, which is dear, and remembered after, when the record is
    /// known to be the peer's. The window is locked once for each, not while opening.
    pub fn open_batch(&self, buffer: &mut [u8], stride: usize, now: BootTime) -> OpenedBatch {
        let layout = layout(stride);
        let records = layout.count(buffer.len()).min(MAX_RECORDS);
        let mut batch = OpenedBatch::of(records);
        if self.is_expired(now) {
            batch.put_all(Outcome::Expired);
            return batch;
        }
        let mut counters = [0; MAX_RECORDS];
        self.judge(buffer, stride, &mut counters, &mut batch);

        let mut start = 0;
        while let Some(run) = batch.next_candidates(start) {
            let bytes = run.start * stride..buffer.len().min(run.end * stride);
            let authentic = self.receive_key.prepared().open_batch(
                &counters[run.clone()],
                &mut buffer[bytes],
                layout,
            );
            for record in run.clone() {
                if !authentic.get(record - run.start) {
                    batch.put(record, Outcome::NotAuthentic);
                }
            }
            start = run.end;
        }
        self.remember(&counters, &mut batch);
        batch
    }

    /// §6.2, sending: "WireGuard will try to create a new secure session … after it has sent
    /// Rekey-After-Messages transport data messages" or, "if the peer is the initiator", once the
    /// session is Rekey-After-Time old.
    pub fn wants_rekey_on_send(&self, now: BootTime) -> bool {
        let is_old =
            self.role == Role::Initiator && now.has_passed(self.created_at, REKEY_AFTER_TIME);
        is_old || self.counters.want_rekey()
    }

    /// §6.2, receiving: the initiator makes a new session "if … the current secure session is
    /// Reject-After-Time − Keepalive-Timeout − Rekey-Timeout seconds old", so that an end that only
    /// receives renews in time as well.
    pub fn wants_rekey_on_receive(&self, now: BootTime) -> bool {
        let limit = REJECT_AFTER_TIME - KEEPALIVE_TIMEOUT - REKEY_TIMEOUT;
        self.role == Role::Initiator && now.has_passed(self.created_at, limit)
    }

    /// To be called after authentic data arrived: true exactly once, for a responder, whose caller
    /// then tells [`Handshaker::handle_confirmed`](crate::Handshaker::handle_confirmed). Once for an
    /// initiator too, where handshakes crossed and the peer settles on these keys.
    pub fn confirm(&self, now: BootTime) -> bool {
        let is_news = |from: u64| from != NO_NEWS && now.as_nanos() >= from;
        is_news(self.news_from.load(Relaxed)) && is_news(self.news_from.swap(NO_NEWS, Relaxed))
    }

    /// True if the first data has come under the keys of a responder.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.news_from.load(Relaxed) == NO_NEWS
    }

    /// Has [`confirm`](Self::confirm) say so if data still arrives under these keys from `from` on.
    pub(crate) fn watch_from(&self, from: BootTime) {
        self.news_from.store(from.as_nanos(), Relaxed);
    }

    /// True if the keys are [`REJECT_AFTER_TIME`] old: they neither send nor receive.
    pub fn is_expired(&self, now: BootTime) -> bool {
        now.has_passed(self.created_at, REJECT_AFTER_TIME)
    }

    /// True if data may be sent under these keys at `now`.
    pub fn can_send(&self, now: BootTime) -> bool {
        !self.is_expired(now) && self.counters.are_left()
    }

    /// Parses the headers and sorts out what need not be opened. The rest are candidates, whose
    /// counters are filled in.
    fn judge(
        &self,
        buffer: &[u8],
        stride: usize,
        counters: &mut [u64; MAX_RECORDS],
        batch: &mut OpenedBatch,
    ) {
        let window = self.window.lock();
        for (index, (record, slot)) in buffer.chunks(stride).zip(counters).enumerate() {
            let outcome = match DataHeader::parse(record) {
                None => Outcome::Malformed,
                Some(header) if header.receiver != self.local_index => Outcome::Malformed,
                Some(DataHeader { counter, .. }) if counter >= REJECT_AFTER_MESSAGES => {
                    Outcome::Expired
                }
                Some(DataHeader { counter, .. }) => {
                    *slot = counter;
                    match window.check(counter) {
                        ReplayVerdict::Fresh => continue,
                        ReplayVerdict::Replayed => Outcome::Replayed,
                        ReplayVerdict::TooOld => Outcome::TooOld,
                    }
                }
            };
            batch.put(index, outcome);
        }
    }

    /// Commits the counters of what was opened. Another worker, or an earlier record of this very
    /// batch, may have brought the same counter since it was judged.
    fn remember(&self, counters: &[u64; MAX_RECORDS], batch: &mut OpenedBatch) {
        if batch.opened().is_empty() {
            return;
        }
        let mut window = self.window.lock();
        for record in batch.opened().iter() {
            match window.commit(counters[record]) {
                ReplayVerdict::Fresh => {}
                ReplayVerdict::Replayed => batch.put(record, Outcome::Replayed),
                ReplayVerdict::TooOld => batch.put(record, Outcome::TooOld),
            }
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("peer", &self.peer)
            .field("role", &self.role)
            .field("local_index", &self.local_index)
            .field("remote_index", &self.remote_index)
            .field("suite", &self.suite())
            .finish_non_exhaustive()
    }
}

fn layout(stride: usize) -> Layout {
    assert!(stride > 0, "records have a length");
    Layout {
        head_len: DATA_HEADER_LEN,
        stride,
    }
}

#[cfg(test)]
mod tests;
