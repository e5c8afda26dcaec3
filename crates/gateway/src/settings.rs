//! The settings that a gateway gets at its start.

use crate::GatewayError;
use culvert_engine::DescriptorStore;
use culvert_host::{Confinement, HostAccess, InterfaceName, Routing, Sandbox, SourceAddress};
use culvert_link::HttpProxy;
use culvert_wire::token::{Bearer, Portal, Token, TokenKind};
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The settings that a gateway gets at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tunnel's interface.
    pub interface: InterfaceName,
    /// The directory of the machine's id, its key and its grants.
    pub state_dir: PathBuf,
    /// The display name of the machine.
    pub name: String,
    /// The software's version.
    pub version: String,
    /// The machine's id, instead of the one in the state directory.
    pub id: Option<String>,
    /// The portal and the gateway's credentials there.
    pub enrolment: Enrolment,
    /// UDP port that clients send to.
    pub listen_port: u16,
    /// The addresses at which clients may reach it, besides those of its interfaces.
    pub public_endpoints: Vec<PublicEndpoint>,
    /// Packet workers.
    pub workers: usize,
    /// MTU of the interface, in bytes.
    pub mtu: u16,
    /// Tables, rules and the mark.
    pub routing: Routing,
    /// The source address of packets, as resources see it.
    pub source: SourceAddress,
    /// True if clients may reach the gateway's own host, as far as their grants allow it.
    pub host_access: HostAccess,
    /// True if the kernel's forwarding is to be switched on when it is off.
    pub enable_forwarding: bool,
    /// The socket that answers `culvert gateway status`.
    pub status_socket: PathBuf,
    /// The HTTP proxy by which it connects to the portal; without one, it does so itself.
    pub proxy: Option<HttpProxy>,
    /// True if the first attempt that does not reach the portal ends the gateway.
    pub exit_when_unreachable: bool,
    /// The limits to which the process was confined, for people.
    pub confinement: Option<Confinement>,
    /// The parts of the machine that are closed to the process, for people.
    pub sandbox: Option<Sandbox>,
    /// The keeper of interface and sockets during a restart.
    pub store: Option<Arc<dyn DescriptorStore>>,
}

/// An address or a name with a port, under which clients reach the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicEndpoint {
    /// An address without brackets, or a name.
    pub host: String,
    /// The UDP port.
    pub port: u16,
}

impl FromStr for PublicEndpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "it must be HOST:PORT, such as 198.51.100.1:51820, \
                                [2001:db8::1]:51820 or gw.example:51820";
        let (host, port) = text.rsplit_once(':').ok_or(EXPECTED)?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or(EXPECTED)?;
        let host = match host.strip_prefix('[') {
            Some(inner) => {
                let inner = inner.strip_suffix(']').ok_or(EXPECTED)?;
                inner.parse::<Ipv6Addr>().map_err(|_| EXPECTED)?;
                inner
            }
            None => host,
        };
        let is_name = host.parse::<culvert_policy::DomainName>().is_ok();
        if host.parse::<IpAddr>().is_err() && !is_name {
            return Err(EXPECTED);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
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
    /// [`GatewayError::BadToken`] and [`GatewayError::NoPortal`].
    pub fn from_token(text: &str) -> Result<Self, GatewayError> {
        let token = Token::parse_as(text, TokenKind::Gateway)?;
        let portal = token.portal.ok_or(GatewayError::NoPortal)?;
        culvert_link::check_url(&portal).map_err(GatewayError::BadUrl)?;
        Ok(Self {
            bearer: token.bearer,
            portal,
        })
    }
}
