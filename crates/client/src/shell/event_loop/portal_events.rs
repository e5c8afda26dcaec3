//! Events of the session with the portal.

use super::EventLoop;
use crate::ClientError;
use crate::shell::clock::Now;
use crate::shell::destinations_file;
use crate::shell::os_release;
use crate::shell::portals_file;
use culvert_base::BootTime;
use culvert_client_core::Remembered;
use culvert_control::{CLOCK_TOLERANCE_MS, stamp_epoch};
use culvert_link::PortalEvent;
use culvert_wire::messages::PortalSet;
use std::time::Duration;

impl EventLoop<'_> {
    pub(super) fn handle_portal(&mut self, event: PortalEvent) -> Result<(), ClientError> {
        let now = Now::read();
        match event {
            PortalEvent::Opened(told) => {
                let off = told.map(|portal| portal.abs_diff(now.unix));
                if let Some(off) = off
                    && off > Duration::from_millis(CLOCK_TOLERANCE_MS)
                {
                    tracing::warn!(
                        seconds = off.as_secs(),
                        "this machine's clock and the portal's differ; grants end by the portal's"
                    );
                }
                let epoch = stamp_epoch(told, now.unix, now.boot);
                self.devices.tunnel.stamp_from(epoch)?;
                let portal = told.unwrap_or(now.unix);
                self.read_operating_system(now.boot);
                let udp = self.devices.portal.udp_address();
                self.core.handle_portal_udp(udp);
                self.core.handle_connected(portal, now.boot);
            }
            PortalEvent::Text(text) => self.core.handle_portal_message(&text, now.boot),
            PortalEvent::Failed(error) if !self.devices.portal.is_last() => {
                self.warn("the portal can't be reached", &error.to_string(), now.boot);
                // The next attempt goes elsewhere: what this one asked for says nothing about that.
                self.core
                    .handle_disconnected(error.to_string(), None, now.boot);
            }
            PortalEvent::Failed(error) if error.is_unauthorized() => {
                self.core.handle_unauthorized(error.to_string(), now.boot);
            }
            PortalEvent::Failed(error) => {
                self.warn("the portal can't be reached", &error.to_string(), now.boot);
                // A portal that has told of a disabled owner was reached: what fails later passes.
                let is_first = !self.announcer.is_ready() && !self.core.is_owner_disabled();
                if self.portal.is_awaited && is_first && error.is_wrong_portal() {
                    return Err(ClientError::WrongPortal(error.to_string()));
                }
                let is_of_token = self.base.settings.enrolment.is_some();
                if self.base.settings.exit_when_unreachable && is_of_token && is_first {
                    return Err(ClientError::Unreachable(error.to_string()));
                }
                let retry_after_ms = error.retry_after_ms();
                self.core
                    .handle_disconnected(error.to_string(), retry_after_ms, now.boot);
            }
            PortalEvent::Closed(closed) => {
                let why = closed.to_string();
                self.warn("the session with the portal has ended", &why, now.boot);
                self.core
                    .handle_disconnected(closed.to_string(), None, now.boot);
            }
        }
        Ok(())
    }

    /// A file that can't be read leaves the portal with the last that was read.
    fn read_operating_system(&mut self, now: BootTime) {
        match os_release::read() {
            Ok(os) => self.core.set_operating_system(os),
            Err(error) => self.warn("os-release can't be read", &error.to_string(), now),
        }
    }

    /// Logs a trouble with the portal; the same again once a minute.
    pub(super) fn warn(&mut self, what: &str, why: &str, now: BootTime) {
        let portal = self.devices.portal.url();
        match self.portal.repeats.count(why, now) {
            None => {}
            Some(0) => tracing::warn!(portal, why, "{what}"),
            Some(repeated) => tracing::warn!(portal, why, repeated, "{what}"),
        }
    }

    /// Keeps the addresses of the portal, where they are others than before.
    pub(super) fn learn_portals(&mut self, told: &PortalSet) {
        let devices = &mut self.devices;
        let Some(told) = devices.portal.learn(told) else {
            return;
        };
        match portals_file::write(&devices.state, &self.portal.enrolment, told) {
            Ok(()) => tracing::info!(urls = ?told.urls, "the portal told of its addresses"),
            Err(error) => tracing::warn!(%error, "the portal's new addresses are not kept"),
        }
    }

    /// Keeps where resources have led, for the next run.
    pub(super) fn keep(&self, remembered: &Remembered) {
        let written =
            destinations_file::write(&self.devices.state, &self.portal.enrolment, remembered);
        if let Err(error) = written {
            tracing::warn!(%error, "the next start will not refuse all access that has ended");
        }
    }

    /// Keeps it now, where the client may end.
    pub(super) fn keep_news(&mut self) {
        if let Some(remembered) = self.core.take_unkept() {
            self.keep(&remembered);
        }
    }

    /// Ends the link to the portal; what is queued still leaves, while the loop goes on.
    pub(super) fn disconnect(&mut self) {
        tokio::spawn(self.devices.portal.disconnect());
    }

    pub(super) fn say(&mut self, message: &culvert_wire::messages::FromClient) {
        if !self.devices.portal.try_send(culvert_wire::encode(message)) {
            // As many messages as the queue holds are waiting: the portal reads nothing.
            let why = "the portal takes no messages".to_owned();
            self.disconnect();
            self.core.handle_disconnected(why, None, Now::read().boot);
        }
    }
}
