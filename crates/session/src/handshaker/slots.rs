//! The three key pairs that a peer may have at a time.

use crate::constants::RESETTLE_AFTER;
use crate::ids::Index;
use crate::time::Time;
use crate::transport::{Role, Transport};
use std::sync::Arc;

/// Previous, current and next, as the kernel has them: all three receive, `current` sends, and
/// `next` is a responder's pair until the peer shows, with its first data, that it has it.
///
/// Both ends may initiate at the same time, and then both handshakes complete: each end has its own
/// as `current` and the other's as `next`. They agree on one of the two by the order of their
/// public keys, and until they do, each receives under both. Two differences to the kernel make
/// that loss-free: completing a handshake of ours leaves `next` alone, and responding leaves
/// `previous` alone.
///
/// Where the path swaps a response and an initiation, the end that receives them sees two handshakes
/// one after the other, and takes the second pair, where the other end saw them cross and settles on
/// the first. Nothing in the messages tells the two cases apart; what follows does: an end that
/// settled on the first pair goes on sending under it ([`RESETTLE_AFTER`]).
#[derive(Default)]
pub(super) struct Slots {
    previous: Option<Arc<Transport>>,
    current: Option<Arc<Transport>>,
    next: Option<Arc<Transport>>,
    /// A handshake of ours completed while `next` waited.
    crossed: bool,
}

impl Slots {
    /// We initiated and have the response: the peer has the keys. Returns what fell out.
    pub(super) fn put_initiated(&mut self, transport: Arc<Transport>) -> Option<Arc<Transport>> {
        let dropped = self.previous.take();
        self.previous = self.current.replace(transport);
        self.crossed = self.next.is_some();
        dropped
    }

    /// We responded: the peer may never get our response. Returns what fell out.
    pub(super) fn put_responded(&mut self, transport: Arc<Transport>) -> Option<Arc<Transport>> {
        self.crossed = false;
        self.next.replace(transport)
    }

    /// Data arrived under `index`. If those are the keys that waited, they wait no longer: they
    /// become `current`, unless handshakes crossed and the one of ours is the one that both ends
    /// settle on. Returns whether they waited, and what fell out.
    pub(super) fn confirm(
        &mut self,
        index: Index,
        is_ours_preferred: bool,
        now: Time,
    ) -> Option<(Arc<Transport>, Option<Arc<Transport>>)> {
        let next = self.next.take_if(|next| next.local_index() == index)?;
        let dropped = self.previous.take();
        if self.crossed && is_ours_preferred {
            self.previous = Some(Arc::clone(&next));
        } else {
            self.previous = self.current.replace(Arc::clone(&next));
            let ours = self.previous.as_ref();
            let ours = ours.filter(|keys| is_ours_preferred && keys.role() == Role::Initiator);
            if let Some(ours) = ours {
                ours.watch_from(now.saturating_add(RESETTLE_AFTER));
            }
        }
        self.crossed = false;
        Some((next, dropped))
    }

    /// The peer still sends under `index` when it no longer should. If those are the previous keys,
    /// the peer has settled on them, and so do we. Returns whether they are.
    pub(super) fn resettle(&mut self, index: Index) -> bool {
        let is_previous = self
            .previous
            .as_ref()
            .is_some_and(|previous| previous.local_index() == index);
        if is_previous {
            std::mem::swap(&mut self.previous, &mut self.current);
        }
        is_previous
    }

    /// The pair to send under; whether it is still fit for that is for the caller to ask.
    pub(super) fn sending(&self) -> Option<&Arc<Transport>> {
        self.current.as_ref()
    }

    /// The pair that waits for the peer's first data.
    pub(super) fn next(&self) -> Option<&Arc<Transport>> {
        self.next.as_ref()
    }

    /// All pairs under which data may arrive.
    pub(super) fn receiving(&self) -> impl Iterator<Item = &Arc<Transport>> {
        [&self.current, &self.next, &self.previous]
            .into_iter()
            .flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.receiving().next().is_none()
    }
}
