//! The stub resolvers of plain WireGuard devices, which have none themselves (ADR 0056). Each device has one of its own: what it
//! asks, and how much, is nothing to the others.

use super::other_sites::OtherSites;
use super::site_dns::SiteQuestions;
use culvert_base::BootTime;
use culvert_dns::{Addresses, Config, ForwardId, Ranges, Stub};
use culvert_ids::{ClientId, ResourceId};
use culvert_policy::{DomainName, Prefix};
use culvert_wire::messages::NAME_SHARES;
use ipnet::{Ipv4Net, Ipv6Net};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Questions of all devices that the system's resolver is asked at once. Each has a socket: with those of clients
/// ([`MAX_QUESTIONS`](super::MAX_QUESTIONS)) they take less than a quarter of the 1,024 descriptors that a process has at least.
/// A device alone may have 31 of them, which is 1,500 questions a second where the resolver answers within 20 ms.
pub const MAX_LOOKUPS: usize = 128;

/// Names of resources with addresses, of one device: more than a person visits within the three hours for which a name keeps
/// its address. They are a sixteenth of the names that a client's grants may have.
const MAX_NAMES_PER_DEVICE: usize = 512;

/// The same of all devices, at some 500 bytes each: 32 MB.
const MAX_NAMES_OF_DEVICES: usize = 1 << 16;

/// A device may have a new name while it has fewer than this part of the room that is left, see
/// [`SiteQuestions::begin`].
const ROOM_PER_DEVICE: usize = 4;

/// Stands for the system's resolver, which knows its servers itself. Nothing is ever sent there.
pub(super) const RESOLVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53);

/// A name that a device waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) resource: ResourceId,
    pub(super) addresses: Addresses,
}

/// A device that has asked.
struct Device {
    stub: Stub,
    /// The time at which the stub has something to do.
    due: Option<BootTime>,
    /// Names with addresses, as they are counted in [`PlainDns::names`].
    names: usize,
    /// Its grants have changed since its last query: what the stub knows of names may be wrong.
    is_stale: bool,
}

/// The stub resolvers of all devices, and what they share.
pub(super) struct PlainDns {
    devices: BTreeMap<ClientId, Device>,
    /// By [`Device::due`].
    due: BTreeSet<(BootTime, ClientId)>,
    /// Names with addresses of all devices.
    names: usize,
    /// Names whose question is under way, and the devices that wait for them. A device waits for as many as it may have
    /// questions.
    waiting: BTreeMap<DomainName, BTreeMap<ClientId, Wanted>>,
    lookups: SiteQuestions,
    under_way: BTreeSet<(ClientId, ForwardId)>,
    seed: [u8; 32],
    /// Stubs made so far.
    made: u64,
}

impl PlainDns {
    pub(super) const fn new(seed: [u8; 32]) -> Self {
        Self {
            devices: BTreeMap::new(),
            due: BTreeSet::new(),
            names: 0,
            waiting: BTreeMap::new(),
            lookups: SiteQuestions::new(MAX_LOOKUPS),
            under_way: BTreeSet::new(),
            seed,
            made: 0,
        }
    }

    pub(super) fn knows(&self, client: ClientId) -> bool {
        self.devices.contains_key(&client)
    }

    /// Makes a stub for a device, with the names that its grants have from an earlier run. Names get addresses of the share of
    /// their gateway's place in the device's file. False where the ranges of names can't be used.
    pub(super) fn make(
        &mut self,
        client: ClientId,
        ranges: [Prefix; 2],
        other_sites: &OtherSites,
        names: impl Iterator<Item = (DomainName, Wanted)>,
        now: BootTime,
    ) -> bool {
        let mut seed = self.seed;
        let made = self.made.to_le_bytes();
        let own = client.as_bytes().iter().chain(&made);
        for (byte, own) in seed.iter_mut().zip(own) {
            *byte ^= own;
        }
        self.made += 1;
        let config = Config {
            ranges: match stub_ranges(ranges) {
                Some(ranges) => ranges,
                None => return false,
            },
            listens_on: Vec::new(),
            upstreams: vec![RESOLVER],
            fixed: Vec::new(),
        };
        let Ok(mut stub) = Stub::new(config, seed) else {
            return false;
        };
        stub.withhold_private();
        let [a, b, c, d, ..] = seed;
        stub.divide_ranges(NAME_SHARES);
        let (own, others) = other_sites.shares();
        stub.assign_shares(own, others);
        stub.begin_at(u32::from_le_bytes([a, b, c, d]));
        stub.set_names_max(MAX_NAMES_PER_DEVICE);
        for (name, wanted) in names {
            // A name that does not fit any more gets other addresses when it is asked for.
            let _fits = stub.keep_name(&name, wanted.resource, wanted.addresses, now);
        }
        let device = Device {
            stub,
            due: None,
            names: 0,
            is_stale: false,
        };
        self.devices.insert(client, device);
        self.note(client);
        true
    }

    /// The stub of a device, for a query.
    pub(super) fn stub_for_query(&mut self, client: ClientId) -> Option<&mut Stub> {
        let room = MAX_NAMES_OF_DEVICES.saturating_sub(self.names) / ROOM_PER_DEVICE;
        let device = self.devices.get_mut(&client)?;
        device.stub.set_names_max(room.min(MAX_NAMES_PER_DEVICE));
        if std::mem::take(&mut device.is_stale) {
            device.stub.forget_access();
        }
        Some(&mut device.stub)
    }

    /// The stub of a device, for what it waits for.
    pub(super) fn stub(&mut self, client: ClientId) -> Option<&mut Stub> {
        self.devices.get_mut(&client).map(|device| &mut device.stub)
    }

    /// The stub of a device has been called.
    pub(super) fn note(&mut self, client: ClientId) {
        let Some(device) = self.devices.get_mut(&client) else {
            return;
        };
        let due = device.stub.poll_timeout();
        if due != device.due {
            if let Some(before) = device.due {
                self.due.remove(&(before, client));
            }
            if let Some(due) = due {
                self.due.insert((due, client));
            }
            device.due = due;
        }
        let names = device.stub.counts().names;
        self.names = self.names - device.names + names;
        device.names = names;
    }

    pub(super) fn next_due(&self) -> Option<BootTime> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The devices whose stubs have something to do.
    pub(super) fn due(&self, now: BootTime) -> Vec<ClientId> {
        let due = self.due.iter().take_while(|(due, _)| *due <= now);
        due.map(|(_, client)| *client).collect()
    }

    /// Grants of a client have changed.
    pub(super) fn grants_changed(&mut self, client: ClientId) {
        if let Some(device) = self.devices.get_mut(&client) {
            device.is_stale = true;
        }
    }

    /// The grants of a device were changed by its stub itself, which knows of it.
    pub(super) fn is_stale(&self, client: ClientId) -> bool {
        let device = self.devices.get(&client);
        device.is_some_and(|device| device.is_stale)
    }

    /// See [`Self::is_stale`].
    pub(super) fn set_stale(&mut self, client: ClientId, is_stale: bool) {
        if let Some(device) = self.devices.get_mut(&client) {
            device.is_stale = is_stale;
        }
    }

    /// A device may ask nothing any more. Its queries that wait get no answer.
    pub(super) fn forget(&mut self, client: ClientId) {
        if let Some(device) = self.devices.remove(&client) {
            self.names -= device.names;
            if let Some(due) = device.due {
                self.due.remove(&(due, client));
            }
        }
    }

    /// A device waits until the DNS has answered for a name.
    pub(super) fn wait(&mut self, client: ClientId, name: DomainName, wanted: Wanted) {
        let waiting = self.waiting.entry(name).or_default();
        waiting.insert(client, wanted);
    }

    /// The devices that wait for a name.
    pub(super) fn waiters(&mut self, name: &DomainName) -> BTreeMap<ClientId, Wanted> {
        self.waiting.remove(name).unwrap_or_default()
    }

    /// Takes a place for a question to the system's resolver. True if it is to be asked now, false if it is being asked
    /// already; none where the device has its share.
    pub(super) fn begin_lookup(&mut self, client: ClientId, id: ForwardId) -> Option<bool> {
        if self.under_way.contains(&(client, id)) {
            return Some(false);
        }
        let has_place = self.lookups.begin(client);
        if has_place {
            self.under_way.insert((client, id));
        }
        has_place.then_some(true)
    }

    /// The system's resolver has answered, or has not.
    pub(super) fn end_lookup(&mut self, client: ClientId, id: ForwardId) {
        if self.under_way.remove(&(client, id)) {
            self.lookups.end(client);
        }
    }
}

fn stub_ranges([v4, v6]: [Prefix; 2]) -> Option<Ranges> {
    let (IpAddr::V4(first_v4), IpAddr::V6(first_v6)) = (v4.address(), v6.address()) else {
        return None;
    };
    let v4 = Ipv4Net::new(first_v4, v4.len()).ok()?;
    let v6 = Ipv6Net::new(first_v6, v6.len()).ok()?;
    Ranges::new(v4, v6).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> ClientId {
        ClientId::from_bytes([number; 16])
    }

    fn with(devices: u8) -> PlainDns {
        let mut dns = PlainDns::new([7; 32]);
        let ranges = ["100.96.0.0/11", "fd00:2021:1111:8000::/107"];
        let ranges = ranges.map(|text| text.parse().unwrap());
        for number in 1..=devices {
            let none = std::iter::empty();
            let other_sites = OtherSites::default();
            assert!(dns.make(client(number), ranges, &other_sites, none, BootTime::ZERO));
        }
        dns
    }

    fn ask(dns: &mut PlainDns, number: u8, name: &str) {
        let labels = name.split('.').map(|label| {
            let len = u8::try_from(label.len()).unwrap();
            [&[len], label.as_bytes()].concat()
        });
        let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(labels.flatten());
        query.extend([0, 0, 1, 0, 1]);
        let resource = ResourceId::from_bytes([1; 16]);
        let from = "100.64.0.9:999".parse().unwrap();
        let stub = dns.stub_for_query(client(number)).unwrap();
        let transport = culvert_dns::Transport::Udp;
        let asked = stub.handle_query(&query, transport, from, BootTime::ZERO, |_| Some(resource));
        assert!(asked.is_ok());
        while stub.poll_output().is_some() {}
        dns.note(client(number));
    }

    #[test]
    fn a_device_has_its_share_of_names_and_leaves_those_of_others() {
        let mut dns = with(2);
        for number in 0..2 * MAX_NAMES_PER_DEVICE {
            ask(&mut dns, 1, &format!("n{number}.corp.example"));
        }
        assert_eq!(dns.names, MAX_NAMES_PER_DEVICE);
        ask(&mut dns, 2, "db.corp.example");
        assert_eq!(dns.names, MAX_NAMES_PER_DEVICE + 1);
        dns.forget(client(1));
        assert_eq!(dns.names, 1);
        assert_eq!(dns.due(BootTime::MAX), [client(2)], "its query waits");
    }

    #[test]
    fn a_question_that_is_under_way_takes_one_place_however_often_it_is_sent() {
        let mut dns = with(1);
        ask(&mut dns, 1, "db.corp.example");
        let id = |number: u8| {
            let mut dns = with(1);
            let mut query = vec![
                0,
                1,
                1,
                0,
                0,
                1,
                0,
                0,
                0,
                0,
                0,
                0,
                1,
                b'a' + number,
                0,
                0,
                1,
                0,
                1,
            ];
            query[1] = number;
            let stub = dns.stub_for_query(client(1)).unwrap();
            let from = "100.64.0.9:999".parse().unwrap();
            let transport = culvert_dns::Transport::Udp;
            stub.handle_query(&query, transport, from, BootTime::ZERO, |_| None)
                .unwrap();
            match stub.poll_output() {
                Some(culvert_dns::Output::Forward { id, .. }) => id,
                other => panic!("{other:?}"),
            }
        };
        let id = id(1);
        assert_eq!(dns.begin_lookup(client(1), id), Some(true));
        assert_eq!(dns.begin_lookup(client(1), id), Some(false));
        dns.end_lookup(client(1), id);
        dns.end_lookup(client(1), id);
        assert_eq!(dns.begin_lookup(client(1), id), Some(true));
    }
}
