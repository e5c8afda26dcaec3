//! The superframes that a device accepts.

use crate::vnet::Gso;

/// The superframes that the TUN device accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accept {
    /// TCP over IPv4 (`TUN_F_TSO4`).
    pub tcp4: bool,
    /// TCP over IPv6 (`TUN_F_TSO6`).
    pub tcp6: bool,
    /// UDP over IPv4 (`TUN_F_USO4`).
    pub udp4: bool,
    /// UDP over IPv6 (`TUN_F_USO6`).
    pub udp6: bool,
}

impl Accept {
    /// No superframe at all: every packet is emitted by itself.
    pub const NONE: Self = Self {
        tcp4: false,
        tcp6: false,
        udp4: false,
        udp6: false,
    };
    /// Every kind of superframe.
    pub const ALL: Self = Self {
        tcp4: true,
        tcp6: true,
        udp4: true,
        udp6: true,
    };

    /// Superframes of one kind, over IPv4 or IPv6.
    #[must_use]
    pub const fn kind(gso: Gso, is_v4: bool) -> Self {
        Self {
            tcp4: matches!(gso, Gso::Tcp4),
            tcp6: matches!(gso, Gso::Tcp6),
            udp4: matches!(gso, Gso::Udp) && is_v4,
            udp6: matches!(gso, Gso::Udp) && !is_v4,
        }
    }

    /// The union of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            tcp4: self.tcp4 || other.tcp4,
            tcp6: self.tcp6 || other.tcp6,
            udp4: self.udp4 || other.udp4,
            udp6: self.udp6 || other.udp6,
        }
    }

    /// The difference: all kinds of this one that `other` does not have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self {
            tcp4: self.tcp4 && !other.tcp4,
            tcp6: self.tcp6 && !other.tcp6,
            udp4: self.udp4 && !other.udp4,
            udp6: self.udp6 && !other.udp6,
        }
    }
}
