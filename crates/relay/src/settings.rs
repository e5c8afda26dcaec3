//! The settings that a relay gets at its start.

use crate::RelayError;
use culvert_host::{Confinement, Sandbox};
use culvert_link::HttpProxy;
use culvert_relay_core::relay::GATEWAY_PORTS_MOST;
use culvert_relay_tls::Certificates;
use culvert_wire::token::{Bearer, Portal, Token, TokenKind};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The settings that a relay gets at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory of the machine's id.
    pub state_dir: PathBuf,
    /// The display name of the machine.
    pub name: String,
    /// The software's version.
    pub version: String,
    /// The machine's id, instead of the one in the state directory.
    pub id: Option<String>,
    /// The portal and the relay's credentials there.
    pub enrolment: Enrolment,
    /// The main UDP port.
    pub port: u16,
    /// The ports of gateways.
    pub gateway_ports: PortRange,
    /// The addresses at which ends reach it; those of its interfaces if there are none.
    pub addresses: Vec<IpAddr>,
    /// TLS, for ends whose networks block UDP.
    pub tls: TlsSettings,
    /// Threads that carry records, and as many that carry TLS streams.
    pub workers: NonZeroU32,
    /// Bytes a second that it forwards in all; `None`: without a limit.
    pub rate_bytes_per_s: Option<u64>,
    /// The socket that answers `culvert relay status`.
    pub status_socket: PathBuf,
    /// The HTTP proxy by which it connects to the portal; without one, it does so itself.
    pub proxy: Option<HttpProxy>,
    /// True if the first attempt that does not reach the portal ends the relay.
    pub exit_when_unreachable: bool,
    /// The limits to which the process was confined, for people.
    pub confinement: Option<Confinement>,
    /// The parts of the machine that are closed to the process, for people.
    pub sandbox: Option<Sandbox>,
}

/// The settings of the TLS listener.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// The place where it listens.
    pub listen: TlsListen,
    /// The certificate that it shows; without it, the relay makes its own.
    pub certificates: Option<Arc<Certificates>>,
}

/// The place where the relay listens for TLS: `off`, a port, or an address with its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsListen {
    /// Nowhere.
    Off,
    /// At [`Self::USUAL_PORT`] of all addresses, if that can be had.
    Usual,
    /// At this port of all addresses.
    Port(u16),
    /// At this address alone.
    Address(SocketAddr),
}

impl fmt::Display for TlsListen {
    /// As it is read.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => out.write_str("off"),
            Self::Usual => write!(out, "{}", Self::USUAL_PORT),
            Self::Port(port) => write!(out, "{port}"),
            Self::Address(address) => write!(out, "{address}"),
        }
    }
}

/// The text is no place to listen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a port such as 443, an address with a port such as 192.0.2.7:443, or off")]
pub struct TlsListenError;

impl TlsListen {
    /// The port that networks let through that block UDP.
    pub const USUAL_PORT: u16 = 443;

    /// The port, if there is one.
    #[must_use]
    pub const fn port(self) -> Option<u16> {
        match self {
            Self::Off => None,
            Self::Usual => Some(Self::USUAL_PORT),
            Self::Port(port) => Some(port),
            Self::Address(address) => Some(address.port()),
        }
    }
}

impl FromStr for TlsListen {
    type Err = TlsListenError;

    fn from_str(text: &str) -> Result<Self, TlsListenError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let port = text.parse().ok().filter(|port| *port != 0);
            return port.map(Self::Port).ok_or(TlsListenError);
        }
        text.parse().map(Self::Address).map_err(|_| TlsListenError)
    }
}

/// Ports in a row: `FIRST-LAST`, or one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// The text is no range of ports that a relay can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected FIRST-LAST such as 3479-3542, at most {GATEWAY_PORTS_MOST} ports")]
pub struct PortRangeError;

impl PortRange {
    /// The first port.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The last port.
    #[must_use]
    pub const fn last(self) -> u16 {
        self.last
    }

    /// The number of ports: at least one.
    #[must_use]
    pub const fn count(self) -> u16 {
        self.last - self.first + 1
    }

    /// The ports.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        self.first..=self.last
    }

    /// True for one of the ports.
    #[must_use]
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            let port = is_plain.then(|| text.parse().ok()).flatten();
            port.ok_or(PortRangeError)
        };
        let (first, last): (u16, u16) = (port(first)?, port(last)?);
        let is_bounded = usize::from(last.saturating_sub(first)) < GATEWAY_PORTS_MOST;
        if first == 0 || first > last || !is_bounded {
            return Err(PortRangeError);
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.first, self.last)
    }
}

/// The content of a token.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// The credential that is presented.
    pub bearer: Bearer,
    /// The portal to connect to.
    pub portal: Portal,
}

impl Enrolment {
    /// From the text of a token.
    ///
    /// # Errors
    /// [`RelayError::BadToken`] and [`RelayError::NoPortal`].
    pub fn from_token(text: &str) -> Result<Self, RelayError> {
        let token = Token::parse_as(text, TokenKind::Relay)?;
        let portal = token.portal.ok_or(RelayError::NoPortal)?;
        culvert_link::check_url(&portal).map_err(RelayError::BadUrl)?;
        Ok(Self {
            bearer: token.bearer,
            portal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_is_written_as_it_is_read() {
        for (text, first, count) in [
            ("3479-3542", 3479, 64),
            ("5000-5000", 5000, 1),
            ("1-1024", 1, 1024),
            ("64512-65535", 64512, 1024),
        ] {
            let range: PortRange = text.parse().unwrap();
            assert_eq!((range.first(), range.count()), (first, count));
            assert_eq!(range.to_string(), text);
            assert!(range.contains(first) && !range.contains(first.wrapping_sub(1)));
        }
        assert_eq!("5000".parse::<PortRange>().unwrap().count(), 1);
    }

    #[test]
    fn tls_listens_at_a_port_at_an_address_or_nowhere() {
        for (text, expected) in [
            ("off", Ok(TlsListen::Off)),
            ("443", Ok(TlsListen::Port(443))),
            (
                "[::1]:8443",
                Ok(TlsListen::Address("[::1]:8443".parse().unwrap())),
            ),
            ("0", Err(TlsListenError)),
            ("65536", Err(TlsListenError)),
            ("192.0.2.7", Err(TlsListenError)),
            ("on", Err(TlsListenError)),
            ("", Err(TlsListenError)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }

    #[test]
    fn a_range_that_is_none_or_too_long_is_refused() {
        for text in [
            "", "-", "0-5", "7-5", "1-1025", "1-65536", "a-b", "+1-5", "1-2-3", " 1-2",
        ] {
            assert_eq!(text.parse::<PortRange>(), Err(PortRangeError), "{text:?}");
        }
    }
}
