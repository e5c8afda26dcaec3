//! The link to the portal, and its troubles in the log.

use super::latest_writer::LatestWriter;
use crate::GatewayError;
use crate::settings::Settings;
use culvert_base::BootTime;
use culvert_control::{PortalAddresses, Repeats};
use culvert_host::StateDir;
use culvert_ids::TokenId;
use culvert_link::{Destination, MAX_WAITING_MESSAGES, PortalEvent, PortalLink};
use culvert_wire::GATEWAY_SESSION_PATH;
use culvert_wire::messages::{MAX_STORED_PORTALS_LEN, PortalSet};
use std::time::Duration;
use tokio::time::timeout;

/// The file with the addresses that the portal has told of.
const PORTALS_FILE: &str = "portals.json";

/// Texts that are taken in one turn of the event loop: some 20 ms of work. They are read ahead of the grants among them,
/// so that a revocation behind 30,000 grants comes up within half a second.
const TEXTS_PER_TURN: usize = 2_048;

/// From so many on, a storm goes on: half of what waits in the link.
const STORM_TEXTS: usize = MAX_WAITING_MESSAGES / 2;

/// The longest wait for the next text of a storm: the link reads some tens of them in this time.
const STORM_PAUSE: Duration = Duration::from_millis(1);

/// The link to the portal.
pub(super) struct Portal {
    pub(super) link: PortalLink,
    /// Keeps the addresses of the portal, beside the event loop.
    writer: LatestWriter<PortalSet>,
    /// True if there was ever a connection.
    has_connected: bool,
    /// Troubles that were logged.
    repeats: Repeats,
}

impl Portal {
    /// The portal at the address of the token, and at those that it has told of and `state` keeps.
    pub(super) fn new(settings: &Settings, state: StateDir) -> Result<Self, GatewayError> {
        let enrolment = &settings.enrolment;
        let seed = getrandom::u64()
            .map_err(std::io::Error::other)
            .map_err(GatewayError::system("draw random bytes"))?;
        let token = enrolment.bearer.id;
        let addresses =
            PortalAddresses::new(enrolment.portal.clone(), &stored(&state, token), seed);
        let destination = Destination {
            portal: enrolment.portal.clone(),
            path: GATEWAY_SESSION_PATH,
            credential: (&enrolment.bearer).into(),
            mark: Some(settings.routing.mark.get()),
            look_up: |host, port| Box::pin(culvert_host::look_up(host, port)),
            proxy: settings.proxy.clone(),
            addresses: None,
        };
        Ok(Self {
            link: PortalLink::new(destination, addresses),
            writer: LatestWriter::with(move |told: &PortalSet| keep(&state, token, told)),
            has_connected: false,
            repeats: Repeats::default(),
        })
    }

    /// Ends the connection in order, and has the addresses kept.
    pub(super) async fn close(mut self) {
        self.link.disconnect().await;
        self.writer.finish().await;
    }

    /// Keeps the addresses of the portal, where they are others than before.
    pub(super) fn learn(&mut self, told: &PortalSet) {
        if let Some(told) = self.link.learn(told) {
            tracing::info!(urls = ?told.urls, "the portal told of its addresses");
            self.writer.write(told.clone());
        }
    }

    /// True if there was ever a connection.
    pub(super) const fn has_connected(&self) -> bool {
        self.has_connected
    }

    /// The next event of the link, as by [`PortalLink::next`].
    pub(super) async fn next(&mut self) -> PortalEvent {
        let event = self.link.next().await;
        self.has_connected |= matches!(event, PortalEvent::Opened(_));
        event
    }

    /// The texts that have come by now, from `first` on, and the event behind them, if there is one already.
    pub(super) async fn texts(&mut self, first: String) -> (Vec<String>, Option<PortalEvent>) {
        let mut texts = vec![first];
        while texts.len() < TEXTS_PER_TURN {
            let event = match texts.len() < STORM_TEXTS {
                true => self.next_if_there().await,
                false => timeout(STORM_PAUSE, self.next()).await.ok(),
            };
            match event {
                None => break,
                Some(PortalEvent::Text(text)) => texts.push(text),
                event => return (texts, event),
            }
        }
        (texts, None)
    }

    /// The next event, if it is there once the link has had its turn.
    async fn next_if_there(&mut self) -> Option<PortalEvent> {
        tokio::select! {
            biased;
            event = self.next() => Some(event),
            () = tokio::task::yield_now() => None,
        }
    }

    /// Logs a trouble with the portal; the same again once a minute.
    pub(super) fn warn(&mut self, what: &str, why: &str, now: BootTime) {
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

fn keep(state: &StateDir, token: TokenId, told: &PortalSet) {
    if let Err(error) = state.write(PORTALS_FILE, told.stored(token).as_bytes()) {
        tracing::warn!(%error, "the portal's new addresses are not kept");
    }
}
