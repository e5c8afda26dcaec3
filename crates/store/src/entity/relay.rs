//! Relays.

use super::machine::Seen;
use super::stamp::Stamp;
use culvert_ids::RelayId;
use culvert_wire::Timestamp;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A machine that forwards what ends behind NATs send each other. It comes into being by
/// [`crate::Store::enrol_relay`]; an administrator changes its name, drains it and revokes it, which is final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Its id.
    pub id: RelayId,
    /// The text that the machine keeps for itself; it says which relay of the account this is.
    pub machine: String,
    /// The name that people give it; no two of an account alike that are not revoked.
    pub name: String,
    /// The addresses that it said when it last connected, each with its main port.
    pub addresses: Vec<SocketAddr>,
    /// It gets no new ends.
    pub draining: bool,
    /// The time since which it is not let in.
    pub revoked: Option<Timestamp>,
    /// The time and address at which it was last seen. Not configuration: it is not in the change
    /// log, and changes no version.
    #[serde(skip)]
    pub seen: Option<Seen>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}
