//! The way to the portal: its name, TCP, TLS, the session's path, what a proxy passes on, and its clock.

use super::exchange::{Said, ask};
use super::finding::Finding;
use crate::visible::visible;
use culvert_base::UnixTime;
use culvert_control::CLOCK_TOLERANCE_MS;
use culvert_link::{ConnectError, PortalAnswer, Probe, probe};
use culvert_wire::CLIENT_SESSION_PATH;
use culvert_wire::api::Problem;
use culvert_wire::token::Portal;
use hyper::Method;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The HTTP status that a portal answers to a session request without a token.
const UNAUTHORIZED: u16 = 401;

const NAME: &str = "portal-dns";
const TCP: &str = "portal-tcp";
const TLS: &str = "portal-tls";
const HTTP: &str = "portal-http";
const CONSOLE: &str = "portal-form";
const CLOCK: &str = "clock";

/// The headers of a WebSocket request (RFC 6455 §4.1), with the key of the standard's own example.
const UPGRADE: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// A form of the console that changes nothing for somebody who is not signed in.
const FORM: &str = "/sign-out";

/// The console's statuses for another host name, and for a form of another origin.
const MISDIRECTED: u16 = 421;
const FORBIDDEN: u16 = 403;

/// The fix for a proxy, if the portal's answer does not name it.
const PASS_WEBSOCKETS: &str = "nginx: `proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; \
     proxy_set_header Connection upgrade;`";
const PASS_HOST: &str = "nginx: `proxy_set_header Host $http_host;`, Caddy: `header_up Host {hostport}`; HAProxy \
     passes `Host` on by itself";

/// The fix if another server answers in the portal's place.
const CAPTIVE: &str = "if this network has a page to log in at, open it in a browser first; otherwise compare \
                       with the administrator what the name leads to";

/// The findings on the way to the portal, and its addresses, each with whether it took a connection.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) findings: Vec<Finding>,
    pub(super) tcp: Vec<(SocketAddr, bool)>,
}

/// Goes there.
pub(super) async fn check(portal: &Portal) -> Checked {
    match probe(portal, CLIENT_SESSION_PATH).await {
        Ok(probe) => {
            let unix = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let mut findings = findings(&portal.url, &probe, UnixTime::after_epoch(unix));
            if let Some(Ok(answer)) = &probe.answer {
                let further = passes_on(portal, answer).await;
                // The portal's own words say more than its status.
                if further.iter().any(|it| it.check == HTTP) {
                    findings.retain(|it| it.check != HTTP);
                }
                findings.extend(further);
            }
            let tcp = probe.tcp.iter();
            Checked {
                findings,
                tcp: tcp.map(|(at, reached)| (*at, reached.is_ok())).collect(),
            }
        }
        Err(error) => Checked {
            findings: vec![Finding::fails(
                NAME,
                error.to_string(),
                "get a new token".to_owned(),
            )],
            tcp: Vec::new(),
        },
    }
}

/// The headers that a proxy in front of the portal drops, in the portal's own words.
async fn passes_on(portal: &Portal, answer: &PortalAnswer) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A redirection to another host does not come from a proxy of the portal.
    if answer.location.is_some() {
        return findings;
    }
    if answer.status != UNAUTHORIZED {
        let said = ask(portal, Method::GET, CLIENT_SESSION_PATH, &UPGRADE).await;
        findings.extend(said.as_ref().and_then(no_session));
    }
    let headers = [
        ("accept", "text/plain"),
        ("origin", portal.url.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    let said = ask(portal, Method::POST, FORM, &headers).await;
    findings.extend(said.as_ref().map(|said| console(&portal.url, said)));
    findings
}

/// The reason why no session is opened, if the portal gives one.
fn no_session(said: &Said) -> Option<Finding> {
    let problem: Problem = serde_json::from_str(&said.text).ok()?;
    let detail = visible(&problem.detail?);
    Some(Finding::fails(HTTP, detail, PASS_WEBSOCKETS.to_owned()))
}

/// The console's answer to a form that a browser at `url` sends.
fn console(url: &str, said: &Said) -> Finding {
    if !matches!(said.status, MISDIRECTED | FORBIDDEN) {
        return Finding::ok(CONSOLE, format!("forms of {url} get there"));
    }
    // A page is of an older portal, or of somebody else.
    let is_text = !said.text.is_empty() && !said.text.starts_with('<');
    let (found, fix) = match said.text.split_once('\n').filter(|_| is_text) {
        Some((found, fix)) => {
            let lines: Vec<String> = fix.lines().map(visible).collect();
            (visible(found), lines.join("; "))
        }
        None => (
            format!("it refuses forms of {url} (HTTP {})", said.status),
            String::new(),
        ),
    };
    let fix = match fix.is_empty() {
        true => {
            format!("what stands before the portal must pass `Host` and `Origin` on. {PASS_HOST}")
        }
        false => format!("what stands before the portal must pass it on. {fix}"),
    };
    Finding::fails(CONSOLE, found, fix)
}

/// The findings of the steps. `now` is this machine's clock.
fn findings(url: &str, probe: &Probe, now: UnixTime) -> Vec<Finding> {
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
            findings.push(clock(answer, now));
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
                 `Connection`. {PASS_WEBSOCKETS}"
            );
            Finding::fails(HTTP, found, fix)
        }
        Err(error) => {
            let fix = "what stands before the portal must let WebSockets through".to_owned();
            Finding::fails(HTTP, error.to_string(), fix)
        }
    }
}

fn clock(answer: &PortalAnswer, now: UnixTime) -> Finding {
    let Some(portal_clock) = answer.clock else {
        let fix = "what stands before the portal should leave `Date` in its answers".to_owned();
        return Finding::warns(CLOCK, "the portal does not tell its clock".to_owned(), fix);
    };
    let off = now.abs_diff(portal_clock);
    let off_s = off.as_secs();
    if off <= Duration::from_millis(CLOCK_TOLERANCE_MS) {
        return Finding::ok(CLOCK, format!("{off_s} s off the portal's"));
    }
    let direction = if now > portal_clock {
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
            clock: Some(UnixTime::from_millis(1_000_000)),
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
        let findings = findings(
            "https://portal.example",
            &probe,
            UnixTime::from_millis(1_030_000),
        );
        assert!(
            findings.iter().all(|it| it.verdict == Verdict::Ok),
            "{findings:?}"
        );
        assert_eq!(verdict_of(CLOCK, &findings), Verdict::Ok);
    }

    #[test]
    fn a_proxy_that_passes_no_websockets_on_is_named_in_the_portals_words() {
        let detail = "a session is a WebSocket, but it came without `Upgrade: websocket`";
        let problem = format!(r#"{{"type":"urn:a","title":"A","status":400,"detail":"{detail}"}}"#);
        let of = |text: &str| {
            let text = text.to_owned();
            no_session(&Said { status: 400, text })
        };
        let finding = of(&problem).unwrap();
        assert_eq!(finding.verdict, Verdict::Failed);
        assert_eq!(finding.found, detail);
        assert!(finding.fix.unwrap().contains("proxy_set_header Upgrade"));
        assert_eq!(of("<html>"), None);
        let bare = http(&Ok(answer(400, None)));
        assert_eq!(bare.verdict, Verdict::Failed);
        assert!(bare.fix.unwrap().contains("proxy_set_header Upgrade"));
    }

    #[test]
    fn a_proxy_that_changes_the_host_is_named_in_the_portals_words() {
        let url = "https://portal.example";
        let of = |status, text: &str| {
            let text = text.to_owned();
            console(url, &Said { status, text })
        };
        for status in [200, 303, 401] {
            assert_eq!(of(status, "").verdict, Verdict::Ok, "{status}");
        }
        for status in [403, 421] {
            let said = of(
                status,
                "It came with `Host: a`.\nnginx: `b`\nCaddy: `\u{1b}c`\n",
            );
            assert_eq!(said.verdict, Verdict::Failed);
            assert_eq!(said.found, "It came with `Host: a`.");
            let fix = said.fix.unwrap();
            assert!(fix.ends_with("nginx: `b`; Caddy: `\\u{1b}c`"), "{fix}");
            // An older portal answers with a page.
            let page = of(status, "<!doctype html>\n<p>");
            assert!(page.found.contains(&status.to_string()), "{page:?}");
            assert!(page.fix.unwrap().contains("proxy_set_header Host"));
        }
    }

    #[test]
    fn who_is_led_elsewhere_is_told_of_pages_to_log_in_at() {
        let probe = probe(Some(Ok(answer(302, Some("http://hotel.example")))));
        let findings = findings(
            "https://portal.example",
            &probe,
            UnixTime::from_millis(1_000_000),
        );
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
        let some = findings("https://portal.example", &probe, UnixTime::EPOCH);
        assert_eq!(some.last().map(|it| it.verdict), Some(Verdict::Ok));
        assert!(some.iter().any(|it| it.verdict == Verdict::Warning));
        drop(probe.tcp.remove(0));
        probe.tls = None;
        let none = findings("https://portal.example", &probe, UnixTime::EPOCH);
        assert_eq!(verdict_of(TCP, &none), Verdict::Failed);
    }

    #[test]
    fn a_clock_that_is_off_is_told_with_its_direction() {
        let early = clock(&answer(401, None), UnixTime::EPOCH);
        assert!(early.found.contains("1000 s behind"), "{early:?}");
        let late = clock(&answer(401, None), UnixTime::from_millis(2_000_000));
        assert!(late.found.contains("1000 s ahead of"), "{late:?}");
    }
}
