//! The addresses that cannot be a peer's.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The most ranges of the tunnel itself: clients, gateways and names, of two families each, and as
/// many again while they are changed, with room to double.
pub const OWN_RANGES_MAX: usize = 32;

/// Loopback addresses that stand for a relay behind a TLS stream: one for each relay of a peer.
pub(crate) const BRIDGES_MAX: usize = 4;

/// The reason why an address is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum CandidateRefusal {
    /// Port 0.
    #[error("port 0 cannot be sent to")]
    NoPort,
    /// 0.0.0.0/8, or `::`.
    #[error("an unspecified address is nowhere")]
    Unspecified,
    /// 127.0.0.0/8, or `::1`: this host, not the peer.
    #[error("a loopback address is this host")]
    Loopback,
    /// 224.0.0.0/4, or ff00::/8.
    #[error("a multicast address is not one host")]
    Multicast,
    /// 240.0.0.0/4, with 255.255.255.255.
    #[error("a broadcast or reserved address is not a host")]
    Reserved,
    /// fe80::/10 without the link on which it means something.
    #[error("a link-local address says nothing without its link")]
    NoScope,
    /// Inside the tunnel: what the tunnel sends there would come back to it.
    #[error("an address inside the tunnel would send the tunnel through itself")]
    InsideTunnel,
    /// There are [`CANDIDATES_MAX`](crate::CANDIDATES_MAX) candidates, none of which matters less.
    #[error("there are enough candidates")]
    Full,
}

impl CandidateRefusal {
    /// A short name for labels of metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoPort => "no_port",
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Multicast => "multicast",
            Self::Reserved => "reserved",
            Self::NoScope => "no_scope",
            Self::InsideTunnel => "inside_tunnel",
            Self::Full => "full",
        }
    }
}

/// A configuration that cannot be used. Addresses that cannot be are [`CandidateRefusal`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More ranges than [`OWN_RANGES_MAX`].
    #[error("{0} ranges of the tunnel are more than {OWN_RANGES_MAX}")]
    TooManyRanges(usize),
}

/// Keeps the tunnel from being sent through itself: says which addresses are no candidates.
///
/// It knows the tunnel's own ranges, from which clients, gateways and names have their addresses.
/// Networks that are merely resources do not belong in here: a gateway may well be met on its own
/// network, and the mark of the outer socket leads its packets past the tunnel's routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    own_ranges: Vec<IpNet>,
    /// The loopback addresses that lead to a relay.
    bridges: Vec<SocketAddr>,
}

impl Guard {
    /// # Errors
    ///
    /// More than [`OWN_RANGES_MAX`] ranges: rather no tunnel than a guard that misses one.
    pub fn new(own_ranges: impl IntoIterator<Item = IpNet>) -> Result<Self, Error> {
        let own_ranges: Vec<_> = own_ranges.into_iter().collect();
        if own_ranges.len() > OWN_RANGES_MAX {
            return Err(Error::TooManyRanges(own_ranges.len()));
        }
        Ok(Self {
            own_ranges,
            bridges: Vec::new(),
        })
    }

    /// Exactly these loopback addresses lead to a relay, through a TLS stream; at most [`BRIDGES_MAX`] count, and addresses
    /// that are not loopback change nothing.
    pub(crate) fn set_bridges(&mut self, bridges: impl IntoIterator<Item = SocketAddr>) {
        let bridges = bridges.into_iter().map(canonical);
        let bridges = bridges.filter(|bridge| bridge.ip().is_loopback());
        self.bridges = bridges.take(BRIDGES_MAX).collect();
    }

    /// Other ranges, and the same bridges.
    pub(crate) fn set_ranges_of(&mut self, other: Self) {
        self.own_ranges = other.own_ranges;
    }

    /// The one form of an address in which candidates are compared: IPv4 in IPv6 is IPv4.
    ///
    /// # Errors
    ///
    /// The reason why it is no candidate.
    pub fn admit(&self, address: SocketAddr) -> Result<SocketAddr, CandidateRefusal> {
        if address.port() == 0 {
            return Err(CandidateRefusal::NoPort);
        }
        let address = canonical(address);
        let ip = address.ip();
        if is_unspecified(ip) {
            return Err(CandidateRefusal::Unspecified);
        }
        if ip.is_loopback() && !self.bridges.contains(&address) {
            return Err(CandidateRefusal::Loopback);
        }
        if ip.is_multicast() {
            return Err(CandidateRefusal::Multicast);
        }
        if matches!(ip, IpAddr::V4(v4) if v4 >= Ipv4Addr::new(240, 0, 0, 0)) {
            return Err(CandidateRefusal::Reserved);
        }
        if matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0)
        {
            return Err(CandidateRefusal::NoScope);
        }
        if self.own_ranges.iter().any(|range| range.contains(&ip)) {
            return Err(CandidateRefusal::InsideTunnel);
        }
        Ok(address)
    }
}

/// Without the label of a flow, which does not say where; the scope says something only of
/// link-local addresses.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match (address.ip().to_canonical(), address) {
        (IpAddr::V4(ip), _) => SocketAddrV4::new(ip, address.port()).into(),
        (IpAddr::V6(ip), SocketAddr::V6(v6)) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into()
        }
        (IpAddr::V6(ip), _) => SocketAddrV6::new(ip, address.port(), 0, 0).into(),
    }
}

/// RFC 1122, §3.2.1.3: 0.0.0.0/8 is "this host on this network".
fn is_unspecified(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_unspecified(),
    }
}
