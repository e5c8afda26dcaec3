//! The parts of a client that live as long as it runs, whether it is up or not.

use super::clock::Now;
use crate::clean_up::clean_up_network;
use crate::status::{
    ApplicationsStatus, Control, DnsStatus, PortalStatus, PrivilegesStatus, SCHEMA_VERSION,
    ServiceState, ServiceStatus, Status,
};
use crate::{ClientError, DnsScope, Settings};
use culvert_base::{BootTime, whole_millis};
use culvert_client_core::{Client, Options};
use culvert_engine::StoredDescriptors;
use culvert_host::{HostError, Identity, PrivateKeyBytes, ResolverControl, StateDir};
use culvert_policy::DomainName;
use culvert_session::{PrivateKey, Suite};
use culvert_wire::{Cipher, PublicKey, Timestamp};

/// The parts of a client that live as long as it runs.
pub(super) struct Base {
    pub(super) settings: Settings,
    pub(super) machine: String,
    pub(super) key: PrivateKeyBytes,
    pub(super) public_key: PublicKey,
    pub(super) began: BootTime,
}

impl Base {
    /// Makes the missing files in the state directory, and changes nothing else.
    pub(super) fn load(settings: Settings, state: &StateDir) -> Result<Self, ClientError> {
        let identity = Identity::load(state, settings.id.as_deref())?;
        let key = PrivateKey::from_bytes(*identity.key.expose());
        Ok(Self {
            settings,
            machine: identity.machine,
            public_key: key.public_key(),
            key: identity.key,
            began: Now::read().boot,
        })
    }

    /// The authority that decides if the client is to be connected.
    pub(super) const fn control(&self) -> Control {
        match self.settings.enrolment {
            Some(_) => Control::Token,
            None => Control::Commands,
        }
    }

    /// The state of a client that is not up.
    pub(super) fn status_at_rest(&self, state: ServiceState, why: String) -> Status {
        let now = Now::read();
        Status {
            schema_version: SCHEMA_VERSION,
            version: self.settings.version.clone(),
            at: Timestamp::from(now.unix),
            running_for_ms: whole_millis(now.boot.saturating_since(self.began)),
            interface: None,
            mtu_bytes: Some(self.settings.mtu),
            name: self.settings.name.clone(),
            machine: self.machine.clone(),
            client: None,
            public_key: self.public_key,
            ipv4: None,
            ipv6: None,
            service: ServiceStatus {
                control: self.control(),
                state,
                ..ServiceStatus::default()
            },
            privileges: self
                .settings
                .confinement
                .as_ref()
                .map(|it| PrivilegesStatus {
                    uid: it.uid,
                    capabilities: it.capabilities.iter().map(ToString::to_string).collect(),
                }),
            sandbox: self.settings.sandbox.clone(),
            portal_url: String::new(),
            portal_pin: None,
            portal: PortalStatus::default(),
            ready: false,
            not_ready_because: Some(why),
            resources: Vec::new(),
            unreadable: Vec::new(),
            gateways: Vec::new(),
            relays: Vec::new(),
            names: Vec::new(),
            dns: DnsStatus::default(),
            drops: Vec::new(),
            counters: Vec::new(),
            applications: ApplicationsStatus::default(),
            problems: Vec::new(),
        }
    }

    /// Makes the host as it was before a client that did not end in order, or that failed.
    /// Lists the leftovers, each a line.
    pub(super) async fn clean_up(&self) -> Vec<String> {
        let mut left = Vec::new();
        if let Some(store) = &self.settings.store {
            for stored in StoredDescriptors::ALL {
                store.forget(stored);
            }
        }
        let resolver = async {
            let state = StateDir::open(&self.settings.state_dir)?;
            ResolverControl::new(self.settings.dns, state)
                .clean_up()
                .await
        };
        if let Err(error) = resolver.await {
            left.push(format!("the system's resolver is not as it was: {error}"));
        }
        let Settings {
            interface, routing, ..
        } = &self.settings;
        match clean_up_network(interface, routing).await {
            Ok(removed) if removed.is_empty() => {}
            // It can't have left anything either; going up reports the missing parts.
            Err(ClientError::Host(HostError::NeedsNetAdmin)) => {}
            Ok(removed) => tracing::info!(?removed, "what a crash left behind is removed"),
            Err(error) => left.push(format!("rules and routes of a crash are left: {error}")),
        }
        for line in &left {
            tracing::error!("{line}");
        }
        left
    }
}

/// The core of a client of the portal at these URLs.
pub(super) fn core<P>(
    base: &Base,
    portal_urls: &[String],
    now: Now,
) -> Result<Client<P>, ClientError> {
    let settings = &base.settings;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(std::io::Error::other)
        .map_err(ClientError::system("draw random bytes"))?;
    let options = Options {
        machine: base.machine.clone(),
        name: settings.name.clone(),
        version: settings.version.clone(),
        public_key: base.public_key,
        ciphers: fast_ciphers(),
        dns_listen: settings.dns_listen.clone(),
        dns_upstreams: settings
            .dns_upstreams
            .iter()
            .map(|upstream| upstream.address)
            .collect(),
        asks_all: settings.dns_scope == DnsScope::All,
        portals: portal_urls
            .iter()
            .filter_map(|url| portal_name(url))
            .collect(),
    };
    Ok(Client::new(options, seed, now.boot))
}

/// Makes the control that has the system ask here. Its leftovers of a crash are undone first,
/// because the portal's name may have to be resolved.
pub(super) async fn resolver_control(settings: &Settings) -> Result<ResolverControl, ClientError> {
    let mut control = ResolverControl::new(settings.dns, StateDir::open(&settings.state_dir)?);
    if let Err(error) = control.clean_up().await {
        tracing::error!(%error, "the system's resolver is not as it was before a crash");
    }
    control.forget_interface(&settings.interface).await;
    control.check().await?;
    Ok(control)
}

/// The portal's host, where it is known by name.
fn portal_name(url: &str) -> Option<DomainName> {
    let host = url.strip_prefix("https://")?.split([':', '/']).next()?;
    host.parse().ok()
}

/// Suites for which this processor has instructions.
fn fast_ciphers() -> Vec<Cipher> {
    let mut ciphers = vec![Cipher::ChaCha20Poly1305];
    if Suite::Aes256Gcm.is_fast() {
        ciphers.push(Cipher::Aes256Gcm);
    }
    ciphers
}
