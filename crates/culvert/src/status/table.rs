//! The client's state for people.

use crate::visible::visible;
use culvert_client::status::{
    AccessState, ApplicationsStatus, Control, DnsControlStatus, DropStatus, GatewayStatus,
    PortalState, PortalStatus, RelayStatus, ResourceStatus, ServiceState, Status,
};
use culvert_host::Sandbox;
use culvert_wire::Cipher;
use std::fmt::Write;

/// The resources alone.
pub(crate) fn render_resources(status: &Status) -> String {
    let mut text = String::new();
    resources(status, &mut text);
    text.trim_start().to_owned()
}

/// The state as text.
pub(super) fn render(status: &Status) -> String {
    let mut text = String::new();
    machine(status, &mut text);
    if status.service.state == ServiceState::Up {
        resources(status, &mut text);
        inbound(&status.resources, &mut text);
    }
    gateways(status, &mut text);
    relays(&status.relays, &mut text);
    names(status, &mut text);
    zones(status, &mut text);
    applications(&status.applications, &mut text);
    drops(&status.drops, &mut text);
    if !status.problems.is_empty() {
        text.push_str("\nPROBLEMS\n");
        for problem in &status.problems {
            line(&mut text, format_args!("  {problem}"));
        }
    }
    text
}

/// Packets that were dropped, by stage and reason; nothing where none were.
pub(crate) fn drops(drops: &[DropStatus], text: &mut String) {
    if drops.is_empty() {
        return;
    }
    text.push_str("\nDROPPED\n");
    let rows = drops.iter().map(|drop| {
        vec![
            drop.stage.clone(),
            drop.reason.clone(),
            drop.count.to_string(),
        ]
    });
    columns(rows.collect(), text);
}

fn machine(status: &Status, text: &mut String) {
    let client = status.client.map(|client| format!(" ({client})"));
    line(
        text,
        format_args!("client     {}{}", status.name, client.unwrap_or_default()),
    );
    if let Some(service) = service(status) {
        line(text, format_args!("service    {service}"));
    }
    if !status.portal_url.is_empty() {
        let portal = portal(&status.portal);
        line(
            text,
            format_args!("portal     {}: {portal}", status.portal_url),
        );
    }
    if let (Some(interface), Some(ipv4), Some(ipv6)) = (&status.interface, status.ipv4, status.ipv6)
    {
        line(text, format_args!("tunnel     {interface}: {ipv4}, {ipv6}"));
    }
    if !status.dns.listening.is_empty() {
        let listening: Vec<String> = status
            .dns
            .listening
            .iter()
            .map(ToString::to_string)
            .collect();
        line(
            text,
            format_args!("names      answered at {}", listening.join(", ")),
        );
    }
    if let Some(control) = &status.dns.control {
        line(text, format_args!("dns        {}", dns(control)));
    }
    if !status.dns.search.is_empty() {
        let search = status.dns.search.join(", ");
        line(text, format_args!("search     {search}"));
    }
    sandbox(status.sandbox.as_ref(), text);
    line(
        text,
        format_args!(
            "running    {}, culvert {}",
            span(status.running_for_ms),
            status.version
        ),
    );
}

/// Lists the parts that are not closed to the process; nothing if all of it is.
pub(crate) fn sandbox(sandbox: Option<&Sandbox>, text: &mut String) {
    if let Some(sandbox) = sandbox.filter(|it| !it.is_closed()) {
        line(text, format_args!("sandbox    {sandbox}"));
    }
}

/// The state of a client that follows commands; nothing for one that is up as long as it runs.
fn service(status: &Status) -> Option<String> {
    match (status.service.control, status.service.state) {
        (Control::Token, _) => None,
        (Control::Commands, ServiceState::Up) => Some("up, as it was told".to_owned()),
        (Control::Commands, _) => status.not_ready_because.clone(),
    }
}

/// Tells if the system asks the client, and for which names.
fn dns(control: &DnsControlStatus) -> String {
    let mode = &control.mode;
    match (&control.domains, control.applied) {
        (_, false) if mode == "off" => "off: the system is not told to ask here".to_owned(),
        (_, false) => format!("{mode}: does not work, see PROBLEMS"),
        (Some(domains), true) if domains.is_empty() => {
            format!("{mode}: no resource has a name")
        }
        (Some(domains), true) => format!("{mode}: asks here for {}", domains.join(", ")),
        (None, true) => format!("{mode}: asks here for every name"),
    }
}

pub(crate) fn portal(portal: &PortalStatus) -> String {
    let mut text = match portal.state {
        PortalState::Connected => format!("connected for {}", span(portal.state_for_ms)),
        PortalState::Connecting => "connecting".to_owned(),
        PortalState::Waiting => {
            let next = span(portal.next_attempt_in_ms.unwrap_or(0));
            format!("not connected, next attempt in {next}")
        }
        PortalState::Refused => "refused".to_owned(),
        PortalState::Off => "not connected".to_owned(),
    };
    if let Some(error) = &portal.last_error {
        let _infallible = write!(text, " ({error})");
    }
    text
}

fn resources(status: &Status, text: &mut String) {
    text.push_str("\nRESOURCES\n");
    if status.portal.listing {
        text.push_str("  the portal is listing them: some are missing yet\n");
    } else if status.resources.is_empty() && status.unreadable.is_empty() {
        text.push_str("  none: no policy lets this client use anything\n");
        return;
    }
    let rows = status.resources.iter().map(|resource| {
        vec![
            resource.name.clone(),
            resource.target.clone(),
            state(resource).to_owned(),
            details(resource, status),
        ]
    });
    columns(rows.collect(), text);
    for unreadable in &status.unreadable {
        let id = unreadable.id.to_string();
        let name = unreadable.name.as_ref().unwrap_or(&id);
        line(
            text,
            format_args!("  {name}: can't be read: {}", unreadable.why),
        );
    }
}

/// Resources that may begin connections to this machine, and to which services of it; nothing if there are none.
fn inbound(resources: &[ResourceStatus], text: &mut String) {
    let opening = resources.iter().filter(|it| !it.inbound.is_empty());
    let rows = opening.map(|resource| {
        let is_open = match resource.state {
            AccessState::Granted => "open",
            AccessState::Idle | AccessState::Asking | AccessState::Denied => {
                "closed: this machine has no grant"
            }
        };
        vec![
            resource.name.clone(),
            resource.target.clone(),
            format!("may use {} of this machine", resource.inbound.join(", ")),
            is_open.to_owned(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        text.push_str("\nINBOUND\n");
        columns(rows, text);
    }
}

const fn state(resource: &ResourceStatus) -> &'static str {
    match resource.state {
        AccessState::Idle => "idle",
        AccessState::Asking => "asking",
        AccessState::Granted => "granted",
        AccessState::Denied => "denied",
    }
}

fn details(resource: &ResourceStatus, status: &Status) -> String {
    let mut details = vec![access(resource, status)];
    if resource.unknown_filters > 0 {
        let unknown = "a part of it needs a newer version of culvert on this machine";
        details.push(unknown.to_owned());
    }
    if let Some(who) = &resource.applications {
        details.push(format!("for {who}"));
    }
    details.extend(traffic(resource));
    details.retain(|detail| !detail.is_empty());
    details.join("; ")
}

/// The bytes of a resource; nothing if there were none.
fn traffic(resource: &ResourceStatus) -> Option<String> {
    let (sent, received) = (resource.sent_bytes?, resource.received_bytes?);
    let has_any = sent > 0 || received > 0;
    has_any.then(|| format!("sent {}, received {}", bytes(sent), bytes(received)))
}

fn access(resource: &ResourceStatus, status: &Status) -> String {
    let why = resource.why.as_ref();
    match resource.state {
        AccessState::Granted => {
            let gateway = status
                .gateways
                .iter()
                .find(|gateway| Some(gateway.id) == resource.gateway);
            let through =
                gateway.map_or_else(String::new, |gateway| format!("through {}", gateway.name));
            let left = resource.expires.map(|expires| {
                let left_ms = expires.unix_ms().saturating_sub(status.at.unix_ms());
                format!(", {} left", span(left_ms))
            });
            let trouble = why.map(|why| format!(" (not renewed: {})", why.text));
            format!(
                "{through}{}{}",
                left.unwrap_or_default(),
                trouble.unwrap_or_default()
            )
        }
        AccessState::Asking => match resource.held_packets {
            0 => String::new(),
            packets => format!("{packets} packets wait"),
        },
        AccessState::Denied | AccessState::Idle => why.map_or_else(String::new, |why| {
            format!("{} ({} ago)", why.text, span(why.ago_ms))
        }),
    }
}

/// The applications that rules have kept from sending.
fn applications(applications: &ApplicationsStatus, text: &mut String) {
    if applications.refused.is_empty() && applications.refused_others == 0 {
        return;
    }
    text.push_str("\nREFUSED APPLICATIONS\n");
    let named = applications.refused.iter();
    let named = named.map(|refused| (refused.application.clone(), refused.packets));
    let others = ("(no application)".to_owned(), applications.refused_others);
    let rows = named
        .chain([others])
        .filter(|(_, packets)| *packets > 0)
        .map(|(name, packets)| vec![name, format!("{packets} packets")]);
    columns(rows.collect(), text);
}

fn gateways(status: &Status, text: &mut String) {
    if status.gateways.is_empty() {
        return;
    }
    text.push_str("\nGATEWAYS\n");
    let rows = status.gateways.iter().map(|gateway| {
        let endpoint = gateway.endpoint.map(|endpoint| endpoint.to_string());
        vec![
            gateway.name.clone(),
            path(gateway),
            endpoint.unwrap_or_else(|| "-".to_owned()),
            match gateway.handshake_age_ms {
                Some(age_ms) => format!("handshake {} ago", span(age_ms)),
                None => "no handshake yet".to_owned(),
            },
            cipher(gateway.cipher).to_owned(),
            format!(
                "in {}, out {}",
                rate(gateway.rx_bytes_per_s),
                rate(gateway.tx_bytes_per_s)
            ),
        ]
    });
    columns(rows.collect(), text);
}

pub(crate) const fn cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::ChaCha20Poly1305 => "chacha20poly1305",
        Cipher::Aes256Gcm => "aes256gcm",
    }
}

fn path(gateway: &GatewayStatus) -> String {
    match gateway.silent_for_ms {
        // Every answer takes a moment.
        Some(silent_ms) if silent_ms >= 2_000 => format!("silent for {}", span(silent_ms)),
        _ => match (&gateway.relay_name, gateway.round_trip_us) {
            (Some(relay), round_trip) if gateway.by_tls => {
                let round_trip = in_round_trip(round_trip);
                format!("through relay {relay} by TLS{round_trip}: UDP gets no answer")
            }
            (Some(relay), round_trip) => {
                let why = gateway.why.as_ref().map(|why| format!(": {why}"));
                let why = why.unwrap_or_default();
                format!("relayed by {relay}{}{why}", in_round_trip(round_trip))
            }
            (None, round_trip) => format!("{}{}", gateway.path, in_round_trip(round_trip)),
        },
    }
}

/// The round trip of a path, if it is known.
pub(crate) fn in_round_trip(us: Option<u32>) -> String {
    us.map_or_else(String::new, |us| {
        format!(" in {}.{} ms", us / 1_000, us % 1_000 / 100)
    })
}

/// The relays of the account, the nearest first.
fn relays(relays: &[RelayStatus], text: &mut String) {
    if relays.is_empty() {
        return;
    }
    text.push_str("\nRELAYS\n");
    let mut relays: Vec<&RelayStatus> = relays.iter().collect();
    relays.sort_by_key(|relay| relay.round_trip_us.unwrap_or(u32::MAX));
    let rows = relays.into_iter().map(|relay| {
        let addresses: Vec<String> = relay.addresses.iter().map(ToString::to_string).collect();
        let answers = match relay.round_trip_us {
            round_trip @ Some(_) if relay.by_tls => {
                let round_trip = in_round_trip(round_trip);
                format!("answers{round_trip} by TLS: UDP gets no answer")
            }
            round_trip @ Some(_) => format!("answers{}", in_round_trip(round_trip)),
            None => "does not answer: `culvert netcheck` looks for the reason".to_owned(),
        };
        vec![relay.name.clone(), addresses.join(", "), answers]
    });
    columns(rows.collect(), text);
}

fn names(status: &Status, text: &mut String) {
    if status.names.is_empty() {
        return;
    }
    text.push_str("\nNAMES\n");
    let rows = status.names.iter().map(|name| {
        let resource = status
            .resources
            .iter()
            .find(|resource| resource.id == name.resource);
        vec![
            name.name.clone(),
            name.ipv4
                .map_or_else(|| "-".to_owned(), |address| address.to_string()),
            name.ipv6
                .map_or_else(|| "-".to_owned(), |address| address.to_string()),
            resource.map_or_else(String::new, |resource| resource.name.clone()),
        ]
    });
    columns(rows.collect(), text);
}

/// Domains with servers of their own.
fn zones(status: &Status, text: &mut String) {
    if status.dns.zones.is_empty() {
        return;
    }
    text.push_str("\nDOMAINS\n");
    let rows = status.dns.zones.iter().map(|zone| {
        let name = match zone.name.as_str() {
            "." => ". (all other names)".to_owned(),
            name => name.to_owned(),
        };
        let servers: Vec<String> = zone.servers.iter().map(ToString::to_string).collect();
        let asked_of = match servers.is_empty() {
            true => "asked of nobody: no server that this version knows".to_owned(),
            false => format!("asked of {}", servers.join(", ")),
        };
        vec![name, asked_of]
    });
    columns(rows.collect(), text);
}

/// Rows in columns as wide as their widest cell; what stands last is not padded.
pub(crate) fn columns(rows: Vec<Vec<String>>, text: &mut String) {
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let joined = cells.collect::<Vec<_>>().join("  ");
        line(text, format_args!("  {}", joined.trim_end()));
    }
}

/// A line, without what would control the terminal: names are those that others gave.
pub(crate) fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string never fails.
    let _infallible = writeln!(text, "{}", visible(&content.to_string()));
}

/// A span of time by its two largest units.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Bytes a second as bits, in the units of network links.
pub(crate) fn rate(bytes_per_s: u64) -> String {
    let bits = bytes_per_s.saturating_mul(8);
    match bits {
        0..1_000 => format!("{bits} bit/s"),
        1_000..1_000_000 => format!("{} kbit/s", bits / 1_000),
        1_000_000..1_000_000_000 => tenths(bits, 1_000_000, "Mbit/s"),
        _ => tenths(bits, 1_000_000_000, "Gbit/s"),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => tenths(count, 1_000, "kB"),
        1_000_000..1_000_000_000 => tenths(count, 1_000_000, "MB"),
        _ => tenths(count, 1_000_000_000, "GB"),
    }
}

fn tenths(count: u64, unit: u64, name: &str) -> String {
    format!("{}.{} {name}", count / unit, count % unit * 10 / unit)
}

#[cfg(test)]
pub(crate) mod tests;
