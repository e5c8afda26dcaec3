//! The three key pairs that a peer may have at a time.

use crate::constants::RESETTLE_AFTER;
use crate::ids::Index;
use crate::transport::{Role, Transport};
use culvert_base::BootTime;
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
/// If the path swaps a response and an initiation, the end that receives them sees two handshakes
/// one after the other, and takes the second pair. The other end saw them cross, and settled on the
/// first. The messages do not show which case it is, but later data does: an end that settled on
/// the first pair goes on sending under it ([`RESETTLE_AFTER`]).
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
        now: BootTime,
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

    /// The pair that waits for the peer's first data, and becomes `current` by it.
    pub(super) fn awaited(&self, is_ours_preferred: bool) -> Option<&Arc<Transport>> {
        let stays = self.crossed && is_ours_preferred;
        self.next.as_ref().filter(|_| !stays)
    }

    /// The index of the pair that waits for the peer's first data, if that has come.
    pub(super) fn unheard(&self) -> Option<Index> {
        let next = self.next.as_ref()?;
        next.is_confirmed().then(|| next.local_index())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PeerId;
    use crate::noise::SessionKeys;
    use culvert_aead::Suite;
    use zeroize::Zeroizing;

    const START: BootTime = BootTime::from_nanos(1_000_000_000_000);

    fn keys(role: Role, index: u32) -> Arc<Transport> {
        let keys = SessionKeys {
            send: Zeroizing::new([1; 32]),
            receive: Zeroizing::new([2; 32]),
        };
        let indices = (Index(index), Index(index + 100));
        let suite = Suite::default();
        Arc::new(Transport::new(
            PeerId(0),
            role,
            indices,
            suite,
            &keys,
            START,
        ))
    }

    /// Ours, and then the peer's, which its first data confirms: what an end has that saw one after the
    /// other what the peer saw cross.
    fn ours_then_theirs(is_ours_preferred: bool) -> Slots {
        let mut slots = Slots::default();
        slots.put_initiated(keys(Role::Initiator, 1));
        slots.put_responded(keys(Role::Responder, 2));
        let confirmed = slots.confirm(Index(2), is_ours_preferred, START);
        assert!(confirmed.is_some());
        assert_eq!(slots.sending().unwrap().local_index(), Index(2));
        slots
    }

    #[test]
    fn data_under_replaced_keys_of_ours_is_news_once_nothing_can_still_be_on_its_way() {
        let slots = ours_then_theirs(true);
        let ours = slots.previous.as_ref().unwrap();
        let until = START.saturating_add(RESETTLE_AFTER);
        let just_before = BootTime::from_nanos(until.as_nanos() - 1);
        assert!(!ours.confirm(just_before));
        assert!(ours.confirm(until));
        assert!(!ours.confirm(until), "told once");
    }

    #[test]
    fn data_under_replaced_keys_is_no_news_where_theirs_are_preferred() {
        let slots = ours_then_theirs(false);
        let ours = slots.previous.as_ref().unwrap();
        assert!(!ours.confirm(START.saturating_add(RESETTLE_AFTER)));
    }

    #[test]
    fn a_peer_that_goes_on_under_the_previous_keys_is_answered_under_them() {
        let mut slots = ours_then_theirs(true);
        assert!(!slots.resettle(Index(2)), "those are current");
        assert!(!slots.resettle(Index(3)), "those are nobody's");
        assert!(slots.resettle(Index(1)));
        assert_eq!(slots.sending().unwrap().local_index(), Index(1));
        assert!(slots.receiving().any(|keys| keys.local_index() == Index(2)));
    }
}
