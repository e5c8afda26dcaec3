//! Host and port of a gateway, in the file of a plain WireGuard device.

use culvert_ids::GatewayId;
use culvert_portal_base::Fault;
use culvert_store::Gateway;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Bytes of an endpoint: a host name has 253 at most, and a port 6 with its colon.
const MAX_ENDPOINT_LEN: usize = 259;

/// The endpoints, if each is of one of the gateways.
pub(super) fn checked_endpoints(
    endpoints: BTreeMap<GatewayId, String>,
    gateways: &[Gateway],
) -> Result<BTreeMap<GatewayId, String>, Fault> {
    for (id, endpoint) in &endpoints {
        let field = format!("endpoints.{id}");
        if !gateways.iter().any(|gateway| gateway.id == *id) {
            let text = "the device does not use this gateway: name it in `gateways` as well";
            return Err(Fault::invalid(field, text));
        }
        if !is_endpoint(endpoint) {
            let text = "expected HOST:PORT, such as vpn.example.com:51820 or [2001:db8::1]:51820";
            return Err(Fault::invalid(field, text));
        }
    }
    Ok(endpoints)
}

/// Public IPv4 addresses first, then public IPv6 addresses, then those of a private network.
pub(super) fn nearness(candidate: &SocketAddr) -> u8 {
    match candidate.ip() {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            let is_shared = a == 100 && b & 0xc0 == 64;
            let is_local = ip.is_private() || ip.is_loopback() || ip.is_link_local() || is_shared;
            if is_local { 2 } else { 0 }
        }
        IpAddr::V6(ip) if ip.segments()[0] & 0xe000 == 0x2000 => 1,
        IpAddr::V6(_) => 3,
    }
}

/// True if it is host and port: no other text gets into the file.
fn is_endpoint(endpoint: &str) -> bool {
    let Some((host, port)) = endpoint.rsplit_once(':') else {
        return false;
    };
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0) && !port.starts_with('+');
    let is_host_char = |char: char| char.is_ascii_alphanumeric() || "-.".contains(char);
    let is_host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(is_host_char),
    };
    is_port && is_host && endpoint.len() <= MAX_ENDPOINT_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_host_and_port_and_nothing_else() {
        for good in [
            "vpn.example.com:51820",
            "192.0.2.1:1",
            "[2001:db8::1]:65535",
        ] {
            assert!(is_endpoint(good), "{good}");
        }
        let long = format!("{}:51820", "a".repeat(MAX_ENDPOINT_LEN));
        for wrong in [
            "",
            "vpn.example.com",
            "vpn.example.com:0",
            "vpn.example.com:65536",
            "vpn.example.com:+1",
            ":51820",
            "2001:db8::1:51820",
            "[vpn.example.com]:51820",
            "a b:51820",
            "vpn.example.com\nPostUp = reboot:51820",
            "vpn.example.com:51820\n",
            &long,
        ] {
            assert!(!is_endpoint(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_public_address_of_the_gateway_comes_before_others() {
        let best = |candidates: &[&str]| {
            let parsed = candidates
                .iter()
                .map(|text| text.parse::<SocketAddr>().unwrap());
            parsed.min_by_key(nearness).unwrap().to_string()
        };
        let all = [
            "[fe80::1]:1",
            "10.0.0.1:1",
            "100.64.0.1:1",
            "[2001:db8::1]:1",
            "192.0.2.1:1",
        ];
        assert_eq!(best(&all), "192.0.2.1:1");
        assert_eq!(best(&all[..4]), "[2001:db8::1]:1");
        assert_eq!(best(&all[..3]), "10.0.0.1:1");
        assert_eq!(best(&all[..1]), "[fe80::1]:1");
    }
}
