//! The reasons for which packets are dropped.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The reason for which a packet is dropped. Every drop of the gate has one; the name is
        /// the label of its counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason {
            $($(#[$doc])* $variant,)*
        }

        impl DropReason {
            /// Every reason, in the order in which they are declared.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name for counters: lower case and underscores.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// No IP packet, or one whose transport header is cut short.
    Malformed = "malformed",
    /// IPv6 extension headers that are too many, cut short, or hold a fragment of a fragment: what
    /// they carry cannot be told.
    HeaderChain = "header_chain",
    /// A packet that names its own way (IPv4 source route options, IPv6 routing headers): where it
    /// would end up is not what was granted.
    SourceRouted = "source_routed",
    /// The source address is not one of the peer that the packet came from.
    ForgedSource = "forged_source",
    /// A destination that nothing is forwarded to: loopback, link-local, multicast, broadcast,
    /// IPv4 in IPv6.
    NotForwarded = "not_forwarded",
    /// No grant of the client holds the destination.
    NoGrant = "no_grant",
    /// The grants that hold it have expired.
    Expired = "expired",
    /// The resource's filters do not allow the protocol.
    Protocol = "protocol",
    /// They allow the protocol, but not the port.
    Port = "port",
    /// The name that the destination stands for has no address that its resource allows (`within`).
    OutsideWithin = "outside_within",
    /// The name that the destination stands for has lost its addresses, and the packet belongs to no flow from before.
    NoAddress = "no_address",
    /// The destination is an address of the gateway's own machine, which serves no client
    /// (`--host-access`).
    HostAddress = "host_address",
    /// An ICMP message that is neither a query, nor an answer, nor an error.
    IcmpType = "icmp_type",
    /// A packet to a client, or an answer or ICMP error of one, that belongs to no flow which the
    /// client began.
    NotAFlow = "not_a_flow",
    /// A later fragment of a datagram whose first one was not admitted just before.
    Fragment = "fragment",
    /// All ports are taken by which a translated flow could be told from others.
    NoPortLeft = "no_port_left",
    /// A packet of a protocol without ports, to an address with which another client speaks it: answers could not be told
    /// apart.
    AddressTaken = "address_taken",
    /// The gate remembers as many flows as it can, and none of them is the client's.
    FlowsFull = "flows_full",
    /// The first packet of a flow of a client that begins more flows a second than one may: it, or a resource that begins
    /// flows at it.
    FlowRate = "flow_rate",
    /// A packet of a protocol without ports, where as many addresses as can be remembered are in use by others.
    PortlessFull = "portless_full",
    /// At a client: a packet for another address than the client's own in the tunnel.
    ForeignDestination = "foreign_destination",
    /// At a client: the first packet of a connection, or a query, that comes to it and that nobody has opened. At a gateway: a
    /// packet to a client from a resource that opens other services of the client's host.
    NotOpened = "not_opened",
    /// At a client: an ICMP error about a flow through another gateway, from an address that leads to its sender. Other
    /// packets of such a flow, and such errors from other addresses, do not get as far as a gate: their source is none of
    /// the sender's.
    OtherGateway = "other_gateway",
}

impl fmt::Display for DropReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
