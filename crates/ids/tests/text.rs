//! The text form of ids.

use culvert_base::UnixTime;
use culvert_ids::{IdError, ResourceId, SiteId};
use proptest::prelude::*;

#[test]
fn an_id_says_what_it_names() {
    let id = SiteId::from_bytes([0; 16]);
    assert_eq!(id.to_string(), "site_00000000000000000000000000");
    assert_eq!(format!("{id:?}"), id.to_string());
    let id = SiteId::from_bytes([0xff; 16]);
    assert_eq!(id.to_string(), "site_7zzzzzzzzzzzzzzzzzzzzzzzzz");
}

#[test]
fn an_id_of_one_kind_is_refused_as_another() {
    let site = SiteId::from_bytes([7; 16]).to_string();
    assert_eq!(
        site.parse::<ResourceId>(),
        Err(IdError::Prefix { expected: "res" })
    );
}

#[test]
fn ids_sort_by_their_time_of_birth() {
    let older = ResourceId::new(UnixTime::from_millis(1_000), [0xff; 10]);
    let newer = ResourceId::new(UnixTime::from_millis(1_001), [0; 10]);
    assert!(older < newer);
    assert!(older.to_string() < newer.to_string());
}

#[test]
fn a_second_spelling_of_an_id_is_refused() {
    let id = ResourceId::from_bytes([0xab; 16]).to_string();
    let prefix_retained = format!("res_{}", id["res_".len()..].to_uppercase());
    for text in [
        prefix_retained.as_str(),
        "res_80000000000000000000000000",
        "res_0000000000000000000000000",
        "res_000000000000000000000000000",
        "res_0000000000000000000000000l",
        "res_",
        "res",
        "",
        "res_0000000000000000000000000\u{e9}",
    ] {
        assert!(text.parse::<ResourceId>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn every_id_survives_its_text_and_json(bytes: [u8; 16]) {
        let id = ResourceId::from_bytes(bytes);
        prop_assert_eq!(id.to_string().parse(), Ok(id));
        let json = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<ResourceId>(&json).unwrap(), id);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
        let _any = text.parse::<ResourceId>();
        let _any = format!("res_{text}").parse::<ResourceId>();
    }
}
