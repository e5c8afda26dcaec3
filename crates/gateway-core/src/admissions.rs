//! Plain WireGuard devices that are admitted without a grant: they have a tunnel and reach no resource (ADR 0062). Those whose
//! DNS server is this gateway may ask for names (ADR 0067).

use culvert_base::BootTime;
use culvert_ids::ClientId;
use culvert_wire::messages::AdmittedDevice;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Devices at once: twice as many as an account may have.
pub(super) const MAX_ADMITTED: usize = 8_192;

/// The devices, and the list of the portal that is not complete.
#[derive(Debug, Default)]
pub(super) struct Admissions {
    admitted: BTreeMap<ClientId, AdmittedDevice>,
    listing: Option<BTreeMap<ClientId, AdmittedDevice>>,
    /// The time for which they stay after a session.
    lifetime: Duration,
    /// The end of all of them; none during a session.
    until: Option<BootTime>,
}

impl Admissions {
    pub(super) fn get(&self, client: ClientId) -> Option<&AdmittedDevice> {
        self.admitted.get(&client)
    }

    /// A page of the portal's list. With the last one, the clients whose admission has changed are returned. Fails where
    /// there are more than there can be.
    pub(super) fn hear_page(
        &mut self,
        devices: Vec<AdmittedDevice>,
        more: bool,
        lifetime: Duration,
    ) -> Result<BTreeSet<ClientId>, TooMany> {
        self.lifetime = lifetime;
        let mut listing = self.listing.take().unwrap_or_default();
        listing.extend(devices.into_iter().map(|device| (device.client, device)));
        if listing.len() > MAX_ADMITTED {
            return Err(TooMany);
        }
        if more {
            self.listing = Some(listing);
            return Ok(BTreeSet::new());
        }
        self.until = None;
        let before = std::mem::replace(&mut self.admitted, listing);
        let clients = before.keys().chain(self.admitted.keys()).copied();
        let changed = clients.filter(|client| before.get(client) != self.admitted.get(client));
        Ok(changed.collect())
    }

    /// One more device, or another key of one.
    pub(super) fn admit(&mut self, device: AdmittedDevice) -> Result<(), TooMany> {
        let is_new = !self.admitted.contains_key(&device.client);
        if is_new && self.admitted.len() >= MAX_ADMITTED {
            return Err(TooMany);
        }
        self.admitted.insert(device.client, device);
        Ok(())
    }

    /// True if the device was admitted.
    pub(super) fn dismiss(&mut self, client: ClientId) -> bool {
        self.admitted.remove(&client).is_some()
    }

    /// The session is over: they stay for a while.
    pub(super) fn forget_session(&mut self, now: BootTime) {
        self.listing = None;
        if self.until.is_none() && !self.admitted.is_empty() {
            self.until = Some(now.saturating_add(self.lifetime));
        }
    }

    /// The time at which [`Self::take_ended`] has some.
    pub(super) const fn next_timeout(&self) -> Option<BootTime> {
        self.until
    }

    /// The devices whose time is over.
    pub(super) fn take_ended(&mut self, now: BootTime) -> Vec<ClientId> {
        match self.until.is_some_and(|until| until <= now) {
            true => self.clear(),
            false => Vec::new(),
        }
    }

    /// Ends all of them. Returns the devices.
    pub(super) fn clear(&mut self) -> Vec<ClientId> {
        self.until = None;
        std::mem::take(&mut self.admitted).into_keys().collect()
    }
}

/// The portal named more devices than there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany;
