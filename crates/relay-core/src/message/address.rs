//! An address in a [`Challenge`](super::Challenge): family, port, and 16 bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of an address.
pub(super) const LEN: usize = 19;

/// IPv4-mapped IPv6 addresses are written as the IPv4 addresses that they are.
pub(super) fn encode(address: SocketAddr) -> [u8; LEN] {
    let mut out = [0; LEN];
    out[1..3].copy_from_slice(&address.port().to_be_bytes());
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            out[0] = 4;
            out[3..7].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out[0] = 6;
            out[3..].copy_from_slice(&ip.octets());
        }
    }
    out
}

/// `None` unless it is what [`encode`] writes.
pub(super) fn parse(bytes: &[u8; LEN]) -> Option<SocketAddr> {
    let [family, high, low, ip @ ..] = bytes;
    let ip: IpAddr = match (family, ip) {
        (4, [a, b, c, d, rest @ ..]) => {
            if rest.iter().any(|&byte| byte != 0) {
                return None;
            }
            Ipv4Addr::new(*a, *b, *c, *d).into()
        }
        (6, ip) => {
            let ip = Ipv6Addr::from(*ip);
            if ip.to_ipv4_mapped().is_some() {
                return None;
            }
            ip.into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes([*high, *low])))
}
