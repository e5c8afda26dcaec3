//! The gateway's answers to packets of clients that the gate drops: ICMP, so that a program fails at once.

use crate::icmp_rate::ICMP_RATE;
use culvert_base::{BootTime, TokenBucket};
use culvert_packet::icmp::{MAX_V6_LEN, Unreachable, refusal};
use culvert_policy::gate::DropReason;
use culvert_session::PeerId;
use std::collections::VecDeque;

/// Answers that wait for the worker to send: it does so in the same turn, unless its socket is full. One more takes the
/// place of the last one of the peer that has most of them.
const MAX_WAITING: usize = 64;

/// Answers that have not left yet.
pub(crate) struct Refusals {
    waiting: VecDeque<(PeerId, Box<[u8]>)>,
    /// By the slot of the peer, as far as any was answered: 8 bytes for each peer that there is.
    tokens: Vec<TokenBucket<BootTime>>,
}

impl Refusals {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            tokens: Vec::new(),
        }
    }

    /// Answers a packet of a peer that was dropped, as it came, where its sender is to hear of that.
    #[cold]
    pub(crate) fn note(&mut self, peer: PeerId, packet: &[u8], reason: DropReason, now: BootTime) {
        let Some(kind) = kind(reason) else { return };
        let slot = peer.slot();
        if self.tokens.len() <= slot {
            self.tokens.resize(slot + 1, TokenBucket::FULL);
        }
        if !self.tokens[slot].wait(ICMP_RATE, now).is_zero() {
            return;
        }
        let mut answer = [0; MAX_V6_LEN];
        if let Some(len) = refusal(packet, kind, &mut answer)
            && self.makes_room_for(peer)
        {
            // It was there a moment ago.
            let _taken = self.tokens[slot].take(ICMP_RATE, now);
            self.waiting.push_back((peer, answer[..len].into()));
        }
    }

    /// Takes a place for an answer to a peer from the one that has most. False where that is the peer itself.
    fn makes_room_for(&mut self, peer: PeerId) -> bool {
        if self.waiting.len() < MAX_WAITING {
            return true;
        }
        let of = |peer: PeerId| self.waiting.iter().filter(|(of, _)| *of == peer).count();
        let most = self.waiting.iter().map(|(peer, _)| *peer);
        let Some(most) = most.max_by_key(|peer| of(*peer)) else {
            return true;
        };
        if of(most) <= of(peer) {
            return false;
        }
        let last = self.waiting.iter().rposition(|(of, _)| *of == most);
        last.is_some_and(|place| self.waiting.remove(place).is_some())
    }

    pub(crate) fn pop(&mut self) -> Option<(PeerId, Box<[u8]>)> {
        self.waiting.pop_front()
    }
}

/// The error that the sender hears; none where the packet is forged, belongs to nothing, or is an answer itself, and where it
/// is to be tried again.
const fn kind(reason: DropReason) -> Option<Unreachable> {
    match reason {
        DropReason::NoGrant
        | DropReason::Expired
        | DropReason::Protocol
        | DropReason::Port
        | DropReason::NotForwarded
        | DropReason::OutsideWithin
        | DropReason::HostAddress => Some(Unreachable::Prohibited),
        DropReason::NoPortLeft
        | DropReason::AddressTaken
        | DropReason::NoAddress
        | DropReason::FlowsFull
        | DropReason::PortlessFull => Some(Unreachable::Host),
        DropReason::Malformed
        | DropReason::HeaderChain
        | DropReason::SourceRouted
        | DropReason::ForgedSource
        | DropReason::IcmpType
        | DropReason::NotAFlow
        | DropReason::ForeignDestination
        | DropReason::NotOpened
        | DropReason::OtherGateway
        | DropReason::FlowRate
        | DropReason::Fragment => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmp_rate::INTERVAL;
    use culvert_packet::ip::IpView;

    const PEER: PeerId = PeerId(3);

    /// A UDP packet of a client to a server.
    fn packet() -> [u8; 28] {
        let mut packet = [0; 28];
        packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17]);
        packet[12..20].copy_from_slice(&[100, 64, 0, 9, 10, 0, 0, 1]);
        packet[20..26].copy_from_slice(&[0x9c, 0x40, 0, 53, 0, 8]);
        packet
    }

    fn answers(refusals: &mut Refusals) -> usize {
        std::iter::from_fn(|| refusals.pop()).count()
    }

    #[test]
    fn what_no_grant_allows_is_answered_from_the_clients_own_address() {
        let mut refusals = Refusals::new();
        refusals.note(PEER, &packet(), DropReason::Port, BootTime::ZERO);
        let (peer, answer) = refusals.pop().unwrap();
        assert_eq!(peer, PEER);
        let view = IpView::parse(&answer).unwrap();
        assert_eq!(view.source(), view.destination());
        assert_eq!(view.transport()[..2], [3, 13]);
        assert_eq!(view.transport()[8..], packet());
    }

    #[test]
    fn what_is_forged_or_belongs_to_nothing_is_not_answered() {
        let mut refusals = Refusals::new();
        for &reason in DropReason::ALL {
            refusals.note(PEER, &packet(), reason, BootTime::ZERO);
        }
        let answered = DropReason::ALL.iter().filter(|it| kind(**it).is_some());
        assert_eq!(answers(&mut refusals), answered.count());
        assert_eq!(kind(DropReason::ForgedSource), None);
        assert_eq!(kind(DropReason::NotAFlow), None);
    }

    #[test]
    fn fifty_are_answered_at_once_and_then_one_a_millisecond() {
        let mut refusals = Refusals::new();
        let mut now = BootTime::from_nanos(1_000_000_000);
        let count = |refusals: &mut Refusals, now: BootTime| {
            let mut answered = 0;
            for _ in 0..200 {
                refusals.note(PEER, &packet(), DropReason::NoGrant, now);
                answered += answers(refusals);
            }
            answered
        };
        assert_eq!(count(&mut refusals, now), 50);
        now = now.saturating_add(10 * INTERVAL);
        assert_eq!(count(&mut refusals, now), 10);
    }

    #[test]
    fn a_client_that_floods_takes_nothing_of_what_another_hears() {
        let mut refusals = Refusals::new();
        let now = BootTime::from_nanos(1_000_000_000);
        // Nobody takes the answers, and their number is bounded.
        for flood in 0..4 {
            for _ in 0..1_000 {
                refusals.note(PeerId(flood), &packet(), DropReason::NoGrant, now);
            }
        }
        assert_eq!(refusals.waiting.len(), MAX_WAITING);
        let quiet = PeerId(9);
        for _ in 0..3 {
            refusals.note(quiet, &packet(), DropReason::NoGrant, now);
        }
        let answered: Vec<PeerId> = std::iter::from_fn(|| Some(refusals.pop()?.0)).collect();
        assert_eq!(answered.len(), MAX_WAITING);
        assert_eq!(answered.iter().filter(|peer| **peer == quiet).count(), 3);
        for flood in 0..4 {
            let heard = answered.iter().filter(|peer| **peer == PeerId(flood));
            assert!((15..=16).contains(&heard.count()), "{answered:?}");
        }
    }
}
