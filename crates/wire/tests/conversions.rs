//! From the written form to the types that decide.

use culvert_policy::{Conditions, Filters};
use culvert_wire::model::{Condition, Filter, Target, TargetKind, conditions, filters};
use proptest::prelude::*;

fn target(kind: TargetKind, address: &str) -> Result<culvert_policy::Target, String> {
    let address = address.to_owned();
    let target = Target { kind, address };
    (&target)
        .try_into()
        .map_err(|error: culvert_policy::TargetError| error.to_string())
}

#[test]
fn a_target_is_what_its_kind_says() {
    assert!(target(TargetKind::Cidr, "10.0.0.0/8").is_ok());
    assert!(target(TargetKind::Address, "fd00::1").is_ok());
    assert!(target(TargetKind::Dns, "**.corp.example").is_ok());
    assert!(target(TargetKind::Cidr, "10.0.0.1").is_err());
    assert!(target(TargetKind::Address, "10.0.0.0/8").is_err());
    assert!(target(TargetKind::Address, "db.corp.example").is_err());
    assert!(target(TargetKind::Dns, "a b").is_err());
}

#[test]
fn host_bits_are_refused_with_what_to_write_instead() {
    let error = target(TargetKind::Cidr, "10.1.2.3/8").unwrap_err();
    assert!(error.contains("10.0.0.0/8"), "{error}");
}

#[test]
fn an_empty_list_of_filters_allows_nothing() {
    assert_eq!(filters(&[]), Ok(Filters::none()));
    let written: Vec<Filter> = serde_json::from_str(r#"[{"protocol":"tcp","ports":[]}]"#).unwrap();
    assert_eq!(filters(&written), Ok(Filters::none()));
}

#[test]
fn every_kind_of_condition_is_converted() {
    let text = r#"[
        {"kind":"time","zone":"Europe/Berlin","windows":[{"days":["mon","sun"],"from":"22:00","until":"06:00"}]},
        {"kind":"public_address","cidrs":["192.0.2.0/24","2001:db8::/32"]},
        {"kind":"country","countries":["de","FR"]},
        {"kind":"verified"},
        {"kind":"client_os","systems":[{"id":"debian","min_version":"12"},{"id":"linux"}]},
        {"kind":"expires","at":"2027-01-31T18:00:00Z"}
    ]"#;
    let written: Vec<Condition> = serde_json::from_str(text).unwrap();
    let converted: Conditions = conditions(&written).unwrap();
    assert_eq!(converted.iter().count(), written.len());
    let again: Vec<Condition> =
        serde_json::from_str(&serde_json::to_string(&written).unwrap()).unwrap();
    assert_eq!(again, written);
}

#[test]
fn a_condition_that_can_not_be_is_refused() {
    for text in [
        r#"{"kind":"time","zone":"Mars/Olympus","windows":[{"days":["mon"],"from":"08:00","until":"09:00"}]}"#,
        r#"{"kind":"time","zone":"UTC","windows":[{"days":[],"from":"08:00","until":"09:00"}]}"#,
        r#"{"kind":"time","zone":"UTC","windows":[{"days":["mon"],"from":"8","until":"09:00"}]}"#,
        r#"{"kind":"time","zone":"UTC","windows":[]}"#,
        r#"{"kind":"public_address","cidrs":["192.0.2.1/24"]}"#,
        r#"{"kind":"public_address","cidrs":[]}"#,
        r#"{"kind":"country","countries":["Germany"]}"#,
        r#"{"kind":"client_os","systems":[]}"#,
        r#"{"kind":"client_os","systems":[{"id":"Debian"}]}"#,
        r#"{"kind":"client_os","systems":[{"id":"debian","min_version":"twelve"}]}"#,
        r#"{"kind":"client_os","systems":[{"id":"linux","min_version":"6"}]}"#,
    ] {
        let condition: Condition = serde_json::from_str(text).unwrap();
        assert!(conditions(&[condition]).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_target_makes_the_conversion_panic(address in "\\PC{0,40}", kind in 0..3_u8) {
        let kind = [TargetKind::Cidr, TargetKind::Address, TargetKind::Dns][usize::from(kind)];
        let _any = target(kind, &address);
    }
}

#[test]
fn a_client_is_told_of_two_rules_together_which_have_more_names_than_one_may() {
    use culvert_policy::{Applications, MAX_APPLICATIONS};
    use culvert_wire::model::{self, ToldApplications};
    let rule = |count: usize| {
        let names = (0..count).map(|number| format!("a{number}"));
        model::Applications::Except(names.collect())
    };
    assert!(Applications::try_from(&rule(MAX_APPLICATIONS)).is_ok());
    assert!(Applications::try_from(&rule(MAX_APPLICATIONS + 1)).is_err());
    let told = |count| ToldApplications::Known(rule(count));
    assert!(Applications::try_from(&told(2 * MAX_APPLICATIONS)).is_ok());
    assert!(Applications::try_from(&told(2 * MAX_APPLICATIONS + 1)).is_err());
}

#[test]
fn a_rule_about_applications_is_written_in_one_way() {
    use culvert_wire::model::Applications;
    let read = |text: &str| serde_json::from_str::<Applications>(text);
    let only = Applications::Only(vec!["b".to_owned(), "a".to_owned(), "b".to_owned()]);
    assert_eq!(read(r#"{"only":["b","a","b"]}"#).unwrap(), only);
    let parsed = culvert_policy::Applications::try_from(&only).unwrap();
    let written = Applications::from(&parsed);
    assert_eq!(
        serde_json::to_string(&written).unwrap(),
        r#"{"only":["a","b"]}"#
    );
    let nothing = culvert_policy::Applications::try_from(&read(r#"{"except":[]}"#).unwrap());
    assert_eq!(Applications::from(&nothing.unwrap()), Applications::Any);
    for wrong in [
        r#"{"only":["a"],"except":["b"]}"#,
        r#"{"some":["a"]}"#,
        "[]",
        "null",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
