//! The account's rules about names, as an administrator gives them.

use culvert_policy::{DnsRules, DnsServer, Prefix};
use culvert_portal_base::{Fault, Problems};
use culvert_store::AccountSettings;
use culvert_wire::api::DesiredDns;
use culvert_wire::model;

/// The rules in the form in which they are kept: one for the same rules. All faults are told, each by its field behind
/// `at`.
pub(super) fn checked(at: &str, wanted: &DesiredDns) -> Result<model::Dns, Fault> {
    let mut problems = Problems::default();
    let mut search = Vec::new();
    for (index, text) in wanted.search.iter().enumerate() {
        let domain = text
            .parse()
            .map_err(|error| Fault::invalid(format!("{at}search[{index}]"), error));
        search.extend(problems.take(domain)?);
    }
    let mut zones = Vec::new();
    for (index, domain) in wanted.domains.iter().enumerate() {
        let at = format!("{at}domains[{index}].");
        let zone = domain
            .name
            .parse()
            .map_err(|error| Fault::invalid(format!("{at}name"), error));
        let zone = problems.take(zone)?;
        let mut servers = Vec::new();
        for (index, text) in domain.servers.iter().enumerate() {
            let server = text
                .parse::<DnsServer>()
                .map_err(|error| Fault::invalid(format!("{at}servers[{index}]"), error));
            servers.extend(problems.take(server)?);
        }
        zones.extend(zone.map(|zone| (zone, servers)));
    }
    problems.finish()?;
    let rules = DnsRules::new(search, zones)
        .map_err(|error| Fault::invalid(at.trim_end_matches('.').to_owned(), error))?;
    Ok((&rules).into())
}

/// Refuses servers in the networks of the tunnel: clients and gateways are there, and names of resources.
pub(super) fn outside_of_the_tunnel(at: &str, settings: &AccountSettings) -> Result<(), Fault> {
    let ranges = &settings.ranges;
    let own = [
        &ranges.machines_ipv4,
        &ranges.machines_ipv6,
        &ranges.names_ipv4,
        &ranges.names_ipv6,
    ];
    let own: Vec<Prefix> = own.iter().filter_map(|text| text.parse().ok()).collect();
    let (rules, _) = settings.dns.understood();
    for (zone, servers) in rules.zones() {
        for server in servers {
            if let Some(range) = own.iter().find(|range| range.contains(server.address())) {
                let detail = format!(
                    "{server}, a server of {zone}, lies in {range}, which is the tunnel's own: name the \
                     server by its address in its own network"
                );
                return Err(Fault::invalid(format!("{at}domains"), detail));
            }
        }
    }
    Ok(())
}
