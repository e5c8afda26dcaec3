//! A machine that asks for a session.

use culvert_store::Principal;
use std::net::IpAddr;

/// The kind of machine at the other end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Gateway,
    Relay,
}

/// A machine that has come with an accepted token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor {
    pub(super) side: Side,
    pub(super) principal: Principal,
    /// Its address, as the portal sees it.
    pub(super) from: IpAddr,
    /// The same. `None` if it is the address of a proxy that does not name its client.
    pub(super) address: Option<IpAddr>,
}
