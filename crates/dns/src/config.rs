//! What a [`Stub`](crate::Stub) is told at its start.

use crate::Ranges;
use culvert_policy::DomainName;
use std::net::SocketAddr;

/// What a message travels by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A datagram each.
    Udp,
    /// A stream with a length in front of each.
    Tcp,
}

/// What a [`Stub`](crate::Stub) is told at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Where the addresses of names come from.
    pub ranges: Ranges,
    /// Where this resolver listens. None of them can be an upstream.
    pub listens_on: Vec<SocketAddr>,
    /// Who is asked about all other names, in this order. With none such names are REFUSED.
    pub upstreams: Vec<SocketAddr>,
    /// A name that is no resource's and in no zone, but always asked of `upstreams`: that of the portal,
    /// without which there would be neither resources nor zones.
    pub fixed: Option<DomainName>,
}
