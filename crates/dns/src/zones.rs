//! The servers for each zone.

use culvert_base::BootTime;
use culvert_ids::ResourceId;
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
    /// The end of the time for which no server of the pool is asked, because none has answered.
    pub(crate) silent_until: Option<BootTime>,
}

/// The owner of the servers to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Those of the smallest zone that holds the name.
    Name(Name<Vec<u8>>),
    /// Those of a resource's site, through the tunnel.
    Site(ResourceId),
}

/// The servers of zones, of sites, and those of all other names.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    others: Pool,
    /// Each under its name, the longest first.
    zones: Vec<(Name<Vec<u8>>, Pool)>,
    sites: BTreeMap<ResourceId, Pool>,
    /// Of sites that nobody can be asked of.
    nobody: Pool,
    /// Names that lie in no zone: who is asked for them must not depend on the portal's rules.
    fixed: Vec<Name<Vec<u8>>>,
}

impl Pool {
    pub(crate) const fn new(servers: Vec<SocketAddr>) -> Self {
        Self {
            servers,
            preferred: 0,
            silent_until: None,
        }
    }
}

impl Zones {
    pub(crate) fn new(others: Vec<SocketAddr>, fixed: Vec<Name<Vec<u8>>>) -> Self {
        Self {
            others: Pool::new(others),
            zones: Vec::new(),
            sites: BTreeMap::new(),
            nobody: Pool::default(),
            fixed,
        }
    }

    /// Sets the server for records of a resource's names that are no addresses; `None` removes it.
    pub(crate) fn set_site(&mut self, resource: ResourceId, server: Option<SocketAddr>) {
        match server {
            Some(server) if self.site_server(resource) == Some(server) => {}
            Some(server) => {
                self.sites.insert(resource, Pool::new(vec![server]));
            }
            None => {
                self.sites.remove(&resource);
            }
        }
    }

    fn site_server(&self, resource: ResourceId) -> Option<SocketAddr> {
        self.sites.get(&resource)?.servers.first().copied()
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

    /// True if the name lies in one of the zones.
    pub(crate) fn hold(&self, name: &Name<Vec<u8>>) -> bool {
        self.place(name).is_some()
    }

    /// The servers to ask.
    pub(crate) fn pool(&self, of: &Of) -> &Pool {
        let name = match of {
            Of::Name(name) => name,
            Of::Site(resource) => return self.sites.get(resource).unwrap_or(&self.nobody),
        };
        let zone = self.place(name).and_then(|place| self.zones.get(place));
        zone.map_or(&self.others, |(_, pool)| pool)
    }

    /// The same, to note who answers.
    pub(crate) fn pool_mut(&mut self, of: &Of) -> &mut Pool {
        let name = match of {
            Of::Name(name) => name,
            Of::Site(resource) => return self.sites.get_mut(resource).unwrap_or(&mut self.nobody),
        };
        let place = self.place(name);
        let zone = place.and_then(|place| self.zones.get_mut(place));
        zone.map_or(&mut self.others, |(_, pool)| pool)
    }

    /// The longest zone that holds the name. Names compare without the case of their letters.
    fn place(&self, name: &Name<Vec<u8>>) -> Option<usize> {
        if self.fixed.contains(name) {
            return None;
        }
        self.zones.iter().position(|(zone, _)| name.ends_with(zone))
    }
}
