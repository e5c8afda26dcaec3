//! The TLS stream to a relay that gives no answer by UDP.
//!
//! | state | leaves it |
//! |---|---|
//! | closed | opens once the relay has given no answer by UDP for [`TLS_AFTER`], and the wait after a failure is over |
//! | opening | with the shell's answer; UDP that answers closes it |
//! | open | the end registers through it; it is closed if the relay is silent for [`TLS_SILENT`] |
//! | leaving | UDP has taken over: it is closed after [`TLS_LEFT_OPEN`], or is used again if UDP falls silent before |

use culvert_base::BootTime;
use culvert_relay_core::registration::{Permission, Registration};
use culvert_wire::token::CertificatePin;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// The time for which a relay gives no answer by UDP until a TLS stream is opened. A round trip of a satellite is less
/// than half of it, and questions are sent three times meanwhile.
pub const TLS_AFTER: Duration = Duration::from_millis(1_500);

/// The time for which a stream stays open once UDP has taken over. UDP that fails again soon needs no new one.
pub const TLS_LEFT_OPEN: Duration = Duration::from_secs(30);

/// The time for which a relay gives no answer through a stream until the stream is closed.
pub const TLS_SILENT: Duration = Duration::from_secs(2);

/// Streams of an end at a time: as many relays as the portal names to a client, twice.
pub const TLS_STREAMS_MAX: usize = 32;

/// The wait after a stream that failed. It doubles with each failure in a row.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A stream that served this long was ended by chance, by a proxy that allows no longer one for example: another one is
/// opened at once.
const SERVED: Duration = Duration::from_secs(5);

/// "At once".
const AT_ONCE: Duration = Duration::from_millis(100);

/// The TLS port of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPlace {
    /// Its addresses, with the TLS port.
    pub addresses: Vec<SocketAddr>,
    /// SHA-256 of its certificate.
    pub pin: CertificatePin,
    /// The gateway's port, to which the stream leads.
    pub gateway_port: u16,
}

/// An order for the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Open,
    Close,
}

/// The stream to one relay, for one owner.
pub(super) struct Stream {
    state: State,
    /// Failures in a row.
    failures: u32,
    /// The reason of the last one, until a stream serves or UDP answers.
    trouble: Option<String>,
    orders: VecDeque<Order>,
    /// The trouble is news.
    has_news: bool,
}

enum State {
    Closed { not_before: BootTime },
    Opening,
    Open(Box<Open>),
    Leaving { local: SocketAddr, until: BootTime },
}

/// A stream through which the end registers.
pub(super) struct Open {
    pub(super) local: SocketAddr,
    pub(super) registration: Registration,
    pub(super) round_trip: Duration,
    since: BootTime,
}

/// The grant's part that a registration needs, and a seed that no other one has.
pub(super) struct Registering {
    pub(super) permission: Permission,
    pub(super) seed: [u8; 32],
}

impl Stream {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Closed {
                not_before: BootTime::ZERO,
            },
            failures: 0,
            trouble: None,
            orders: VecDeque::new(),
            has_news: false,
        }
    }

    /// The address that stands for the relay, while the stream is open.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        match &self.state {
            State::Closed { .. } | State::Opening => None,
            State::Open(open) => Some(open.local),
            State::Leaving { local, .. } => Some(*local),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    pub(super) const fn open_mut(&mut self) -> Option<&mut Open> {
        match &mut self.state {
            State::Open(open) => Some(open),
            _ => None,
        }
    }

    /// The stream through which the end is registered.
    pub(super) fn registered(&self) -> Option<&Open> {
        match &self.state {
            State::Open(open) if open.registration.relay().is_some() => Some(open),
            _ => None,
        }
    }

    /// The reason why there is no stream although one was tried.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The trouble of a first failure, once.
    pub(super) fn take_news(&mut self) -> Option<String> {
        let is_news = std::mem::take(&mut self.has_news);
        self.trouble.clone().filter(|_| is_news)
    }

    /// It asks to be opened.
    pub(super) fn asks(&self) -> bool {
        self.orders.contains(&Order::Open)
    }

    /// There are enough streams: it may ask again later.
    pub(super) fn refuse(&mut self, now: BootTime) {
        self.orders.retain(|order| *order != Order::Open);
        let why = format!("{TLS_STREAMS_MAX} other TLS connections are open");
        self.handle_ended(why, now);
    }

    pub(super) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// The relay is elsewhere: what was tried says nothing.
    pub(super) fn handle_place_changed(&mut self, now: BootTime) {
        self.failures = 0;
        if let State::Closed { not_before } = &mut self.state {
            *not_before = now;
        }
    }

    /// The host's network is another one. An open stream may live all the same, and is asked.
    pub(super) fn handle_network_changed(&mut self, now: BootTime) {
        self.handle_place_changed(now);
        match &mut self.state {
            State::Open(open) => open.registration.handle_network_change(now),
            State::Opening | State::Leaving { .. } => self.close(now),
            State::Closed { .. } => {}
        }
    }

    /// The shell has opened the stream.
    pub(super) fn handle_opened(&mut self, local: SocketAddr, new: Registering, now: BootTime) {
        match self.state {
            State::Opening => self.begin(local, new, now),
            // It was told to close it.
            State::Closed { .. } => self.orders.push_back(Order::Close),
            State::Open(_) | State::Leaving { .. } => {}
        }
    }

    /// The stream has ended, or could not be opened.
    pub(super) fn handle_ended(&mut self, why: String, now: BootTime) {
        let has_served = match &self.state {
            State::Closed { .. } => return,
            State::Leaving { .. } => {
                self.state = State::Closed { not_before: now };
                return;
            }
            State::Open(open) => {
                open.registration.relay().is_some() && now.has_passed(open.since, SERVED)
            }
            State::Opening => false,
        };
        let wait = match has_served {
            true => {
                self.failures = 0;
                AT_ONCE
            }
            false => {
                let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(16));
                self.failures = self.failures.saturating_add(1);
                wait.min(LONGEST_WAIT)
            }
        };
        self.has_news |= !has_served && self.failures == 1;
        self.trouble = Some(why);
        self.state = State::Closed {
            not_before: now.saturating_add(wait),
        };
    }

    /// The end is registered through it.
    pub(super) fn handle_registered(&mut self) {
        self.failures = 0;
        self.trouble = None;
    }

    /// The relay does not serve this end through the stream.
    pub(super) fn fail(&mut self, why: String, now: BootTime) {
        self.orders.push_back(Order::Close);
        self.handle_ended(why, now);
    }

    /// The relay has answered by UDP.
    pub(super) fn handle_udp_answers(&mut self, now: BootTime) {
        (self.failures, self.trouble) = (0, None);
        match &self.state {
            State::Opening => self.close(now),
            State::Open(open) => {
                self.state = State::Leaving {
                    local: open.local,
                    until: now.saturating_add(TLS_LEFT_OPEN),
                };
            }
            State::Closed { .. } | State::Leaving { .. } => {}
        }
    }

    /// Closes it for good.
    pub(super) fn close(&mut self, now: BootTime) {
        if !self.is_closed() {
            self.orders.push_back(Order::Close);
            self.state = State::Closed { not_before: now };
        }
    }

    /// Time has passed. `silent_since` is the time since which UDP gives no answer.
    pub(super) fn handle_timeout(
        &mut self,
        silent_since: Option<BootTime>,
        new: impl FnOnce() -> Registering,
        now: BootTime,
    ) {
        let is_due = self
            .poll_timeout(silent_since)
            .is_some_and(|due| due <= now);
        let is_silent = silent_since.is_some_and(|since| now.has_passed(since, TLS_AFTER));
        match &mut self.state {
            State::Closed { .. } if is_due => {
                self.orders.push_back(Order::Open);
                self.state = State::Opening;
            }
            State::Open(open) => {
                open.registration.handle_timeout(now);
                let asked = open.registration.unanswered_since();
                if asked.is_some_and(|since| now.has_passed(since, TLS_SILENT)) {
                    self.fail("the relay gives no answer through it".to_owned(), now);
                }
            }
            State::Leaving { local, .. } if is_silent => {
                let local = *local;
                self.begin(local, new(), now);
            }
            State::Leaving { .. } if is_due => self.close(now),
            State::Closed { .. } | State::Opening | State::Leaving { .. } => {}
        }
    }

    pub(super) fn poll_timeout(&self, silent_since: Option<BootTime>) -> Option<BootTime> {
        let silent_at = silent_since.map(|since| since.saturating_add(TLS_AFTER));
        match &self.state {
            State::Closed { not_before } => Some(silent_at?.max(*not_before)),
            State::Opening => None,
            State::Open(open) => {
                let asked = open.registration.unanswered_since();
                let silent_at = asked.map(|since| since.saturating_add(TLS_SILENT));
                let due = open.registration.poll_timeout();
                Some(silent_at.map_or(due, |at| at.min(due)))
            }
            State::Leaving { until, .. } => Some(silent_at.map_or(*until, |at| at.min(*until))),
        }
    }

    fn begin(&mut self, local: SocketAddr, new: Registering, now: BootTime) {
        let mut registration = Registration::new(&[local], new.permission, new.seed, now);
        registration.handle_timeout(now);
        self.state = State::Open(Box::new(Open {
            local,
            registration,
            round_trip: Duration::MAX,
            since: now,
        }));
    }
}
