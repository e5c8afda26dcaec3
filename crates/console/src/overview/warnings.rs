//! Faults and dates that somebody has to look after, in plain words, each with its mend.

use crate::view::{Moment, Warning};
use crate::{portals, verified_gateways};
use culvert_portal_base::CertificateState;
use culvert_portal_service::Outdated;
use culvert_wire::Timestamp;
use culvert_wire::api::PortalOfDatabase;
use std::collections::BTreeSet;

/// The time before its end from which on a certificate is told of: most are renewed 30 days before.
const CERTIFICATE_MS: u64 = 21 * 24 * 60 * 60 * 1_000;

/// The difference from which on a clock is told of: NTP keeps clocks far closer, and grants last a minute at least.
const CLOCK_TOLD_MS: u64 = 5_000;

/// The mend of both faults of a certificate. The portal looks at the files every half minute.
const RENEW: &str = "The portal reads the files of --cert and --key again by itself.";

/// All that the portal knows of, the most urgent first.
pub(super) fn all(
    certificate: &CertificateState,
    outdated: Outdated,
    version: &str,
    awaiting_verification: u64,
    portals: &[PortalOfDatabase],
    now: Timestamp,
) -> Vec<Warning> {
    let mut all = of_certificate(certificate, now);
    all.extend(of_portals(portals, now));
    if awaiting_verification > 0 {
        all.push(Warning {
            text: format!(
                "{} to be verified: no client gets in through {}.",
                match awaiting_verification {
                    1 => "1 gateway waits".to_owned(),
                    count => format!("{count} gateways wait"),
                },
                if awaiting_verification == 1 {
                    "it"
                } else {
                    "them"
                },
            ),
            link: Some((verified_gateways::AT.to_owned(), "Compare and verify")),
        });
    }
    for (count, kind, path) in [
        (outdated.gateways, "gateway", "/gateways?state=outdated"),
        (outdated.clients, "client", "/clients?state=outdated"),
    ] {
        let machines = match count {
            0 => continue,
            1 => format!("1 {kind} runs"),
            count => format!("{count} {kind}s run"),
        };
        all.push(Warning {
            text: format!(
                "{machines} an older version than the portal ({version}). Update culvert on the machine."
            ),
            link: Some((path.to_owned(), "Show")),
        });
    }
    all
}

fn of_certificate(certificate: &CertificateState, now: Timestamp) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut tell = |text: String| all.push(Warning { text, link: None });
    if let Some(reason) = &certificate.refused {
        tell(format!(
            "The new certificate can't be used: {reason}. The one before is shown still. Correct the files. {RENEW}"
        ));
    }
    if let Some(reason) = &certificate.next_refused {
        tell(format!(
            "The next certificate (--next-cert) can't be read: {reason}. Correct the file before you use that certificate: \
             machines are not told of it."
        ));
    }
    let Some(ends) = certificate.ends else {
        return all;
    };
    let moment = Moment::new(ends, now);
    let (relative, exact) = (moment.relative, moment.exact);
    if ends <= now {
        tell(format!(
            "The portal's certificate ended {relative} ({exact}): browsers and machines refuse it. Renew it now. {RENEW}"
        ));
    } else if ends.unix_ms() - now.unix_ms() <= CERTIFICATE_MS {
        tell(format!(
            "The portal's certificate ends {relative} ({exact}). Browsers and machines refuse it then. Renew it. {RENEW}"
        ));
    }
    all
}

/// Portals that are silent, whose clock is wrong, or that are of another version than others.
fn of_portals(portals: &[PortalOfDatabase], now: Timestamp) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut tell = |text: String| {
        let link = Some((portals::AT.to_owned(), "Show portals"));
        all.push(Warning { text, link });
    };
    let name = |portal: &PortalOfDatabase| match portal.address {
        Some(address) => format!("The portal at {address}"),
        None => "The portal".to_owned(),
    };
    for portal in portals {
        let name = name(portal);
        if !portal.runs {
            let seen = Moment::new(portal.seen, now);
            tell(format!(
                "{name} has been silent since {} ({}). It does not run, or does not reach the database.",
                seen.relative, seen.exact
            ));
        } else if portal.clock_ahead_ms.unsigned_abs() >= CLOCK_TOLD_MS {
            tell(format!(
                "{name} has a wrong clock ({}): access ends too early or too late. Set it by NTP.",
                portal.clock_in_words()
            ));
        }
    }
    let running = portals.iter().filter(|portal| portal.runs);
    let versions: BTreeSet<&str> = running.map(|portal| &*portal.version).collect();
    if versions.len() > 1 {
        let versions: Vec<&str> = versions.into_iter().collect();
        tell(format!(
            "The portals run different versions ({}). Update all of them.",
            versions.join(", ")
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::PortalId;

    fn portal(runs: bool, version: &str, clock_ahead_ms: i64) -> PortalOfDatabase {
        PortalOfDatabase {
            portal: PortalId::from_bytes([1; 16]),
            address: Some("10.0.0.2:8443".parse().unwrap()),
            version: version.to_owned(),
            started: "2026-11-29T10:00:00Z".parse().unwrap(),
            seen: "2026-11-29T12:00:00Z".parse().unwrap(),
            runs,
            leads: false,
            answers: false,
            clock_ahead_ms,
        }
    }

    #[test]
    fn a_portal_that_is_silent_or_has_a_wrong_clock_or_another_version_is_told_of() {
        let now = "2026-11-29T15:00:00Z".parse().unwrap();
        let told = |portals: &[PortalOfDatabase]| -> Vec<String> {
            let all = of_portals(portals, now).into_iter();
            all.map(|warning| warning.text).collect()
        };
        let good = portal(true, "1.2.0", 4_999);
        assert!(told(&[good.clone(), good.clone()]).is_empty());
        let silent = told(&[good.clone(), portal(false, "1.1.0", 0)]);
        assert_eq!(silent.len(), 1, "{silent:?}");
        assert!(
            silent[0].contains("10.0.0.2:8443 has been silent since 3 h ago"),
            "{silent:?}"
        );
        let wrong = told(&[portal(true, "1.2.0", -5_000)]);
        assert!(wrong[0].contains("5 s behind"), "{wrong:?}");
        let mixed = told(&[good, portal(true, "1.1.0", 0)]);
        assert!(mixed[0].contains("(1.1.0, 1.2.0)"), "{mixed:?}");
    }

    fn told(certificate: &CertificateState) -> Vec<String> {
        let now = "2026-11-29T12:00:00Z".parse().unwrap();
        let all = all(certificate, Outdated::default(), "0.1.0", 0, &[], now);
        all.into_iter().map(|told| told.text).collect()
    }

    fn ending(at: &str) -> CertificateState {
        CertificateState {
            ends: Some(at.parse().unwrap()),
            ..CertificateState::default()
        }
    }

    #[test]
    fn a_certificate_is_told_of_three_weeks_before_its_end_and_when_its_renewal_is_refused() {
        assert!(told(&CertificateState::default()).is_empty());
        assert!(told(&ending("2026-12-20T12:00:01Z")).is_empty());
        let soon = told(&ending("2026-12-09T12:00:00Z"));
        assert!(
            soon[0].contains("ends in 10 days (2026-12-09 12:00:00 UTC)"),
            "{soon:?}"
        );
        let over = told(&ending("2026-11-27T12:00:00Z"));
        assert!(over[0].contains("ended 2 days ago"), "{over:?}");
        let refused = CertificateState {
            refused: Some("/etc/c.pem: it holds no certificate".to_owned()),
            next_refused: Some("/etc/next.pem: it holds no certificate".to_owned()),
            ..CertificateState::default()
        };
        let refused = told(&refused);
        assert!(
            refused[0].contains("/etc/c.pem: it holds no certificate"),
            "{refused:?}"
        );
        assert!(refused[1].contains("/etc/next.pem: it"), "{refused:?}");
    }

    #[test]
    fn older_machines_are_counted_and_lead_to_their_list() {
        let outdated = Outdated {
            gateways: 1,
            clients: 12,
        };
        let now = Timestamp::from_unix_ms(0);
        let all = all(&CertificateState::default(), outdated, "0.2.0", 2, &[], now);
        let told: Vec<_> = all
            .iter()
            .map(|told| (&*told.text, told.link.as_ref().map(|(path, _)| &**path)))
            .collect();
        assert_eq!(
            told,
            [
                (
                    "2 gateways wait to be verified: no client gets in through them.",
                    Some("/settings/verified-gateways")
                ),
                (
                    "1 gateway runs an older version than the portal (0.2.0). Update culvert on the machine.",
                    Some("/gateways?state=outdated")
                ),
                (
                    "12 clients run an older version than the portal (0.2.0). Update culvert on the machine.",
                    Some("/clients?state=outdated")
                ),
            ]
        );
    }
}
