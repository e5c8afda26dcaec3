//! The datagrams that the kernel takes in one call, and the class of those that must not wait.

/// The most datagrams of one send: `UDP_MAX_SEGMENTS` before Linux 6.9, which has 128. With full-size
/// datagrams [`MAX_GSO_BYTES`] is reached first.
pub const MAX_SEGMENTS: usize = 64;

/// The most bytes of one datagram: an IPv4 packet, 65,535 bytes, without the headers of IPv4 and UDP.
pub const MAX_DATAGRAM_BYTES: usize = 65_535 - 20 - 8;

/// The most bytes of several datagrams in one send. The kernel treats a run as one packet until it leaves. It cuts the run
/// in software if that packet with its headers exceeds the limit of the device: 65,536 bytes for most
/// (`GSO_LEGACY_MAX_SIZE`). 128 bytes leave room for the headers of UDP, IPv6, Ethernet, two VLANs and an outer tunnel.
pub const MAX_GSO_BYTES: usize = 65_536 - 128;

/// The traffic class of a datagram with priority, which must not wait behind others, neither on its way nor at its receiver: DSCP AF41
/// (RFC 2597 section 6), which Linux's WireGuard gives its handshakes.
pub const PRIORITY_CLASS: u8 = 0x88;
