//! Fields that people fill in, checked by the types that decide: what they refuse is never stored.

use culvert_policy::{
    Applications, NEVER_FORWARDED, Prefix, ResourceName, Target, WithinError, is_forwarded,
    normalized_name,
};
use culvert_portal_base::Fault;
use culvert_store::MAX_NAME_CHARS;
use culvert_wire::{model, words};
use std::net::IpAddr;

/// A name of anything, in the form in which it is kept.
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
    Ok(name)
}

/// The name of a resource: clients show it.
pub(super) fn resource_name(at: &str, text: &str) -> Result<String, Fault> {
    let field = format!("{at}name");
    let text = name(&field, text)?;
    ResourceName::new(&text).map_err(|error| Fault::invalid(field, error))?;
    Ok(text)
}

/// The place of a resource, in the form in which it is kept: one for each target.
pub(super) fn target(at: &str, target: &model::Target) -> Result<model::Target, Fault> {
    let at = format!("{at}address");
    let parsed = Target::try_from(target).map_err(|error| Fault::invalid(&at, error))?;
    if let Some(prefix) = parsed.prefix().filter(|prefix| is_never_forwarded(*prefix)) {
        let instead = match prefix.address().to_canonical() {
            IpAddr::V4(address)
                if prefix.is_host()
                    && prefix.address().is_ipv6()
                    && is_forwarded(address.into()) =>
            {
                format!("; write {address}")
            }
            _ => String::new(),
        };
        let why = format!(
            "no gateway forwards packets to {parsed}, whatever is granted: loopback, link-local and multicast \
             addresses and metadata services of clouds{instead}"
        );
        return Err(Fault::invalid(at, why));
    }
    Ok(model::Target {
        kind: target.kind,
        address: parsed.to_string(),
    })
}

/// True if no address of the prefix is ever forwarded to.
fn is_never_forwarded(prefix: Prefix) -> bool {
    let is_within =
        |range: &Prefix| range.len() <= prefix.len() && range.contains(prefix.address());
    NEVER_FORWARDED.iter().any(is_within) || (prefix.is_host() && !is_forwarded(prefix.address()))
}

/// The protocols and ports of a resource that may be used.
pub(super) fn filters(at: &str, filters: &[model::Filter]) -> Result<Vec<model::Filter>, Fault> {
    for (index, filter) in filters.iter().enumerate() {
        model::filters(std::slice::from_ref(filter))
            .map_err(|error| Fault::invalid(format!("{at}filters[{index}]"), error))?;
    }
    model::filters(filters).map_err(|error| Fault::invalid(format!("{at}filters"), error))?;
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

/// The conditions under which a policy holds.
pub(super) fn conditions(
    at: &str,
    conditions: &[model::Condition],
) -> Result<Vec<model::Condition>, Fault> {
    for (index, condition) in conditions.iter().enumerate() {
        model::conditions(std::slice::from_ref(condition))
            .map_err(|error| Fault::invalid(format!("{at}conditions[{index}]"), error))?;
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
            let error = format!("{:?}", target("", &address(never)).unwrap_err());
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
            target("", &address(some)).unwrap();
        }
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
