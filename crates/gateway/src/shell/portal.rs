//! The link to the portal, and its troubles in the log.

use crate::settings::Settings;
use culvert_base::BootTime;
use culvert_control::Repeats;
use culvert_link::{Destination, PortalEvent, PortalLink};
use culvert_wire::GATEWAY_SESSION_PATH;

/// The link to the portal.
pub(super) struct Portal {
    pub(super) link: PortalLink,
    /// True if there was ever a connection.
    has_connected: bool,
    /// Troubles that were logged.
    repeats: Repeats,
}

impl Portal {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            link: PortalLink::new(Destination {
                portal: settings.enrolment.portal.clone(),
                path: GATEWAY_SESSION_PATH,
                bearer: settings.enrolment.bearer.clone(),
                mark: Some(settings.routing.mark.get()),
                look_up: |host, port| Box::pin(culvert_host::look_up(host, port)),
                addresses: None,
            }),
            has_connected: false,
            repeats: Repeats::default(),
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

    /// Logs a trouble with the portal; the same again once a minute.
    pub(super) fn warn(&mut self, what: &str, why: &str, now: BootTime) {
        let portal = &self.link.destination().portal.url;
        match self.repeats.count(why, now) {
            None => {}
            Some(0) => tracing::warn!(portal, why, "{what}"),
            Some(repeated) => tracing::warn!(portal, why, repeated, "{what}"),
        }
    }
}
