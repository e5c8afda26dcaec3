//! The way to gateways, as the running client knows it: whether their UDP comes back, and how large a
//! packet fits.

use super::finding::Finding;
use crate::status::table::span;
use culvert_client::status::{GatewayStatus, Status};
use culvert_udp::path_mtu;
use std::io;
use std::net::SocketAddr;

const CHECK: &str = "gateway";
const MTU: &str = "mtu";

/// What a packet of the tunnel has around it at most, in bytes: headers of IPv6, UDP and WireGuard, and the
/// padding to 16.
const OVERHEAD: u16 = 40 + 8 + 32;

/// Looks at each gateway that the client uses.
pub(super) fn check(status: &Status) -> Vec<Finding> {
    if status.gateways.is_empty() {
        let found = "none is in use, so no UDP was seen".to_owned();
        let fix = "`culvert ping RESOURCE` makes the client use one".to_owned();
        return vec![Finding::skips(CHECK, found, fix)];
    }
    let mut findings = Vec::new();
    for gateway in &status.gateways {
        findings.push(answers(gateway));
        if let Some(endpoint) = gateway.endpoint {
            findings.push(mtu(endpoint, path_mtu(endpoint, 0), status.mtu_bytes));
        }
    }
    findings
}

/// Whether all of them have.
pub(super) fn have_answered(status: &Status) -> bool {
    status
        .gateways
        .iter()
        .all(|gateway| handshake(gateway).is_some())
}

/// Where a gateway answered, and how long ago in milliseconds.
fn handshake(gateway: &GatewayStatus) -> Option<(SocketAddr, u64)> {
    let made = gateway.endpoint.zip(gateway.handshake_age_ms);
    made.filter(|_| gateway.path != "none")
}

fn answers(gateway: &GatewayStatus) -> Finding {
    let name = &gateway.name;
    match handshake(gateway) {
        Some((endpoint, age_ms)) => {
            let age = span(age_ms);
            let found = format!("{name} answers at {endpoint} by UDP (handshake {age} ago)");
            Finding::ok(CHECK, found)
        }
        None => {
            let tried: Vec<String> = gateway.candidates.iter().map(ToString::to_string).collect();
            let found = format!("{name} does not answer by UDP at {}", tried.join(", "));
            let fix = "let UDP out of this network to there; or the gateway is behind a router and needs \
                       a forwarded port and --public-endpoint";
            Finding::fails(CHECK, found, fix.to_owned())
        }
    }
}

/// `inner` is the MTU of the tunnel's interface, where it is known.
fn mtu(endpoint: SocketAddr, path: io::Result<u16>, inner: Option<u16>) -> Finding {
    let path = match path {
        Ok(path) => path,
        Err(error) => {
            let found = format!("there is no way to {endpoint}: {error}");
            let fix = "bring a network up that leads there".to_owned();
            return Finding::fails(MTU, found, fix);
        }
    };
    let room = path.saturating_sub(OVERHEAD);
    match inner {
        Some(inner) if room < inner => Finding::warns(
            MTU,
            format!(
                "packets of {path} bytes fit to {endpoint}, and the tunnel's have up to {inner} inside"
            ),
            format!("start the client with --mtu {room}"),
        ),
        _ => Finding::ok(MTU, format!("packets of {path} bytes fit to {endpoint}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_path_that_the_tunnel_s_packets_do_not_fit_names_an_mtu_that_does() {
        let at = "192.0.2.1:51820".parse().unwrap();
        let narrow = mtu(at, Ok(1_400), Some(1_420));
        assert_eq!(narrow.verdict, Verdict::Warning);
        assert!(narrow.fix.unwrap().contains("--mtu 1320"));
        assert_eq!(mtu(at, Ok(1_500), Some(1_420)).verdict, Verdict::Ok);
        assert_eq!(mtu(at, Ok(1_400), None).verdict, Verdict::Ok);
        let none = mtu(at, Err(io::ErrorKind::NetworkUnreachable.into()), None);
        assert_eq!(none.verdict, Verdict::Failed);
    }
}
