//! The places of plain WireGuard devices, on their way to the portal (ADR 0062).
//!
//! A device has one place in the queue, however often it moves, and the queue is served by age: no device delays the report
//! of another. One that moves too often has no place at all until it has stayed somewhere.

use culvert_base::{BootTime, TokenBucket, TokenRate, UnixTime};
use culvert_ids::ClientId;
use culvert_wire::messages::{DeviceEndpoint, FromGateway, MAX_DEVICES_PER_MESSAGE};
use culvert_wire::{PublicKey, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// The time between two reports. With the look at the data plane (200 ms) and the portal's message that ends a grant, access
/// ends within a second of a move. A report has 2,048 devices, so all 4,096 of an account are told within a second.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// The time between two reports of a device that stays where it is. Devices with traffic have a handshake every 120 s and
/// count for 180 s, so a report that is 30 s late ends nothing.
const HANDSHAKE_EVERY: Duration = Duration::from_secs(30);

/// Moves of one device: four at once, as by a phone between two networks, and one in 5 s for long. Each may end and begin 64
/// grants.
const MOVE_RATE: TokenRate = TokenRate::new(Duration::from_secs(5), 4);

/// A device beyond [`MOVE_RATE`] has no address until it has stayed at one for this time.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// A plain WireGuard device as the data plane heard it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardDevice {
    /// Its key.
    pub key: PublicKey,
    /// The source address of its last authenticated packet.
    pub address: IpAddr,
    /// The stamp of its last handshake: another one means that there was another handshake.
    pub handshake: Duration,
}

/// The places of plain devices, and the portal's last news of them.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    /// Plain devices that are peers, by their keys.
    devices: BTreeMap<PublicKey, Device>,
    /// Those with news, by the time from which on they may be told: each is in it once at most.
    due: BTreeSet<(BootTime, PublicKey)>,
    /// The portal wants reports in this session.
    is_wanted: bool,
    /// The time from which on the next report may leave.
    next_at: BootTime,
}

#[derive(Debug)]
struct Device {
    client: ClientId,
    /// None until the device was heard.
    heard: Option<Heard>,
    moves: TokenBucket<BootTime>,
    /// It moves too often: until then it has no address.
    unsettled_until: Option<BootTime>,
    /// None before the first report of a session.
    told: Option<Told>,
    /// Its place in the queue.
    due: Option<BootTime>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    address: IpAddr,
    stamp: Duration,
    handshake: BootTime,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    address: Option<IpAddr>,
    handshake: BootTime,
    at: BootTime,
}

impl Endpoints {
    /// A plain device is a peer. It keeps what is known of its key.
    pub(super) fn watch(&mut self, key: PublicKey, client: ClientId) {
        let is_known = self.devices.get(&key).map(|device| device.client) == Some(client);
        if !is_known {
            self.unwatch(&key);
            let device = Device {
                client,
                heard: None,
                moves: TokenBucket::FULL,
                unsettled_until: None,
                told: None,
                due: None,
            };
            self.devices.insert(key, device);
        }
    }

    /// There is no such peer any more.
    pub(super) fn unwatch(&mut self, key: &PublicKey) {
        if let Some(due) = self.devices.remove(key).and_then(|device| device.due) {
            self.due.remove(&(due, *key));
        }
    }

    /// The data plane heard a device somewhere, or by another handshake.
    pub(super) fn hear(&mut self, heard: HeardDevice, now: BootTime) {
        let Some(device) = self.devices.get_mut(&heard.key) else {
            return;
        };
        // A socket for both families hears IPv4 as ::ffff:a.b.c.d.
        let address = heard.address.to_canonical();
        let before = device.heard;
        let handshake = match before {
            Some(before) if before.stamp == heard.handshake => before.handshake,
            _ => now,
        };
        device.heard = Some(Heard {
            address,
            stamp: heard.handshake,
            handshake,
        });
        let has_moved = before.is_some_and(|before| before.address != address);
        if has_moved {
            let is_unsettled = device.unsettled_until.is_some_and(|until| now < until);
            let may_move = !is_unsettled && device.moves.take(MOVE_RATE, now).is_ok();
            device.unsettled_until = (!may_move).then(|| now.saturating_add(SETTLED_AFTER));
        }
        self.schedule(heard.key, now);
    }

    /// The portal wants to know: the next report begins the list of all.
    pub(super) fn begin_session(&mut self, now: BootTime) {
        self.is_wanted = true;
        let keys: Vec<PublicKey> = self.devices.keys().copied().collect();
        for key in keys {
            if let Some(device) = self.devices.get_mut(&key) {
                device.told = None;
            }
            self.schedule(key, now);
        }
    }

    /// The session is over.
    pub(super) const fn forget_session(&mut self) {
        self.is_wanted = false;
    }

    /// The time at which [`Self::report`] has something to say.
    pub(super) fn next_timeout(&self) -> Option<BootTime> {
        let (due, _) = self.due.first().filter(|_| self.is_wanted)?;
        Some((*due).max(self.next_at))
    }

    /// The list of all devices at the beginning of a session: at least one message, which may be empty.
    pub(super) fn list(
        &mut self,
        portal_time: impl Fn(BootTime) -> Option<UnixTime>,
        now: BootTime,
    ) -> Vec<FromGateway> {
        let mut messages = Vec::new();
        loop {
            let devices = self.take(&portal_time, now);
            let more = self.has_due(now);
            messages.push(FromGateway::DeviceEndpoints { devices, more });
            if !more {
                return messages;
            }
        }
    }

    /// A report that is due.
    pub(super) fn report(
        &mut self,
        portal_time: impl Fn(BootTime) -> Option<UnixTime>,
        now: BootTime,
    ) -> Option<FromGateway> {
        if !self.is_wanted || now < self.next_at || !self.has_due(now) {
            return None;
        }
        let devices = self.take(&portal_time, now);
        let more = false;
        (!devices.is_empty()).then_some(FromGateway::DeviceEndpoints { devices, more })
    }

    fn has_due(&self, now: BootTime) -> bool {
        self.due.first().is_some_and(|(due, _)| *due <= now)
    }

    /// The next devices to tell of, those that have waited longest first.
    fn take(
        &mut self,
        portal_time: &impl Fn(BootTime) -> Option<UnixTime>,
        now: BootTime,
    ) -> Vec<DeviceEndpoint> {
        self.next_at = now.saturating_add(REPORT_EVERY);
        let mut devices = Vec::new();
        while devices.len() < MAX_DEVICES_PER_MESSAGE && self.has_due(now) {
            let Some((_, key)) = self.due.pop_first() else {
                break;
            };
            let Some(device) = self.devices.get_mut(&key) else {
                continue;
            };
            device.due = None;
            devices.extend(device.tell(key, portal_time, now));
            // It may have no address now, and one later.
            self.schedule(key, now);
        }
        devices
    }

    /// Gives a device with news its place in the queue. One that has a place keeps it, unless it is to be told earlier.
    fn schedule(&mut self, key: PublicKey, now: BootTime) {
        let Some(device) = self.devices.get_mut(&key) else {
            return;
        };
        let Some(due) = device.news_at(now) else {
            return;
        };
        if device.due.is_some_and(|before| before <= due) {
            return;
        }
        if let Some(before) = device.due.replace(due) {
            self.due.remove(&(before, key));
        }
        self.due.insert((due, key));
    }
}

impl Device {
    /// The address that counts now.
    fn address(&self, now: BootTime) -> Option<IpAddr> {
        let is_unsettled = self.unsettled_until.is_some_and(|until| now < until);
        self.heard
            .filter(|_| !is_unsettled)
            .map(|heard| heard.address)
    }

    /// The time from which on the portal is to be told something new.
    fn news_at(&self, now: BootTime) -> Option<BootTime> {
        let heard = self.heard?;
        let Some(told) = self.told else {
            return Some(now);
        };
        if told.address != self.address(now) {
            return Some(now);
        }
        let settled = self.unsettled_until.filter(|until| now < *until);
        let is_old = told.handshake != heard.handshake;
        let handshake = is_old.then(|| told.at.saturating_add(HANDSHAKE_EVERY));
        [settled, handshake].into_iter().flatten().min()
    }

    /// The report of the device, if there is anything new.
    fn tell(
        &mut self,
        key: PublicKey,
        portal_time: &impl Fn(BootTime) -> Option<UnixTime>,
        now: BootTime,
    ) -> Option<DeviceEndpoint> {
        if self.news_at(now)? > now {
            return None;
        }
        let heard = self.heard?;
        let address = self.address(now);
        let handshake = heard.handshake;
        self.told = Some(Told {
            address,
            handshake,
            at: now,
        });
        let age = now.saturating_since(handshake);
        let handshake = portal_time(now)?.saturating_sub(age);
        Some(DeviceEndpoint {
            client: self.client,
            client_key: key,
            address,
            handshake: Timestamp::from(handshake),
        })
    }
}

#[cfg(test)]
mod tests;
