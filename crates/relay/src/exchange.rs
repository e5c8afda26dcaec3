//! The exchange of the event loop with its workers: commands there, reports back.

use culvert_base::PresharedKey;
use culvert_ids::{ClientId, GatewayId, RelayId};
use culvert_relay_core::relay::{Counters, PortView};
use culvert_wire::Timestamp;

/// A command to all workers.
#[derive(Clone, Debug)]
pub enum Command {
    /// The relay is this one, and this is the newest key of its tokens.
    Identity {
        /// Its id.
        relay: RelayId,
        /// The key.
        key: PresharedKey,
    },
    /// Tokens of a pair count no more.
    Withdraw {
        /// The gateway.
        gateway: GatewayId,
        /// Its client; `None`: the gateway and all its clients.
        client: Option<ClientId>,
        /// Tokens up to this time of issue.
        until: Timestamp,
    },
    /// True if new ends are refused.
    Drain(bool),
    /// End.
    Stop,
}

/// The state of one worker, or of all: a second old at most.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Records and registrations.
    pub counters: Counters,
    /// Datagrams that could not be sent.
    pub sending: SendCounters,
    /// Gateways that are registered.
    pub gateways: usize,
    /// Clients that are registered.
    pub clients: usize,
    /// The ports that gateways have.
    pub ports: Vec<PortView>,
}

/// Datagrams that could not be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// The send queue was full.
    pub queue_full: u64,
    /// This machine has no socket of the receiver's family.
    pub no_family: u64,
    /// The system refused them.
    pub refused: u64,
}

impl Report {
    pub(crate) fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.sending.queue_full += other.sending.queue_full;
        self.sending.no_family += other.sending.no_family;
        self.sending.refused += other.sending.refused;
        self.gateways += other.gateways;
        self.clients += other.clients;
        self.ports.extend_from_slice(&other.ports);
    }
}
