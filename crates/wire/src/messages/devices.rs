//! Plain WireGuard devices: those that a gateway admits without a grant, and where it hears them.

use crate::{PublicKey, Timestamp};
use culvert_ids::ClientId;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Devices in one message, of either direction. One takes at most 250 bytes of JSON, so a message stays below half of
/// [`crate::MAX_MESSAGE_LEN`]. All 4,096 devices of an account are two of them.
pub const MAX_DEVICES_PER_MESSAGE: usize = 2_048;

const _: () = assert!(MAX_DEVICES_PER_MESSAGE * 250 * 2 <= crate::MAX_MESSAGE_LEN);

/// A plain WireGuard device whose key the gateway admits, with or without a grant. By that it reaches no resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmittedDevice {
    /// The device.
    pub client: ClientId,
    /// Its key.
    pub client_key: PublicKey,
    /// The addresses that its packets may come from.
    pub client_ipv4: Ipv4Addr,
    /// The same of the other family.
    pub client_ipv6: Ipv6Addr,
    /// The gateway answers its DNS questions, as the DNS server in its file. Only to gateways with
    /// [`GatewayFeature::AdmittedDns`](super::GatewayFeature::AdmittedDns).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dns: bool,
}

/// The place of a plain WireGuard device, as authenticated packets show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEndpoint {
    /// The device.
    pub client: ClientId,
    /// Its key. The report says nothing of a device that has another one by now.
    pub client_key: PublicKey,
    /// The source address of its last authenticated packet. None while it changes too often to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The time of its last handshake, by the portal's clock, as far as the gateway knows it.
    pub handshake: Timestamp,
}
