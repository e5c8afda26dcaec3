//! Who is asked for which names.

use culvert_policy::DnsZone;
use domain::base::Name;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Servers that are asked for the same names.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) servers: Vec<SocketAddr>,
    /// Index of the one that is asked first: the last that answered, or follows one that did not.
    pub(crate) preferred: usize,
}

/// The servers of zones, and those of all other names.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    others: Pool,
    /// Each under its name, the longest first.
    zones: Vec<(Name<Vec<u8>>, Pool)>,
    /// A name that lies in no zone: who is asked for it must not depend on the portal's word.
    fixed: Option<Name<Vec<u8>>>,
}

impl Pool {
    pub(crate) const fn new(servers: Vec<SocketAddr>) -> Self {
        let preferred = 0;
        Self { servers, preferred }
    }
}

impl Zones {
    pub(crate) fn new(others: Vec<SocketAddr>, fixed: Option<Name<Vec<u8>>>) -> Self {
        Self {
            others: Pool::new(others),
            zones: Vec::new(),
            fixed,
        }
    }

    pub(crate) fn set_others(&mut self, servers: Vec<SocketAddr>) {
        self.others = Pool::new(servers);
    }

    /// Replaces all zones. Those whose servers are the same keep the one that answers.
    pub(crate) fn set_zones(&mut self, zones: BTreeMap<DnsZone, Vec<SocketAddr>>) {
        let mut before: BTreeMap<_, _> = std::mem::take(&mut self.zones).into_iter().collect();
        for (zone, servers) in zones {
            let name = match zone.domain() {
                None => Some(Name::root_vec()),
                Some(domain) => crate::name::write(domain),
            };
            let Some(name) = name else { continue };
            let pool = match before.remove(&name) {
                Some(pool) if pool.servers == servers => pool,
                Some(_) | None => Pool::new(servers),
            };
            self.zones.push((name, pool));
        }
        let labels = |name: &Name<Vec<u8>>| name.label_count();
        self.zones
            .sort_by_key(|(name, _)| std::cmp::Reverse(labels(name)));
    }

    /// Whether the name lies in one of the zones.
    pub(crate) fn hold(&self, name: &Name<Vec<u8>>) -> bool {
        self.place(name).is_some()
    }

    /// Who is asked for the name.
    pub(crate) fn pool(&self, name: &Name<Vec<u8>>) -> &Pool {
        let zone = self.place(name).and_then(|place| self.zones.get(place));
        zone.map_or(&self.others, |(_, pool)| pool)
    }

    /// The same, to note who answers.
    pub(crate) fn pool_mut(&mut self, name: &Name<Vec<u8>>) -> &mut Pool {
        let place = self.place(name);
        let zone = place.and_then(|place| self.zones.get_mut(place));
        zone.map_or(&mut self.others, |(_, pool)| pool)
    }

    /// The longest zone that holds the name. Names compare without the case of their letters.
    fn place(&self, name: &Name<Vec<u8>>) -> Option<usize> {
        if self.fixed.as_ref() == Some(name) {
            return None;
        }
        self.zones.iter().position(|(zone, _)| name.ends_with(zone))
    }
}
