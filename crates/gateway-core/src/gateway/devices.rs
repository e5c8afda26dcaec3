//! Plain WireGuard devices: their admission without a grant, and where they are.

use super::Gateway;
use crate::admissions::TooMany;
use crate::endpoints::HeardDevice;
use culvert_base::{BootTime, LogLine};
use culvert_ids::ClientId;
use culvert_wire::messages::AdmittedDevice;
use std::time::Duration;

impl Gateway {
    /// The data plane heard plain devices: at other addresses, or by other handshakes.
    pub fn handle_heard(&mut self, devices: Vec<HeardDevice>, now: BootTime) {
        for heard in devices {
            self.endpoints.hear(heard, now);
        }
        self.tell_endpoints(now);
    }

    /// A page of the list of all devices that are admitted.
    pub(super) fn hear_admitted(
        &mut self,
        devices: Vec<AdmittedDevice>,
        more: bool,
        kept_s: u32,
        now: BootTime,
    ) {
        let lifetime = Duration::from_secs(kept_s.into());
        let Ok(changed) = self.admissions.hear_page(devices, more, lifetime) else {
            self.too_many_admitted(now);
            return;
        };
        if more {
            return;
        }
        for client in changed {
            self.rebuild_admitted(client);
        }
        // The portal knows what to do with it.
        self.endpoints.begin_session(now);
        let session = &self.portal.session;
        let list = self.endpoints.list(|at| session.portal_time(at), now);
        for message in list {
            self.tell(message);
        }
    }

    pub(super) fn admit(&mut self, device: AdmittedDevice, now: BootTime) {
        let client = device.client;
        match self.admissions.admit(device) {
            Ok(()) => self.rebuild_admitted(client),
            Err(TooMany) => self.too_many_admitted(now),
        }
    }

    pub(super) fn dismiss(&mut self, client: ClientId) {
        if self.admissions.dismiss(client) {
            self.rebuild_or_deny(client);
        }
    }

    /// The portal has been away for as long as a grant lasts.
    pub(super) fn expire_admissions(&mut self, now: BootTime) {
        for client in self.admissions.take_ended(now) {
            self.rebuild_or_deny(client);
        }
    }

    pub(super) fn drop_admissions(&mut self) {
        for client in self.admissions.clear() {
            self.rebuild_or_deny(client);
        }
    }

    pub(super) fn tell_endpoints(&mut self, now: BootTime) {
        let session = &self.portal.session;
        if let Some(report) = self.endpoints.report(|at| session.portal_time(at), now) {
            self.tell(report);
        }
    }

    fn rebuild_admitted(&mut self, client: ClientId) {
        self.rebuild_or_deny(client);
        let is_peer = self.data_plane.clients().gate_key(client).is_some();
        if self.admissions.get(client).is_some() && !is_peer {
            let text = "a device is not admitted: another client has its key or an address of it";
            let line = LogLine::warn(text).with("client", client);
            self.journal.log.push(line);
        }
    }

    fn too_many_admitted(&mut self, now: BootTime) {
        self.break_off("the portal admitted more devices than there can be", now);
    }
}
