//! The start-up settings of a [`Stub`](crate::Stub).

use crate::Ranges;
use culvert_policy::DomainName;
use std::net::SocketAddr;

/// The transport of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A datagram each.
    Udp,
    /// A stream with a length in front of each.
    Tcp,
}

/// The start-up settings of a [`Stub`](crate::Stub).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The ranges from which names get their addresses.
    pub ranges: Ranges,
    /// The addresses at which this resolver listens. None of them can be an upstream.
    pub listens_on: Vec<SocketAddr>,
    /// The servers for all other names, in order of preference. With none such names are REFUSED.
    pub upstreams: Vec<SocketAddr>,
    /// Names that are no resource's and in no zone, but always asked of `upstreams`: those of the portal,
    /// without which there would be neither resources nor zones.
    pub fixed: Vec<DomainName>,
}
