//! The ends that are registered at one port: its gateway, and that gateway's clients.

use super::claims::{ClaimList, ClaimTable, Slot, Taken};
use super::record::{INITIATION_LEN, INITIATION_MAC1, Number};
use crate::budget::ByteBucket;
use crate::cookie::SECRET_LIFETIME;
use crate::hash::{HashKey, KeyedMap};
use crate::mac::{KEY_LEN, Mac};
use crate::token::Issue;
use blake2::{Blake2s256, Digest};
use culvert_base::{BootTime, Destination, PublicKey, TokenBucket, TokenRate};
use culvert_ids::ClientId;
use std::net::SocketAddr;
use std::time::Duration;
use zeroize::Zeroizing;

/// Receiver indices of one client: WireGuard has three sessions at most, and a few attempts.
pub const INDICES_PER_CLIENT: usize = 8;

/// Tags of one client: that of its key for this gateway, and the one before it.
pub const TAGS_PER_CLIENT: usize = 2;

/// An end that gives no sign of life for this long leaves. It gives one every 20 s.
pub const SILENT_FOR: Duration = Duration::from_secs(60);

/// Registrations of one end at once: a network that changes again and again, by several families and a stream each.
const REGISTRATIONS_AT_ONCE: u32 = 16;

/// The time between further ones. A proxy that breaks every stream off after some seconds takes one each time.
const REGISTRATION_EVERY: Duration = Duration::from_secs(5);

const REGISTRATIONS: TokenRate = TokenRate::new(REGISTRATION_EVERY, REGISTRATIONS_AT_ONCE);

/// Registrations of an end that are remembered: all that it can make while the cookie of one counts, which is two lifetimes of
/// its secret at most. So none counts twice.
const REMEMBERED: usize = REGISTRATIONS_AT_ONCE as usize
    + (2 * SECRET_LIFETIME.as_secs()).div_ceil(REGISTRATION_EVERY.as_secs()) as usize;

/// An end that is registered.
pub(super) struct End {
    /// `None`: the gateway.
    pub(super) client: Option<ClientId>,
    pub(super) at: Destination,
    /// The key of its signs of life.
    pub(super) key: Zeroizing<[u8; KEY_LEN]>,
    pub(super) issued: Issue,
    pub(super) rate_bytes_per_s: u64,
    pub(super) sent: ByteBucket,
    pub(super) counter: u64,
    expires: BootTime,
    heard: BootTime,
    public_key: PublicKey,
    /// `HASH("mac1----" || public key)`.
    mac1_key: [u8; KEY_LEN],
    registrations: TokenBucket<BootTime>,
    recent: [u32; REMEMBERED],
    next_recent: usize,
    indices: ClaimList<INDICES_PER_CLIENT>,
    tags: ClaimList<TAGS_PER_CLIENT>,
}

/// A registration whose token and proof were checked.
pub(super) struct Checked {
    pub(super) client: Option<ClientId>,
    pub(super) public_key: PublicKey,
    pub(super) key: Zeroizing<[u8; KEY_LEN]>,
    pub(super) issued: Issue,
    pub(super) rate_bytes_per_s: u64,
    pub(super) expires: BootTime,
    pub(super) at: Destination,
    /// It names this registration among all that the end makes.
    pub(super) fingerprint: u32,
}

/// The reason for which an end does not take another registration of its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unchanged {
    /// A later one is in force, or this very one came before.
    Outdated,
    /// It registers too often.
    TooOften,
    /// There is no room for another end.
    Full,
}

/// All ends of a port.
pub(super) struct Ends {
    slots: Vec<Option<End>>,
    free: Vec<Slot>,
    by_address: KeyedMap<SocketAddr, Slot>,
    by_client: KeyedMap<Option<ClientId>, Slot>,
    pub(super) indices: ClaimTable,
    pub(super) tags: ClaimTable,
    clients_most: usize,
}

impl End {
    fn new(checked: Checked, now: BootTime) -> Self {
        let mut registrations = TokenBucket::FULL;
        // The first of a full bucket.
        let _ = registrations.take(REGISTRATIONS, now);
        let mut recent = [0; REMEMBERED];
        recent[0] = checked.fingerprint;
        Self {
            client: checked.client,
            at: checked.at,
            issued: checked.issued,
            rate_bytes_per_s: checked.rate_bytes_per_s,
            sent: ByteBucket::default(),
            counter: 0,
            expires: checked.expires,
            heard: now,
            mac1_key: mac1_key(&checked.public_key),
            public_key: checked.public_key,
            key: checked.key,
            registrations,
            recent,
            next_recent: 1,
            indices: ClaimList::EMPTY,
            tags: ClaimList::EMPTY,
        }
    }

    /// "HASH(Label-Mac1 || S_pub)" and "MAC(…, msg_α)" of section 5.4.4.
    fn is_addressed(&self, initiation: &[u8; INITIATION_LEN]) -> bool {
        let expected = Mac::of(&self.mac1_key, &[&initiation[..INITIATION_MAC1]]);
        expected.as_bytes()[..] == initiation[INITIATION_MAC1..INITIATION_MAC1 + 16]
    }

    /// True for the registration in force, which came once more because its answer was lost.
    fn is_repeated(&self, checked: &Checked) -> bool {
        let latest = (self.next_recent + REMEMBERED - 1) % REMEMBERED;
        self.recent[latest] == checked.fingerprint && self.at.address == checked.at.address
    }

    /// Judges another registration of the same end: the later issue wins, then the later arrival.
    fn judge(&mut self, checked: &Checked, now: BootTime) -> Result<(), Unchanged> {
        if checked.issued < self.issued || self.recent.contains(&checked.fingerprint) {
            return Err(Unchanged::Outdated);
        }
        let taken = self.registrations.take(REGISTRATIONS, now);
        taken.map_err(|_| Unchanged::TooOften)
    }

    fn renew(&mut self, checked: Checked, now: BootTime) {
        // The key of its signs of life is another one.
        self.counter = 0;
        self.recent[self.next_recent] = checked.fingerprint;
        self.next_recent = (self.next_recent + 1) % REMEMBERED;
        if self.public_key != checked.public_key {
            self.mac1_key = mac1_key(&checked.public_key);
        }
        self.at = checked.at;
        self.key = checked.key;
        self.issued = checked.issued;
        self.rate_bytes_per_s = checked.rate_bytes_per_s;
        self.expires = checked.expires;
        self.public_key = checked.public_key;
        self.heard = now;
    }

    /// Notes a sign of life.
    pub(super) fn hear(&mut self, now: BootTime) {
        self.heard = now;
    }

    fn is_over(&self, now: BootTime) -> bool {
        self.expires <= now || now.has_passed(self.heard, SILENT_FOR)
    }
}

fn mac1_key(public_key: &PublicKey) -> [u8; KEY_LEN] {
    let digest = Blake2s256::new().chain_update(b"mac1----");
    digest.chain_update(public_key.as_bytes()).finalize().into()
}

impl Ends {
    /// Of a port without any. It takes `clients_most` clients beside the gateway.
    pub(super) fn new(clients_most: usize, key: HashKey) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_address: KeyedMap::with_hasher(key),
            by_client: KeyedMap::with_hasher(key),
            indices: ClaimTable::new(key),
            tags: ClaimTable::new(key),
            clients_most,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// Clients that are registered.
    pub(super) fn clients(&self) -> usize {
        self.by_client.len() - usize::from(self.has_gateway())
    }

    pub(super) fn has_gateway(&self) -> bool {
        self.gateway().is_some()
    }

    pub(super) fn gateway(&self) -> Option<Slot> {
        self.by_client.get(&None).copied()
    }

    /// True if the end registered before.
    pub(super) fn knows(&self, client: Option<ClientId>) -> bool {
        self.by_client.contains_key(&client)
    }

    pub(super) fn find(&self, source: SocketAddr) -> Option<Slot> {
        self.by_address.get(&source).copied()
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&End> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut End> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Puts a registration in force.
    ///
    /// # Errors
    /// [`Unchanged`]; then all is as it was.
    pub(super) fn register(&mut self, checked: Checked, now: BootTime) -> Result<(), Unchanged> {
        let source = checked.at.address;
        let known = self.by_client.get(&checked.client).copied();
        let slot = match known {
            Some(slot) => {
                self.renew(slot, checked, now)?;
                slot
            }
            None => self.add(checked, now)?,
        };
        // Another end was there before: its NAT has given the address away.
        if let Some(before) = self.by_address.insert(source, slot)
            && before != slot
        {
            self.remove(before);
        }
        Ok(())
    }

    fn renew(&mut self, slot: Slot, checked: Checked, now: BootTime) -> Result<(), Unchanged> {
        let Some(end) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else {
            return Err(Unchanged::Full);
        };
        if end.is_repeated(&checked) {
            return Ok(());
        }
        end.judge(&checked, now)?;
        if end.public_key != checked.public_key {
            self.indices.release(&mut end.indices);
            self.tags.release(&mut end.tags);
        }
        if end.at.address != checked.at.address {
            self.by_address.remove(&end.at.address);
        }
        end.renew(checked, now);
        Ok(())
    }

    fn add(&mut self, checked: Checked, now: BootTime) -> Result<Slot, Unchanged> {
        let client = checked.client;
        if client.is_some() && self.clients() >= self.clients_most {
            return Err(Unchanged::Full);
        }
        let end = Some(End::new(checked, now));
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = end;
                slot
            }
            None => {
                let slot = Slot::try_from(self.slots.len()).map_err(|_| Unchanged::Full)?;
                self.slots.push(end);
                slot
            }
        };
        self.by_client.insert(client, slot);
        Ok(slot)
    }

    /// Takes an end out, with its address and its numbers.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let Some(mut end) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return false;
        };
        self.free.push(slot);
        self.by_client.remove(&end.client);
        if self.find(end.at.address) == Some(slot) {
            self.by_address.remove(&end.at.address);
        }
        self.indices.release(&mut end.indices);
        self.tags.release(&mut end.tags);
        true
    }

    /// Takes the ends out that `is_to_leave` says, and returns their number.
    pub(super) fn remove_where(&mut self, is_to_leave: impl Fn(&End) -> bool) -> u64 {
        let mut removed = 0;
        for slot in 0..self.slots.len() as Slot {
            if self.get(slot).is_some_and(&is_to_leave) {
                removed += u64::from(self.remove(slot));
            }
        }
        removed
    }

    /// Takes the ends out whose time is over.
    pub(super) fn expire(&mut self, now: BootTime) -> u64 {
        self.remove_where(|end| end.is_over(now))
    }

    /// Takes all out.
    pub(super) fn clear(&mut self) -> u64 {
        self.remove_where(|_| true)
    }

    /// A client claims a receiver index of its own.
    pub(super) fn claim_index(&mut self, slot: Slot, index: Number) -> Result<(), Taken> {
        match self.slots.get_mut(slot as usize).and_then(Option::as_mut) {
            Some(end) => self.indices.claim(index, slot, &mut end.indices),
            None => Err(Taken),
        }
    }

    /// A client claims the tag of its probes.
    pub(super) fn claim_tag(&mut self, slot: Slot, tag: Number) -> Result<(), Taken> {
        match self.slots.get_mut(slot as usize).and_then(Option::as_mut) {
            Some(end) => self.tags.claim(tag, slot, &mut end.tags),
            None => Err(Taken),
        }
    }

    /// The client to which an initiation is addressed: the one whose public key fits its first MAC.
    pub(super) fn addressed(&self, initiation: &[u8]) -> Option<Slot> {
        let initiation = initiation.try_into().ok()?;
        let mut slots = (0..).zip(&self.slots);
        let found = slots.find(|(_, end)| {
            end.as_ref()
                .is_some_and(|end| end.client.is_some() && end.is_addressed(initiation))
        });
        found.map(|(slot, _)| slot)
    }
}
