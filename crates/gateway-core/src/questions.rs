//! The order of questions to the DNS. Clients take turns: a client that wants thousands of names makes
//! only itself wait.

use culvert_ids::ClientId;
use culvert_policy::DomainName;
use culvert_wire::messages::MAX_NAMES as MAX_NAMES_PER_REQUEST;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// Questions under way at once. Each is two datagrams and two sockets; more wait.
pub const MAX_QUESTIONS: usize = 64;

/// Of them, those of one client: a quarter, or fewer than there are free places (dynamic thresholds,
/// Choudhury and Hahne, 1998). So some are always free for a client that has few: of n clients whose names
/// nobody answers for, each has 64 / (n + 1), and as many are free. If a resolver answers within 20 ms, a
/// quarter is 800 names a second.
pub const MAX_QUESTIONS_PER_CLIENT: usize = MAX_QUESTIONS / 4;

/// Names of one client that wait for their turn: four requests of as many names as one may have. More
/// would wait longer than a grant does ([`RESOLVE_LIMIT_MS`](super::RESOLVE_LIMIT_MS)) where a resolver
/// needs 40 ms.
pub const MAX_WAITING_PER_CLIENT: usize = 4 * MAX_NAMES_PER_REQUEST;

/// Names that wait to be asked for, and those that are.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// In the order in which each client came to want them.
    waiting: BTreeMap<ClientId, VecDeque<DomainName>>,
    /// Names of `waiting` that nobody has asked for since. Several clients may wait for one, and whose
    /// turn comes first asks for all.
    wanted: BTreeSet<DomainName>,
    under_way: BTreeMap<DomainName, ClientId>,
    /// The client whose turn was last.
    last: Option<ClientId>,
}

impl Questions {
    /// A client wants a name to be asked for. False where too many of its names wait.
    pub(super) fn want(&mut self, client: ClientId, name: &DomainName) -> bool {
        if self.under_way.contains_key(name) {
            return true;
        }
        let waiting = self.waiting.entry(client).or_default();
        if self.wanted.contains(name) && waiting.contains(name) {
            return true;
        }
        if waiting.len() >= MAX_WAITING_PER_CLIENT {
            return false;
        }
        waiting.push_back(name.clone());
        self.wanted.insert(name.clone());
        true
    }

    /// Names of a client that wait.
    pub(super) fn waiting(&self, client: ClientId) -> usize {
        self.waiting.get(&client).map_or(0, VecDeque::len)
    }

    /// The DNS has answered, or will not.
    pub(super) fn answered(&mut self, name: &DomainName) {
        self.under_way.remove(name);
    }

    /// The name to be asked for next; its question is under way from here on.
    pub(super) fn next(&mut self) -> Option<DomainName> {
        while self.under_way.len() < MAX_QUESTIONS {
            let client = self.whose_turn()?;
            self.last = Some(client);
            let waiting = self.waiting.get_mut(&client)?;
            let name = waiting.pop_front();
            if waiting.is_empty() {
                self.waiting.remove(&client);
            }
            // Another client's turn may have brought it.
            if let Some(name) = name.filter(|name| self.wanted.remove(name)) {
                self.under_way.insert(name.clone(), client);
                return Some(name);
            }
        }
        None
    }

    /// The next client in the order of ids, from the first on behind the last, that has not used up its
    /// share. As questions end, a client that has more than its share by then waits for the others.
    fn whose_turn(&self) -> Option<ClientId> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.waiting.range((after, Bound::Unbounded));
        let mut clients = rest.chain(&self.waiting).map(|(client, _)| *client);
        let free = MAX_QUESTIONS - self.under_way.len();
        clients.find(|client| {
            let own = self.under_way.values().filter(|asker| *asker == client);
            own.count() < MAX_QUESTIONS_PER_CLIENT.min(free)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> ClientId {
        ClientId::from_bytes([number; 16])
    }

    fn name(client: u8, number: usize) -> DomainName {
        format!("n{number}.c{client}.example").parse().unwrap()
    }

    /// Clients that each want as many names as they may.
    fn greedy(clients: &[u8]) -> Questions {
        let mut questions = Questions::default();
        for &number in clients {
            for name_number in 0..MAX_WAITING_PER_CLIENT {
                assert!(questions.want(client(number), &name(number, name_number)));
            }
            assert!(!questions.want(client(number), &name(number, usize::MAX)));
        }
        questions
    }

    fn asked(questions: &mut Questions) -> Vec<DomainName> {
        std::iter::from_fn(|| questions.next()).collect()
    }

    #[test]
    fn a_client_alone_has_its_share_and_no_more() {
        let mut questions = greedy(&[1]);
        let first = asked(&mut questions);
        assert_eq!(first.len(), MAX_QUESTIONS_PER_CLIENT);
        assert_eq!(
            first[0],
            name(1, 0),
            "in the order in which they were wanted"
        );
        questions.answered(&first[3]);
        assert_eq!(asked(&mut questions), [name(1, MAX_QUESTIONS_PER_CLIENT)]);
    }

    #[test]
    fn a_client_that_comes_later_is_asked_for_at_once() {
        let mut questions = greedy(&[1, 2, 3]);
        assert_eq!(asked(&mut questions).len(), 3 * MAX_QUESTIONS_PER_CLIENT);
        assert!(questions.want(client(9), &name(9, 0)));
        assert_eq!(asked(&mut questions), [name(9, 0)]);
    }

    #[test]
    fn who_comes_last_is_asked_for_however_many_are_greedy() {
        // One after the other, which is the worst order for those behind.
        let mut questions = Questions::default();
        let mut under_way = Vec::new();
        for number in 1..=30 {
            for name_number in 0..MAX_WAITING_PER_CLIENT {
                assert!(questions.want(client(number), &name(number, name_number)));
            }
            under_way.extend(asked(&mut questions));
        }
        // None is answered for; each is given up in its turn. Once all that began at first have been, the
        // places are those of all.
        for _ in 0..2 * MAX_QUESTIONS {
            questions.answered(&under_way.remove(0));
            under_way.extend(asked(&mut questions));
        }
        let own = |number: u8| {
            let asker = |asker: &&ClientId| **asker == client(number);
            questions.under_way.values().filter(asker).count()
        };
        let counts: Vec<usize> = (1..=30).map(own).collect();
        assert!(
            counts.iter().all(|count| (1..=3).contains(count)),
            "{counts:?}"
        );
        assert!(questions.want(client(99), &name(99, 0)));
        assert_eq!(asked(&mut questions), [name(99, 0)]);
    }

    #[test]
    fn clients_take_turns_where_all_places_are_taken() {
        let mut questions = greedy(&[1, 2, 3, 4, 5]);
        let mut under_way = asked(&mut questions);
        // 11 each but for the last, who has 10, and 10 for others.
        assert_eq!(under_way.len(), 54);
        let mut turns = BTreeMap::new();
        for _ in 0..100 {
            questions.answered(&under_way.remove(0));
            let next = asked(&mut questions);
            assert_eq!(next.len(), 1, "a place is taken as soon as it is free");
            let suffix = next[0].as_str().split('.').nth(1).unwrap().to_owned();
            *turns.entry(suffix).or_insert(0) += 1;
            under_way.extend(next);
        }
        assert_eq!(turns.len(), 5);
        assert!(
            turns.values().all(|count| (18..=22).contains(count)),
            "{turns:?}"
        );
    }

    #[test]
    fn a_name_that_several_wait_for_is_asked_for_once_and_at_the_first_turn() {
        let mut questions = greedy(&[1]);
        let last_of_first = name(1, MAX_WAITING_PER_CLIENT - 1);
        assert!(questions.want(client(2), &last_of_first));
        let first = asked(&mut questions);
        assert!(first.contains(&last_of_first), "{first:?}");
        assert!(questions.want(client(3), &last_of_first));
        assert_eq!(asked(&mut questions), [], "it is under way");
        for name in &first {
            questions.answered(name);
        }
        let mut all = Vec::new();
        loop {
            let next = asked(&mut questions);
            next.iter().for_each(|name| questions.answered(name));
            all.extend(next.iter().cloned());
            if next.is_empty() {
                break;
            }
        }
        assert!(!all.contains(&last_of_first), "it was asked for already");
        assert!(questions.waiting.is_empty() && questions.wanted.is_empty());
    }
}
