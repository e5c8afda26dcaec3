//! Under which address machines reach the portal, where nobody said so.

use crate::PortalError;
use culvert_wire::token::Portal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses of the Internet, to ask the routing table which of this machine's own would be used on
/// the way there. They are set aside for documentation (RFC 5737, RFC 3849), and nothing is sent.
const FAR_AWAY: [(IpAddr, IpAddr); 2] = [
    (
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    ),
    (
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    ),
];

/// The URL as configured, or one made of an address of this machine.
///
/// # Errors
/// [`PortalError::Url`] where the configured one can't be used.
pub(crate) fn portal_url(
    configured: Option<&str>,
    listening: SocketAddr,
) -> Result<Portal, PortalError> {
    let url = match configured {
        Some(url) => url.to_owned(),
        None => url_of(reachable_address(listening.ip()), listening.port()),
    };
    Portal::new(&url, None).map_err(|error| PortalError::Url {
        reason: error.to_string(),
        url,
    })
}

fn url_of(address: IpAddr, port: u16) -> String {
    let authority = SocketAddr::new(address, port);
    match port {
        443 => format!("https://{}", authority.to_string().trim_end_matches(":443")),
        _ => format!("https://{authority}"),
    }
}

/// The address that is listened on; where that is every address, the one that this machine uses
/// towards the Internet; where there is no way there, the loopback one.
fn reachable_address(listening: IpAddr) -> IpAddr {
    if !listening.is_unspecified() {
        return listening;
    }
    FAR_AWAY
        .iter()
        .filter(|(any, _)| listening.is_ipv6() || any.is_ipv4())
        .find_map(|(any, far)| own_address_towards(*any, *far))
        .unwrap_or(match listening {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        })
}

fn own_address_towards(any: IpAddr, far: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // The discard port; connecting a UDP socket only looks up the route.
    socket.connect((far, 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_unspecified()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_url_is_taken_as_it_is() {
        let listening = "[::]:8443".parse().unwrap();
        let portal = portal_url(Some("https://portal.example:8443/"), listening).unwrap();
        assert_eq!(portal.url, "https://portal.example:8443");
        for wrong in [
            "http://portal.example",
            "portal.example",
            "https://",
            "https://a/b",
        ] {
            let error = portal_url(Some(wrong), listening).unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }

    #[test]
    fn without_one_the_address_that_is_listened_on_is_used() {
        for (listening, url) in [
            ("127.0.0.1:8443", "https://127.0.0.1:8443"),
            ("[::1]:443", "https://[::1]"),
        ] {
            assert_eq!(
                portal_url(None, listening.parse().unwrap()).unwrap().url,
                url
            );
        }
        let any = portal_url(None, "[::]:8443".parse().unwrap()).unwrap();
        assert!(any.url.ends_with(":8443") && !any.url.contains("[::]"));
    }
}
