use culvert_policy::{Filters, MAX_DNS_SERVERS, MAX_DNS_ZONES, MAX_SEARCH_DOMAINS, Resource};
use culvert_wire::messages::{
    FromClient, FromGateway, FromRelay, RelayClaims, Sequenced, ToClient, ToGateway, ToRelay,
    decode_sequenced,
};
use culvert_wire::model::{self, Filter, Understood};
use culvert_wire::{Decoded, GrantClaims, Message, decode, encode};
use std::fmt::Debug;

/// The largest text that a fuzzer makes, some times over: with one more field it is still shorter
/// than a message may be.
const MAX_TEXT_LEN: usize = 64 * 1024;

/// Any text is a message, one of an unknown kind, or an error. A message that is written again is read
/// as the same, whatever part of it was not understood. One more field changes nothing. A message that
/// can't be converted for the policy code is refused, and a part that is not understood allows
/// nothing.
///
/// The first byte says who speaks to whom.
///
/// # Panics
/// If a property does not hold.
pub fn control(data: &[u8]) {
    let Some((&direction, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if text.len() > MAX_TEXT_LEN {
        return;
    }
    match direction % 7 {
        0 => drop(read::<FromClient>(text)),
        1 => drop(read::<FromGateway>(text)),
        2 => match read_placed(text) {
            Some(ToClient::Welcome { resources, dns, .. }) => {
                resources.iter().for_each(convert);
                assert_rules_are_bounded(&dns);
            }
            Some(ToClient::DnsSet { dns }) => assert_rules_are_bounded(&dns),
            Some(ToClient::ResourceSet { resource }) => convert(&resource),
            _ => {}
        },
        3 => {
            if let Some(ToGateway::FiltersChanged { filters, .. }) = read_placed(text) {
                assert_unknown_allow_nothing(&filters);
            }
        }
        4 => drop(read::<FromRelay>(text)),
        5 => drop(read_placed::<ToRelay>(text)),
        _ => claims(text),
    }
}

fn read<M: Message + Clone + PartialEq + Debug>(text: &str) -> Option<M> {
    let decoded = decode::<M>(text);
    if decoded.is_ok() {
        // Every object with a type begins with a brace.
        let with_more = text.replacen('{', r#"{"later":[null,{}],"#, 1);
        assert_eq!(decode(&with_more), decoded, "{text}");
    }
    match decoded {
        Ok(Decoded::Known(message)) => {
            let again = encode(&message);
            assert_eq!(
                decode(&again),
                Ok(Decoded::Known(message.clone())),
                "{again}"
            );
            Some(message)
        }
        Ok(Decoded::Unknown { kind }) => {
            assert!(kind.chars().count() <= 64, "{kind}");
            assert!(!M::KINDS.contains(&kind.as_str()), "{kind}");
            None
        }
        // An error does not repeat a stranger's text.
        Err(error) => {
            assert!(error.to_string().len() < 100, "{error}");
            None
        }
    }
}

/// A message of the portal: its place counts whether its kind is known or not.
fn read_placed<M>(text: &str) -> Option<M>
where
    M: Message + Clone + PartialEq + Debug,
{
    let placed = decode_sequenced::<M>(text);
    let whole = read::<Sequenced<M>>(text);
    match (whole, placed) {
        (Some(whole), Ok(placed)) => {
            assert_eq!((whole.epoch, whole.seq), (placed.epoch, placed.seq));
            assert_eq!(placed.message, Decoded::Known(whole.message.clone()));
            Some(whole.message)
        }
        (None, Ok(placed)) => {
            assert!(matches!(placed.message, Decoded::Unknown { .. }), "{text}");
            None
        }
        (None, Err(_)) => None,
        (Some(whole), Err(error)) => panic!("{whole:?}: {error}"),
    }
}

fn claims(text: &str) {
    if let Ok(claims) = serde_json::from_str::<RelayClaims>(text) {
        let again =
            serde_json::to_string(&claims).expect("claims hold nothing that JSON can't say");
        let read: RelayClaims = serde_json::from_str(&again).expect("what was written");
        assert_eq!(read, claims, "{again}");
    }
    let Ok(claims) = serde_json::from_str::<GrantClaims>(text) else {
        return;
    };
    assert_unknown_allow_nothing(&claims.filters);
    let again = serde_json::to_string(&claims).expect("claims hold nothing that JSON can't say");
    let read: GrantClaims = serde_json::from_str(&again).expect("what was written");
    assert_eq!(read, claims, "{again}");
}

fn convert(resource: &model::Resource) {
    let Ok(converted) = Resource::try_from(resource) else {
        return;
    };
    assert!(resource.target.known().is_some(), "{resource:?}");
    assert!(
        !resource.filters.is_empty() || converted.filters.is_empty(),
        "{resource:?}"
    );
    assert_unknown_allow_nothing(&resource.filters);
}

fn assert_unknown_allow_nothing(filters: &Understood<Filter>) {
    let understood = model::filters(filters);
    if filters.is_empty() {
        assert_eq!(understood, Ok(Filters::none()));
    }
    let text = serde_json::to_string(filters).expect("filters hold nothing that JSON can't say");
    let nulls: Vec<serde_json::Value> = serde_json::from_str(&text).expect("what was written");
    let nulls = nulls.iter().filter(|value| value.is_null()).count();
    assert_eq!(nulls, filters.others(), "{text}");
}

fn assert_rules_are_bounded(dns: &model::Dns) {
    let (rules, _) = dns.understood();
    assert!(rules.search().len() <= MAX_SEARCH_DOMAINS);
    assert!(rules.zones().len() <= MAX_DNS_ZONES);
    assert!(rules.zones().values().all(|it| it.len() <= MAX_DNS_SERVERS));
    let again = model::Dns::from(&rules);
    assert_eq!(again.understood(), (rules, 0), "{again:?}");
}

/// One message of every kind, and those with what a later version may say.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const ID: &str = "00000000000000000000000001";
    let key = "A".repeat(43) + "=";
    let pin = "A".repeat(43);
    let resource = |rest: &str| {
        format!(r#""resource":{{"id":"res_{ID}","name":"db","site":"site_{ID}",{rest}}}"#)
    };
    let web = r#""kind":"cidr","address":"10.0.0.0/8","filters":[{"protocol":"tcp","ports":[80,"8000-8100"]}]"#;
    let interface = r#"{"ipv4":"100.64.0.9","ipv6":"fd00:2021:1111::9"}"#;
    let ranges = r#"{"machines_ipv4":"100.64.0.0/11","machines_ipv6":"fd00:2021:1111::/112","names_ipv4":"100.96.0.0/11","names_ipv6":"fd00:2021:1111:8000::/107"}"#;
    let names =
        r#"[{"name":"db.corp.example","ipv4":"100.96.0.1","ipv6":"fd00:2021:1111:8000::1"}]"#;
    let name = r#""name":{"name":"db.corp.example","ipv4":"100.100.0.1","ipv6":"fd00:2021:1111:8000::4:1"}"#;
    let resolved = r#"[{"name":"db.corp.example","ipv4":true,"ipv6":false}]"#;
    let reason = r#"{"code":"no_access","text":"no"}"#;
    let hello = format!(
        r#"{{"type":"hello","protocols":[1],"version":"1","machine":"m","name":"n","public_key":"{key}","ciphers":["aes256gcm","aegis"]"#
    );
    let reached = format!(
        r#"{{"type":"relays_reached","relays":[{{"relay":"rly_{ID}","round_trip_us":900,"registered":true}}]}}"#
    );
    let nat = r#"{"type":"nat_found","mapping":"endpoint_dependent"}"#.to_owned();
    let place = format!(
        r#""relay":"rly_{ID}","name":"r","addresses":["192.0.2.9:3478"],"tls":{{"port":443,"pin":"{pin}"}}"#
    );
    let access = format!(
        r#"{{{place},"port":3479,"token":"v4.local.x","key":"{key}","expires":"2027-01-31T18:00:00Z"}}"#
    );
    let of_client = [
        format!("{hello}}}"),
        format!(
            r#"{{"type":"request_access","request":4,"resource":"res_{ID}","names":{names},"avoid":["gw_{ID}"]}}"#
        ),
        format!(r#"{{"type":"answer_now","request":4,"resource":"res_{ID}"}}"#),
        format!(r#"{{"type":"release_access","grant":"grt_{ID}"}}"#),
        r#"{"type":"candidates_changed","candidates":["192.0.2.7:51820"]}"#.to_owned(),
        reached.clone(),
        nat.clone(),
        format!(
            r#"{{"type":"path_changed","gateway":"gw_{ID}","path":"later","relay":"rly_{ID}","round_trip_us":900}}"#
        ),
        r#"{"type":"unsupported","kind":"poem"}"#.to_owned(),
        r#"{"type":"poem","lines":[]}"#.to_owned(),
    ];
    let of_gateway = [
        format!(
            r#"{hello},"candidates":["192.0.2.1:51820","[2001:db8::1]:51820"],"draining":false,"grants":["grt_{ID}"]}}"#
        ),
        format!(
            r#"{hello},"candidates":[],"draining":false,"grants":["grt_{ID}"],"more_grants":true,"features":["grant_pages"]}}"#
        ),
        format!(r#"{{"type":"grants_held","grants":["grt_{ID}"],"more":true}}"#),
        r#"{"type":"grants_held","grants":[]}"#.to_owned(),
        format!(r#"{{"type":"grant_accepted","grant":"grt_{ID}","names":{resolved}}}"#),
        format!(r#"{{"type":"grant_refused","grant":"grt_{ID}","reason":{reason}}}"#),
        r#"{"type":"load","clients":1,"flows":2,"rate_bytes_per_s":3,"processor_permille":4}"#
            .to_owned(),
        r#"{"type":"candidates_changed","candidates":[]}"#.to_owned(),
        reached,
        nat,
        r#"{"type":"draining","on":true}"#.to_owned(),
        format!(
            r#"{{"type":"ask_name","ask":3,"client":"cli_{ID}","resource":"res_{ID}",{name}}}"#
        ),
        r#"{"type":"name_answered","ask":4,"answer":{"outcome":"found","ipv4":true,"ipv6":false}}"#
            .to_owned(),
        r#"{"type":"name_answered","ask":4,"answer":{"outcome":"later"}}"#.to_owned(),
        format!(
            r#"{{"type":"device_endpoints","devices":[{{"client":"cli_{ID}","client_key":"{key}","address":"198.51.100.7","handshake":"2027-01-31T18:00:00Z"}},{{"client":"cli_{ID}","client_key":"{key}","handshake":"2027-01-31T18:00:00Z"}}],"more":true}}"#
        ),
        format!(
            r#"{{"type":"flows","run":9,"batch":1,"lost":2,"flows":[{{"client":"cli_{ID}","resource":"res_{ID}","grant":"grt_{ID}","protocol":6,"address":"10.1.2.3","port":443,"started":"2027-01-31T18:00:00Z","ended":"2027-01-31T18:00:01Z","sent_bytes":1,"sent_packets":2,"received_bytes":3,"received_packets":4,"end":"later"}}]}}"#
        ),
    ];
    let granted = format!(
        r#"{{"epoch":7,"seq":2,"type":"access_granted","request":4,"resource":"res_{ID}","grant":"grt_{ID}","expires":"2027-01-31T18:00:00Z","gateway":"gw_{ID}","gateway_name":"gw","gateway_key":"{key}","gateway_interface":{interface},"candidates":["192.0.2.1:51820"],"preshared_key":"{key}","cipher":"chacha20poly1305","names":{resolved}}}"#
    );
    let told = |rest: &str| {
        let resource = resource(rest);
        format!(r#"{{"epoch":7,"seq":2,"type":"resource_set",{resource}}}"#)
    };
    let listed = resource(web).replacen(r#""resource":"#, "", 1);
    let portals = r#"{"epoch":7,"seq":2,"type":"portals_set","portals":{"urls":["https://a.example","http://b","https://[::1]:8443"],"pins":["QUFB"],"authorities":true}}"#;
    let to_client = [
        format!(
            r#"{{"epoch":7,"seq":1,"type":"welcome","protocol":1,"client":"cli_{ID}","interface":{interface},"ranges":{ranges},"resources":[{listed}],"grants":["grt_{ID}"],"grant_lifetime_s":3600}}"#
        ),
        format!(r#"{{"epoch":7,"seq":1,"type":"refused","reason":{reason},"retry_after_s":5}}"#),
        told(web),
        told(
            r#""kind":"dns","address":"**.corp.example","filters":[{"protocol":"sctp"},{"protocol":"icmp"}]"#,
        ),
        told(r#""kind":"app","paths":["/x"],"filters":[]"#),
        r#"{"epoch":7,"seq":2,"type":"ended_access_set","releases":true}"#.to_owned(),
        r#"{"epoch":7,"seq":2,"type":"dns_set","dns":{"search":["corp.example","a b"],"domains":[{"name":".","servers":["10.0.0.53","fd00::53","tls://x"]},{"name":"corp.example.","servers":[],"later":1}]}}"#.to_owned(),
        format!(r#"{{"epoch":7,"seq":2,"type":"resource_removed","resource":"res_{ID}"}}"#),
        granted,
        format!(
            r#"{{"epoch":7,"seq":2,"type":"access_denied","request":4,"resource":"res_{ID}","reason":{{"code":"later","text":""}}}}"#
        ),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"access_revoked","grant":"grt_{ID}","reason":{reason}}}"#
        ),
        format!(r#"{{"epoch":7,"seq":2,"type":"gateway_lost","gateway":"gw_{ID}"}}"#),
        format!(r#"{{"epoch":7,"seq":2,"type":"gateway_draining","gateway":"gw_{ID}"}}"#),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"gateway_moved","gateway":"gw_{ID}","candidates":[]}}"#
        ),
        format!(r#"{{"epoch":7,"seq":2,"type":"relay_places_set","relays":[{{{place}}}]}}"#),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"relays_set","gateway":"gw_{ID}","relays":[{access}]}}"#
        ),
        portals.to_owned(),
        r#"{"epoch":7,"seq":2,"type":"poem"}"#.to_owned(),
    ];
    let to_gateway = [
        portals.to_owned(),
        format!(
            r#"{{"epoch":7,"seq":1,"type":"welcome","protocol":1,"gateway":"gw_{ID}","site":"site_{ID}","interface":{interface},"ranges":{ranges},"grant_keys":["{key}"],"grants":[],"draining":false}}"#
        ),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"grant","token":"v4.public.x","preshared_key":"{key}","replaces":"grt_{ID}","names":{names}}}"#
        ),
        format!(
            r#"{{"epoch":7,"seq":1,"type":"welcome","protocol":1,"gateway":"gw_{ID}","interface":{interface},"ranges":{ranges},"grant_keys":["{key}"],"grants":["grt_{ID}"],"more_grants":true,"draining":false}}"#
        ),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"grants_retained","grants":["grt_{ID}"],"more":true}}"#
        ),
        r#"{"epoch":7,"seq":3,"type":"grants_retained","grants":[]}"#.to_owned(),
        format!(r#"{{"epoch":7,"seq":2,"type":"answer_now","grant":"grt_{ID}"}}"#),
        format!(r#"{{"epoch":7,"seq":2,"type":"revoke","grant":"grt_{ID}"}}"#),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"filters_changed","resource":"res_{ID}","filters":[{{"protocol":"any"}},{{"protocol":"udp","ports":[],"except":1}},null]}}"#
        ),
        format!(r#"{{"epoch":7,"seq":2,"type":"relays_set","relays":[{access}]}}"#),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"client_candidates","client":"cli_{ID}","client_key":"{key}","candidates":["192.0.2.7:51820"]}}"#
        ),
        r#"{"epoch":7,"seq":2,"type":"drain","on":true}"#.to_owned(),
        r#"{"epoch":7,"seq":2,"type":"verification","awaited":true}"#.to_owned(),
        r#"{"epoch":7,"seq":2,"type":"flow_log","on":true}"#.to_owned(),
        r#"{"epoch":7,"seq":3,"type":"flows_taken","run":9,"batch":1}"#.to_owned(),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"devices_admitted","devices":[{{"client":"cli_{ID}","client_key":"{key}","client_ipv4":"100.64.0.9","client_ipv6":"fd00:2021:1111::9"}}],"more":true,"kept_s":3600}}"#
        ),
        format!(
            r#"{{"epoch":7,"seq":3,"type":"device_admitted","device":{{"client":"cli_{ID}","client_key":"{key}","client_ipv4":"100.64.0.9","client_ipv6":"fd00:2021:1111::9"}}}}"#
        ),
        format!(r#"{{"epoch":7,"seq":4,"type":"device_dismissed","client":"cli_{ID}"}}"#),
        format!(
            r#"{{"epoch":7,"seq":3,"type":"names_elsewhere","client":"cli_{ID}","place":1,"names":[{{"resource":"res_{ID}","pattern":"*.corp.example","place":2}}]}}"#
        ),
        format!(
            r#"{{"epoch":7,"seq":3,"type":"resolve_name","ask":4,"client":"cli_{ID}","resource":"res_{ID}",{name}}}"#
        ),
        r#"{"epoch":7,"seq":3,"type":"name_answered","ask":3,"answer":{"outcome":"denied","text":"no"}}"#
            .to_owned(),
        format!(r#"{{"epoch":7,"seq":1,"type":"refused","reason":{reason}}}"#),
    ];
    let of_relay = [
        format!(
            r#"{{"type":"hello","protocols":[1],"version":"1","machine":"m","name":"n","addresses":["192.0.2.9:3478"],"first_port":3479,"ports":64,"tls":{{"port":443,"pin":"{pin}"}},"draining":false,"assigned":[{{"port":3479,"gateway":"gw_{ID}"}}]}}"#
        ),
        r#"{"type":"load","gateways":1,"clients":2,"rate_bytes_per_s":3,"processor_permille":4}"#
            .to_owned(),
        r#"{"type":"addresses_changed","addresses":[]}"#.to_owned(),
        r#"{"type":"draining","on":true}"#.to_owned(),
    ];
    let to_relay = [
        format!(
            r#"{{"epoch":7,"seq":1,"type":"welcome","protocol":1,"relay":"rly_{ID}","key":"{key}","draining":false}}"#
        ),
        format!(r#"{{"epoch":7,"seq":1,"type":"refused","reason":{reason}}}"#),
        format!(
            r#"{{"epoch":7,"seq":2,"type":"withdraw","gateway":"gw_{ID}","client":"cli_{ID}","until":"2027-01-31T18:00:00Z"}}"#
        ),
        r#"{"epoch":7,"seq":2,"type":"drain","on":true}"#.to_owned(),
        portals.to_owned(),
    ];
    let relay_claims = format!(
        r#"{{"relay":"rly_{ID}","port":3479,"gateway":"gw_{ID}","client":"cli_{ID}","public_key":"{key}","key":"{key}","rate_bytes_per_s":1,"iat":"2027-01-31T18:00:00Z","exp":"2027-01-31T19:00:00Z"}}"#
    );
    let claims = [format!(
        r#"{{"grant":"grt_{ID}","client":"cli_{ID}","client_key":"{key}","client_ipv4":"100.64.0.9","client_ipv6":"fd00:2021:1111::9","gateway":"gw_{ID}","resource":"res_{ID}","target":{{"kind":"address","address":"10.1.2.3"}},"filters":[{{"protocol":"udp"}},{{"protocol":"quic"}}],"cipher":"aes256gcm","iat":"2027-01-31T18:00:00Z","exp":"2027-01-31T19:00:00Z"}}"#
    )];
    let claims = [claims.concat(), relay_claims];
    let directions: [&[String]; 7] = [
        &of_client,
        &of_gateway,
        &to_client,
        &to_gateway,
        &of_relay,
        &to_relay,
        &claims,
    ];
    let seeds = (0_u8..).zip(directions).flat_map(|(direction, texts)| {
        texts
            .iter()
            .map(move |text| [&[direction], text.as_bytes()].concat())
    });
    seeds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed that is malformed would test nothing but that.
    #[test]
    fn every_seed_is_understood() {
        for seed in seeds() {
            let text = std::str::from_utf8(&seed[1..]).expect("a text");
            let is_understood = match seed[0] {
                0 => decode::<FromClient>(text).is_ok(),
                1 => decode::<FromGateway>(text).is_ok(),
                2 => decode_sequenced::<ToClient>(text).is_ok(),
                3 => decode_sequenced::<ToGateway>(text).is_ok(),
                4 => decode::<FromRelay>(text).is_ok(),
                5 => decode_sequenced::<ToRelay>(text).is_ok(),
                _ => {
                    serde_json::from_str::<GrantClaims>(text).is_ok()
                        || serde_json::from_str::<RelayClaims>(text).is_ok()
                }
            };
            assert!(is_understood, "{text}");
        }
    }

    #[test]
    fn every_kind_of_message_has_a_seed() {
        let seeds = seeds();
        let sets = [
            FromClient::KINDS,
            FromGateway::KINDS,
            ToClient::KINDS,
            ToGateway::KINDS,
            FromRelay::KINDS,
            ToRelay::KINDS,
        ];
        for (direction, kinds) in (0_u8..).zip(sets) {
            // `unsupported` is one and the same everywhere.
            for kind in kinds.iter().filter(|kind| **kind != "unsupported") {
                let field = format!(r#""type":"{kind}""#);
                let has_it = |seed: &&Vec<u8>| {
                    let text = String::from_utf8_lossy(&seed[1..]).into_owned();
                    seed[0] == direction && text.contains(&field)
                };
                assert!(
                    seeds.iter().any(|seed| has_it(&seed)),
                    "{direction}: {kind}"
                );
            }
        }
    }
}
