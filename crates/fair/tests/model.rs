//! The table against a naive one that counts anew each time.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use culvert_base::Uptime;
use culvert_fair::{Bounds, FairTable, MULTIPLES, Place, Refused, Subscriber};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// A network by its name, as text.
type Name = String;

#[derive(Clone, Debug)]
struct Entry {
    number: usize,
    address: IpAddr,
    since: u64,
}

/// Keeps a list, and when each network came into it.
struct Naive {
    bounds: Bounds,
    entries: Vec<Entry>,
    since: BTreeMap<Name, usize>,
}

/// The networks of an address with their multiples, the widest first.
fn networks(address: IpAddr) -> Vec<(Name, u64)> {
    match address {
        IpAddr::V4(v4) => vec![(v4.to_string(), 1)],
        IpAddr::V6(v6) => [(32, 3), (48, 2), (56, 1), (64, 0)]
            .map(|(bits, step): (u32, usize)| {
                let network = v6.to_bits() >> (128 - bits);
                (format!("{network:x}/{bits}"), u64::from(MULTIPLES[step]))
            })
            .to_vec(),
    }
}

impl Naive {
    fn count(&self, name: &Name) -> u64 {
        let is_in = |entry: &&Entry| networks(entry.address).iter().any(|(at, _)| at == name);
        self.entries.iter().filter(is_in).count() as u64
    }

    /// The greatest load of the network and of all within, by 8 to be whole.
    fn load(&self, name: &Name) -> u64 {
        let mut load = 0;
        for entry in &self.entries {
            let all = networks(entry.address);
            let Some(at) = all.iter().position(|(of, _)| of == name) else {
                continue;
            };
            for (within, multiple) in &all[at..] {
                load = load.max(self.count(within) * 8 / multiple);
            }
        }
        load
    }

    /// The entry that gives way within, and the network that is to blame.
    fn largest(&self, within: Option<&Name>) -> (usize, Option<Name>) {
        let mut members: Vec<&Entry> = self.entries.iter().collect();
        let mut holder = within.cloned();
        let mut load = within.map_or(0, |name| self.load(name));
        let is_in =
            |entry: &Entry, name: &Name| networks(entry.address).iter().any(|(of, _)| of == name);
        let mut deeper = 0;
        if let Some(name) = within {
            members.retain(|entry| is_in(entry, name));
            let all = networks(members[0].address);
            deeper = all.iter().position(|(of, _)| of == name).unwrap() + 1;
        }
        loop {
            let next = members
                .iter()
                .filter_map(|entry| networks(entry.address).get(deeper).cloned());
            let next = next.map(|(name, _)| name);
            let Some(name) =
                next.max_by_key(|name| (self.load(name), std::cmp::Reverse(self.since[name])))
            else {
                break;
            };
            if self.load(&name) >= load {
                load = self.load(&name);
                holder = Some(name.clone());
            }
            members.retain(|entry| is_in(entry, &name));
            deeper += 1;
        }
        let oldest = members.iter().map(|entry| entry.number).min().unwrap();
        (oldest, holder)
    }

    fn remove(&mut self, number: usize) -> bool {
        let Some(at) = self.entries.iter().position(|entry| entry.number == number) else {
            return false;
        };
        let gone = self.entries.remove(at);
        for (name, _) in networks(gone.address) {
            if self.count(&name) == 0 {
                self.since.remove(&name);
            }
        }
        true
    }

    /// Returns the entry that was removed for it; the newcomer itself if it is refused.
    fn admit(&mut self, number: usize, address: IpAddr, now: u64) -> Option<usize> {
        for (name, _) in networks(address) {
            self.since.entry(name).or_insert(number);
        }
        self.entries.push(Entry {
            number,
            address,
            since: now,
        });
        let share = self.bounds.per_subscriber as u64;
        let mut finest_first = networks(address).into_iter().rev();
        let exceeded = finest_first.find(|(name, multiple)| self.count(name) > share * multiple);
        let within = match exceeded {
            Some((name, _)) => Some(name),
            None if self.entries.len() > self.bounds.capacity => None,
            None => return None,
        };
        let (mut victim, holder) = self.largest(within.as_ref());
        let is_own = networks(address)
            .iter()
            .any(|(name, _)| Some(name) == holder.as_ref());
        let entry = self.entries.iter().find(|entry| entry.number == victim);
        let protected_until = entry.unwrap().since + self.bounds.settling.as_secs();
        if is_own && now < protected_until {
            victim = number;
        }
        self.remove(victim);
        Some(victim)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Admit(IpAddr),
    Remove(prop::sample::Index),
    Wait(u64),
}

fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = (0u32..4).prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    // Few networks of each width, so that they meet.
    let v6 = (0u16..2, 0u16..3, 0u16..3, 0u16..3).prop_map(|(a, b, c, d)| {
        let address = Ipv6Addr::new(0x2001, a, b, c << 8 | d, 0, 0, 0, 1);
        IpAddr::V6(address)
    });
    prop_oneof![v4, v6]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => address().prop_map(Step::Admit),
        1 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (0u64..4).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn whoever_gives_way_is_whom_a_naive_count_finds(
        steps in vec(step(), 1..120),
        capacity in 1usize..16,
        per_subscriber in 1usize..6,
        settling in 0u64..3,
    ) {
        let bounds = Bounds { capacity, per_subscriber, settling: Duration::from_secs(settling) };
        let mut naive = Naive { bounds, entries: Vec::new(), since: BTreeMap::new() };
        let mut table = FairTable::new(bounds);
        let mut places: Vec<Option<Place>> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(seconds) => now += seconds,
                Step::Remove(index) if !places.is_empty() => {
                    let number = index.index(places.len());
                    let was_there = naive.remove(number);
                    let removed = places[number].and_then(|place| table.remove(place));
                    prop_assert_eq!(removed, was_there.then_some(number));
                }
                Step::Remove(_) => {}
                Step::Admit(address) => {
                    let number = places.len();
                    let gone = naive.admit(number, address, now);
                    let subscriber = Subscriber::of(address);
                    let admitted = table.admit(subscriber, Uptime::after(Duration::from_secs(now)), number);
                    match admitted {
                        Ok((place, evicted)) => {
                            prop_assert_eq!(evicted, gone);
                            places.push(Some(place));
                        }
                        Err(Refused(refused)) => {
                            prop_assert_eq!(Some(refused), gone);
                            prop_assert_eq!(refused, number);
                            places.push(None);
                        }
                    }
                }
            }
            prop_assert_eq!(table.len(), naive.entries.len());
            prop_assert!(table.len() <= capacity);
            let numbers: Vec<usize> = table.values().copied().collect();
            let expected: Vec<usize> = naive.entries.iter().map(|entry| entry.number).collect();
            prop_assert_eq!(numbers, expected);
        }
    }
}
