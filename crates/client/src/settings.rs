//! What a client is told at its start.

use crate::{ClientError, Upstream};
use culvert_engine::DescriptorStore;
use culvert_host::{Confinement, InterfaceName, ResolverChoice, Routing, Sandbox};
use culvert_wire::token::{Bearer, Portal, Token, TokenKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// What a client is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tunnel's interface.
    pub interface: InterfaceName,
    /// Where the machine's id and key are kept.
    pub state_dir: PathBuf,
    /// What people call the machine.
    pub name: String,
    /// The software's version.
    pub version: String,
    /// The machine's id, instead of the one in the state directory.
    pub id: Option<String>,
    /// Who it is to the portal, and where that is, by the administrator's token. Without it the client
    /// does as it is told at its socket.
    pub enrolment: Option<Enrolment>,
    /// Packet workers.
    pub workers: usize,
    /// MTU of the interface, in bytes.
    pub mtu: u16,
    /// Tables, rules and the mark.
    pub routing: Routing,
    /// Where DNS queries come in, besides port 53 of the tunnel's addresses. Whoever reaches them may
    /// ask.
    pub dns_listen: Vec<SocketAddr>,
    /// How the system comes to ask here.
    pub dns: ResolverChoice,
    /// For which names the system asks here.
    pub dns_scope: DnsScope,
    /// Resolvers for names that are no resource; without them those that the system asked before, where
    /// it asks here for such names.
    pub dns_upstreams: Vec<Upstream>,
    /// Where it answers `culvert status`, and takes commands.
    pub status_socket: PathBuf,
    /// Whether the first attempt that does not reach the portal ends the client.
    pub exit_when_unreachable: bool,
    /// What the process was confined to, for people.
    pub confinement: Option<Confinement>,
    /// What is closed to the process, for people.
    pub sandbox: Option<Sandbox>,
    /// Who keeps interface and sockets while it is started anew.
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

/// What a token says.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// What is presented.
    pub bearer: Bearer,
    /// Where.
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
