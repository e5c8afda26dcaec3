//! Messages on their way from workers to who answers them, in lanes, so that no network fills them all.

use crossbeam_queue::ArrayQueue;
use culvert_datapath::OuterMessage;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Lanes. Of 32, two are the same two as somebody else's by a chance of 1 in 496.
const LANES: usize = 32;

/// Messages that wait. Each network has two lanes, by a keyed hash of it, and its messages go into the shorter
/// one. Lanes are served in turns.
///
/// A flood of one network fills its two lanes. A network that shares only one of them has the other. Workers push
/// millions of messages a second in a flood, and so the lanes have no lock. The bounded tables of `culvert-fair` are
/// exact where this is a matter of chance, but take some microseconds for each entry.
pub(crate) struct MessageQueue<const MAX: usize> {
    lanes: Vec<ArrayQueue<OuterMessage<MAX>>>,
    /// A key that nobody knows: lanes can't be chosen from outside.
    hashes: RandomState,
    /// The lane whose turn it is.
    turn: AtomicUsize,
}

impl<const MAX: usize> MessageQueue<MAX> {
    /// A queue whose lanes have room for `lane_messages` each.
    pub(crate) fn new(lane_messages: usize) -> Self {
        Self {
            lanes: (0..LANES).map(|_| ArrayQueue::new(lane_messages)).collect(),
            hashes: RandomState::new(),
            turn: AtomicUsize::new(0),
        }
    }

    /// False where both lanes of the sender's network are full: the message is dropped.
    pub(crate) fn push(&self, message: OuterMessage<MAX>) -> bool {
        let [one, other] = self.lanes_of(message.source);
        let (shorter, longer) = match one.len() <= other.len() {
            true => (one, other),
            false => (other, one),
        };
        match shorter.push(message) {
            Ok(()) => true,
            // Another worker has filled it meanwhile.
            Err(message) => longer.push(message).is_ok(),
        }
    }

    /// The message whose turn it is. For one thread alone: of two readers one could find nothing.
    pub(crate) fn pop(&self) -> Option<OuterMessage<MAX>> {
        let turn = self.turn.load(Ordering::Relaxed);
        let mut lanes = (turn..turn + LANES).map(|lane| lane % LANES);
        let (lane, message) = lanes.find_map(|lane| Some((lane, self.lanes[lane].pop()?)))?;
        self.turn.store((lane + 1) % LANES, Ordering::Relaxed);
        Some(message)
    }

    /// The number of messages that wait.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(ArrayQueue::len).sum()
    }

    fn lanes_of(&self, source: SocketAddr) -> [&ArrayQueue<OuterMessage<MAX>>; 2] {
        let hash = self.hashes.hash_one(network(source.ip()));
        let below = |bits: u64, limit: usize| usize::try_from(bits).unwrap_or(0) % limit;
        let one = below(hash & u64::from(u32::MAX), LANES);
        let other = (one + 1 + below(hash >> 32, LANES - 1)) % LANES;
        [&self.lanes[one], &self.lanes[other]]
    }
}

/// An IPv4 address; of IPv6, the 48 bits that a site has (RFC 6177).
fn network(address: IpAddr) -> IpAddr {
    const SITE: u128 = u128::MAX << (128 - 48);
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::from((v6.to_bits() & SITE).to_be_bytes()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_datapath::HandshakeMessage;

    const LANE_MESSAGES: usize = 128;

    type HandshakeQueue = MessageQueue<148>;

    fn from(address: &str) -> HandshakeMessage {
        let source = SocketAddr::new(address.parse().unwrap(), 51820);
        HandshakeMessage::new(&[1; 148], source, None).unwrap()
    }

    /// Pushes messages of `sources` until one finds no room. Returns how many there are then.
    fn flood(queue: &HandshakeQueue, sources: impl Iterator<Item = String>) -> usize {
        let mut sources = sources;
        assert!(sources.any(|source| !queue.push(from(&source))));
        queue.len()
    }

    /// The source of the first of many others that has room.
    fn newcomer(queue: &HandshakeQueue) -> SocketAddr {
        let others = (1..=255).map(|host| from(&format!("198.51.100.{host}")));
        let mut sources = others.map(|message| (message.source, queue.push(message)));
        sources.find(|(_, has_room)| *has_room).unwrap().0
    }

    #[test]
    fn a_flood_of_one_address_or_of_one_ipv6_site_fills_two_lanes_and_no_more() {
        let queue = HandshakeQueue::new(LANE_MESSAGES);
        let one = (0..).map(|_| "192.0.2.1".to_owned());
        assert_eq!(flood(&queue, one), 2 * LANE_MESSAGES);
        let queue = HandshakeQueue::new(LANE_MESSAGES);
        let site = (0..65_536).map(|subnet| format!("2001:db8:1:{subnet:x}::1"));
        assert_eq!(flood(&queue, site), 2 * LANE_MESSAGES);
    }

    #[test]
    fn nearly_everybody_else_has_room_in_a_flood_of_one_address() {
        let queue = HandshakeQueue::new(LANE_MESSAGES);
        flood(&queue, (0..).map(|_| "192.0.2.1".to_owned()));
        let others = (0..1_000).map(|host| format!("10.0.{}.{}", host / 250, host % 250));
        let refused = others.filter(|other| !queue.push(from(other))).count();
        // Two by chance, of 1,000; 21 once in 10^13 runs.
        assert!(refused <= 20, "{refused}");
    }

    #[test]
    fn a_newcomer_in_a_flood_is_answered_within_one_turn_of_the_lanes() {
        let queue = HandshakeQueue::new(LANE_MESSAGES);
        flood(&queue, (0..).map(|_| "192.0.2.1".to_owned()));
        let newcomer = newcomer(&queue);
        // One lane is the newcomer's, and two the flood's.
        let turn: Vec<_> = (0..3).map(|_| queue.pop().unwrap().source).collect();
        assert!(turn.contains(&newcomer), "{turn:?}");
    }

    #[test]
    fn what_was_pushed_comes_out_once() {
        let queue = HandshakeQueue::new(LANE_MESSAGES);
        let hosts = || (0..200).map(|host| format!("203.0.113.{host}"));
        let pushed = hosts().filter(|host| queue.push(from(host))).count();
        let mut popped = 0;
        while queue.pop().is_some() {
            popped += 1;
        }
        assert_eq!((pushed, popped, queue.len()), (200, 200, 0));
    }
}
