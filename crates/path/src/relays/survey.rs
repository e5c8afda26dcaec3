//! Questions to all relays of the account: how far is each, and from where does it see this end?

use crate::mapping::Seen;
use culvert_base::BootTime;
use culvert_ids::RelayId;
use culvert_relay_core::Message;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{ASK_LEN, Ask, Transaction};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Relays that are asked.
pub const PLACES_MAX: usize = 16;

/// The interval at which they are asked again: networks change their ways, and a question costs 64 bytes.
pub const SURVEY_EVERY: Duration = Duration::from_secs(600);

/// The times of the questions of a survey; only those that have not answered are asked again.
const QUESTIONS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// A relay, and its addresses with the main port. The first of each family is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayPlace {
    /// The relay.
    pub relay: RelayId,
    /// Its addresses.
    pub addresses: Vec<SocketAddr>,
}

/// The time after which a relay has not answered a survey: two seconds after the last question.
const CONCLUDED: Duration = Duration::from_secs(5);

/// The survey of an end.
#[derive(Debug, Default)]
pub(super) struct Survey {
    asked: Vec<Asked>,
    seed: [u8; 32],
    questions: u64,
    begun: BootTime,
    /// The number of the next question of the survey. The one after all is the conclusion, and then another survey comes.
    next: Option<usize>,
    reached: BTreeMap<RelayId, Duration>,
    mapped: BTreeMap<SocketAddr, SocketAddr>,
    sends: VecDeque<(SocketAddr, [u8; ASK_LEN])>,
    has_changed: bool,
}

#[derive(Debug)]
struct Asked {
    relay: RelayId,
    at: SocketAddr,
    /// The last question, while it is not answered.
    question: Option<(Transaction, BootTime)>,
    is_answered: bool,
}

impl Survey {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    pub(super) fn set_places(&mut self, places: Vec<RelayPlace>, now: BootTime) {
        let mut asked = Vec::new();
        for place in places.into_iter().take(PLACES_MAX) {
            let first = |is_v4: bool| {
                let mut addresses = place.addresses.iter();
                addresses.find(move |address| address.is_ipv4() == is_v4)
            };
            asked.extend([true, false].into_iter().filter_map(first).map(|at| Asked {
                relay: place.relay,
                at: *at,
                question: None,
                is_answered: false,
            }));
        }
        let is_same = asked.len() == self.asked.len()
            && asked
                .iter()
                .zip(&self.asked)
                .all(|(one, other)| (one.relay, one.at) == (other.relay, other.at));
        if is_same {
            return;
        }
        self.asked = asked;
        let is_asked = |address: SocketAddr| self.asked.iter().any(|asked| asked.at == address);
        self.mapped.retain(|by, _| is_asked(*by));
        let places = &self.asked;
        self.reached
            .retain(|relay, _| places.iter().any(|asked| asked.relay == *relay));
        self.begin(now);
    }

    /// Asks all of them, now.
    pub(super) fn begin(&mut self, now: BootTime) {
        for asked in &mut self.asked {
            (asked.question, asked.is_answered) = (None, false);
        }
        self.begun = now;
        self.next = (!self.asked.is_empty()).then_some(0);
        self.handle_timeout(now);
    }

    pub(super) fn handle_datagram(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        now: BootTime,
    ) -> bool {
        let Some(Message::Challenge(challenge)) = Message::parse(datagram) else {
            return false;
        };
        let mut asked = self.asked.iter_mut();
        let asked = asked.find(|asked| {
            let is_it = |(transaction, _): (Transaction, _)| transaction == challenge.transaction;
            asked.at == source && asked.question.is_some_and(is_it)
        });
        let Some(asked) = asked else {
            return false;
        };
        let Some((_, at)) = asked.question.take() else {
            return false;
        };
        asked.is_answered = true;
        let round_trip = now.saturating_since(at);
        let mapped = challenge.mapped;
        self.reached.insert(asked.relay, round_trip);
        self.mapped.insert(source, mapped);
        self.has_changed = true;
        true
    }

    pub(super) fn handle_timeout(&mut self, now: BootTime) {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        match self.next {
            Some(next) if next < QUESTIONS.len() => {
                self.next = Some(next + 1);
                self.ask(now);
            }
            Some(next) if next == QUESTIONS.len() => {
                self.next = Some(next + 1);
                self.conclude();
            }
            _ => self.begin(now),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<BootTime> {
        let next = self.next?;
        let after = match QUESTIONS.get(next) {
            Some(after) => *after,
            None if next == QUESTIONS.len() => CONCLUDED,
            None => SURVEY_EVERY,
        };
        Some(self.begun.saturating_add(after))
    }

    /// Forgets what was known of relays that do not answer any more.
    fn conclude(&mut self) {
        let before = (self.reached.len(), self.mapped.len());
        let answered = || self.asked.iter().filter(|asked| asked.is_answered);
        self.reached
            .retain(|relay, _| answered().any(|asked| asked.relay == *relay));
        self.mapped
            .retain(|by, _| answered().any(|asked| asked.at == *by));
        self.has_changed |= before != (self.reached.len(), self.mapped.len());
    }

    pub(super) fn poll_send(&mut self) -> Option<(SocketAddr, [u8; ASK_LEN])> {
        self.sends.pop_front()
    }

    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    pub(super) fn reached(&self) -> impl Iterator<Item = (RelayId, Duration)> {
        self.reached
            .iter()
            .map(|(relay, round_trip)| (*relay, *round_trip))
    }

    /// The addresses that relays have seen, each perhaps more than once.
    pub(super) fn mapped(&self) -> impl Iterator<Item = SocketAddr> {
        self.mapped.values().copied()
    }

    /// The same, each with the relay's address that saw it.
    pub(super) fn seen(&self) -> impl Iterator<Item = Seen> {
        let seen = self.mapped.iter();
        seen.map(|(by, mapped)| Seen {
            by: *by,
            mapped: *mapped,
        })
    }

    fn ask(&mut self, now: BootTime) {
        for asked in self.asked.iter_mut().filter(|asked| !asked.is_answered) {
            self.questions += 1;
            let number = self.questions.to_be_bytes();
            let mac = Mac::of(&self.seed, &[b"culvert relay survey", &number]);
            let transaction = Transaction(*mac.as_bytes());
            asked.question = Some((transaction, now));
            self.sends
                .push_back((asked.at, Ask { transaction }.encode()));
        }
    }
}
