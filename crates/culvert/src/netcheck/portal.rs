//! The way to the portal: its name, TCP, TLS, the session's path, and its clock.

use super::finding::Finding;
use culvert_link::{CLOCK_TOLERANCE_MS, ConnectError, PortalAnswer, Probe, probe};
use culvert_wire::CLIENT_SESSION_PATH;
use culvert_wire::token::Portal;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a portal says to who asks for a session without a token.
const UNAUTHORIZED: u16 = 401;

const NAME: &str = "portal-dns";
const TCP: &str = "portal-tcp";
const TLS: &str = "portal-tls";
const HTTP: &str = "portal-http";
const CLOCK: &str = "clock";

/// What is to be done where somebody else answers in the portal's place.
const CAPTIVE: &str = "if this network has a page to log in at, open it in a browser first; otherwise compare \
                       with the administrator what the name leads to";

/// Goes there.
pub(super) async fn check(portal: &Portal) -> Vec<Finding> {
    match probe(portal, CLIENT_SESSION_PATH).await {
        Ok(probe) => {
            let unix = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let unix_ms = u64::try_from(unix.as_millis()).unwrap_or(u64::MAX);
            findings(&portal.url, &probe, unix_ms)
        }
        Err(error) => vec![Finding::fails(
            NAME,
            error.to_string(),
            "get a new token".to_owned(),
        )],
    }
}

/// What the steps came to. `unix_ms` is this machine's clock.
fn findings(url: &str, probe: &Probe, unix_ms: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &probe.addresses {
        Ok(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(|it| it.ip().to_string()).collect();
            findings.push(Finding::ok(
                NAME,
                format!("{url} is at {}", addresses.join(", ")),
            ));
        }
        Err(error) => {
            let fix = "look at the resolver below, or whether this machine has a network at all";
            findings.push(Finding::fails(NAME, error.to_string(), fix.to_owned()));
        }
    }
    let is_reached = probe.tcp.iter().any(|(_, reached)| reached.is_ok());
    for (address, reached) in &probe.tcp {
        findings.push(match reached {
            Ok(()) => Finding::ok(TCP, format!("{address} takes connections")),
            Err(error) => {
                let found = format!("{address} does not: {error}");
                let fix = "a firewall on the way, or the portal does not run there";
                match is_reached {
                    true => Finding::warns(TCP, found, fix.to_owned()),
                    false => Finding::fails(TCP, found, fix.to_owned()),
                }
            }
        });
    }
    findings.extend(probe.tls.as_ref().map(tls));
    if let Some(answer) = &probe.answer {
        findings.push(http(answer));
        if let Ok(answer) = answer {
            findings.push(clock(answer, unix_ms));
        }
    }
    findings
}

fn tls(tls: &Result<(), ConnectError>) -> Finding {
    match tls {
        Ok(()) => Finding::ok(TLS, "its certificate is the right one".to_owned()),
        Err(error @ ConnectError::WrongCertificate { .. }) => {
            Finding::fails(TLS, error.to_string(), CAPTIVE.to_owned())
        }
        Err(error @ ConnectError::Tls { .. }) => {
            let fix = format!("something on the way may look into connections: {CAPTIVE}");
            Finding::fails(TLS, error.to_string(), fix)
        }
        Err(error) => {
            let fix = "the line above says what to do".to_owned();
            Finding::fails(TLS, error.to_string(), fix)
        }
    }
}

fn http(answer: &Result<PortalAnswer, ConnectError>) -> Finding {
    match answer {
        Ok(answer) if answer.status == UNAUTHORIZED => {
            Finding::ok(HTTP, "sessions are opened there".to_owned())
        }
        Ok(PortalAnswer {
            status,
            location: Some(location),
            ..
        }) => {
            let found = format!("it answers HTTP {status} and leads to {location}");
            Finding::fails(HTTP, found, CAPTIVE.to_owned())
        }
        Ok(answer) => {
            let found = format!(
                "it answers HTTP {} to who asks for a session",
                answer.status
            );
            let fix = format!(
                "what stands before the portal must pass {CLIENT_SESSION_PATH} on, with `Upgrade` and \
                 `Connection`"
            );
            Finding::fails(HTTP, found, fix)
        }
        Err(error) => {
            let fix = "what stands before the portal must let WebSockets through".to_owned();
            Finding::fails(HTTP, error.to_string(), fix)
        }
    }
}

fn clock(answer: &PortalAnswer, unix_ms: u64) -> Finding {
    let Some(portal_unix_ms) = answer.unix_ms else {
        let fix = "what stands before the portal should leave `Date` in its answers".to_owned();
        return Finding::warns(CLOCK, "the portal does not tell its clock".to_owned(), fix);
    };
    let off_ms = unix_ms.abs_diff(portal_unix_ms);
    let off_s = off_ms / 1_000;
    if off_ms <= CLOCK_TOLERANCE_MS {
        return Finding::ok(CLOCK, format!("{off_s} s off the portal's"));
    }
    let direction = if unix_ms > portal_unix_ms {
        "ahead of"
    } else {
        "behind"
    };
    Finding::warns(
        CLOCK,
        format!("this machine's clock is {off_s} s {direction} the portal's"),
        "synchronise it (timedatectl set-ntp true)".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;
    use std::io;

    fn probe(answer: Option<Result<PortalAnswer, ConnectError>>) -> Probe {
        let address = "192.0.2.1:443".parse().unwrap();
        Probe {
            addresses: Ok(vec![address]),
            tcp: vec![(address, Ok(()))],
            tls: Some(Ok(())),
            answer,
        }
    }

    fn answer(status: u16, location: Option<&str>) -> PortalAnswer {
        PortalAnswer {
            status,
            location: location.map(str::to_owned),
            unix_ms: Some(1_000_000),
        }
    }

    fn verdict_of(check: &str, findings: &[Finding]) -> Verdict {
        let found = findings.iter().find(|finding| finding.check == check);
        found
            .unwrap_or_else(|| panic!("{check}: {findings:?}"))
            .verdict
    }

    #[test]
    fn a_portal_that_asks_for_a_token_is_as_it_should_be() {
        let probe = probe(Some(Ok(answer(401, None))));
        let findings = findings("https://portal.example", &probe, 1_030_000);
        assert!(
            findings.iter().all(|it| it.verdict == Verdict::Ok),
            "{findings:?}"
        );
        assert_eq!(verdict_of(CLOCK, &findings), Verdict::Ok);
    }

    #[test]
    fn who_is_led_elsewhere_is_told_of_pages_to_log_in_at() {
        let probe = probe(Some(Ok(answer(302, Some("http://hotel.example")))));
        let findings = findings("https://portal.example", &probe, 1_000_000);
        let http = findings.iter().find(|it| it.check == HTTP).unwrap();
        assert_eq!(http.verdict, Verdict::Failed);
        assert!(http.found.contains("http://hotel.example"));
        assert!(http.fix.as_ref().unwrap().contains("page to log in at"));
    }

    #[test]
    fn an_address_that_does_not_answer_is_in_the_way_only_where_no_other_does() {
        let mut probe = probe(None);
        let second = "[2001:db8::1]:443".parse().unwrap();
        probe
            .tcp
            .push((second, Err(io::ErrorKind::TimedOut.into())));
        let some = findings("https://portal.example", &probe, 0);
        assert_eq!(some.last().map(|it| it.verdict), Some(Verdict::Ok));
        assert!(some.iter().any(|it| it.verdict == Verdict::Warning));
        drop(probe.tcp.remove(0));
        probe.tls = None;
        let none = findings("https://portal.example", &probe, 0);
        assert_eq!(verdict_of(TCP, &none), Verdict::Failed);
    }

    #[test]
    fn a_clock_that_is_off_is_told_with_its_direction() {
        let early = clock(&answer(401, None), 0);
        assert!(early.found.contains("1000 s behind"), "{early:?}");
        let late = clock(&answer(401, None), 2_000_000);
        assert!(late.found.contains("1000 s ahead of"), "{late:?}");
    }
}
