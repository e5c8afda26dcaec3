//! Grants by id, and by everything that an event may name: it finds those that it is about and looks at no others.

use culvert_base::BootTime;
use culvert_ids::{ClientId, GrantId, ID_LEN, ResourceId};
use culvert_policy::DomainName;
use std::collections::{BTreeMap, BTreeSet};

/// The facts of a grant that events look for.
pub(super) trait GrantFacts {
    fn client(&self) -> ClientId;
    fn resource(&self) -> ResourceId;
    fn names(&self) -> impl Iterator<Item = &DomainName>;
    /// The time at which something happens to it by itself.
    fn due(&self) -> BootTime;
}

/// Grants of one kind: those in force, or those that wait for the DNS. Every operation but [`Self::iter`] costs the
/// logarithm of their number for each grant that it is about.
#[derive(Debug)]
pub(super) struct GrantTable<T> {
    all: BTreeMap<GrantId, T>,
    of_client: BTreeSet<(ClientId, GrantId)>,
    of_resource: BTreeSet<(ResourceId, GrantId)>,
    of_name: BTreeMap<DomainName, BTreeSet<GrantId>>,
    by_time: BTreeSet<(BootTime, GrantId)>,
    /// The number of names in all grants of a client that has any.
    names_of_client: BTreeMap<ClientId, usize>,
}

const FIRST: GrantId = GrantId::from_bytes([0; ID_LEN]);
const LAST: GrantId = GrantId::from_bytes([u8::MAX; ID_LEN]);

impl<T> Default for GrantTable<T> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            of_client: BTreeSet::new(),
            of_resource: BTreeSet::new(),
            of_name: BTreeMap::new(),
            by_time: BTreeSet::new(),
            names_of_client: BTreeMap::new(),
        }
    }
}

impl<T: GrantFacts> GrantTable<T> {
    /// Takes the grant in, in the place of one with the same id.
    pub(super) fn insert(&mut self, id: GrantId, grant: T) {
        self.remove(id);
        self.index(id, &grant);
        self.all.insert(id, grant);
    }

    pub(super) fn remove(&mut self, id: GrantId) -> Option<T> {
        let grant = self.all.remove(&id)?;
        self.unindex(id, &grant);
        Some(grant)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Changes a grant in any way. Returns what `change` does; none if there is no such grant.
    pub(super) fn change<R>(&mut self, id: GrantId, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut grant = self.all.remove(&id)?;
        self.unindex(id, &grant);
        let result = change(&mut grant);
        self.index(id, &grant);
        self.all.insert(id, grant);
        Some(result)
    }

    pub(super) fn get(&self, id: GrantId) -> Option<&T> {
        self.all.get(&id)
    }

    pub(super) fn contains(&self, id: GrantId) -> bool {
        self.all.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, in the order of their ids: for what a new session and the end of the gateway cost.
    pub(super) fn iter(&self) -> impl Iterator<Item = (GrantId, &T)> {
        self.all.iter().map(|(id, grant)| (*id, grant))
    }

    pub(super) fn of_client(&self, client: ClientId) -> impl Iterator<Item = (GrantId, &T)> {
        let ids = self.of_client.range((client, FIRST)..=(client, LAST));
        ids.filter_map(|(_, id)| Some((*id, self.all.get(id)?)))
    }

    pub(super) fn of_resource(&self, resource: ResourceId) -> impl Iterator<Item = (GrantId, &T)> {
        let ids = self.of_resource.range((resource, FIRST)..=(resource, LAST));
        ids.filter_map(|(_, id)| Some((*id, self.all.get(id)?)))
    }

    pub(super) fn of_name(&self, name: &DomainName) -> impl Iterator<Item = (GrantId, &T)> {
        let ids = self.of_name.get(name).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.all.get(id)?)))
    }

    pub(super) fn has_name(&self, name: &DomainName) -> bool {
        self.of_name.contains_key(name)
    }

    /// The number of names that the client's grants have.
    pub(super) fn names_of_client(&self, client: ClientId) -> usize {
        self.names_of_client.get(&client).copied().unwrap_or(0)
    }

    /// The time at which the next one is due.
    pub(super) fn next_due(&self) -> Option<BootTime> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Those that are due, the earliest first.
    pub(super) fn due(&self, now: BootTime) -> Vec<GrantId> {
        let due = self.by_time.range(..=(now, LAST));
        due.map(|(_, id)| *id).collect()
    }

    fn index(&mut self, id: GrantId, grant: &T) {
        let client = grant.client();
        self.of_client.insert((client, id));
        self.of_resource.insert((grant.resource(), id));
        self.by_time.insert((grant.due(), id));
        let mut names = 0;
        for name in grant.names() {
            match self.of_name.get_mut(name) {
                Some(ids) => drop(ids.insert(id)),
                None => drop(self.of_name.insert(name.clone(), [id].into())),
            }
            names += 1;
        }
        if names > 0 {
            *self.names_of_client.entry(client).or_default() += names;
        }
    }

    fn unindex(&mut self, id: GrantId, grant: &T) {
        let client = grant.client();
        self.of_client.remove(&(client, id));
        self.of_resource.remove(&(grant.resource(), id));
        self.by_time.remove(&(grant.due(), id));
        let mut names = 0;
        for name in grant.names() {
            if let Some(ids) = self.of_name.get_mut(name) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.of_name.remove(name);
                }
            }
            names += 1;
        }
        if let Some(count) = self.names_of_client.get_mut(&client) {
            *count -= names;
            if *count == 0 {
                self.names_of_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Facts {
        client: ClientId,
        resource: ResourceId,
        names: Vec<DomainName>,
        due: BootTime,
    }

    impl GrantFacts for Facts {
        fn client(&self) -> ClientId {
            self.client
        }
        fn resource(&self) -> ResourceId {
            self.resource
        }
        fn names(&self) -> impl Iterator<Item = &DomainName> {
            self.names.iter()
        }
        fn due(&self) -> BootTime {
            self.due
        }
    }

    fn name(number: u8) -> DomainName {
        format!("n{number}.example").parse().unwrap()
    }

    fn facts() -> impl Strategy<Value = Facts> {
        let names = proptest::collection::btree_set(0..4_u8, 0..3);
        (0..3_u8, 0..3_u8, names, 0..5_u64).prop_map(|(client, resource, names, due)| Facts {
            client: ClientId::from_bytes([client; ID_LEN]),
            resource: ResourceId::from_bytes([resource; ID_LEN]),
            names: names.into_iter().map(name).collect(),
            due: BootTime::from_millis(due),
        })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, Facts),
        Remove(u8),
        Change(u8, Facts),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..8_u8, facts()).prop_map(|(id, facts)| Step::Insert(id, facts)),
            (0..8_u8).prop_map(Step::Remove),
            (0..8_u8, facts()).prop_map(|(id, facts)| Step::Change(id, facts)),
        ]
    }

    fn ids<'a>(found: impl Iterator<Item = (GrantId, &'a Facts)>) -> Vec<GrantId> {
        found.map(|(id, _)| id).collect()
    }

    proptest! {
        /// The table finds what a search of all grants would, after any changes.
        #[test]
        fn the_table_finds_what_a_search_of_all_would(steps in proptest::collection::vec(step(), 0..60)) {
            let mut table = GrantTable::default();
            let mut all: BTreeMap<GrantId, Facts> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Insert(id, facts) => {
                        let id = GrantId::from_bytes([id; ID_LEN]);
                        table.insert(id, facts.clone());
                        all.insert(id, facts);
                    }
                    Step::Remove(id) => {
                        let id = GrantId::from_bytes([id; ID_LEN]);
                        prop_assert_eq!(table.remove(id), all.remove(&id));
                    }
                    Step::Change(id, facts) => {
                        let id = GrantId::from_bytes([id; ID_LEN]);
                        table.change(id, |known| known.clone_from(&facts));
                        if let Some(known) = all.get_mut(&id) {
                            *known = facts;
                        }
                    }
                }
                prop_assert_eq!(ids(table.iter()), all.keys().copied().collect::<Vec<_>>());
                let search = |is_it: &dyn Fn(&Facts) -> bool| -> Vec<GrantId> {
                    let found = all.iter().filter(|(_, facts)| is_it(facts));
                    found.map(|(id, _)| *id).collect()
                };
                for number in 0..4_u8 {
                    let client = ClientId::from_bytes([number; ID_LEN]);
                    let resource = ResourceId::from_bytes([number; ID_LEN]);
                    let of_client = search(&|facts| facts.client == client);
                    prop_assert_eq!(ids(table.of_client(client)), of_client);
                    let of_resource = search(&|facts| facts.resource == resource);
                    prop_assert_eq!(ids(table.of_resource(resource)), of_resource);
                    let name = name(number);
                    let of_name = search(&|facts| facts.names.contains(&name));
                    prop_assert_eq!(table.has_name(&name), !of_name.is_empty());
                    prop_assert_eq!(ids(table.of_name(&name)), of_name);
                    let own = all.values().filter(|facts| facts.client == client);
                    let names: usize = own.map(|facts| facts.names.len()).sum();
                    prop_assert_eq!(table.names_of_client(client), names);
                }
                prop_assert_eq!(table.next_due(), all.values().map(|facts| facts.due).min());
                for at in 0..5 {
                    let at = BootTime::from_millis(at);
                    let mut due = table.due(at);
                    due.sort_unstable();
                    prop_assert_eq!(due, search(&|facts| facts.due <= at));
                }
            }
        }
    }
}
