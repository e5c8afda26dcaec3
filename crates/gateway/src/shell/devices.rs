//! The devices and tasks around the core, from the start to the end.

use super::addresses::Addresses;
use super::grant_journal::GrantJournal;
use super::host::Host;
use super::portal::Portal;
use super::resolver::Resolver;
use super::site_dns::SiteDns;
use super::tunnel::Tunnel;
use crate::GatewayError;
use crate::settings::Settings;
use culvert_gateway_core::{GrantChanges, PersistedGrants};
use culvert_host::{Shutdown, StateDir};
use culvert_link::Nat64Search;
use culvert_relay_tls::Streams;
use culvert_session::PrivateKey;

/// Everything that the core's outputs go to, and events come from.
pub(super) struct Devices {
    pub(super) tunnel: Tunnel,
    pub(super) host: Host,
    pub(super) addresses: Addresses,
    pub(super) resolver: Resolver,
    pub(super) site_dns: SiteDns,
    pub(super) portal: Portal,
    pub(super) journal: GrantJournal,
    /// TLS streams to relays.
    pub(super) streams: Streams<()>,
    pub(super) nat64: Nat64Search,
}

impl Devices {
    /// Makes the interface, and starts the tasks around it. Also returns the grants that an earlier run has persisted.
    pub(super) async fn start(
        settings: &Settings,
        key: PrivateKey,
        state: StateDir,
    ) -> Result<(Self, Option<PersistedGrants>), GatewayError> {
        let tunnel = Tunnel::start(settings, key)?;
        let addresses = Addresses::start(settings).await?;
        let (journal, persisted) = GrantJournal::start(state)?;
        let devices = Self {
            tunnel,
            host: Host::new(settings)?,
            addresses,
            resolver: Resolver::new(),
            site_dns: SiteDns::new(),
            portal: Portal::new(settings, StateDir::open(&settings.state_dir)?)?,
            journal,
            streams: Streams::new(),
            nat64: Nat64Search::start(
                |host, port| Box::pin(culvert_host::look_up(host, port)),
                Some(settings.routing.mark.get()),
            ),
        };
        Ok((devices, persisted))
    }

    /// Ends in order: the connection, then the tunnel, then its guard. For a restart, tunnel and guard stay.
    pub(super) async fn close(mut self, shutdown: Shutdown, changes: Option<GrantChanges>) {
        self.portal.close().await;
        match shutdown {
            Shutdown::ForGood => {
                self.tunnel.stop();
                self.host.remove().await;
            }
            Shutdown::ForRestart => self.tunnel.leave(),
        }
        // A grant that was revoked a moment ago must not come back with the next start.
        if let Some(changes) = changes {
            self.journal.persist(changes);
        }
        self.journal.finish().await;
    }
}
