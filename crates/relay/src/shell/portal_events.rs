//! Events of the session with the portal, and of the network under it.

use super::{Shell, addresses};
use crate::RelayError;
use crate::clock;
use culvert_base::BootTime;
use culvert_link::{ConnectError, PortalEvent};

impl Shell {
    pub(super) fn handle_portal(
        &mut self,
        event: PortalEvent,
        now: BootTime,
    ) -> Result<(), RelayError> {
        match event {
            PortalEvent::Opened(told) => {
                self.workers.clock().set(told);
                let portal_time = told.unwrap_or_else(clock::unix_time);
                let assigned = self.workers.assigned();
                self.core.handle_connected(portal_time, assigned, now);
            }
            PortalEvent::Failed(error) => return self.handle_failed(&error, now),
            PortalEvent::Text(text) => self.core.handle_text(&text, now),
            PortalEvent::Closed(closed) => {
                let why = closed.to_string();
                self.portal
                    .warn("the session with the portal has ended", &why, now);
                self.core.handle_disconnected(why, None, now);
            }
        }
        Ok(())
    }

    fn handle_failed(&mut self, error: &ConnectError, now: BootTime) -> Result<(), RelayError> {
        let why = error.to_string();
        self.portal.warn("the portal can't be reached", &why, now);
        if !self.portal.link.is_last() {
            // The next attempt goes elsewhere: what this one asked for says nothing about that.
            self.core.handle_disconnected(why, None, now);
            return Ok(());
        }
        if matches!(error, ConnectError::Unauthorized) {
            self.core.handle_unauthorized(why, now);
            return Ok(());
        }
        if self.settings.exit_when_unreachable && !self.portal.has_connected() {
            return Err(RelayError::Unreachable(why));
        }
        let retry_after_ms = error.retry_after_ms();
        self.core.handle_disconnected(why, retry_after_ms, now);
        Ok(())
    }

    pub(super) fn handle_network_change(&mut self, now: BootTime) {
        self.core
            .handle_addresses(addresses(&self.settings, &self.watch));
        if self.portal.link.has_lost_its_address() {
            // Nothing arrives any more: there is no order to close in.
            drop(self.portal.link.disconnect());
            let why = "this machine no longer has the address of the connection";
            self.portal
                .warn("the session with the portal has ended", why, now);
            self.core.handle_disconnected(why.to_owned(), None, now);
        }
        self.core.handle_network_change(now);
    }
}
