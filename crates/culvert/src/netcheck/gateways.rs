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

/// The maximum overhead of a packet in the tunnel, in bytes: headers of IPv6, UDP and WireGuard,
/// and the padding to 16.
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
            let path = Path {
                leaves_here: path_mtu(endpoint, 0),
                measured: gateway.path_mtu_bytes,
            };
            findings.push(mtu(endpoint, path, status.mtu_bytes));
        }
    }
    findings
}

/// True if a gateway has answered.
pub(super) fn any_answers(status: &Status) -> bool {
    let mut gateways = status.gateways.iter();
    gateways.any(|gateway| handshake(gateway).is_some())
}

/// True if all gateways have answered.
pub(super) fn have_answered(status: &Status) -> bool {
    status
        .gateways
        .iter()
        .all(|gateway| handshake(gateway).is_some())
}

/// The address at which a gateway answered, and the time since then in milliseconds.
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

/// Lengths in bytes of packets to a gateway, with all headers.
struct Path {
    /// The longest that this machine sends in one piece.
    leaves_here: io::Result<u16>,
    /// The longest that is proved to arrive.
    measured: Option<u16>,
}

/// `inner` is the MTU of the tunnel's interface, where it is known.
fn mtu(endpoint: SocketAddr, path: Path, inner: Option<u16>) -> Finding {
    let leaves_here = match path.leaves_here {
        Ok(path) => path,
        Err(error) => {
            let found = format!("there is no way to {endpoint}: {error}");
            let fix = "bring a network up that leads there".to_owned();
            return Finding::fails(MTU, found, fix);
        }
    };
    // The longest record has no padding beyond the MTU, and the headers of its own family.
    let headers = OVERHEAD - if endpoint.is_ipv4() { 20 } else { 0 };
    let widest = inner.map(|inner| inner.saturating_add(headers));
    let known = path
        .measured
        .map_or(leaves_here, |measured| measured.min(leaves_here));
    match widest {
        Some(widest) if known < widest => {
            let room = known.saturating_sub(OVERHEAD);
            Finding::warns(
                MTU,
                format!(
                    "packets of up to {known} bytes pass to {endpoint}, and the tunnel's have {widest}: programs are told"
                ),
                format!(
                    "nothing, or start the client with --mtu {room} for programs that ignore ICMP"
                ),
            )
        }
        Some(widest) if path.measured.is_some() => Finding::ok(
            MTU,
            format!("the tunnel's longest packets, of {widest} bytes, pass to {endpoint}"),
        ),
        _ => Finding::ok(
            MTU,
            format!(
                "packets of {leaves_here} bytes leave this machine whole to {endpoint}; the way beyond is measured \
                 with the first long packet"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn path(leaves_here: u16, measured: Option<u16>) -> Path {
        Path {
            leaves_here: Ok(leaves_here),
            measured,
        }
    }

    #[test]
    fn a_path_that_the_tunnel_s_packets_do_not_fit_names_an_mtu_that_does() {
        let at = "192.0.2.1:51820".parse().unwrap();
        for narrow in [path(1_400, None), path(1_500, Some(1_400))] {
            let narrow = mtu(at, narrow, Some(1_420));
            assert_eq!(narrow.verdict, Verdict::Warning);
            assert!(narrow.fix.unwrap().contains("--mtu 1320"));
        }
        let none = Path {
            leaves_here: Err(io::ErrorKind::NetworkUnreachable.into()),
            measured: None,
        };
        assert_eq!(mtu(at, none, None).verdict, Verdict::Failed);
    }

    #[test]
    fn a_path_is_said_to_carry_only_what_was_measured() {
        let at = "192.0.2.1:51820".parse().unwrap();
        let guessed = mtu(at, path(1_500, None), Some(1_420));
        assert_eq!(guessed.verdict, Verdict::Ok);
        assert!(
            guessed.found.contains("leave this machine"),
            "{}",
            guessed.found
        );
        let measured = mtu(at, path(1_500, Some(1_480)), Some(1_420));
        assert_eq!(measured.verdict, Verdict::Ok);
        assert!(
            measured.found.contains("of 1480 bytes, pass to"),
            "{}",
            measured.found
        );
    }
}
