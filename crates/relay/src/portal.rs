//! The link to the portal, and its troubles in the log.

use crate::RelayError;
use crate::settings::Settings;
use culvert_base::BootTime;
use culvert_control::{PortalAddresses, Repeats};
use culvert_host::StateDir;
use culvert_ids::TokenId;
use culvert_link::{Destination, PortalEvent, PortalLink};
use culvert_wire::RELAY_SESSION_PATH;
use culvert_wire::messages::{MAX_STORED_PORTALS_LEN, PortalSet};

/// The file with the addresses that the portal has told of.
const PORTALS_FILE: &str = "portals.json";

/// The link to the portal.
pub(crate) struct Portal {
    pub(crate) link: PortalLink,
    state: StateDir,
    token: TokenId,
    has_connected: bool,
    /// Troubles that were logged.
    repeats: Repeats,
}

impl Portal {
    /// The portal at the address of the token, and at those that it has told of and `state` keeps.
    pub(crate) fn new(settings: &Settings, state: StateDir) -> Result<Self, RelayError> {
        let enrolment = &settings.enrolment;
        let seed = getrandom::u64()
            .map_err(std::io::Error::other)
            .map_err(RelayError::system("draw random bytes"))?;
        let token = enrolment.bearer.id;
        let addresses =
            PortalAddresses::new(enrolment.portal.clone(), &stored(&state, token), seed);
        let destination = Destination {
            portal: enrolment.portal.clone(),
            path: RELAY_SESSION_PATH,
            credential: (&enrolment.bearer).into(),
            mark: None,
            look_up: |host, port| Box::pin(culvert_host::look_up(host, port)),
            proxy: settings.proxy.clone(),
            addresses: None,
        };
        Ok(Self {
            link: PortalLink::new(destination, addresses),
            state,
            token,
            has_connected: false,
            repeats: Repeats::default(),
        })
    }

    /// Keeps the addresses of the portal, where they are others than before.
    pub(crate) fn learn(&mut self, told: &PortalSet) {
        let Some(told) = self.link.learn(told) else {
            return;
        };
        tracing::info!(urls = ?told.urls, "the portal told of its addresses");
        // No packet waits for this: workers have threads of their own.
        let stored = told.stored(self.token);
        if let Err(error) = self.state.write(PORTALS_FILE, stored.as_bytes()) {
            tracing::warn!(%error, "the portal's new addresses are not kept");
        }
    }

    /// True if there was ever a connection.
    pub(crate) const fn has_connected(&self) -> bool {
        self.has_connected
    }

    /// The next event of the link, as by [`PortalLink::next`].
    pub(crate) async fn next(&mut self) -> PortalEvent {
        let event = self.link.next().await;
        self.has_connected |= matches!(event, PortalEvent::Opened(_));
        event
    }

    /// Logs a trouble with the portal; the same again once a minute.
    pub(crate) fn warn(&mut self, what: &str, why: &str, now: BootTime) {
        let portal = self.link.url();
        match self.repeats.count(why, now) {
            None => {}
            Some(0) => tracing::warn!(portal, why, "{what}"),
            Some(repeated) => tracing::warn!(portal, why, repeated, "{what}"),
        }
    }
}

/// The addresses that the portal has told of. A file that can't be read leaves that of the token.
fn stored(state: &StateDir, token: TokenId) -> PortalSet {
    match state.read_at_most(MAX_STORED_PORTALS_LEN, PORTALS_FILE) {
        Ok(Some(content)) => PortalSet::from_stored(content.expose(), token),
        Ok(None) => PortalSet::default(),
        Err(error) => {
            tracing::warn!(%error, "the portal is looked for at the address of the token alone");
            PortalSet::default()
        }
    }
}
