//! The addresses of a name that this machine can send packets to.

use super::found::Found;
use culvert_host::{Family, Forwarding, forwarding};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Leaves out the addresses of a family if this machine can send to none of them, but to one of the
/// other family. A program without Happy Eyeballs (RFC 8305) would hang at the first of them. If
/// neither family can be reached, all addresses stay, and the sender learns the reason.
pub(super) fn retain_reachable(found: &mut Found, can_send: impl Fn(IpAddr) -> bool) {
    let v4 = found.ipv4.iter().any(|address| can_send((*address).into()));
    let v6 = found.ipv6.iter().any(|address| can_send((*address).into()));
    match (v4, v6) {
        (true, false) => found.ipv6.clear(),
        (false, true) => found.ipv4.clear(),
        (true, true) | (false, false) => {}
    }
}

/// True if this machine forwards packets of the family and has a route to the address. No packet is
/// sent.
pub(super) fn can_send(address: IpAddr) -> bool {
    /// A connected UDP socket asks for the route alone; its port does not matter.
    const DISCARD: u16 = 9;
    let (family, any) = match address {
        IpAddr::V4(_) => (Family::V4, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        IpAddr::V6(_) => (Family::V6, Ipv6Addr::UNSPECIFIED.into()),
    };
    // A switch that can't be read is no reason to leave a family out.
    let is_forwarded = !matches!(forwarding(family), Ok(Forwarding::Off));
    let has_route = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(SocketAddr::new(address, DISCARD))
    };
    is_forwarded && has_route().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found {
            ipv4: vec![[10, 7, 0, 1].into(), [10, 7, 0, 2].into()],
            ipv6: vec!["fd77::1".parse().unwrap()],
            ..Found::default()
        }
    }

    #[test]
    fn a_family_that_leads_nowhere_is_left_out_where_the_other_leads_somewhere() {
        for (reachable, ipv4, ipv6) in [
            (&["10.7.0.1", "10.7.0.2", "fd77::1"][..], 2, 1),
            // One address is enough for all of its family: others may be there for a reason.
            (&["10.7.0.2", "fd77::1"], 2, 1),
            (&["10.7.0.2"], 2, 0),
            (&["fd77::1"], 0, 1),
            (&[], 2, 1),
        ] {
            let mut found = found();
            let reachable: Vec<IpAddr> =
                reachable.iter().map(|text| text.parse().unwrap()).collect();
            retain_reachable(&mut found, |address| reachable.contains(&address));
            assert_eq!(
                (found.ipv4.len(), found.ipv6.len()),
                (ipv4, ipv6),
                "{reachable:?}"
            );
        }
    }
}
