//! The datagram that a fragment is of.

use super::heading::AddressBits;
use culvert_packet::ip::{IpVersion, Protocol};

/// The fields that identify a datagram (RFC 791 §2.3, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramKey {
    pub(super) source: AddressBits,
    pub(super) destination: AddressBits,
    pub(super) identification: u32,
    pub(super) version: IpVersion,
    /// Of IPv6 none: there the field names what follows in each single fragment.
    pub(super) protocol: Option<Protocol>,
    /// True if a client sent it.
    pub(super) is_of_client: bool,
}
