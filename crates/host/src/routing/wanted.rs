//! The wanted state of interface and routes.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use ipnet::IpNet;

use crate::{Family, HostError, InterfaceName};

/// The most prefixes: several times the resources that one client may use in the largest set-up that
/// is planned for (10,000).
pub const MAX_PREFIXES: usize = 1 << 15;

/// The most addresses of a tunnel: one of each family, and room for moving from old to new.
pub const MAX_ADDRESSES: usize = 16;

/// The most packets that are told apart by address and port: the sockets of the tunnel, and the addresses of one
/// portal, of which `culvert-link` tries eight.
pub const MAX_EXEMPTIONS: usize = 16;

/// Tables of the kernel's own: unspecified, default, main, local.
const RESERVED_TABLES: [u32; 4] = [0, 253, 254, 255];

/// The distance of the last of our rules from [`Routing::preference`].
pub(super) const PREFERENCE_SPAN: u32 = 30;

/// The preference of the kernel's rule that leads to the table `main`.
const MAIN_PREFERENCE: u32 = 32_766;

/// The wanted state of the tunnel's interface and of what leads to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The tunnel interface, which must exist.
    pub interface: InterfaceName,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
    /// Its addresses, each alone: what else is behind the tunnel say the prefixes. At most
    /// [`MAX_ADDRESSES`].
    pub addresses: Vec<IpAddr>,
    /// The prefixes behind the tunnel; host bits are ignored. At most [`MAX_PREFIXES`]. `0.0.0.0/0`
    /// and `::/0` lead everything into the tunnel but what the host knows a particular route for
    /// and may be its local network.
    pub prefixes: Vec<IpNet>,
    /// Packets of this host that carry the tunnel, in case another program changes their mark. At most
    /// [`MAX_EXEMPTIONS`].
    pub exemptions: Vec<Exemption>,
    /// The tables and rules.
    pub routing: Routing,
}

/// Packets that this host sends and that must never go into the tunnel, whatever mark they bear. A firewall that
/// changes a packet's mark has the kernel route it again, by the new mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exemption {
    /// Datagrams from this UDP port: those of the tunnel's sockets.
    UdpFrom(u16),
    /// TCP to this address and port: the connection to the portal.
    TcpTo(SocketAddr),
}

/// The tables and rules that lead to the tunnel. Two tunnels on one host need different tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routing {
    /// The mark of packets that must never go into the tunnel: those that carry it.
    pub mark: Mark,
    /// The table for prefixes. It is looked into before `main`: no route that the local network hands
    /// out can lead a resource elsewhere.
    pub table: Table,
    /// The table for `0.0.0.0/0` and `::/0`. It is looked into after what `main` knows of local networks.
    pub default_table: Table,
    /// The preference of the first rule that leads into the tunnel. Further ones are 10, 20 and 30 later, and those for
    /// [`Wanted::exemptions`] are just ahead of it.
    pub preference: Preference,
}

impl Routing {
    /// The numbers that a client uses by default.
    pub const CLIENT: Self = Self::numbered(17_238, 17_239, 5010);
    /// Numbers of a gateway, unless it is told others. It may run beside a client: its rules come between those of the client's
    /// resources and those that lead everything into the client's tunnel, and none has a preference of the client's.
    pub const GATEWAY: Self = Self::numbered(17_240, 17_241, 5015);

    /// With the given tables, which nobody else is known to use, and a mark none of whose bits
    /// kube-proxy, Calico, Cilium or Tailscale take for theirs.
    const fn numbered(table: u32, default_table: u32, preference: u32) -> Self {
        Self {
            mark: Mark(NonZeroU32::new(0x43).expect("it is not zero")),
            table: Table(table),
            default_table: Table(default_table),
            preference: Preference(preference),
        }
    }

    pub(crate) fn tables(&self) -> [Table; 2] {
        [self.table, self.default_table]
    }

    /// The table that a prefix belongs in.
    pub(super) fn table_for(&self, prefix: IpNet) -> Table {
        if prefix.prefix_len() == 0 {
            self.default_table
        } else {
            self.table
        }
    }
}

/// A firewall mark (`SO_MARK`), the same on every packet that carries a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(NonZeroU32);

impl Mark {
    /// A mark; zero is what all other packets bear.
    ///
    /// # Errors
    /// [`HostError::InvalidMark`] for zero.
    pub fn new(mark: u32) -> Result<Self, HostError> {
        NonZeroU32::new(mark)
            .map(Self)
            .ok_or(HostError::InvalidMark)
    }

    /// The mark as a number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// A routing table that belongs to one tunnel alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Table(u32);

impl Table {
    /// A table by its number.
    ///
    /// # Errors
    /// [`HostError::InvalidTable`] for those of the kernel: 0, 253 (default), 254 (main), 255 (local).
    pub fn new(number: u32) -> Result<Self, HostError> {
        if RESERVED_TABLES.contains(&number) {
            Err(HostError::InvalidTable { number })
        } else {
            Ok(Self(number))
        }
    }

    /// The table as a number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The preference of a rule: lower ones are looked at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preference(u32);

impl Preference {
    /// A preference for the first rule.
    ///
    /// # Errors
    /// [`HostError::InvalidPreference`] for one that is not behind the kernel's rule for local
    /// addresses (0), with room for one rule in between, and, with all rules that follow, ahead of its rule
    /// for `main` (32766).
    pub fn new(preference: u32) -> Result<Self, HostError> {
        if (2..MAIN_PREFERENCE - PREFERENCE_SPAN).contains(&preference) {
            Ok(Self(preference))
        } else {
            Err(HostError::InvalidPreference { preference })
        }
    }

    /// The preference as a number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Wanted {
    /// Checks that the numbers are within their bounds.
    pub(super) fn within_bounds(&self) -> Result<(), HostError> {
        if self.prefixes.len() > MAX_PREFIXES {
            return Err(HostError::TooMany {
                what: "prefixes",
                max: MAX_PREFIXES,
            });
        }
        if self.addresses.len() > MAX_ADDRESSES {
            return Err(HostError::TooMany {
                what: "addresses",
                max: MAX_ADDRESSES,
            });
        }
        if self.exemptions.len() > MAX_EXEMPTIONS {
            return Err(HostError::TooMany {
                what: "exemptions",
                max: MAX_EXEMPTIONS,
            });
        }
        Ok(())
    }

    /// True if all traffic of a family goes into the tunnel.
    pub(super) fn is_full_tunnel(&self, family: Family) -> bool {
        let mut prefixes = self.prefixes.iter();
        prefixes.any(|prefix| prefix.prefix_len() == 0 && Family::of(prefix.addr()) == family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_belong_to_the_kernel_are_refused() {
        assert!(Mark::new(0).is_err());
        for number in RESERVED_TABLES {
            assert!(Table::new(number).is_err(), "{number}");
        }
        for preference in [0, 1, 32_736, 32_766, u32::MAX] {
            assert!(Preference::new(preference).is_err(), "{preference}");
        }
        assert!(Preference::new(32_735).is_ok());
    }

    #[test]
    fn the_usual_numbers_obey_the_rules_for_others() {
        let mut tables = Vec::new();
        for routing in [Routing::CLIENT, Routing::GATEWAY] {
            assert!(Mark::new(routing.mark.get()).is_ok());
            assert!(Preference::new(routing.preference.get()).is_ok());
            for table in routing.tables() {
                assert!(Table::new(table.get()).is_ok());
                assert!(!tables.contains(&table), "every table has one use");
                tables.push(table);
            }
        }
    }
}
