//! Datagrams that come to a client in parts: a later fragment passes with the flow of its first one.

use super::fragmented::Fragmented;
use super::{ClientGate, INBOUND, is_idle, protocol_of, seconds, stranger};
use crate::gate::admit::datagram;
use crate::gate::client_flows::{ClientFlows, Found};
use crate::gate::flows::FlowRef;
use crate::gate::heading::{Heading, Kind};
use crate::gate::seed::{Seed, fold};
use crate::gate::{DropReason, InboundRules, PeerKey};
use culvert_base::BootTime;
use std::sync::{MutexGuard, PoisonError};

impl ClientGate {
    /// Remembers the datagram of a first fragment. True if later ones of it wait.
    #[cold]
    pub(super) fn remember(
        &self,
        heading: &Heading,
        found: &Found,
        peer: PeerKey,
        now: BootTime,
    ) -> bool {
        let key = datagram(heading, false);
        let (place, generation) = ClientFlows::number(found);
        let flow = FlowRef { place, generation };
        let mut fragments = self.fragments();
        fragments
            .admitted
            .insert(self.hash_datagram(heading), key, (peer, flow), now);
        fragments.early.holds(&key, peer)
    }

    /// The flow of a later fragment.
    #[cold]
    pub(super) fn of_fragment(
        &self,
        heading: &Heading,
        rules: Option<&InboundRules>,
        now: BootTime,
    ) -> Result<Found, DropReason> {
        let key = datagram(heading, false);
        let fragments = self.fragments();
        let flow = fragments
            .admitted
            .find(self.hash_datagram(heading), &key, now);
        let flow = flow.and_then(|flow| self.flows.at((flow.place, flow.generation)));
        let (found, word) = flow.ok_or(stranger(heading, DropReason::Fragment))?;
        let is_open = found.flags & INBOUND == 0
            || rules.is_some_and(|rules| rules.open_fragment(heading, word, now));
        match is_open && !is_idle(&found, protocol_of(word), seconds(now)) {
            true => Ok(found),
            false => Err(DropReason::NotAFlow),
        }
    }

    /// Keeps a fragment that was dropped for [`DropReason::Fragment`] until the first one of its datagram has come. False
    /// where it is not kept.
    #[cold]
    pub fn hold(&self, now: BootTime, peer: PeerKey, packet: &[u8]) -> bool {
        let mut heading = Heading::NONE;
        let is_later = heading.read(packet).is_ok() && heading.kind == Kind::LaterFragment;
        let Some(packet) = packet.get(..heading.len).filter(|_| is_later) else {
            return false;
        };
        let key = datagram(&heading, false);
        self.fragments().early.hold(key, peer, packet, now)
    }

    /// The fragments of `peer` that waited for `first`, which was admitted ([`Verdict::AdmitFirst`](crate::gate::Verdict::AdmitFirst)),
    /// as they came: they are to be judged behind it.
    #[cold]
    pub fn take_released(&self, now: BootTime, peer: PeerKey, first: &[u8]) -> Vec<Box<[u8]>> {
        let mut heading = Heading::NONE;
        match heading.read(first) {
            Ok(()) => {
                let key = datagram(&heading, false);
                self.fragments().early.take(&key, peer, now)
            }
            Err(_) => Vec::new(),
        }
    }

    /// Drops fragments that have waited for too long, where no packet comes that would.
    pub fn sweep(&self, now: BootTime) {
        self.fragments().early.expire(now);
    }

    /// Fragments that were kept in vain.
    #[must_use]
    pub fn fragments_lost(&self) -> u64 {
        self.fragments().early.lost()
    }

    fn fragments(&self) -> MutexGuard<'_, Fragmented> {
        self.fragments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn hash_datagram(&self, heading: &Heading) -> u64 {
        let Seed([a, b, c, d]) = self.seed;
        let low = fold(heading.source as u64 ^ a, heading.destination as u64 ^ b);
        let high = fold(
            (heading.source >> 64) as u64 ^ c,
            (heading.destination >> 64) as u64 ^ d,
        );
        fold(low ^ u64::from(heading.identification), high ^ b)
    }
}
