//! The gateway's verdict on every packet.
//!
//! The control thread keeps a [`GateTable`] of what each client may reach and publishes a clone of
//! it after each change. A [`Gate`] remembers the flows that clients began:
//!
//! ```text
//! client → Gate::admit_from_client → resource     a flow begins if a grant allows it
//! client ← Gate::admit_to_client   ← resource     passes only as part of such a flow
//! ```
//!
//! A resource begins a flow only to the services of the client's host that a grant's `inbound` opens to it.
//!
//! A packet of a known flow costs one look-up. The flow holds the epoch of the table that allowed
//! it and the expiry of its grant. When the table has changed since, or the grant has expired, the
//! table judges the flow anew before anything passes. Nothing here allocates once a gate is made.
//!
//! A grant for a name leads to an address that stands for it at the client. The gate translates it
//! to the one the name has when the flow begins, and back; the flow keeps it while it lasts.
//!
//! A client has a gate too, with the sides exchanged: [`ClientGate`] remembers the flows that its host began, and lets
//! nothing else come in.

mod admit;
mod client;
mod client_flows;
mod datagram;
mod drop_reason;
mod early;
mod flow;
mod flows;
mod fragments;
mod frame;
mod grants;
mod heading;
mod holders;
mod icmp_error;
mod inbound;
mod index;
mod judge;
mod peer_key;
mod portless;
mod seed;
mod shard_map;
mod sync;
mod table;
mod to_client;

pub use admit::Gate;
pub use client::{ClientGate, TunnelAddresses};
pub use client_flows::MAX_CLIENT_FLOWS;
pub use drop_reason::DropReason;
pub use flow::{End, FlowRecord, Tally, UDP_IDLE};
pub use flows::{Evicted, MAX_ENDED, MAX_FLOWS, MAX_FLOWS_PER_CLIENT};
pub use frame::{Frame, Later, Verdict};
pub use grants::{
    ClientGrants, Grant, MAX_ADDRESSES_PER_CLIENT, MAX_GRANTS_PER_CLIENT, MAX_NAMES_PER_GRANT,
    Mapping, Reach, SiteDns,
};
pub(crate) use heading::{Heading, Kind, Quotation};
pub use inbound::{InboundRule, InboundRules, MAX_INBOUND_RULES};
pub use peer_key::PeerKey;
pub use portless::Portless;
pub use seed::Seed;
pub use table::{GateTable, MAX_CLIENTS};
