use crate::granting::{
    Granting, NOW_UNIX_MS, claims, gateway_id, is_never_forwarded, is_of_the_tunnel, payload_of,
    token,
};
use crate::input::Input;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_wire::Timestamp;
use serde_json::{Value, json};
use std::net::IpAddr;

/// The furthest that a grant's creation may be ahead of the portal's clock.
const SKEW_MS: u64 = 60_000;

/// Destinations: some that no grant may reach, and some that grants reach.
const TRIED: [&str; 8] = [
    "127.0.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "10.1.2.3",
    "::1",
    "fe80::1",
    "2001:db8::1",
];

/// A gateway accepts a token only if the portal signed it, for this gateway, for the present, and for a client
/// in the tunnel's range. Otherwise no peer is added. An accepted grant adds its client's key as a peer, admits
/// packets to its target alone, and none to the gateway's own machine. The tunnel's own range is the kernel's to refuse.
///
/// The first byte says what the others are: a token, the claims of one that is signed, or changes to a good one.
///
/// # Panics
/// If a property does not hold.
pub fn grant(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => {
            if let Ok(token) = std::str::from_utf8(rest) {
                any_token(token);
            }
        }
        1 => any_token(&token(rest)),
        _ => {
            let mut damaged = token(good(&network("10.0.0.0/8")).as_bytes()).into_bytes();
            Input::new(rest).damage(&mut damaged);
            if let Ok(token) = std::str::from_utf8(&damaged) {
                any_token(token);
            }
        }
    }
}

fn any_token(token: &str) {
    let mut granting = Granting::new();
    granting.grant(token, &json!([]));
    let is_accepted = granting.said.iter().any(|(_, is_accepted)| *is_accepted);
    if !is_accepted {
        assert!(granting.peers.is_empty(), "{token}");
        return;
    }
    let payload = payload_of(token).expect("the portal signed it");
    let said: Value = serde_json::from_slice(&payload).expect("JSON");
    assert_eq!(granting.said, [(text(&said["grant"]), true)]);
    assert_is_for_now(&said);
    let [(key, peer)] = granting.peers.iter().collect::<Vec<_>>()[..] else {
        panic!("{:?}", granting.peers);
    };
    assert_eq!(STANDARD.encode(key.as_bytes()), text(&said["client_key"]));
    let addresses = [&said["client_ipv4"], &said["client_ipv6"]].map(|address| {
        let address: IpAddr = text(address).parse().expect("an address");
        address
    });
    assert_eq!(peer.addresses, addresses);
    assert!(
        addresses.iter().all(|address| is_of_the_tunnel(*address)),
        "not of the tunnel: {said}"
    );
    for to in TRIED {
        let to: IpAddr = to.parse().expect("an address");
        let Some(reached) = granting.send(peer, to) else {
            continue;
        };
        assert_eq!(reached, to, "only names are translated");
        assert!(!is_never_forwarded(to), "{to}: {said}");
        assert!(leads_to(&said["target"], to), "{to}: {said}");
        assert_ne!(said["filters"], json!([]), "nothing is allowed: {said}");
    }
    // One millisecond after its expiry nothing of it is in force.
    let exp = unix_ms(&said["exp"]);
    granting.pass(exp - NOW_UNIX_MS + 1);
    assert!(granting.peers.is_empty(), "{said}");
}

fn assert_is_for_now(said: &Value) {
    assert_eq!(text(&said["gateway"]), gateway_id());
    assert!(unix_ms(&said["exp"]) > NOW_UNIX_MS, "{said}");
    assert!(unix_ms(&said["iat"]) <= NOW_UNIX_MS + SKEW_MS, "{said}");
}

/// By the text of the target, bit by bit.
fn leads_to(target: &Value, to: IpAddr) -> bool {
    let address = text(&target["address"]);
    let (network, len) = match address.split_once('/') {
        Some((network, len)) => (network, len.parse().expect("a length")),
        None => (&address[..], 128),
    };
    let network: IpAddr = network.trim().parse().expect("an address");
    let bits = |address: IpAddr| -> Vec<bool> {
        let octets = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let bits = octets
            .iter()
            .flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1));
        bits.collect()
    };
    let (network, to) = (bits(network), bits(to));
    network.len() == to.len() && network.iter().zip(&to).take(len).all(|(a, b)| a == b)
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn unix_ms(value: &Value) -> u64 {
    let instant: Timestamp = text(value).parse().expect("an instant");
    instant.unix_ms()
}

fn network(address: &str) -> Value {
    claims(&json!({"kind": "cidr", "address": address}))
}

fn good(claims: &Value) -> String {
    claims.to_string()
}

/// Good grants, and each with one thing that is not as it should be.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![
        network("10.0.0.0/8"),
        network("0.0.0.0/0"),
        network("::/0"),
        claims(&json!({"kind": "address", "address": "10.1.2.3"})),
        claims(&json!({"kind": "address", "address": "127.0.0.1"})),
        claims(&json!({"kind": "dns", "address": "*.corp.example"})),
        claims(&json!({"kind": "later", "address": "x"})),
    ];
    for (claim, value) in [
        ("gateway", json!("gw_00000000000000000000000002")),
        ("exp", json!("2027-01-15T07:59:59Z")),
        ("exp", json!("9999-12-31T23:59:59Z")),
        ("iat", json!("2027-01-15T08:02:00Z")),
        ("client_ipv4", json!("10.0.0.1")),
        ("client_ipv4", json!("100.64.0.1")),
        ("client_ipv6", json!("2001:db8::1")),
        ("client_key", json!(STANDARD.encode([9; 32]))),
        ("client_key", json!("short")),
        ("filters", json!([])),
        ("filters", json!([{"protocol": "quic"}])),
        ("filters", json!([{"protocol": "tcp", "ports": [443]}])),
        ("cipher", json!("aes256gcm")),
        ("cipher", json!("rot13")),
        ("later", json!({"a": [null]})),
    ] {
        let mut other = network("10.0.0.0/8");
        other[claim] = value;
        all.push(other);
    }
    let mut seeds = Vec::new();
    for claims in &all {
        let payload = claims.to_string();
        seeds.push([&[0], token(payload.as_bytes()).as_bytes()].concat());
        seeds.push([&[1], payload.as_bytes()].concat());
    }
    let good = token(good(&all[0]).as_bytes());
    for other in [
        good.replacen("v4", "v3", 1),
        good.replacen("public", "local", 1),
        format!("{good}.AAAA"),
        format!("{good}="),
        good[..good.len() - 2].to_owned(),
        String::new(),
    ] {
        seeds.push([&[0], other.as_bytes()].concat());
    }
    let twice =
        all[0]
            .to_string()
            .replacen('{', r#"{"gateway":"gw_00000000000000000000000002","#, 1);
    seeds.push([&[1], twice.as_bytes()].concat());
    seeds.extend((0..20).map(|place: u8| vec![2, 1, 0, place * 12, b'A']));
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::granting::{CLIENT_V4, CLIENT_V6};

    /// Without this the target could refuse everything and look well.
    #[test]
    fn a_good_grant_is_in_force_and_reaches_its_target() {
        let mut granting = Granting::new();
        granting.grant(&token(good(&network("10.0.0.0/8")).as_bytes()), &json!([]));
        let peer = granting.peers.values().next().expect("a peer").clone();
        assert_eq!(peer.addresses, [CLIENT_V4.into(), IpAddr::from(CLIENT_V6)]);
        let to: IpAddr = [10, 1, 2, 3].into();
        assert_eq!(granting.send(&peer, to), Some(to));
    }
}
