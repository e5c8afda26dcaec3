//! Later fragments of clients that came before the first one of their datagram.
//!
//! Networks reorder. A fragment without ports waits here until the first one has been judged, and is judged itself then.
//! Linux puts what comes from resources in order before it gets to a gate, so there are none of those.

use super::PeerKey;
use super::datagram::DatagramKey;
use culvert_base::BootTime;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Fragments of one client that wait: one datagram of 64 KiB has 47 at the tunnel's MTU. The next one takes the place of the
/// client's oldest.
const MAX_PER_CLIENT: usize = 64;
/// Fragments that wait in all: the shares of eight clients, 1 MiB at most. When there are more, the oldest of the client that
/// has the most makes room.
const MAX_FRAGMENTS: usize = 8 * MAX_PER_CLIENT;
/// Bytes of one fragment that waits: more than the MTU of any tunnel over Ethernet.
const MAX_FRAGMENT_LEN: usize = 2048;
/// The longest that one waits. Paths differ by some ten milliseconds; a first fragment that is a second late is lost.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Held {
    key: DatagramKey,
    peer: PeerKey,
    at: BootTime,
    packet: Box<[u8]>,
}

/// The fragments that wait, oldest first.
#[derive(Debug, Default)]
pub(super) struct Early {
    held: VecDeque<Held>,
    per_client: BTreeMap<PeerKey, usize>,
    /// Those that waited in vain.
    lost: u64,
}

impl Early {
    /// Keeps a copy of a fragment. False where it is too long.
    pub(super) fn hold(
        &mut self,
        key: DatagramKey,
        peer: PeerKey,
        packet: &[u8],
        now: BootTime,
    ) -> bool {
        if packet.len() > MAX_FRAGMENT_LEN {
            return false;
        }
        self.expire(now);
        self.make_room(peer);
        self.held.push_back(Held {
            key,
            peer,
            at: now,
            packet: packet.into(),
        });
        *self.per_client.entry(peer).or_default() += 1;
        true
    }

    /// Takes out those of a datagram whose first fragment has come, in the order in which they came.
    pub(super) fn take(&mut self, key: &DatagramKey, now: BootTime) -> Vec<Box<[u8]>> {
        self.expire(now);
        let mut taken = Vec::new();
        let mut place = 0;
        while place < self.held.len() {
            if self.held[place].key == *key {
                taken.extend(self.remove(place).map(|held| held.packet));
            } else {
                place += 1;
            }
        }
        taken
    }

    /// Drops those that have waited for too long.
    pub(super) fn expire(&mut self, now: BootTime) {
        let is_past = |held: &Held| now.has_passed(held.at, MAX_WAIT);
        while self.held.front().is_some_and(is_past) {
            self.lose(0);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Fragments that were dropped, since the first one of their datagram did not come in time.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    fn make_room(&mut self, peer: PeerKey) {
        let own = self.per_client.get(&peer).copied().unwrap_or(0);
        let victim = if own >= MAX_PER_CLIENT {
            peer
        } else if self.held.len() >= MAX_FRAGMENTS {
            let largest = self.per_client.iter().max_by_key(|(_, count)| **count);
            largest.map_or(peer, |(largest, _)| *largest)
        } else {
            return;
        };
        if let Some(place) = self.held.iter().position(|held| held.peer == victim) {
            self.lose(place);
        }
    }

    fn lose(&mut self, place: usize) {
        if self.remove(place).is_some() {
            self.lost += 1;
        }
    }

    fn remove(&mut self, place: usize) -> Option<Held> {
        let held = self.held.remove(place)?;
        if let Some(count) = self.per_client.get_mut(&held.peer) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&held.peer);
            }
        }
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_packet::ip::IpVersion;

    fn key(identification: u32) -> DatagramKey {
        DatagramKey {
            source: 1,
            destination: 2,
            identification,
            version: IpVersion::V4,
            protocol: None,
            is_of_client: true,
        }
    }

    const START: BootTime = BootTime::ZERO;

    fn millis(millis: u64) -> BootTime {
        BootTime::from_millis(millis)
    }

    fn hold(early: &mut Early, peer: u32, identification: u32, now: BootTime) {
        let packet = identification.to_be_bytes();
        assert!(early.hold(key(identification), PeerKey(peer), &packet, now));
    }

    #[test]
    fn fragments_are_taken_out_by_their_datagram_in_order_and_once() {
        let mut early = Early::default();
        for byte in [1, 2, 3] {
            assert!(early.hold(key(7), PeerKey(1), &[byte], START));
            hold(&mut early, 1, 8, START);
        }
        let taken: Vec<u8> = early
            .take(&key(7), millis(1))
            .iter()
            .map(|it| it[0])
            .collect();
        assert_eq!(taken, [1, 2, 3]);
        assert!(early.take(&key(7), millis(1)).is_empty());
        assert_eq!(early.take(&key(8), millis(1)).len(), 3);
        assert!(early.is_empty());
        assert_eq!(early.lost(), 0);
    }

    #[test]
    fn fragments_wait_for_a_second() {
        let mut early = Early::default();
        hold(&mut early, 1, 7, START);
        hold(&mut early, 1, 8, millis(1));
        early.expire(millis(999));
        assert_eq!(early.lost(), 0);
        assert_eq!(early.take(&key(7), millis(1_000)).len(), 0);
        assert_eq!(early.take(&key(8), millis(1_000)).len(), 1);
        assert_eq!(early.lost(), 1);
    }

    #[test]
    fn a_client_that_sends_too_many_loses_its_own() {
        let mut early = Early::default();
        hold(&mut early, 2, 0, START);
        let count = MAX_PER_CLIENT as u32;
        for identification in 1..=count + 1 {
            hold(&mut early, 1, identification, START);
        }
        assert!(early.take(&key(1), START).is_empty());
        assert_eq!(early.take(&key(0), START).len(), 1);
        assert_eq!(early.take(&key(count + 1), START).len(), 1);
    }

    #[test]
    fn clients_that_fill_it_keep_nobody_out() {
        let mut early = Early::default();
        for peer in 0..8 {
            for number in 0..MAX_PER_CLIENT as u32 {
                hold(&mut early, peer, peer * 1000 + number, START);
            }
        }
        assert_eq!(early.held.len(), MAX_FRAGMENTS);
        hold(&mut early, 9, 9_999, START);
        assert_eq!(early.held.len(), MAX_FRAGMENTS);
        assert_eq!(early.take(&key(9_999), START).len(), 1);
        assert!(!early.hold(key(1), PeerKey(9), &[0; MAX_FRAGMENT_LEN + 1], START));
    }
}
