//! Offers at once to a gateway, and the requests that wait for their turn.
//!
//! A gateway answers offers one after the other, and one that is not answered in time goes to another gateway or fails. So
//! no more are made at once than the gateway answers within a second; further requests wait here. Clients take turns,
//! so that one with many requests makes only itself wait.

use super::pair::Pair;
use crate::limits::{
    FIRST_OFFERS_AT_ONCE, GRANT_ANSWER_MS, MAX_OFFERS_AT_ONCE, MIN_OFFERS_AT_ONCE, OFFER_DELAY_MS,
};
use culvert_ids::{ClientId, GatewayId, ResourceId};
use culvert_wire::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of offers that a gateway may have unanswered. It has additive increase and multiplicative decrease (RFC
/// 5681, section 3.1), by the delay of answers (as RFC 6817): clients are to be spared a loss.
#[derive(Debug)]
struct Window {
    size: usize,
    /// Answers in time since the size has changed.
    in_time: usize,
    /// The time of the last decrease.
    shrunk: Option<Timestamp>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            size: FIRST_OFFERS_AT_ONCE,
            in_time: 0,
            shrunk: None,
        }
    }
}

impl Window {
    fn answered(&mut self, after_ms: u64, now: Timestamp) {
        if after_ms > OFFER_DELAY_MS {
            self.shrink(now);
            return;
        }
        self.in_time += 1;
        if self.in_time >= self.size {
            self.in_time = 0;
            self.size = (self.size + MIN_OFFERS_AT_ONCE).min(MAX_OFFERS_AT_ONCE);
        }
    }

    /// At most once in the time that an offer of before may be under way.
    fn shrink(&mut self, now: Timestamp) {
        let is_recent = |at: Timestamp| now.unix_ms() < at.unix_ms() + GRANT_ANSWER_MS;
        if self.shrunk.is_some_and(is_recent) {
            return;
        }
        self.shrunk = Some(now);
        self.in_time = 0;
        self.size = (self.size / 2).max(MIN_OFFERS_AT_ONCE);
    }
}

/// The window of one gateway, and the requests that wait for it.
#[derive(Debug, Default)]
struct OfferQueue {
    window: Window,
    next_turn: u64,
    turns: BTreeMap<u64, ClientId>,
    waiting: BTreeMap<ClientId, Waiting>,
    /// Each by the time at which its wait is over.
    due: BTreeSet<(Timestamp, Pair)>,
    /// The time of the timer that is set.
    timer: Option<Timestamp>,
}

/// The requests of one client, in the order in which they came.
#[derive(Debug)]
struct Waiting {
    turn: u64,
    resources: VecDeque<ResourceId>,
}

/// The queue of each gateway that has had an offer. There are as many as gateways have come.
#[derive(Debug, Default)]
pub(crate) struct OfferQueues {
    queues: BTreeMap<GatewayId, OfferQueue>,
    /// Gateways for which requests wait.
    busy: BTreeSet<GatewayId>,
}

impl OfferQueues {
    /// True if the gateway may get one more offer.
    pub(crate) fn has_room(&self, gateway: GatewayId, unanswered: usize) -> bool {
        let queue = self.queues.get(&gateway);
        unanswered < queue.map_or(FIRST_OFFERS_AT_ONCE, |queue| queue.window.size)
    }

    /// The gateway has begun anew: nothing is known of how fast it answers.
    pub(crate) fn begin(&mut self, gateway: GatewayId) {
        self.queues.entry(gateway).or_default().window = Window::default();
    }

    /// The gateway has answered an offer after this time.
    pub(crate) fn answered(&mut self, gateway: GatewayId, after_ms: u64, now: Timestamp) {
        let queue = self.queues.entry(gateway).or_default();
        queue.window.answered(after_ms, now);
    }

    /// The gateway has not answered an offer in time.
    pub(crate) fn timed_out(&mut self, gateway: GatewayId, now: Timestamp) {
        self.queues.entry(gateway).or_default().window.shrink(now);
    }

    pub(super) fn push(&mut self, gateway: GatewayId, pair: Pair, until: Timestamp) {
        let queue = self.queues.entry(gateway).or_default();
        let (client, resource) = pair;
        queue.due.insert((until, pair));
        match queue.waiting.get_mut(&client) {
            Some(waiting) => waiting.resources.push_back(resource),
            None => queue.take_turn(client, [resource].into()),
        }
        self.busy.insert(gateway);
    }

    pub(super) fn remove(&mut self, gateway: GatewayId, pair: Pair, until: Timestamp) {
        let Some(queue) = self.queues.get_mut(&gateway) else {
            return;
        };
        let (client, resource) = pair;
        queue.due.remove(&(until, pair));
        if let Some(waiting) = queue.waiting.get_mut(&client) {
            waiting.resources.retain(|other| *other != resource);
            if waiting.resources.is_empty() {
                queue.turns.remove(&waiting.turn);
                queue.waiting.remove(&client);
            }
        }
        if queue.waiting.is_empty() {
            self.busy.remove(&gateway);
        }
    }

    /// Gateways for which requests wait.
    pub(crate) fn busy(&self) -> impl Iterator<Item = GatewayId> {
        self.busy.iter().copied()
    }

    /// The request whose turn it is. The client's next one comes behind those of all others.
    pub(crate) fn next_turn(&mut self, gateway: GatewayId) -> Option<Pair> {
        let queue = self.queues.get_mut(&gateway)?;
        let (_, client) = queue.turns.pop_first()?;
        let resources = queue.waiting.remove(&client)?.resources;
        let resource = *resources.front()?;
        queue.take_turn(client, resources);
        Some((client, resource))
    }

    /// The requests that have waited long enough.
    pub(crate) fn overdue(&self, gateway: GatewayId, now: Timestamp) -> Vec<Pair> {
        let due = self.queues.get(&gateway).into_iter();
        let due = due.flat_map(|queue| &queue.due);
        let due = due.take_while(|(until, _)| *until <= now);
        due.map(|(_, pair)| *pair).collect()
    }

    /// The timer that is set for the gateway, and the one that is needed; none if these are the same.
    pub(crate) fn move_timer(
        &mut self,
        gateway: GatewayId,
    ) -> Option<(Option<Timestamp>, Option<Timestamp>)> {
        let queue = self.queues.get_mut(&gateway)?;
        let needed = queue.due.first().map(|(until, _)| *until);
        let set = std::mem::replace(&mut queue.timer, needed);
        (set != needed).then_some((set, needed))
    }

    /// The timer has come.
    pub(crate) fn timer_came(&mut self, gateway: GatewayId) {
        if let Some(queue) = self.queues.get_mut(&gateway) {
            queue.timer = None;
        }
    }
}

impl OfferQueue {
    /// The client is the last in turn.
    fn take_turn(&mut self, client: ClientId, resources: VecDeque<ResourceId>) {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(turn, client);
        self.waiting.insert(client, Waiting { turn, resources });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: GatewayId = GatewayId::from_bytes([1; 16]);

    fn pair(client: u8, resource: u8) -> Pair {
        (
            ClientId::from_bytes([client; 16]),
            ResourceId::from_bytes([resource; 16]),
        )
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(1_000_000 + ms)
    }

    #[test]
    fn clients_take_turns_however_many_requests_one_has() {
        let mut queues = OfferQueues::default();
        for resource in 0..50 {
            queues.push(GATEWAY, pair(1, resource), at(9));
        }
        queues.push(GATEWAY, pair(2, 0), at(9));
        queues.push(GATEWAY, pair(3, 0), at(9));
        let mut order = Vec::new();
        while let Some(next) = queues.next_turn(GATEWAY) {
            queues.remove(GATEWAY, next, at(9));
            order.push(next);
        }
        assert_eq!(order.len(), 52);
        let first = [pair(1, 0), pair(2, 0), pair(3, 0), pair(1, 1)];
        assert_eq!(order[..4], first);
        assert_eq!(queues.busy().count(), 0);
        assert_eq!(queues.overdue(GATEWAY, at(10)), []);
    }

    #[test]
    fn what_is_taken_out_has_no_turn_and_no_end() {
        let mut queues = OfferQueues::default();
        queues.push(GATEWAY, pair(1, 0), at(5));
        queues.push(GATEWAY, pair(1, 1), at(6));
        queues.push(GATEWAY, pair(2, 0), at(7));
        assert_eq!(queues.move_timer(GATEWAY), Some((None, Some(at(5)))));
        queues.remove(GATEWAY, pair(1, 0), at(5));
        assert_eq!(queues.move_timer(GATEWAY), Some((Some(at(5)), Some(at(6)))));
        assert_eq!(queues.overdue(GATEWAY, at(6)), [pair(1, 1)]);
        queues.remove(GATEWAY, pair(1, 1), at(6));
        assert_eq!(queues.next_turn(GATEWAY), Some(pair(2, 0)));
        queues.remove(GATEWAY, pair(2, 0), at(7));
        assert_eq!(queues.next_turn(GATEWAY), None);
        assert_eq!(queues.move_timer(GATEWAY), Some((Some(at(6)), None)));
    }

    /// A gateway that answers so many offers a second, and always has as many as it may.
    fn settled(per_s: u64) -> (usize, u64) {
        let mut window = Window::default();
        let mut slowest_ms = 0;
        let mut made: VecDeque<u64> = VecDeque::new();
        for number in 0..per_s * 60 {
            let now_ms = number * 1_000 / per_s;
            while made.len() < window.size {
                made.push_back(now_ms);
            }
            let after_ms = now_ms - made.pop_front().unwrap();
            slowest_ms = slowest_ms.max(after_ms);
            window.answered(after_ms, at(now_ms));
        }
        (window.size, slowest_ms)
    }

    #[test]
    fn the_window_follows_how_fast_a_gateway_answers_and_no_offer_times_out() {
        for per_s in [100, 500, 5_000] {
            let (size, slowest_ms) = settled(per_s);
            assert!(
                slowest_ms < GRANT_ANSWER_MS,
                "{per_s} a second: {slowest_ms} ms"
            );
            let most = usize::try_from(per_s).unwrap() * 2;
            assert!(
                size <= most.min(MAX_OFFERS_AT_ONCE),
                "{per_s} a second: {size}"
            );
            assert!(
                size >= (most / 8).min(MAX_OFFERS_AT_ONCE),
                "{per_s} a second: {size}"
            );
        }
    }
}
