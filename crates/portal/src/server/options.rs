use culvert_policy::Prefix;
use culvert_wire::api::OwnRelayStatus;
use culvert_wire::token::Portal as PortalUrl;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tokio::sync::watch;

/// Options of a portal.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address at which it listens for clients, gateways and the API.
    pub listen: SocketAddr,
    /// The URL at which machines reach it: `https://host[:port]`. Without it, an address of this
    /// machine.
    pub url: Option<String>,
    /// The address of this machine at which other portals of the database reach it, where `listen` names none.
    pub reach: Option<IpAddr>,
    /// Other URLs at which machines find it: before it moves, and after that.
    pub also_urls: Vec<String>,
    /// A certificate of one's own; without it the portal makes one and tokens name it by its pin.
    pub certificate: Option<CertificateFiles>,
    /// The certificate that comes after the given one, which may be yet to come.
    pub next_certificate: Option<PathBuf>,
    /// The address at which it listens for collectors of metrics, without TLS or tokens.
    pub metrics: Option<SocketAddr>,
    /// Proxies whose word on where a request came from is taken.
    pub trusted_proxies: Vec<Prefix>,
    /// A database of countries in the format of MaxMind.
    pub geoip: Option<PathBuf>,
    /// Files that the process may have open. Fewer than all connections need leave room for fewer.
    pub descriptors: Option<u64>,
    /// Tokens for machines are written at once: a URL or a certificate that makes them useless is refused.
    pub sets_up: bool,
    /// The state of the relay beside it, if it has one.
    pub own_relay: Option<watch::Receiver<OwnRelayStatus>>,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The chain, the portal's own certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Options {
    /// A portal that listens on `listen` and has a default for everything else.
    #[must_use]
    pub const fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            url: None,
            reach: None,
            also_urls: Vec::new(),
            certificate: None,
            next_certificate: None,
            metrics: None,
            trusted_proxies: Vec::new(),
            geoip: None,
            descriptors: None,
            sets_up: false,
            own_relay: None,
        }
    }
}

/// The `host` of a URL `https://host[:port]`, without the brackets of an IPv6 address.
pub(crate) fn host_of(url: &PortalUrl) -> &str {
    let authority = url.url.trim_start_matches("https://");
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.split(':').next().unwrap_or(authority),
    }
}
