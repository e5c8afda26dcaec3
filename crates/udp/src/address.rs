//! Socket addresses as the kernel has them, in bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of `struct sockaddr_in6`, the longer of the two.
pub(crate) const SOCKET_ADDRESS_BYTES: usize = 28;
/// Bytes of `struct sockaddr_in`.
const SOCKET_ADDRESS_V4_BYTES: usize = 16;

/// `struct sockaddr_in` or `sockaddr_in6`: the family in the machine's byte order, the port and address in the
/// network's, the scope in the machine's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawAddress {
    pub(crate) bytes: [u8; SOCKET_ADDRESS_BYTES],
    pub(crate) length: usize,
}

impl RawAddress {
    /// Encodes `address`; a mapped IPv4 address as the IPv4 address it is.
    pub(crate) fn encode(address: SocketAddr) -> Self {
        let mut bytes = [0; SOCKET_ADDRESS_BYTES];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match canonical(address) {
            SocketAddr::V4(address) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&address.ip().octets());
                Self {
                    bytes,
                    length: SOCKET_ADDRESS_V4_BYTES,
                }
            }
            SocketAddr::V6(address) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                Self {
                    bytes,
                    length: SOCKET_ADDRESS_BYTES,
                }
            }
        }
    }

    /// Decodes what the kernel wrote; `None` for another family or a short address.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SocketAddr> {
        let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
        match family {
            libc::AF_INET => {
                let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
                Some(SocketAddr::new(Ipv4Addr::from(ip).into(), port))
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
                let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
                // Flow labels differ from packet to packet; as part of the address they would make every one a stranger.
                Some(canonical(
                    SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into(),
                ))
            }
            _ => None,
        }
    }
}

/// `address`, or the IPv4 address that it maps.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_kernels_form() {
        for text in ["192.0.2.7:51820", "[2001:db8::7]:51820", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().expect("a literal address");
            let raw = RawAddress::encode(address);
            assert_eq!(RawAddress::decode(&raw.bytes[..raw.length]), Some(address));
        }
    }

    #[test]
    fn a_mapped_address_becomes_the_ipv4_address_it_is() {
        let mapped: SocketAddr = "[::ffff:192.0.2.7]:5".parse().expect("a literal address");
        let raw = RawAddress::encode(mapped);
        assert_eq!(
            RawAddress::decode(&raw.bytes[..raw.length]),
            Some("192.0.2.7:5".parse().expect("a literal address"))
        );
        let mut bytes = [0; SOCKET_ADDRESS_BYTES];
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[18..24].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 7]);
        assert_eq!(
            RawAddress::decode(&bytes),
            Some("192.0.2.7:0".parse().expect("a literal address"))
        );
    }

    #[test]
    fn a_foreign_family_or_a_short_address_is_none() {
        let mut unix = [0; SOCKET_ADDRESS_BYTES];
        unix[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
        assert_eq!(RawAddress::decode(&unix), None);
        let raw = RawAddress::encode("[2001:db8::7]:51820".parse().expect("a literal address"));
        for length in 0..SOCKET_ADDRESS_BYTES {
            assert_eq!(RawAddress::decode(&raw.bytes[..length]), None);
        }
    }
}
