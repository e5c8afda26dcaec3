use crate::granting::{Granting, claims, is_never_forwarded, is_of_the_tunnel, token};
use crate::input::Input;
use culvert_gateway::fuzzing::resolution;
use culvert_gateway_core::Resolution;
use serde_json::json;
use std::net::IpAddr;

const NAME: &str = "db.corp.example";

/// The addresses that stand for the name at the client.
const VISIBLE: [&str; 2] = ["100.96.0.1", "fd00:2021:1111:8000::1"];

/// The highest number of queries for the name.
const MAX_ROUNDS: usize = 4;

/// After this every name is asked for again.
const RENEWAL_MS: u64 = 300_000;

/// Packets for a name go to an address of the same family that a DNS answer contained, or are dropped. They
/// never go to the gateway itself, to the local link, or back into the tunnel.
///
/// # Panics
/// If a property does not hold.
pub fn gateway_dns(data: &[u8]) {
    let mut input = Input::new(data);
    let mut granting = Granting::new();
    let target = json!({"kind": "dns", "address": "*.corp.example"});
    let names = json!([{"name": NAME, "ipv4": VISIBLE[0], "ipv6": VISIBLE[1]}]);
    granting.grant(&token(claims(&target).to_string().as_bytes()), &names);
    let mut heard: Vec<u8> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        if input.is_empty() {
            break;
        }
        let messages = [(); 2].map(|()| {
            let len = usize::from(input.u16());
            input.take(len)
        });
        let said = resolution(messages);
        assert_was_said(&said, messages);
        messages.iter().for_each(|message| heard.extend(*message));
        let asked = granting.asked;
        granting.resolved(NAME, said);
        for peer in granting.peers.values() {
            for visible in VISIBLE {
                let visible: IpAddr = visible.parse().expect("an address");
                let Some(reached) = granting.send(peer, visible) else {
                    continue;
                };
                assert!(!is_never_forwarded(reached), "{reached}");
                assert!(!is_of_the_tunnel(reached), "{reached}");
                assert_eq!(reached.is_ipv4(), visible.is_ipv4());
                assert!(holds(&heard, reached), "nobody said {reached}");
            }
        }
        granting.pass(RENEWAL_MS);
        let is_held = !granting.peers.is_empty();
        assert!(!is_held || granting.asked > asked, "it is asked for again");
    }
}

/// Addresses stand in messages as they are.
fn holds(message: &[u8], address: IpAddr) -> bool {
    let octets = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    message.windows(octets.len()).any(|window| window == octets)
}

fn assert_was_said(said: &Resolution, messages: [&[u8]; 2]) {
    let Resolution::Found { ipv4, ipv6, .. } = said else {
        return;
    };
    let len: usize = messages.iter().map(|message| message.len()).sum();
    assert!(!(ipv4.is_empty() && ipv6.is_empty()));
    // A record takes 11 bytes besides its address.
    assert!(15 * ipv4.len() + 27 * ipv6.len() <= len, "{said:?}");
    let all = ipv4
        .iter()
        .map(|v4| IpAddr::from(*v4))
        .chain(ipv6.iter().map(|v6| (*v6).into()));
    for address in all {
        assert!(
            messages.iter().any(|message| holds(message, address)),
            "{address}"
        );
    }
}

/// An answer with these records.
fn answer(records: &[(u16, &[u8])]) -> Vec<u8> {
    let name = b"\x02db\x04corp\x07example\0";
    let mut message = vec![0, 7, 0x81, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
    message.extend([&name[..], &[0, 1, 0, 1]].concat());
    for (kind, data) in records {
        message.extend([0xC0, 12]);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1, 0, 0, 0, 60]);
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(*data);
    }
    message
}

fn round(v4: &[u8], v6: &[u8]) -> Vec<u8> {
    let len = |message: &[u8]| (message.len() as u16).to_be_bytes();
    [&len(v4)[..], v4, &len(v6), v6].concat()
}

/// Good answers of both families, addresses that nothing may be forwarded to, aliases, and broken messages.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const A: u16 = 1;
    const CNAME: u16 = 5;
    const AAAA: u16 = 28;
    let v6 = |text: &str| match text.parse() {
        Ok(IpAddr::V6(v6)) => v6.octets(),
        _ => unreachable!("{text} is an IPv6 address"),
    };
    let good = answer(&[(A, &[10, 7, 0, 1])]);
    let good_v6 = answer(&[(AAAA, &v6("fd77::1"))]);
    let moved = answer(&[(A, &[10, 7, 0, 2])]);
    let both = answer(&[(A, &[10, 7, 0, 2]), (A, &[10, 7, 0, 1])]);
    let alias = answer(&[(CNAME, &[0xC0, 12]), (A, &[10, 7, 0, 3])]);
    let none = answer(&[]);
    let mut seeds = vec![
        round(&good, &good_v6),
        [round(&good, &none), round(&moved, &none)].concat(),
        [round(&good, &none), round(&both, &none), round(&[], &[])].concat(),
        round(&alias, &none),
        round(&none, &none),
        round(&good[..20], &good_v6[..30]),
    ];
    for bad in [
        [127, 0, 0, 1],
        [169, 254, 169, 254],
        [100, 64, 0, 1],
        [224, 0, 0, 1],
        [0; 4],
    ] {
        let alone = answer(&[(A, &bad)]);
        let first = answer(&[(A, &bad), (A, &[10, 7, 0, 1])]);
        seeds.push(round(&alone, &none));
        seeds.push(round(&first, &none));
    }
    for bad in [
        "::1",
        "fe80::1",
        "::ffff:127.0.0.1",
        "ff02::1",
        "fd00:2021:1111::1",
        "64:ff9b::a9fe:a9fe",
    ] {
        seeds.push(round(&none, &answer(&[(AAAA, &v6(bad))])));
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this the target could look well because nothing is reached at all.
    #[test]
    fn a_good_answer_is_followed() {
        let mut granting = Granting::new();
        let target = json!({"kind": "dns", "address": "*.corp.example"});
        let names = json!([{"name": NAME, "ipv4": VISIBLE[0], "ipv6": VISIBLE[1]}]);
        granting.grant(&token(claims(&target).to_string().as_bytes()), &names);
        let message = answer(&[(1, &[10, 7, 0, 1])]);
        granting.resolved(NAME, resolution([&message, &answer(&[])]));
        let peer = granting.peers.values().next().expect("a peer").clone();
        let visible = VISIBLE[0].parse().expect("an address");
        assert_eq!(granting.send(&peer, visible), Some([10, 7, 0, 1].into()));
    }
}
