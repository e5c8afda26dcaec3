//! The settings that a client gets at its start.

use crate::{ClientError, Upstream};
use culvert_engine::DescriptorStore;
use culvert_host::{Confinement, InterfaceName, RecentLog, ResolverChoice, Routing, Sandbox};
use culvert_link::HttpProxy;
use culvert_wire::token::{Bearer, Portal, Token, TokenKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The settings that a client gets at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tunnel's interface.
    pub interface: InterfaceName,
    /// The directory of the machine's id and key.
    pub state_dir: PathBuf,
    /// The display name of the machine.
    pub name: String,
    /// The software's version.
    pub version: String,
    /// The machine's id, instead of the one in the state directory.
    pub id: Option<String>,
    /// The portal and the client's credentials there, from the administrator's token. Without it
    /// the client does as it is told at its socket.
    pub enrolment: Option<Enrolment>,
    /// Packet workers.
    pub workers: usize,
    /// MTU of the interface, in bytes.
    pub mtu: u16,
    /// Tables, rules and the mark.
    pub routing: Routing,
    /// Addresses at which DNS queries come in, besides port 53 of the tunnel's addresses. Anyone who reaches
    /// them may ask.
    pub dns_listen: Vec<SocketAddr>,
    /// The way in which the system is set to ask here.
    pub dns: ResolverChoice,
    /// For which names the system asks here.
    pub dns_scope: DnsScope,
    /// Resolvers for names that are no resource; without them those that the system asked before, where
    /// it asks here for such names.
    pub dns_upstreams: Vec<Upstream>,
    /// The socket that answers `culvert status` and takes commands.
    pub status_socket: PathBuf,
    /// The HTTP proxy by which it connects to the portal; without one, it does so itself.
    pub proxy: Option<HttpProxy>,
    /// True if the first attempt that does not reach the portal ends the client.
    pub exit_when_unreachable: bool,
    /// The limits to which the process was confined, for people.
    pub confinement: Option<Confinement>,
    /// The parts of the machine that are closed to the process, for people.
    pub sandbox: Option<Sandbox>,
    /// The last lines of the log, for those who may command.
    pub log: Option<Arc<RecentLog>>,
    /// The keeper of interface and sockets during a restart.
    pub store: Option<Arc<dyn DescriptorStore>>,
}

/// For which names the system asks the client, where it can ask different resolvers for different names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsScope {
    /// Those of resources, and those in domains that the account's administrator says.
    #[default]
    Split,
    /// Every name.
    All,
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
    /// [`ClientError::BadToken`] and [`ClientError::NoPortal`].
    pub fn from_token(text: &str) -> Result<Self, ClientError> {
        let token = Token::parse_as(text, TokenKind::Client)?;
        let portal = token.portal.ok_or(ClientError::NoPortal)?;
        culvert_link::check_url(&portal).map_err(ClientError::BadUrl)?;
        Ok(Self {
            bearer: token.bearer,
            portal,
        })
    }
}
