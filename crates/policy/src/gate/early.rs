//! Later fragments of clients that came before the first one of their datagram.
//!
//! Networks reorder. A fragment without ports waits here until the first one has been judged, and is judged itself then.
//! Linux puts what comes from resources in order before it gets to a gate, so there are none of those.

use super::PeerKey;
use super::datagram::DatagramKey;
use super::holders::{Room, Shared, room};
use culvert_base::BootTime;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Fragments of one client that wait: one datagram of 64 KiB has 47 at the tunnel's MTU. Nor may a client have more than there is
/// room for. Beyond either bound the next one takes the place of the client's oldest.
const MAX_PER_CLIENT: usize = 64;
/// Fragments that wait in all: the shares of 32 clients, 4 MiB at most.
const MAX_FRAGMENTS: usize = 32 * MAX_PER_CLIENT;
/// Bytes of one fragment that waits: more than the MTU of any tunnel over Ethernet.
const MAX_FRAGMENT_LEN: usize = 2048;
/// The longest that one waits. Paths differ by some ten milliseconds; a first fragment that is a second late is lost.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Held {
    key: DatagramKey,
    at: BootTime,
    packet: Box<[u8]>,
}

/// The fragments that wait.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Oldest first. Clients with none are not here.
    of_client: BTreeMap<PeerKey, VecDeque<Held>>,
    len: usize,
    /// Those that waited in vain.
    lost: u64,
}

impl Early {
    /// Keeps a copy of a fragment. False where it is too long, or where there are more clients than there is room for.
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
        let (victim, count) = match self.room(peer) {
            Room::Free => (peer, 0),
            Room::OwnShare => (peer, 1),
            Room::Crowded(count) => (peer, count),
            Room::OfLargest => (self.largest().unwrap_or(peer), 1),
            Room::Full => return false,
        };
        if let Some(held) = self.of_client.get_mut(&victim) {
            let lost = held.drain(..count.min(held.len())).count();
            self.lost += lost as u64;
            self.len -= lost;
            if held.is_empty() {
                self.of_client.remove(&victim);
            }
        }
        self.of_client.entry(peer).or_default().push_back(Held {
            key,
            at: now,
            packet: packet.into(),
        });
        self.len += 1;
        true
    }

    fn room(&self, peer: PeerKey) -> Room {
        let own = self.of_client.get(&peer);
        let clients = self.of_client.len() + usize::from(own.is_none());
        let table = Shared {
            free: MAX_FRAGMENTS - self.len,
            share: MAX_PER_CLIENT,
            equal_part: MAX_FRAGMENTS / clients,
        };
        room(own.map_or(0, VecDeque::len), table)
    }

    /// The client that has the most. It is looked for only where there is no room for one that has few.
    fn largest(&self) -> Option<PeerKey> {
        let largest = self.of_client.iter().max_by_key(|(_, held)| held.len());
        largest.map(|(peer, _)| *peer)
    }

    /// Takes out those of a client's datagram whose first fragment has come, in the order in which they came.
    pub(super) fn take(
        &mut self,
        key: &DatagramKey,
        peer: PeerKey,
        now: BootTime,
    ) -> Vec<Box<[u8]>> {
        let Some(held) = self.of_client.get_mut(&peer) else {
            return Vec::new();
        };
        let before = held.len();
        self.lost += expire(held, now);
        let all = std::mem::take(held).into_iter();
        let (taken, retained): (VecDeque<Held>, _) = all.partition(|held| held.key == *key);
        *held = retained;
        self.len -= before - held.len();
        if held.is_empty() {
            self.of_client.remove(&peer);
        }
        taken.into_iter().map(|held| held.packet).collect()
    }

    /// Drops those that have waited for too long.
    pub(super) fn expire(&mut self, now: BootTime) {
        self.of_client.retain(|_, held| {
            let expired = expire(held, now);
            self.lost += expired;
            self.len -= expired as usize;
            !held.is_empty()
        });
    }

    /// True if fragments of a client's datagram wait.
    pub(super) fn holds(&self, key: &DatagramKey, peer: PeerKey) -> bool {
        let held = self.of_client.get(&peer);
        held.is_some_and(|held| held.iter().any(|held| held.key == *key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fragments that were dropped, since the first one of their datagram did not come in time.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

/// Drops those of one client that have waited for too long, and counts them.
fn expire(held: &mut VecDeque<Held>, now: BootTime) -> u64 {
    let lasting = held.partition_point(|held| now.has_passed(held.at, MAX_WAIT));
    held.drain(..lasting).count() as u64
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

    fn take(early: &mut Early, peer: u32, identification: u32, now: BootTime) -> Vec<Box<[u8]>> {
        early.take(&key(identification), PeerKey(peer), now)
    }

    #[test]
    fn fragments_are_taken_out_by_their_datagram_in_order_and_once() {
        let mut early = Early::default();
        for byte in [1, 2, 3] {
            assert!(early.hold(key(7), PeerKey(1), &[byte], START));
            hold(&mut early, 1, 8, START);
        }
        assert!(take(&mut early, 2, 7, START).is_empty(), "another client's");
        let taken = take(&mut early, 1, 7, millis(1));
        let taken: Vec<u8> = taken.iter().map(|it| it[0]).collect();
        assert_eq!(taken, [1, 2, 3]);
        assert!(take(&mut early, 1, 7, millis(1)).is_empty());
        assert_eq!(take(&mut early, 1, 8, millis(1)).len(), 3);
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
        assert_eq!(take(&mut early, 1, 7, millis(1_000)).len(), 0);
        assert_eq!(take(&mut early, 1, 8, millis(1_000)).len(), 1);
        assert_eq!(early.lost(), 1);
        assert!(early.is_empty());
        hold(&mut early, 1, 9, millis(2_000));
        early.expire(millis(3_000));
        assert_eq!(early.lost(), 2);
        assert!(early.is_empty() && early.of_client.is_empty());
    }

    #[test]
    fn a_client_that_sends_too_many_loses_its_own() {
        let mut early = Early::default();
        hold(&mut early, 2, 0, START);
        let count = MAX_PER_CLIENT as u32;
        for identification in 1..=count + 1 {
            hold(&mut early, 1, identification, START);
        }
        assert!(take(&mut early, 1, 1, START).is_empty());
        assert_eq!(take(&mut early, 2, 0, START).len(), 1);
        assert_eq!(take(&mut early, 1, count + 1, START).len(), 1);
        assert_eq!(early.lost(), 1);
    }

    #[test]
    fn clients_that_take_what_they_can_keep_nobody_out() {
        let mut early = Early::default();
        for peer in 0..200 {
            for number in 0..2 * MAX_PER_CLIENT as u32 {
                assert!(
                    early.hold(key(number), PeerKey(peer), &[0], START),
                    "{peer}"
                );
            }
        }
        assert!(early.len <= MAX_FRAGMENTS);
        let equal_part = MAX_FRAGMENTS / 200;
        let mut counts = early.of_client.values().map(VecDeque::len);
        assert!(
            counts.all(|count| count >= equal_part),
            "nobody lost any of that"
        );
        hold(&mut early, 999, 9_999, START);
        assert_eq!(take(&mut early, 999, 9_999, START).len(), 1);
        assert!(!early.hold(key(1), PeerKey(9), &[0; MAX_FRAGMENT_LEN + 1], START));
    }
}
