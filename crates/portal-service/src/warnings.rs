//! Warnings for administrators about things that are stored, and do less than they seem to.

use culvert_base::quoted;
use culvert_policy::{NeverReached, Prefix, Target};
use culvert_store as store;
use culvert_wire::model::{self, Condition, TargetKind};
use culvert_wire::words;
use std::collections::BTreeMap;

/// The most resources of one address that a warning names: a line of them.
const MAX_NAMED: usize = 3;

/// The most resources of one address, oldest first, that are looked at: more than a host has services of its own.
pub(super) const MAX_LOOKED_AT: u16 = 64;

/// The warnings about a resource by itself. `tunnel` are the networks inside the tunnel.
pub(super) fn of_resource(row: &store::Resource, tunnel: &[Prefix]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Ok(target) = Target::try_from(&row.target) {
        // From before the rule, or from before the account's networks were changed.
        let never = NeverReached::of(&target, tunnel);
        match never {
            Some(reason) => warnings.push(reason.to_string()),
            None => warnings.extend(tunnel_inside(&target, tunnel)),
        }
    }
    let within = words::within_warning(row.target.kind, row.within.as_deref());
    warnings.extend(within.map(str::to_owned));
    warnings
}

/// The warning that a network holds the tunnel's own addresses besides. Everything (`0.0.0.0/0`) does, which nobody is
/// surprised by.
fn tunnel_inside(target: &Target, tunnel: &[Prefix]) -> Option<String> {
    let network = target.prefix().filter(|network| network.len() > 0)?;
    let inside = tunnel
        .iter()
        .find(|range| network.contains(range.address()))?;
    Some(format!(
        "{network} holds {inside}, which is the tunnel's own: nobody reaches the addresses in there"
    ))
}

/// The warning that other resources of the site have the same address; none where each allows what the others do not.
/// `others` are the oldest first.
pub(super) fn of_same_address<'a>(
    row: &store::Resource,
    others: impl IntoIterator<Item = &'a store::Resource>,
) -> Option<String> {
    let own = model::filters(&row.filters).ok()?;
    let mut named = Vec::new();
    for other in others.into_iter().take(MAX_LOOKED_AT.into()) {
        let is_same = other.id != row.id
            && other.site == row.site
            && place(&other.target) == place(&row.target);
        let Ok(filters) = model::filters(&other.filters) else {
            continue;
        };
        let are_apart = !own.is_empty() && !filters.is_empty() && !own.overlaps(&filters);
        if is_same && !are_apart {
            named.push(match other.id < row.id {
                true => format!("{}, which is older", quoted(&other.name)),
                false => format!("{}, which is newer", quoted(&other.name)),
            });
        }
        if named.len() == MAX_NAMED {
            break;
        }
    }
    (!named.is_empty()).then(|| {
        format!(
            "the same address in the same site has {}: a client that may use both reaches by the older one what both allow",
            named.join(", and ")
        )
    })
}

/// The warnings about planned resources, by themselves, beside each other and beside those that stay.
pub(super) fn of_planned<'a>(
    planned: &'a [store::Resource],
    staying: impl Iterator<Item = &'a store::Resource>,
    tunnel: &[Prefix],
) -> Vec<String> {
    let key = |row: &store::Resource| (row.site, place(&row.target));
    let mut by_place: BTreeMap<_, Vec<&store::Resource>> = BTreeMap::new();
    for row in staying.chain(planned) {
        by_place.entry(key(row)).or_default().push(row);
    }
    for rows in by_place.values_mut() {
        rows.sort_unstable_by_key(|row| row.id);
    }
    let mut told = Vec::new();
    for row in planned {
        let others = by_place.get(&key(row)).into_iter().flatten().copied();
        let mut warnings = of_resource(row, tunnel);
        warnings.extend(of_same_address(row, others));
        let name = quoted(&row.name);
        told.extend(
            warnings
                .iter()
                .map(|warning| format!("resource {name}: {warning}")),
        );
    }
    told
}

/// The ways in which the address of a resource may be written: a network of one address is that address.
pub(super) fn spellings(target: &model::Target) -> Vec<model::Target> {
    let mut spellings = vec![target.clone()];
    let prefix = Target::try_from(target)
        .ok()
        .and_then(|target| target.prefix());
    if let Some(prefix) = prefix.filter(|prefix| prefix.is_host()) {
        let (kind, address) = match target.kind {
            TargetKind::Cidr => (TargetKind::Address, prefix.address().to_string()),
            TargetKind::Address | TargetKind::Dns => (TargetKind::Cidr, prefix.to_string()),
        };
        spellings.push(model::Target { kind, address });
    }
    spellings
}

/// The address of a resource, in one form for all spellings.
pub(super) fn place(target: &model::Target) -> String {
    let prefix = Target::try_from(target)
        .ok()
        .and_then(|target| target.prefix());
    prefix.map_or_else(|| target.address.clone(), |prefix| prefix.to_string())
}

/// The warnings about the conditions of a policy.
pub(super) fn of_conditions(conditions: &[Condition], knows_countries: bool) -> Vec<String> {
    let asks_country = |condition: &Condition| matches!(condition, Condition::Country(_));
    match !knows_countries && conditions.iter().any(asks_country) {
        true => vec![format!("it never holds: {NO_COUNTRIES}")],
        false => Vec::new(),
    }
}

/// The reason why no condition about a country holds.
pub(super) const NO_COUNTRIES: &str =
    "it asks for a country, and the portal has no database of countries (`--geoip FILE`)";

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::{ResourceId, SiteId};
    use culvert_wire::model::{Applications, Filter};

    fn resource(number: u8, address: &str, filters: &[Filter]) -> store::Resource {
        store::Resource {
            id: ResourceId::from_bytes([number; 16]),
            site: SiteId::from_bytes([1; 16]),
            name: format!("r{number}"),
            target: model::Target {
                kind: words::target_kind(address),
                address: address.to_owned(),
            },
            inbound: Vec::new(),
            filters: filters.to_vec(),
            applications: Applications::Any,
            within: None,
            stamp: store::Stamp::default(),
        }
    }

    fn tcp(text: &str) -> Filter {
        let ports = vec![text.parse().unwrap()];
        Filter::Tcp { ports }
    }

    #[test]
    fn a_second_resource_of_an_address_is_told_with_the_name_of_the_other() {
        let one = resource(1, "10.0.0.1", &[tcp("80-90")]);
        for (address, filters, is_told) in [
            ("10.0.0.1", vec![tcp("85")], true),
            ("10.0.0.1/32", vec![tcp("85")], true),
            ("10.0.0.1", vec![Filter::Any], true),
            ("10.0.0.1", Vec::new(), true),
            // Several resources of one host, each for its own ports, are meant.
            ("10.0.0.1", vec![tcp("22")], false),
            ("10.0.0.1", vec![Filter::Icmp], false),
            ("10.0.0.2", vec![tcp("85")], false),
            ("10.0.0.0/31", vec![tcp("85")], false),
        ] {
            let two = resource(2, address, &filters);
            let of_two = of_same_address(&two, [&one, &two]);
            let of_one = of_same_address(&one, [&one, &two]);
            assert_eq!(
                (of_one.is_some(), of_two.is_some()),
                (is_told, is_told),
                "{address} {filters:?}"
            );
            if let (Some(of_one), Some(of_two)) = (of_one, of_two) {
                assert!(of_one.contains("\"r2\", which is newer"), "{of_one}");
                assert!(of_two.contains("\"r1\", which is older"), "{of_two}");
            }
        }
        let foreign = store::Resource {
            site: SiteId::from_bytes([2; 16]),
            ..resource(2, "10.0.0.1", &[tcp("85")])
        };
        assert_eq!(of_same_address(&foreign, [&one]), None);
    }

    #[test]
    fn the_oldest_of_many_planned_for_one_address_are_named_in_their_order() {
        let planned = [9].map(|number| resource(number, "10.0.0.1", &[]));
        let staying = [8, 4, 6, 2].map(|number| resource(number, "10.0.0.1/32", &[]));
        let told = of_planned(&planned, staying.iter(), &[]).join("\n");
        let at = |name: &str| told.find(name).unwrap_or(usize::MAX);
        assert!(at("\"r2\"") < at("\"r4\"") && at("\"r4\"") < at("\"r6\""));
        assert!(
            told.contains("\"r6\"") && !told.contains("\"r8\""),
            "{told}"
        );
    }

    #[test]
    fn addresses_of_the_tunnel_are_told() {
        let tunnel = ["100.64.0.0/10".parse().unwrap()];
        let told = |address| of_resource(&resource(1, address, &[]), &tunnel).join("\n");
        assert!(told("100.64.0.5").contains("the tunnel's own"));
        assert!(told("127.0.0.1").contains("no gateway forwards"));
        assert!(told("100.0.0.0/8").contains("holds 100.64.0.0/10"));
        assert_eq!(told("0.0.0.0/0"), "");
        assert_eq!(told("10.0.0.0/8"), "");
    }

    #[test]
    fn a_country_without_a_database_is_told() {
        let text = r#"[{"kind":"verified"},{"kind":"country","countries":["DE"]}]"#;
        let conditions: Vec<Condition> = serde_json::from_str(text).unwrap();
        let told = of_conditions(&conditions, false);
        assert!(told.len() == 1 && told[0].contains("--geoip"), "{told:?}");
        assert!(of_conditions(&conditions, true).is_empty());
        assert!(of_conditions(&conditions[..1], false).is_empty());
    }
}
