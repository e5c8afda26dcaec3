//! Fields that people fill in, checked by the types that decide: what they refuse is never stored.

use culvert_policy::{
    Applications, FilterError, NeverReached, Ports, Prefix, ResourceName, Target, WithinError,
    normalized_name, span_error,
};
use culvert_portal_base::Fault;
use culvert_store::MAX_NAME_CHARS;
use culvert_store::rules::has_form_of_id;
use culvert_wire::{model, words};

/// A name of anything, in the form in which it is kept. `before` is the name that the thing has. That is not judged again,
/// so that a thing from before a rule can be changed in its other fields.
pub(super) fn name_after(before: Option<&str>, field: &str, text: &str) -> Result<String, Fault> {
    match before == Some(text) {
        true => Ok(text.to_owned()),
        false => name(field, text),
    }
}

/// A new name of anything, in the form in which it is kept.
pub(super) fn name(field: &str, text: &str) -> Result<String, Fault> {
    let name = normalized_name(text)
        .map_err(|found| Fault::invalid(field, format_args!("a name must not contain {found}")))?;
    let chars = name.chars().count();
    let wrong = |detail: String| Err(Fault::invalid(field, detail));
    if chars == 0 || chars > MAX_NAME_CHARS {
        return wrong(format!(
            "a name has 1 to {MAX_NAME_CHARS} characters, not {chars}"
        ));
    }
    if name.trim() != name {
        return wrong("a name neither begins nor ends with a space".to_owned());
    }
    if has_form_of_id(&name) {
        return wrong(format!(
            "`{name}` has the form of an id, and would be taken for the thing with that id: choose another name"
        ));
    }
    Ok(name)
}

/// The name of a resource: clients show it.
pub(super) fn resource_name(before: Option<&str>, at: &str, text: &str) -> Result<String, Fault> {
    let field = format!("{at}name");
    if before == Some(text) {
        return Ok(text.to_owned());
    }
    let text = name(&field, text)?;
    ResourceName::new(&text).map_err(|error| Fault::invalid(field, error))?;
    Ok(text)
}

/// The place of a resource, in the form in which it is kept: one for each target. `tunnel` are the networks inside the
/// tunnel. `before` is the place that it has, which is not judged again.
pub(super) fn target(
    before: Option<&model::Target>,
    at: &str,
    target: &model::Target,
    tunnel: &[Prefix],
) -> Result<model::Target, Fault> {
    if before == Some(target) {
        return Ok(target.clone());
    }
    let at = format!("{at}address");
    // Of what is written alone: `10.1.2.3-9` is a name by its form, and may be stored from before this rule.
    if let Some(error) = span_error(target.address.trim()) {
        return Err(Fault::invalid(at, error));
    }
    let parsed = Target::try_from(target).map_err(|error| Fault::invalid(&at, error))?;
    if let Some(reason) = NeverReached::of(&parsed, tunnel) {
        return Err(Fault::invalid(at, reason));
    }
    Ok(model::Target {
        kind: target.kind,
        address: parsed.to_string(),
    })
}

const INBOUND_OF_NAMES: &str = "only addresses and networks may begin connections to clients: the address of a packet does not \
                                say by which name its sender is meant. Make a resource of the address";

/// The protocols and ports of a resource that may be used. `before` are those of now, which are not judged again.
pub(super) fn filters(
    before: Option<&[model::Filter]>,
    at: &str,
    filters: &[model::Filter],
) -> Result<Vec<model::Filter>, Fault> {
    if before == Some(filters) {
        return Ok(filters.to_vec());
    }
    checked_filters(&format!("{at}filters"), filters)
}

/// The protocols and ports of a client's own host that a resource may use. `before` are those of now, which are not judged
/// again unless they are of names.
pub(super) fn inbound(
    before: Option<&[model::Filter]>,
    at: &str,
    kind: model::TargetKind,
    filters: &[model::Filter],
) -> Result<Vec<model::Filter>, Fault> {
    let at = format!("{at}inbound");
    if kind == model::TargetKind::Dns && !filters.is_empty() {
        return Err(Fault::invalid(at, INBOUND_OF_NAMES));
    }
    match before == Some(filters) {
        true => Ok(filters.to_vec()),
        false => checked_filters(&at, filters),
    }
}

fn checked_filters(field: &str, filters: &[model::Filter]) -> Result<Vec<model::Filter>, Fault> {
    for (index, filter) in filters.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let (model::Filter::Tcp { ports } | model::Filter::Udp { ports }) = filter else {
            continue;
        };
        for range in ports {
            let ports = Ports::try_from(range).map_err(|error| Fault::invalid(&at, error))?;
            if ports.is_zero() {
                return Err(Fault::invalid(at, FilterError::PortZero));
            }
        }
        model::filters(std::slice::from_ref(filter)).map_err(|error| Fault::invalid(at, error))?;
    }
    model::filters(filters).map_err(|error| Fault::invalid(field, error))?;
    Ok(filters.to_vec())
}

/// The programs that may use a resource, in the form in which they are kept: one for each rule.
pub(super) fn applications(
    at: &str,
    applications: &model::Applications,
) -> Result<model::Applications, Fault> {
    let parsed = Applications::try_from(applications)
        .map_err(|error| Fault::invalid(format!("{at}applications"), error))?;
    Ok((&parsed).into())
}

/// The networks of names' addresses, in the form in which it is kept: one for each set of networks.
pub(super) fn within(
    at: &str,
    kind: model::TargetKind,
    written: Option<&[String]>,
) -> Result<Option<Vec<String>>, Fault> {
    let wrong = |error: &dyn std::fmt::Display| Fault::invalid(format!("{at}within"), error);
    let parsed = words::parse_within(written.unwrap_or(&[words::ANYWHERE.to_owned()]));
    let Some(networks) = parsed.map_err(|error| wrong(&error))? else {
        return Ok(None);
    };
    if kind != model::TargetKind::Dns {
        return Err(wrong(&WithinError::NotNames));
    }
    let within = model::within(&networks).map_err(|error| wrong(&error))?;
    Ok(Some(
        within.ranges().iter().map(ToString::to_string).collect(),
    ))
}

/// The conditions under which a policy holds. `before` are those of now, which are not judged again.
pub(super) fn conditions(
    before: Option<&[model::Condition]>,
    at: &str,
    conditions: &[model::Condition],
) -> Result<Vec<model::Condition>, Fault> {
    if before == Some(conditions) {
        return Ok(conditions.to_vec());
    }
    for (index, condition) in conditions.iter().enumerate() {
        let checked =
            model::conditions(std::slice::from_ref(condition)).and_then(|_| condition.check_new());
        checked.map_err(|error| Fault::invalid(format!("{at}conditions[{index}]"), error))?;
    }
    model::conditions(conditions)
        .map_err(|error| Fault::invalid(format!("{at}conditions"), error))?;
    Ok(conditions.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_nothing_is_forwarded_to_is_refused_with_the_reason() {
        let address = |address: &str| model::Target {
            kind: match address.contains('/') {
                true => model::TargetKind::Cidr,
                false => model::TargetKind::Address,
            },
            address: address.to_owned(),
        };
        for never in [
            "127.0.0.1",
            "127.0.0.0/8",
            "169.254.169.254",
            "169.254.0.0/24",
            "168.63.129.16",
            "::1",
            "fe80::/64",
            "64:ff9b::7f00:1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "224.0.0.0/4",
            "100.100.100.200",
            "192.0.0.192",
            "255.255.255.255",
            "fec0::/10",
            "ff02::1",
            "fd00:ec2::/32",
            "fd00:ec2::254",
            "64:ff9b::a83f:8110",
            "64:ff9b:1::a9fe:a9fe",
            "2002:7f00:1::1",
            "2001:db8::5efe:127.0.0.1",
            "::10.0.0.0/104",
        ] {
            let error = format!("{:?}", target(None, "", &address(never), &[]).unwrap_err());
            assert!(error.contains("no gateway forwards"), "{error}");
            assert_eq!(
                error.contains("write 10.0.0.1"),
                never == "::ffff:10.0.0.1",
                "{error}"
            );
        }
        // A range may hold such addresses besides others.
        for some in [
            "0.0.0.0/0",
            "::/0",
            "168.0.0.0/8",
            "10.0.0.1",
            "64:ff9b::/96",
            "168.63.129.17",
            "100.100.100.0/24",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::1",
            "fd00:ec3::254",
        ] {
            target(None, "", &address(some), &[]).unwrap();
        }
    }

    #[test]
    fn what_is_no_address_and_no_name_is_refused_with_the_right_writing() {
        let tunnel = ["100.64.0.0/10".parse().unwrap()];
        for (text, says) in [
            ("10.90.0.300", "each from 0 to 255"),
            ("999.1.1.1", "each from 0 to 255"),
            ("256.256.256.256", "each from 0 to 255"),
            ("1.2.3", "each from 0 to 255"),
            (
                "10.1.2.3-10.1.2.9",
                "write 10.1.2.3/32, 10.1.2.4/30, 10.1.2.8/31",
            ),
            ("10.1.2.3-9", "write 10.1.2.3/32, 10.1.2.4/30, 10.1.2.8/31"),
            ("localhost", "the machine itself"),
            ("100.64.0.5", "100.64.0.0/10, which is the tunnel's own"),
            ("100.64.0.0/10", "the tunnel's own"),
        ] {
            let kind = words::target_kind(text);
            let address = text.to_owned();
            let fault = target(
                None,
                "resources[2].",
                &model::Target { kind, address },
                &tunnel,
            );
            let Err(Fault::Invalid(problems)) = fault else {
                panic!("{text}: {fault:?}");
            };
            assert_eq!(problems[0].field, "resources[2].address");
            let detail = &problems[0].detail;
            assert!(detail.contains(says), "{text}: {detail}");
        }
    }

    #[test]
    fn addresses_from_one_to_another_that_are_stored_as_a_name_stay() {
        let stored = model::Target {
            kind: model::TargetKind::Dns,
            address: "10.1.2.3-9".to_owned(),
        };
        Target::try_from(&stored).unwrap();
        assert_eq!(target(Some(&stored), "", &stored, &[]).unwrap(), stored);
        target(None, "", &stored, &[]).unwrap_err();
    }

    #[test]
    fn port_zero_alone_is_refused() {
        let tcp = |text: &str| {
            let ports = vec![text.parse().unwrap()];
            filters(
                None,
                "",
                &[model::Filter::Any, model::Filter::Tcp { ports }],
            )
        };
        let fault = format!("{:?}", tcp("0").unwrap_err());
        assert!(
            fault.contains("ports are 1 to 65535") && fault.contains("filters[1]"),
            "{fault}"
        );
        tcp("0-1023").unwrap();
        tcp("1").unwrap();
    }

    #[test]
    fn a_name_of_the_form_of_an_id_is_refused() {
        for id in [
            "grp_01m8f0000000000000000000zz",
            "act_00000000000000000000000000",
            "gw_00000000000000000000000000",
        ] {
            assert!(has_form_of_id(id), "{id}");
            let fault = format!("{:?}", name("name", id).unwrap_err());
            assert!(fault.contains("the form of an id"), "{fault}");
        }
        name("name", "grp_admins").unwrap();
    }

    #[test]
    fn a_name_that_a_thing_has_is_not_judged_again() {
        let old = "ad\u{200b}min";
        assert_eq!(name_after(Some(old), "name", old).unwrap(), old);
        for before in [None, Some("admin")] {
            let fault = format!("{:?}", name_after(before, "name", old).unwrap_err());
            assert!(
                fault.contains("U+200B, an invisible character (character 3)"),
                "{fault}"
            );
        }
        assert_eq!(
            name_after(Some("a"), "name", "Mu\u{308}ller").unwrap(),
            "M\u{fc}ller"
        );
    }

    #[test]
    fn a_country_that_is_none_is_refused() {
        let country = |code: &str| {
            let texts = format!(r#"[{{"kind":"country","countries":["DE","{code}"]}}]"#);
            let written: Vec<model::Condition> = serde_json::from_str(&texts).unwrap();
            conditions(None, "", &written)
        };
        let fault = format!("{:?}", country("XX").unwrap_err());
        assert!(
            fault.contains("conditions[0]") && fault.contains("`XX`"),
            "{fault}"
        );
        country("AT").unwrap();
    }

    #[test]
    fn a_name_has_one_to_a_hundred_characters() {
        for (chars, is_name) in [(0, false), (1, true), (100, true), (101, false)] {
            // Characters of two bytes: they are what counts.
            let text = "\u{e4}".repeat(chars);
            assert_eq!(name("name", &text).is_ok(), is_name, "{chars} characters");
        }
    }
}
