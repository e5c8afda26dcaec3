//! Unknown parts of a message of a later version: they give nothing, and they do not spoil the rest.

use culvert_ids::{ResourceId, SiteId};
use culvert_wire::messages::{FromClient, ReasonCode, ToClient, ToGateway};
use culvert_wire::model::{Filter, Understood};
use culvert_wire::{Cipher, DecodeError, Decoded, PublicKey, decode, encode};

#[test]
fn a_cipher_of_a_later_version_is_ignored() {
    let key = PublicKey::from_bytes([9; 32]);
    let text = format!(
        r#"{{"type":"hello","protocols":[1],"version":"2","machine":"m","name":"n",
            "public_key":"{key}","ciphers":["aegis","aes256gcm",7,{{"name":"x"}}]}}"#
    );
    let Ok(Decoded::Known(FromClient::Hello { ciphers, .. })) = decode(&text) else {
        panic!("it is known");
    };
    assert_eq!(ciphers, [Cipher::Aes256Gcm]);
}

#[test]
fn a_hello_of_an_earlier_version_says_no_operating_system() {
    let key = PublicKey::from_bytes([9; 32]);
    let hello = |more: &str| {
        let text = format!(
            r#"{{"type":"hello","protocols":[1],"version":"0","machine":"m","name":"n",
                "public_key":"{key}","ciphers":[]{more}}}"#
        );
        let Ok(Decoded::Known(FromClient::Hello { os, .. })) = decode(&text) else {
            panic!("it is known");
        };
        os.map(|os| os.to_string())
    };
    assert_eq!(hello(""), None);
    let later = r#","os":{"family":"linux","id":"debian","version":"12","build":7}"#;
    assert_eq!(hello(later).as_deref(), Some("debian 12"));
}

/// Texts of filters, and how many of them are not understood.
const LATER_FILTERS: [(&str, usize); 5] = [
    ("[]", 0),
    (r#"[{"protocol":"icmp"}]"#, 0),
    (r#"[{"protocol":"sctp"},{"protocol":"icmp"}]"#, 1),
    (r#"[{"protocol":"any","except":"tcp"},null,7]"#, 3),
    (r#"[{"protocol":"tcp","ports":["http"]}]"#, 1),
];

#[test]
fn a_filter_of_a_later_version_allows_nothing_and_leaves_the_others() {
    for (filters, others) in LATER_FILTERS {
        let resource = ResourceId::from_bytes([1; 16]);
        let text =
            format!(r#"{{"type":"filters_changed","resource":"{resource}","filters":{filters}}}"#);
        let Ok(Decoded::Known(ToGateway::FiltersChanged { filters, .. })) = decode(&text) else {
            panic!("{text}");
        };
        assert_eq!(filters.others(), others, "{text}");
        let known = filters.iter().all(|filter| *filter == Filter::Icmp);
        assert!(known, "{filters:?}");
        let again: Understood<Filter> =
            serde_json::from_str(&serde_json::to_string(&filters).unwrap()).unwrap();
        assert_eq!(again, filters);
    }
}

#[test]
fn a_target_of_a_later_version_is_told_from_those_that_are_known() {
    let (id, site) = (ResourceId::from_bytes([1; 16]), SiteId::from_bytes([2; 16]));
    let text = format!(
        r#"{{"type":"resource_set","resource":{{"id":"{id}","name":"mail","site":"{site}",
            "kind":"app","paths":["/x"],"filters":[]}}}}"#
    );
    let Ok(Decoded::Known(message)) = decode(&text) else {
        panic!("{text}");
    };
    let ToClient::ResourceSet { resource } = &message else {
        panic!("{message:?}");
    };
    assert_eq!(resource.target.known(), None);
    let error = culvert_policy::Resource::try_from(resource).unwrap_err();
    assert!(error.to_string().contains("`app`"), "{error}");
    assert_eq!(decode(&encode(&message)), Ok(Decoded::Known(message)));
    // A kind is what a target can't do without.
    let without = text.replace(r#""kind":"app","#, "");
    let malformed = decode::<ToClient>(&without);
    assert!(matches!(malformed, Err(DecodeError::Malformed { .. })));
}

#[test]
fn a_reason_of_a_later_version_is_still_a_reason() {
    let text = r#"{"type":"access_revoked","grant":"grt_00000000000000000000000000",
        "reason":{"code":"from_the_future","text":"x"}}"#;
    let Ok(Decoded::Known(ToClient::AccessRevoked { reason, .. })) = decode(text) else {
        panic!("it is known");
    };
    assert_eq!(reason.code, ReasonCode::Other);
}

#[test]
fn rules_about_names_of_a_later_version_keep_their_domains_and_ask_nobody_else() {
    let text = r#"{"search":["a b","corp.example"],"order":1,"domains":[
        {"name":"corp.example","servers":["tls://10.0.0.53"],"dnssec":true},
        {"name":"lab.example","servers":["10.0.0.53","10.0.0.54:5353"]},
        {"name":"*.example","servers":["10.0.0.53"]}]}"#;
    let told: culvert_wire::model::Dns = serde_json::from_str(text).unwrap();
    let (rules, not_understood) = told.understood();
    assert_eq!(not_understood, 4);
    assert_eq!(rules.search(), ["corp.example".parse().unwrap()]);
    let zones: Vec<_> = rules
        .zones()
        .iter()
        .map(|(zone, servers)| (zone.to_string(), servers.len()))
        .collect();
    assert_eq!(
        zones,
        [
            ("corp.example".to_owned(), 0),
            ("lab.example".to_owned(), 1)
        ]
    );
}
