//! The largest number of connections of each class.

/// Connections at once: the sum of the classes below. At some 56 KiB each for TLS and HTTP, 1 GiB at worst.
pub(super) const MAX_CONNECTIONS: usize =
    MAX_HANDSHAKES + MAX_STRANGERS + MAX_SESSIONS + MAX_CALLERS;

/// TLS handshakes at once: each takes a processor for about a millisecond, so that the last of them
/// is served within a second on one.
pub(super) const MAX_HANDSHAKES: usize = 1_024;

/// Connections on which nobody has shown yet who they are: people who are about to sign in, and machines
/// for the moment until their token was checked.
pub(super) const MAX_STRANGERS: usize = 3_072;

/// Clients that one portal serves at once: as many as one gateway holds.
const MAX_CLIENT_SESSIONS: usize = 10_000;

/// Gateways: one for ten clients, as in a company with an office for each ten people.
const MAX_GATEWAY_SESSIONS: usize = 1_000;

/// Relays, and sessions of machines that have come back and whose former session is not over: a tenth of the clients.
const OTHER_SESSIONS: usize = 1_000;

/// Sessions at once. At some 50 KiB each for buffers and TLS, 600 MB at worst; what the hub knows of a client with three
/// grants takes 5 KiB more (`culvert-bench crowd-grants`).
pub const MAX_SESSIONS: usize = MAX_CLIENT_SESSIONS + MAX_GATEWAY_SESSIONS + OTHER_SESSIONS;

/// Connections of people who have signed in, and of programs with a token of the API.
pub(super) const MAX_CALLERS: usize = 2_288;

/// Connections of the listener for metrics: a hundred collectors with two each.
const MAX_COLLECTORS: usize = 256;

/// Connections that gave way, and whose task has not closed them yet.
pub(super) const MAX_CLOSING: usize = 512;

/// Descriptors for everything but connections: the database, logs and their sinks, identity providers,
/// exports, and [`MAX_CLOSING`].
const OTHER_DESCRIPTORS: usize = 1_024;

/// Files that a full portal has open.
pub const DESCRIPTORS_NEEDED: u64 = (MAX_CONNECTIONS + OTHER_DESCRIPTORS) as u64;

/// The least that a portal is of use with: descriptors for connections.
pub(super) const LEAST_CONNECTIONS: usize = 64;

/// The largest number of connections of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(super) handshakes: usize,
    pub(super) strangers: usize,
    pub(super) callers: usize,
    pub(super) machines: usize,
    pub(super) collectors: usize,
}

impl Limits {
    /// The limits if file descriptors are no constraint.
    pub const FULL: Self = Self {
        handshakes: MAX_HANDSHAKES,
        strangers: MAX_STRANGERS,
        callers: MAX_CALLERS,
        machines: MAX_SESSIONS,
        collectors: 0,
    };

    /// For the listener of metrics alone.
    pub const METRICS: Self = Self {
        handshakes: 0,
        strangers: 0,
        callers: 0,
        machines: 0,
        collectors: MAX_COLLECTORS,
    };

    /// As many as the process may have open; each class has its part.
    pub fn within(descriptors: u64) -> Self {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let others = OTHER_DESCRIPTORS.min(descriptors / 2);
        let connections = (descriptors - others).clamp(LEAST_CONNECTIONS, MAX_CONNECTIONS);
        let part = |of: usize| of * connections / MAX_CONNECTIONS;
        Self {
            handshakes: part(MAX_HANDSHAKES),
            strangers: part(MAX_STRANGERS),
            callers: part(MAX_CALLERS),
            machines: part(MAX_SESSIONS),
            collectors: 0,
        }
    }

    /// All together.
    pub const fn connections(self) -> usize {
        self.handshakes + self.strangers + self.callers + self.machines + self.collectors
    }
}
