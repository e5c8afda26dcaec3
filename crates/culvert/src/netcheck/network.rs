//! The judgement of the network: from what was observed to findings. Nothing is sent here.

use super::finding::Finding;
use crate::status::table::in_round_trip;
use culvert_link::Nat64;
use culvert_path::{Mapping, Seen};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const NAT: &str = "nat";
const NAT64: &str = "nat64";
const RELAY: &str = "relay";

/// The fix if another server answers in a relay's place.
const CAPTIVE: &str = "if this network has a page to log in at, open it in a browser first; otherwise something on the way \
                       answers in the relay's place: use another network";

/// Everything that was observed.
#[derive(Debug)]
pub(super) struct Observations {
    /// The source addresses of the default routes, IPv4 first.
    pub(super) sources: [Option<IpAddr>; 2],
    pub(super) nat64: Nat64,
    /// The portal's addresses, and whether each took a connection.
    pub(super) portal: Vec<(SocketAddr, bool)>,
    pub(super) relays: Vec<RelayObservation>,
    /// The addresses of the sockets that asked the relays.
    pub(super) own: Vec<SocketAddr>,
    /// A gateway answers, so there is a path without relays or by one.
    pub(super) has_path: bool,
}

/// The observations of a relay.
#[derive(Debug)]
pub(super) struct RelayObservation {
    pub(super) name: String,
    /// The name could not be looked up: the reason.
    pub(super) unresolved: Option<String>,
    /// Its addresses with the main port, as the questions went to them.
    pub(super) main: Vec<Question>,
    /// The same addresses with another port, which need not answer: it only tells more of the NAT.
    pub(super) second: Vec<Question>,
    /// Its TLS listener, if it is known that it has one.
    pub(super) tls: Option<TlsOutcome>,
}

/// A question to an address, and the outcome.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) to: SocketAddr,
    pub(super) outcome: Outcome,
}

/// The outcome of a question by UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The relay answered.
    Answered {
        round_trip: Duration,
        mapped: SocketAddr,
    },
    /// Datagrams came from there that answer no question.
    Garbage,
    /// Nothing came.
    Silent,
    /// A firewall of this machine dropped the question.
    BlockedHere,
    /// The question did not leave this machine.
    NoRoute,
}

/// The outcome of a connection by TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TlsOutcome {
    /// The certificate is the relay's.
    Works,
    /// Another server answers.
    WrongCertificate,
    /// No connection, and why.
    Fails(String),
}

/// The judgement.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) network: NetworkReport,
    pub(super) relays: Vec<RelayReport>,
    pub(super) findings: Vec<Finding>,
}

/// The network, for programs.
#[derive(Debug, Serialize)]
pub(super) struct NetworkReport {
    pub(super) ipv4: FamilyReport,
    pub(super) ipv6: FamilyReport,
    /// The prefix by which IPv4 addresses are reached, on a network that has IPv6 alone.
    pub(super) nat64: Option<String>,
}

/// A family of addresses, for programs.
#[derive(Debug, Serialize)]
pub(super) struct FamilyReport {
    pub(super) state: FamilyState,
    /// The name of a [`Mapping`]; none if no relay has answered.
    pub(super) nat: Option<&'static str>,
    /// The addresses at which relays see this machine.
    pub(super) mapped: Vec<SocketAddr>,
}

/// The use that can be made of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FamilyState {
    /// Answers come.
    Works,
    /// There is a route, and no answer, while the other family has some.
    Dead,
    /// There is a route, and no answer in the other family either.
    Silent,
    /// There is a route, and nobody has an address of this family to ask.
    Untested,
    /// There is no route.
    Absent,
}

/// A relay, for programs.
#[derive(Debug, Serialize)]
pub(super) struct RelayReport {
    pub(super) name: String,
    /// The address that answered first, otherwise the first one.
    pub(super) address: Option<SocketAddr>,
    pub(super) round_trip_us: Option<u64>,
    /// `answers`, `garbage`, `silent`, `blocked_here` or `no_route`.
    pub(super) udp: &'static str,
    /// `works`, `wrong_certificate` or `fails`; none if it is not known that it takes TLS.
    pub(super) tls: Option<&'static str>,
}

/// Judges.
pub(super) fn judge(observed: &Observations) -> Judged {
    let mut findings = Vec::new();
    let states = [true, false].map(|is_v4| state_of(observed, is_v4));
    findings.extend(families(observed, states));
    findings.extend(nat64(observed.nat64));
    let [ipv4, ipv6] = [true, false].map(|is_v4| {
        let seen = seen(observed, is_v4);
        let mapping = Mapping::of(&seen, &observed.own);
        findings.extend(mapping.map(|mapping| nat(is_v4, mapping, &seen)));
        let mut mapped: Vec<SocketAddr> = seen.iter().map(|it| it.mapped).collect();
        mapped.sort_unstable();
        mapped.dedup();
        FamilyReport {
            state: states[usize::from(!is_v4)],
            nat: mapping.map(Mapping::name),
            mapped,
        }
    });
    let mut relays: Vec<&RelayObservation> = observed.relays.iter().collect();
    relays.sort_by_key(|relay| nearest(relay).map_or(Duration::MAX, |(_, round_trip)| round_trip));
    let is_any_reached = relays.iter().any(|relay| nearest(relay).is_some());
    let circumstances = Circumstances {
        is_any_reached,
        has_path: observed.has_path,
    };
    findings.extend(relays.iter().map(|it| relay(it, circumstances)));
    Judged {
        network: NetworkReport {
            ipv4,
            ipv6,
            nat64: observed.nat64.prefix().map(|prefix| prefix.to_string()),
        },
        relays: relays.into_iter().map(report).collect(),
        findings,
    }
}

/// The answers of a family: is one there, and was any asked for?
fn state_of(observed: &Observations, is_v4: bool) -> FamilyState {
    if observed.sources[usize::from(!is_v4)].is_none() {
        return FamilyState::Absent;
    }
    let of_family = |of_v4: bool| {
        let questions = observed.relays.iter().flat_map(|relay| &relay.main);
        let asked = questions.map(|question| {
            let is_answered = matches!(question.outcome, Outcome::Answered { .. });
            (question.to, is_answered)
        });
        let asked = asked.chain(observed.portal.iter().copied());
        asked.filter(move |(address, _)| address.is_ipv4() == of_v4)
    };
    let is_answered = |of_v4: bool| of_family(of_v4).any(|(_, is_answered)| is_answered);
    match of_family(is_v4).next() {
        None => FamilyState::Untested,
        Some(_) if is_answered(is_v4) => FamilyState::Works,
        Some(_) if is_answered(!is_v4) => FamilyState::Dead,
        Some(_) => FamilyState::Silent,
    }
}

fn families(observed: &Observations, states: [FamilyState; 2]) -> Vec<Finding> {
    let has_any = observed.sources.iter().any(Option::is_some);
    let one = |check: &'static str, source: Option<IpAddr>, state: FamilyState| {
        let from = source.map_or_else(String::new, |source| format!("leads out, from {source}"));
        match state {
            FamilyState::Works => Finding::ok(check, format!("{from}, and answers come")),
            FamilyState::Untested | FamilyState::Silent => Finding::ok(check, from),
            FamilyState::Dead => Finding::warns(
                check,
                format!("{from}, but nothing comes back"),
                format!(
                    "nothing, since the other family is used; or have the router mended that announces {check} and \
                     does not forward it"
                ),
            ),
            FamilyState::Absent => absent(check, has_any),
        }
    };
    let [ipv4, ipv6] = observed.sources;
    vec![one("ipv4", ipv4, states[0]), one("ipv6", ipv6, states[1])]
}

fn absent(check: &'static str, has_other: bool) -> Finding {
    let found = "there is no default route with an address to send from".to_owned();
    match has_other {
        true => Finding::warns(
            check,
            found,
            "nothing, where portal and gateways are reached by the other family".to_owned(),
        ),
        false => {
            let fix = "connect this machine to a network (`ip route`, `ip address`)";
            Finding::fails(check, found, fix.to_owned())
        }
    }
}

fn nat64(found: Nat64) -> Option<Finding> {
    match found {
        Nat64::NotNeeded => None,
        Nat64::Discovered(prefix) => Some(Finding::ok(
            NAT64,
            format!("IPv4 addresses are reached by the NAT64 {prefix}"),
        )),
        Nat64::Assumed => Some(Finding::warns(
            NAT64,
            "this network has IPv6 alone, and its resolver tells no NAT64 (ipv4only.arpa)".to_owned(),
            "nothing, where portal, gateways and relays have IPv6; otherwise use a resolver of this network".to_owned(),
        )),
    }
}

/// The addresses at which this machine is seen in a family.
fn seen(observed: &Observations, is_v4: bool) -> Vec<Seen> {
    let relays = observed.relays.iter();
    let questions = relays.flat_map(|relay| relay.main.iter().chain(&relay.second));
    let of_family = questions.filter(|question| question.to.is_ipv4() == is_v4);
    let answered = of_family.filter_map(|question| match question.outcome {
        Outcome::Answered { mapped, .. } => Some(Seen {
            by: question.to,
            mapped,
        }),
        Outcome::Garbage | Outcome::Silent | Outcome::BlockedHere | Outcome::NoRoute => None,
    });
    answered.collect()
}

fn nat(is_v4: bool, mapping: Mapping, seen: &[Seen]) -> Finding {
    let family = if is_v4 { "IPv4" } else { "IPv6" };
    let at = seen
        .first()
        .map_or_else(String::new, |it| it.mapped.to_string());
    let symmetric = |kind: &str| {
        Finding::warns(
            NAT,
            format!("{family}: a NAT that gives each destination another port: {kind}"),
            "nothing, where relays may be used; for direct paths give the gateway a public address or a forwarded \
             port, or set this router to \"endpoint-independent\" (\"full cone\") NAT"
                .to_owned(),
        )
    };
    match mapping {
        Mapping::None => Finding::ok(NAT, format!("{family}: none, this machine is seen as {at}")),
        Mapping::EndpointIndependent => Finding::ok(
            NAT,
            format!("{family}: endpoint-independent mapping, all relays see {at}"),
        ),
        Mapping::Unknown => Finding::skips(
            NAT,
            format!("{family}: there is one, seen as {at}; a single relay can't tell its kind"),
            "a second relay, or another one by --relay HOST:PORT".to_owned(),
        ),
        Mapping::AddressDependent => symmetric("address-dependent mapping"),
        Mapping::AddressAndPortDependent => symmetric("address- and port-dependent mapping"),
        Mapping::EndpointDependent => symmetric("address-dependent mapping or more"),
    }
}

/// The address of a relay that answered first, and its round trip.
fn nearest(relay: &RelayObservation) -> Option<(SocketAddr, Duration)> {
    let answered = relay.main.iter().filter_map(|question| {
        let Outcome::Answered { round_trip, .. } = question.outcome else {
            return None;
        };
        Some((question.to, round_trip))
    });
    answered.min_by_key(|(_, round_trip)| *round_trip)
}

/// The circumstances in which a silent relay is judged.
#[derive(Clone, Copy)]
struct Circumstances {
    /// UDP comes back from some relay.
    is_any_reached: bool,
    /// A gateway answers.
    has_path: bool,
}

fn relay(relay: &RelayObservation, circumstances: Circumstances) -> Finding {
    let name = &relay.name;
    if let Some(why) = &relay.unresolved {
        let fix = "write an address, or look at the resolver below".to_owned();
        return Finding::fails(RELAY, format!("{name} has no address: {why}"), fix);
    }
    let tls = match &relay.tls {
        None => String::new(),
        Some(TlsOutcome::Works) => "; TLS works".to_owned(),
        Some(TlsOutcome::WrongCertificate) => {
            "; by TLS another server answers in its place".to_owned()
        }
        Some(TlsOutcome::Fails(why)) => format!("; TLS does not work: {why}"),
    };
    if let Some((address, round_trip)) = nearest(relay) {
        let us = u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX);
        let found = format!(
            "{name} answers at {address}{}{tls}",
            in_round_trip(Some(us))
        );
        return match &relay.tls {
            Some(TlsOutcome::WrongCertificate) => Finding::warns(RELAY, found, CAPTIVE.to_owned()),
            Some(TlsOutcome::Fails(_)) => {
                let fix = "nothing, while UDP passes; otherwise let TCP out to its TLS port";
                Finding::warns(RELAY, found, fix.to_owned())
            }
            Some(TlsOutcome::Works) | None => Finding::ok(RELAY, found),
        };
    }
    silent(relay, circumstances, &tls)
}

fn silent(relay: &RelayObservation, circumstances: Circumstances, tls: &str) -> Finding {
    let name = &relay.name;
    let asked: Vec<String> = relay.main.iter().map(|it| it.to.to_string()).collect();
    let asked = asked.join(", ");
    let is = |outcome: &Outcome| relay.main.iter().any(|it| it.outcome == *outcome);
    if is(&Outcome::Garbage) {
        let found = format!("{name}: what comes from {asked} answers no question{tls}");
        return Finding::fails(RELAY, found, CAPTIVE.to_owned());
    }
    if is(&Outcome::BlockedHere) {
        let found = format!("{name}: this machine's own firewall drops UDP to {asked}{tls}");
        let fix = "let it out (`nft list ruleset` shows the rules)".to_owned();
        return Finding::fails(RELAY, found, fix);
    }
    let found = match is(&Outcome::Silent) {
        true => format!("{name}: no UDP comes back from {asked}{tls}"),
        false => format!("{name}: this machine has no route to {asked}{tls}"),
    };
    let fix = match (circumstances.is_any_reached, &relay.tls) {
        (true, _) => format!("another relay is used; look at {name}, or let UDP out to {asked}"),
        (false, Some(TlsOutcome::Works)) => {
            format!(
                "nothing, since TLS is used; let UDP out to {asked} for faster and direct paths"
            )
        }
        (false, _) => format!("let UDP out to {asked}, or start the relay there"),
    };
    let works = relay.tls == Some(TlsOutcome::Works);
    match works || circumstances.is_any_reached || circumstances.has_path {
        true => Finding::warns(RELAY, found, fix),
        false => Finding::fails(RELAY, found, fix),
    }
}

fn report(relay: &RelayObservation) -> RelayReport {
    let nearest = nearest(relay);
    let is = |outcome: &Outcome| relay.main.iter().any(|it| it.outcome == *outcome);
    RelayReport {
        name: relay.name.clone(),
        address: nearest
            .map(|(address, _)| address)
            .or_else(|| relay.main.first().map(|it| it.to)),
        round_trip_us: nearest
            .map(|(_, round_trip)| u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX)),
        udp: match nearest {
            Some(_) => "answers",
            None if is(&Outcome::Garbage) => "garbage",
            None if is(&Outcome::BlockedHere) => "blocked_here",
            None if is(&Outcome::Silent) => "silent",
            None => "no_route",
        },
        tls: relay.tls.as_ref().map(|outcome| match outcome {
            TlsOutcome::Works => "works",
            TlsOutcome::WrongCertificate => "wrong_certificate",
            TlsOutcome::Fails(_) => "fails",
        }),
    }
}

#[cfg(test)]
mod tests;
