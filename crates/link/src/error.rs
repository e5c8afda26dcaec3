//! The reasons why there is no connection to the portal, written for the person who can fix it.

use culvert_wire::Timestamp;
use std::io;

/// The reason why an attempt to connect failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Configuration: the URL can't be used.
    #[error("`{url}` is no portal's URL: write https://HOST or https://HOST:PORT")]
    Url {
        /// As it was given.
        url: String,
    },

    /// Local: this host can't do what a connection takes.
    #[error("cannot {what}: {source}")]
    Local {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// Configuration: no authority is known that could vouch for the portal.
    #[error(
        "this system has no certificate authorities: install the package ca-certificates, or use a \
         token that names the portal's certificate"
    )]
    NoAuthorities,

    /// The host's name has no address.
    #[error("{host} has no address: {source}")]
    Resolve {
        /// The portal's host name.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },

    /// No address of the portal accepts a connection.
    #[error("{authority} does not answer: {source}")]
    Unreachable {
        /// Host and port.
        authority: String,
        /// The error of the last attempt.
        source: io::Error,
    },

    /// No address of the proxy accepts a connection, or it broke off before its answer.
    #[error("the proxy {proxy} does not answer: {source}")]
    ProxyBroke {
        /// The proxy.
        proxy: String,
        /// The error of the last attempt.
        source: io::Error,
    },

    /// Configuration: the proxy wants credentials, or other ones.
    #[error("the proxy {proxy} {}", credentials_wanted(*given))]
    ProxyCredentials {
        /// The proxy.
        proxy: String,
        /// True if it was given some.
        given: bool,
    },

    /// Peer: the proxy does not connect to the host.
    #[error("the proxy {proxy} does not connect to {authority}: HTTP {status}{}", proxy_hint(*status))]
    ProxyRefused {
        /// The proxy.
        proxy: String,
        /// Host and port.
        authority: String,
        /// The HTTP status.
        status: u16,
    },

    /// Peer: what answers is no proxy.
    #[error("{proxy} does not answer as an HTTP proxy does: {reason}; check --proxy")]
    NoProxy {
        /// The proxy.
        proxy: String,
        /// The fault of the answer.
        reason: &'static str,
    },

    /// Peer or configuration: the portal's certificate is another one than the token names.
    #[error(
        "{authority} has another certificate than the token names: either it is not the portal, or \
         its certificate was exchanged while this machine was away, and a new token is needed"
    )]
    WrongCertificate {
        /// Host and port.
        authority: String,
    },

    /// Local or peer: this machine's clock is wrong, or the portal's certificate is out of date.
    #[error(
        "the certificate of {authority} {fault}, and this machine's clock shows {now}: if the clock is \
         wrong, set it (timedatectl set-ntp true); if it is right, the portal needs a new certificate"
    )]
    CertificateDates {
        /// Host and port.
        authority: String,
        /// The fault of the dates.
        fault: String,
        /// The time of this machine's clock.
        now: Timestamp,
    },

    /// Peer: the TLS handshake failed for another reason.
    #[error("{authority} is not trusted or does not speak TLS 1.3: {source}")]
    Tls {
        /// Host and port.
        authority: String,
        /// The error.
        source: io::Error,
    },

    /// Peer: the portal refused the token.
    #[error(
        "the portal refused the token (HTTP 401): it is unknown, expired, revoked or of another kind"
    )]
    Unauthorized,

    /// Peer: the portal does not want a session now.
    #[error("the portal answered HTTP {status} instead of opening a session{}", hint(*status))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The value of `Retry-After`, in milliseconds.
        retry_after_ms: Option<u64>,
    },

    /// Peer: what answered is not a portal.
    #[error("{authority} does not open a WebSocket as a portal does: {reason}")]
    NoPortal {
        /// Host and port.
        authority: String,
        /// The fault of the answer.
        reason: String,
    },

    /// Everything took longer than an attempt may.
    #[error("{authority} did not answer within {seconds} s")]
    TimedOut {
        /// Host and port.
        authority: String,
        /// The time limit.
        seconds: u64,
    },
}

/// The usual cause of a status.
const fn hint(status: u16) -> &'static str {
    match status {
        400 | 426 => {
            ": a reverse proxy in front of it must pass `Upgrade` and `Connection` on (`culvert netcheck` says more)"
        }
        502..=504 => ": it does not run, or the reverse proxy in front of it does not reach it",
        _ => "",
    }
}

const fn credentials_wanted(given: bool) -> &'static str {
    match given {
        true => {
            "refuses the credentials (HTTP 407): correct the file of --proxy-credentials-file and start again"
        }
        false => {
            "wants credentials (HTTP 407): write USER:PASSWORD into a file with mode 0600, and name it by --proxy-credentials-file"
        }
    }
}

/// The usual cause of a proxy's status.
const fn proxy_hint(status: u16) -> &'static str {
    match status {
        403 => ", its rules forbid it: ask its administrator to allow this host and port",
        405 | 501 => ", it does not know CONNECT: check --proxy",
        502..=504 => ", it does not reach that host",
        _ => "",
    }
}

/// The shortest wait after another machine answered in the portal's place. A captive portal goes away when
/// somebody has logged in there.
const WRONG_PORTAL_WAIT_MS: u64 = 10_000;

impl ConnectError {
    /// The shortest wait in milliseconds: the portal's `Retry-After`, or the pause after a fault that a person has
    /// to mend.
    #[must_use]
    pub const fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::Refused { retry_after_ms, .. } => *retry_after_ms,
            // A proxy that is asked again and again with a wrong password may lock the user out.
            Self::WrongCertificate { .. } | Self::ProxyCredentials { .. } => {
                Some(WRONG_PORTAL_WAIT_MS)
            }
            _ => None,
        }
    }

    /// True if the portal knows this token and refuses it. Another attempt would end in the same
    /// way.
    #[must_use]
    pub const fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Unauthorized)
    }

    /// True if the server is another one than the token names. The cause may go away, as the page of
    /// a hotel's network does, or be permanent.
    #[must_use]
    pub const fn is_wrong_portal(&self) -> bool {
        matches!(self, Self::WrongCertificate { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_base::{BootTime, UnixTime};
    use culvert_control::ControlSession;
    use std::time::Duration;

    #[test]
    fn another_certificate_is_tried_again_after_ten_seconds_whoever_waits() {
        let error = ConnectError::WrongCertificate {
            authority: "portal.example:8443".to_owned(),
        };
        let mut session = ControlSession::new(BootTime::ZERO);
        let mut now = BootTime::ZERO;
        for _ in 0..5 {
            assert!(session.begin_attempt(now));
            assert!(session.connected(UnixTime::EPOCH, now));
            let wait_ms = error.retry_after_ms();
            session.lost(Some(error.to_string()), wait_ms, [0, 0], now);
            session.hurry();
            let next = session.next_timeout().unwrap_or(BootTime::ZERO);
            let least = now.saturating_add(Duration::from_secs(10));
            assert!(next >= least, "{now:?}: {next:?}");
            now = next;
        }
    }

    #[test]
    fn a_session_that_a_proxy_does_not_pass_on_leads_to_the_proxy() {
        let of = |status| {
            let retry_after_ms = None;
            let refused = ConnectError::Refused {
                status,
                retry_after_ms,
            };
            refused.to_string()
        };
        assert!(of(400).contains("`Upgrade`"), "{}", of(400));
        assert!(of(502).contains("proxy"), "{}", of(502));
        assert!(of(429).ends_with("session"), "{}", of(429));
    }

    #[test]
    fn a_certificate_out_of_its_dates_leads_to_the_clock() {
        let error = ConnectError::CertificateDates {
            authority: "portal.example:443".to_owned(),
            fault: "is not valid before 2026-05-01T00:00:00Z".to_owned(),
            now: Timestamp::from_unix_ms(0),
        };
        let text = error.to_string();
        assert!(
            text.contains("this machine's clock shows 1970-01-01T00:00:00Z"),
            "{text}"
        );
        assert!(text.contains("timedatectl set-ntp true"), "{text}");
        assert!(!error.is_unauthorized(), "it is tried again");
    }
}
