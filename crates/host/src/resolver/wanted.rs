//! The ways in which the system may be told its resolver, and the names that it asks.

use crate::InterfaceName;
use culvert_policy::DomainName;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// The way by which the system is told the resolver to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolverMode {
    /// systemd-resolved, over D-Bus: names in [`ResolverWanted::domains`] are asked of the client.
    Resolved,
    /// The program `resolvconf`: every name is asked of the client.
    Resolvconf,
    /// The file `/etc/resolv.conf`: every name is asked of the client.
    File,
    /// Not at all.
    Off,
}

/// The administrator's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolverChoice {
    /// The way that fits the machine.
    Auto,
    /// This way and no other.
    Mode(ResolverMode),
}

impl ResolverMode {
    /// True if the system asks here for the names of [`ResolverWanted::domains`] alone.
    #[must_use]
    pub const fn is_split(self) -> bool {
        match self {
            Self::Resolved => true,
            Self::Resolvconf | Self::File | Self::Off => false,
        }
    }
}

impl fmt::Display for ResolverMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Resolved => "resolved",
            Self::Resolvconf => "resolvconf",
            Self::File => "file",
            Self::Off => "off",
        })
    }
}

/// The way in which names are to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverWanted {
    /// The tunnel's interface.
    pub interface: InterfaceName,
    /// The address of the resolver, on port 53.
    pub server: IpAddr,
    /// Names that are asked there, where the way can tell them apart.
    pub domains: RoutedDomains,
    /// The search domains for short names, before those that the system has by itself; at most
    /// [`culvert_policy::MAX_SEARCH_DOMAINS`].
    pub search: Vec<DomainName>,
    /// Other names that are asked there are asked of those whom the system asked before.
    pub asks_upstreams: bool,
}

/// The names that are asked there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutedDomains {
    /// These and all below them.
    Within(BTreeSet<String>),
    /// Every name.
    All,
}
