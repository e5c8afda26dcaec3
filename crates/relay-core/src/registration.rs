//! An end's registration at one gateway port of a relay, without I/O.
//!
//! A client or a gateway registers from the socket of its WireGuard, so that the mapping of its NAT is the one that
//! records use. It asks each address of the relay, takes the first that answers, registers there, and gives a sign of
//! life every [`REFRESH_EVERY`]. Each answer to a question tells the address that the end has from outside.
//!
//! Events go in through `handle_*`; call [`Registration::poll_output`] after each until it returns `None`, then sleep
//! until [`Registration::poll_timeout`].
//!
//! | state | leaves it |
//! |---|---|
//! | asks | with the first challenge, or asks again later and later |
//! | registers | with the relay's answer; without one it asks again |
//! | is registered | [`Output::Lost`] if [`ATTEMPTS`] signs of life in a row are not answered, or the token expires |
//!
//! A refusal and "unknown" prove nothing, since anybody who sees the question can send them. They only make the end
//! wait or register again.

mod attempt;
mod state;

use crate::mac::{KEY_LEN, Mac};
use crate::message::{Message, Refresh, RefusalReason, Transaction};
use culvert_base::{BootTime, PresharedKey};
use state::{Attempt, Registered};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use zeroize::Zeroizing;

/// The interval of signs of life. A NAT forgets a mapping after 30 s of silence at the earliest (RFC 4787 asks for 2
/// minutes; many take 30 s), and the relay after 60 s.
pub const REFRESH_EVERY: Duration = Duration::from_secs(20);

/// The time for an answer to a sign of life, before it is sent again.
pub const ANSWER: Duration = Duration::from_millis(500);

/// Signs of life without an answer, after which the relay is lost: 2 s in all.
pub const ATTEMPTS: u32 = 4;

/// The first wait before a question is repeated; each is twice the one before.
pub const ASK_AGAIN: Duration = Duration::from_millis(250);

/// The longest wait before a question is repeated.
pub const ASK_AGAIN_MOST: Duration = Duration::from_secs(16);

/// The wait after a refusal that another attempt will not change soon.
pub const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Registrations by the word of a stranger ("unknown", or a cookie that has expired): one a second.
pub const AGAIN_AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// Addresses of a relay that are asked.
pub const ADDRESSES_MOST: usize = 8;

/// The permission to register: a token and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The relay's token, opaque to the end.
    pub token: String,
    /// The key of the proofs.
    pub key: PresharedKey,
}

/// An action or news for the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram.
    Send {
        /// An address of the relay, with the gateway port.
        to: SocketAddr,
        /// The datagram.
        datagram: Datagram,
    },
    /// From outside the end has this address.
    Mapped {
        /// The relay's address that saw it.
        by: SocketAddr,
        /// The end's address.
        address: SocketAddr,
    },
    /// It is registered: records to this address are forwarded.
    Registered {
        /// The relay's address.
        relay: SocketAddr,
        /// From question to answer.
        round_trip: Duration,
    },
    /// The relay answered a sign of life.
    Alive {
        /// From question to answer.
        round_trip: Duration,
    },
    /// It was registered, and is not any more. It goes on trying.
    Lost,
    /// The relay refuses it. It tries again later, and at once with another permission.
    Refused(RefusalReason),
}

/// A datagram of an end.
#[derive(Clone, PartialEq, Eq)]
pub struct Datagram(Vec<u8>);

/// The registration of an end at one port of a relay.
pub struct Registration {
    addresses: Vec<SocketAddr>,
    permission: Permission,
    seed: Zeroizing<[u8; KEY_LEN]>,
    transactions: u64,
    attempt: Option<Attempt>,
    /// The instant at which the next attempt begins, if none runs.
    next_attempt: BootTime,
    last_attempt: Option<BootTime>,
    /// A refusal holds until then.
    refused_until: BootTime,
    /// The number of the latest question.
    asked: Option<Transaction>,
    registered: Option<Registered>,
    /// The first question since the relay's last answer.
    unanswered_since: Option<BootTime>,
    outputs: VecDeque<Output>,
}

impl Datagram {
    fn new(message: &[u8]) -> Self {
        Self(message.to_vec())
    }

    /// The bytes to send.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Datagram {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Datagram({} bytes)", self.0.len())
    }
}

impl Registration {
    /// Begins at once. `addresses` are those of the relay, each with the gateway's port; at most [`ADDRESSES_MOST`] count.
    /// `seed` is secret and random.
    #[must_use]
    pub fn new(
        addresses: &[SocketAddr],
        permission: Permission,
        seed: [u8; KEY_LEN],
        now: BootTime,
    ) -> Self {
        Self {
            addresses: addresses.iter().copied().take(ADDRESSES_MOST).collect(),
            permission,
            seed: Zeroizing::new(seed),
            transactions: 0,
            attempt: None,
            next_attempt: now,
            last_attempt: None,
            refused_until: now,
            asked: None,
            registered: None,
            unanswered_since: None,
            outputs: VecDeque::new(),
        }
    }

    /// The portal gave another permission. The registration in force stays until the new one counts.
    pub fn set_permission(&mut self, permission: Permission, now: BootTime) {
        if self.permission != permission {
            self.permission = permission;
            self.refused_until = now;
            self.begin_again(now);
        }
    }

    /// The relay has other addresses. If the one in use is none of them, the registration begins again.
    pub fn set_addresses(&mut self, addresses: &[SocketAddr], now: BootTime) {
        self.addresses = addresses.iter().copied().take(ADDRESSES_MOST).collect();
        let in_use = self.registered.as_ref().map(|registered| registered.relay);
        if in_use.is_none_or(|relay| !self.addresses.contains(&relay)) {
            self.begin_again(now);
        }
    }

    /// The network of this host changed: its address from outside may be another one.
    pub fn handle_network_change(&mut self, now: BootTime) {
        self.unanswered_since = None;
        self.begin_again(now);
    }

    /// The end has registered with the same token from another address. A relay keeps one registration of an end, so this
    /// one is over. It goes on asking, and takes over again once the relay answers.
    pub fn handle_superseded(&mut self, now: BootTime) {
        if self.registered.take().is_some() {
            self.outputs.push_back(Output::Lost);
        }
        // Without the cookie that it has: sent once more, it would take over although no answer arrives.
        self.begin_again(now);
    }

    /// The time of the first question that waits for an answer of the relay. A challenge is none: anybody on the way can
    /// make one.
    #[must_use]
    pub fn unanswered_since(&self) -> Option<BootTime> {
        self.unanswered_since
    }

    /// The relay's address, while the end is registered.
    #[must_use]
    pub fn relay(&self) -> Option<SocketAddr> {
        Some(self.registered.as_ref()?.relay)
    }

    /// True for an address of this relay and port: datagrams of Culvert from there belong here.
    #[must_use]
    pub fn is_from(&self, source: SocketAddr) -> bool {
        self.addresses.contains(&source) || self.relay() == Some(source)
    }

    /// Asks whether the relay lives: [`Output::Alive`] follows, or [`Output::Lost`] after 2 s.
    pub fn check(&mut self, now: BootTime) {
        if let Some(registered) = &mut self.registered
            && registered.unanswered.is_empty()
        {
            registered.due = now;
            self.handle_timeout(now);
        }
    }

    /// A datagram of Culvert came from `source`. False if it was nothing for this registration.
    pub fn handle_datagram(&mut self, source: SocketAddr, datagram: &[u8], now: BootTime) -> bool {
        if !self.is_from(source) {
            return false;
        }
        match Message::parse(datagram) {
            Some(Message::Challenge(challenge)) => self.handle_challenge(source, &challenge, now),
            Some(Message::Registered(registered)) => {
                self.handle_registered(source, &registered, now)
            }
            Some(Message::Refused(refused)) => self.handle_refused(source, refused, now),
            Some(Message::Refreshed(refreshed)) => self.handle_refreshed(source, refreshed, now),
            Some(Message::Unknown(_)) => self.handle_unknown(source, now),
            _ => false,
        }
    }

    fn handle_unknown(&mut self, source: SocketAddr, now: BootTime) -> bool {
        if self.relay() != Some(source) {
            return false;
        }
        self.begin_soon(now);
        true
    }

    fn handle_refreshed(&mut self, source: SocketAddr, refreshed: Refresh, now: BootTime) -> bool {
        let Some(registered) = &mut self.registered else {
            return false;
        };
        let sent = registered.unanswered.iter();
        let sent = sent
            .copied()
            .find(|(counter, _)| *counter == refreshed.counter);
        let Some((_, sent_at)) = sent else {
            return false;
        };
        if registered.relay != source || !refreshed.is_answer_by(&registered.key) {
            return false;
        }
        registered.unanswered.clear();
        registered.due = now.saturating_add(REFRESH_EVERY);
        self.unanswered_since = None;
        let round_trip = now.saturating_since(sent_at);
        self.outputs.push_back(Output::Alive { round_trip });
        true
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        self.refresh(now);
        if self
            .attempt
            .as_ref()
            .is_some_and(|attempt| attempt.due <= now)
        {
            self.repeat_attempt(now);
        }
        if self.attempt.is_none() && self.next_attempt <= now {
            self.begin(now);
        }
    }

    /// The instant at which [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> BootTime {
        let attempt = self
            .attempt
            .as_ref()
            .map_or(self.next_attempt, |attempt| attempt.due);
        let registered = self.registered.as_ref();
        let refresh = registered.map_or(BootTime::MAX, |it| it.due.min(it.expires));
        attempt.min(refresh)
    }

    /// The next output, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Gives a sign of life if one is due, or gives the relay up.
    fn refresh(&mut self, now: BootTime) {
        let Some(registered) = &mut self.registered else {
            return;
        };
        let is_silent = registered.unanswered.len() >= ATTEMPTS as usize && registered.due <= now;
        if is_silent || registered.expires <= now {
            self.registered = None;
            self.outputs.push_back(Output::Lost);
            if self.attempt.is_none() {
                self.next_attempt = now.max(self.refused_until);
            }
            return;
        }
        if registered.due > now {
            return;
        }
        registered.counter += 1;
        registered.unanswered.push((registered.counter, now));
        registered.due = now.saturating_add(ANSWER);
        self.unanswered_since.get_or_insert(now);
        let question = Refresh::question(registered.counter, &registered.key);
        let to = registered.relay;
        let datagram = Datagram::new(&question.encode_question());
        self.outputs.push_back(Output::Send { to, datagram });
    }

    /// An unpredictable number for a question.
    fn transaction(&mut self) -> Transaction {
        self.transactions += 1;
        let number = self.transactions.to_be_bytes();
        Transaction(*Mac::of(&self.seed, &[b"culvert relay transaction", &number]).as_bytes())
    }
}
