//! Events of the session with the portal.

use super::Shell;
use crate::GatewayError;
use culvert_base::BootTime;
use culvert_control::stamp_epoch;
use culvert_link::{ConnectError, PortalEvent};

impl Shell {
    /// An event of the session, and with a text those that have come behind it.
    pub(super) async fn handle_portal_events(
        &mut self,
        first: PortalEvent,
        now: BootTime,
    ) -> Result<(), GatewayError> {
        let PortalEvent::Text(first) = first else {
            return self.handle_portal(first, now);
        };
        let (texts, behind) = self.devices.portal.texts(first).await;
        for text in &texts {
            self.core.take_text(text, now);
            self.write_logs();
        }
        self.core.finish_texts(now);
        match behind {
            Some(event) => self.handle_portal(event, now),
            None => Ok(()),
        }
    }

    pub(super) fn handle_portal(
        &mut self,
        event: PortalEvent,
        now: BootTime,
    ) -> Result<(), GatewayError> {
        match event {
            PortalEvent::Opened(told) => {
                let own = culvert_engine::unix_time();
                let epoch = stamp_epoch(told, own, now);
                self.devices.tunnel.stamp_from(epoch)?;
                let udp = self.devices.portal.link.udp_address();
                self.core.handle_portal_udp(udp, now);
                self.core.handle_connected(told.unwrap_or(own), now);
            }
            PortalEvent::Failed(error) => return self.handle_failed(&error, now),
            PortalEvent::Text(text) => self.core.handle_text(&text, now),
            PortalEvent::Closed(closed) => {
                let why = closed.to_string();
                let portal = &mut self.devices.portal;
                portal.warn("the session with the portal has ended", &why, now);
                self.core.handle_disconnected(why, None, now);
            }
        }
        Ok(())
    }

    fn handle_failed(&mut self, error: &ConnectError, now: BootTime) -> Result<(), GatewayError> {
        let why = error.to_string();
        let portal = &mut self.devices.portal;
        portal.warn("the portal can't be reached", &why, now);
        if !portal.link.is_last() {
            // The next attempt goes elsewhere: what this one asked for says nothing about that.
            self.core.handle_disconnected(why, None, now);
            return Ok(());
        }
        if matches!(error, ConnectError::Unauthorized) {
            self.core.handle_unauthorized(why, now);
            return Ok(());
        }
        if self.base.settings.exit_when_unreachable && !portal.has_connected() {
            return Err(GatewayError::Unreachable(why));
        }
        self.core
            .handle_disconnected(why, error.retry_after_ms(), now);
        Ok(())
    }

    /// Gives up a session whose address this machine no longer has: the next one tells the portal at
    /// once where clients may reach the gateway now.
    pub(super) fn leave_a_lost_address(&mut self, now: BootTime) {
        let portal = &mut self.devices.portal;
        if portal.link.has_lost_its_address() {
            // Nothing arrives any more: there is no order to close in.
            drop(portal.link.disconnect());
            let why = "this machine no longer has the address of the connection";
            portal.warn("the session with the portal has ended", why, now);
            self.core.handle_disconnected(why.to_owned(), None, now);
        }
    }

    /// Tells the portal of the flows that end with the gateway, as far as it wants to know; `true` once it has them.
    pub(super) async fn tell_last_flows(&mut self) -> bool {
        let Ok(taken) = self.devices.tunnel.take_flows(true) else {
            return self.core.flows_are_told();
        };
        let now = culvert_engine::boot_time();
        self.core.handle_flows(taken.records, taken.lost, now);
        loop {
            let executed = self.execute().await;
            if executed.is_err() || self.core.flows_are_told() {
                return self.core.flows_are_told();
            }
            let event = self.devices.portal.next().await;
            // A session that begins only now may still take them. One that ends has no time to come back.
            if matches!(event, PortalEvent::Failed(_) | PortalEvent::Closed(_)) {
                return false;
            }
            let now = culvert_engine::boot_time();
            if self.handle_portal(event, now).is_err() {
                return false;
            }
        }
    }
}
