use super::{Caller, ListRequest, Service, names, ranges, show, warnings};
use culvert_ids::{AccountId, ResourceId};
use culvert_policy::Prefix;
use culvert_portal_base::{Fault, Problems, birth};
use culvert_store::{self as store, Kind, ListFilter, PageLimit, Stamp, StoreError};
use culvert_wire::api::{NewResource, Page, Resource, ResourcePatch};
use culvert_wire::model::{Applications, Filter, Target};

impl Service {
    /// A page of the resources that the caller may see.
    pub async fn resources(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Resource>, Fault> {
        let page = self
            .list(caller, request, |row: store::Resource| row)
            .await?;
        let tunnel = self.tunnel(caller.account()).await?;
        let items = page.items.into_iter();
        Ok(Page {
            items: items.map(|row| show::resource(row, &tunnel)).collect(),
            next_cursor: page.next_cursor,
            total: page.total,
        })
    }

    /// The resource with this id.
    pub async fn resource(&self, caller: &Caller, id: ResourceId) -> Result<Resource, Fault> {
        let row = self.read(caller, id).await?;
        self.show_resource(row, caller.account()).await
    }

    /// A resource with all warnings about it. A list leaves out that others have the same address.
    pub(super) async fn show_resource(
        &self,
        row: store::Resource,
        account: AccountId,
    ) -> Result<Resource, Fault> {
        let tunnel = self.tunnel(account).await?;
        let warning = self.of_same_address(&row, account).await?;
        Ok(shown(row, &tunnel, warning))
    }

    /// The same of a resource that was just written. It is written: if others can't be read, the answer lacks the
    /// warning about them.
    async fn show_written(
        &self,
        row: store::Resource,
        account: AccountId,
        tunnel: &[Prefix],
    ) -> Resource {
        let warning = self.of_same_address(&row, account).await;
        let warning = warning.unwrap_or_else(|error| {
            tracing::warn!(%error, id = %row.id, "others of a written resource's address were not read");
            None
        });
        shown(row, tunnel, warning)
    }

    /// The warning that others have the address of this one.
    async fn of_same_address(
        &self,
        row: &store::Resource,
        account: AccountId,
    ) -> Result<Option<String>, StoreError> {
        let mut others: Vec<store::Resource> = Vec::new();
        for target in warnings::spellings(&row.target) {
            let filter = ListFilter {
                refers_to: vec![row.site.into()],
                target: Some(target),
                ..ListFilter::default()
            };
            let limit = PageLimit::new(warnings::MAX_LOOKED_AT.into());
            let list =
                self.database
                    .store
                    .list(account, store::Resource::KIND, &filter, None, limit);
            let page = self.database.ask("list", list).await?;
            let items = page.items.into_iter();
            others.extend(items.filter_map(store::Resource::from_entity));
        }
        others.sort_unstable_by_key(|other| other.id);
        Ok(warnings::of_same_address(row, &others))
    }

    /// The networks inside the tunnel.
    pub(super) async fn tunnel(&self, account: AccountId) -> Result<Vec<Prefix>, Fault> {
        let row: store::Account = self.get(account, account).await?;
        Ok(ranges::tunnel(&row.settings.ranges))
    }

    /// Creates a resource.
    pub async fn create_resource(
        &self,
        caller: &Caller,
        new: NewResource,
    ) -> Result<Resource, Fault> {
        caller.may_change()?;
        let tunnel = self.tunnel(caller.account()).await?;
        let patch = ResourcePatch {
            site: None,
            name: Some(new.name.clone()),
            kind: Some(new.kind),
            address: Some(new.address.clone()),
            filters: Some(new.filters.clone()),
            inbound: Some(new.inbound.clone()),
            applications: Some(new.applications.clone()),
            within: new.within,
        };
        let own = OwnFields::checked(None, &patch, &tunnel)?;
        let (born, random) = birth()?;
        let mut row = store::Resource {
            id: ResourceId::new(born, random),
            site: new.site,
            name: new.name,
            within: None,
            target: Target {
                kind: new.kind,
                address: new.address,
            },
            filters: new.filters,
            inbound: new.inbound,
            applications: new.applications,
            stamp: Stamp::default(),
        };
        own.put_into(&mut row);
        let row = self.create(caller, row).await?;
        Ok(self.show_written(row, caller.account(), &tunnel).await)
    }

    /// Changes a resource; with `expected`, only that version of it.
    pub async fn change_resource(
        &self,
        caller: &Caller,
        id: ResourceId,
        expected: Option<u64>,
        patch: ResourcePatch,
    ) -> Result<Resource, Fault> {
        caller.may_change()?;
        let tunnel = self.tunnel(caller.account()).await?;
        let change = |row: &mut store::Resource| {
            OwnFields::checked(Some(row), &patch, &tunnel)?.put_into(row);
            row.site = patch.site.unwrap_or(row.site);
            Ok(())
        };
        let row = self.change(caller, id, expected, change).await?;
        Ok(self.show_written(row, caller.account(), &tunnel).await)
    }

    /// Names the wrong fields of a resource that is not complete yet: a new one, or `id` with the patch. Nothing is
    /// written.
    pub async fn check_resource(
        &self,
        caller: &Caller,
        id: Option<ResourceId>,
        patch: &ResourcePatch,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let tunnel = self.tunnel(caller.account()).await?;
        let before: Option<store::Resource> = match id {
            Some(id) => Some(self.get(caller.account(), id).await?),
            None => None,
        };
        OwnFields::checked(before.as_ref(), patch, &tunnel).map(drop)
    }

    /// Its policies go with it.
    pub async fn delete_resource(
        &self,
        caller: &Caller,
        id: ResourceId,
        expected: Option<u64>,
    ) -> Result<(), Fault> {
        self.delete::<store::Resource>(caller, id, expected, false)
            .await
    }
}

fn shown(row: store::Resource, tunnel: &[Prefix], warning: Option<String>) -> Resource {
    let mut shown = show::resource(row, tunnel);
    shown.warnings.extend(warning);
    shown
}

/// The fields of a resource that refer to nothing else, in the form in which they are kept; none for what stays.
struct OwnFields {
    name: Option<String>,
    target: Option<Target>,
    filters: Option<Vec<Filter>>,
    inbound: Option<Vec<Filter>>,
    applications: Option<Applications>,
    within: Option<Vec<String>>,
}

impl OwnFields {
    /// Names all that are wrong. `before` is the resource as it is: what stays as it was is not judged again.
    fn checked(
        before: Option<&store::Resource>,
        patch: &ResourcePatch,
        tunnel: &[Prefix],
    ) -> Result<Self, Fault> {
        let mut problems = Problems::default();
        let name = patch.name.as_deref();
        let name = name.map(|name| names::resource_name(before.map(|row| &*row.name), "", name));
        let target_before = before.map(|row| &row.target);
        let wanted = wanted_target(target_before, patch);
        let kind = wanted.as_ref().or(target_before).map(|target| target.kind);
        let target = wanted.map(|target| names::target(target_before, "", &target, tunnel));
        let filters = patch.filters.as_deref();
        let filters =
            filters.map(|filters| names::filters(before.map(|row| &*row.filters), "", filters));
        let applications = patch.applications.as_ref();
        let applications = applications.map(|wanted| names::applications("", wanted));
        let own = Self {
            name: problems.take(name.transpose())?.flatten(),
            target: problems.take(target.transpose())?.flatten(),
            filters: problems.take(filters.transpose())?.flatten(),
            applications: problems.take(applications.transpose())?.flatten(),
            inbound: match kind {
                Some(kind) => {
                    let inbound_before = before.map(|row| &*row.inbound);
                    let inbound = patch.inbound.as_deref().or(inbound_before);
                    let inbound = names::inbound(inbound_before, "", kind, inbound.unwrap_or(&[]));
                    problems.take(inbound)?
                }
                None => None,
            },
            within: match kind {
                Some(kind) => {
                    let within = before.and_then(|row| row.within.as_deref());
                    let within = patch.within.as_deref().or(within);
                    problems.take(names::within("", kind, within))?.flatten()
                }
                None => None,
            },
        };
        problems.finish()?;
        Ok(own)
    }

    fn put_into(self, row: &mut store::Resource) {
        if let Some(name) = self.name {
            row.name = name;
        }
        if let Some(target) = self.target {
            row.target = target;
        }
        if let Some(filters) = self.filters {
            row.filters = filters;
        }
        if let Some(applications) = self.applications {
            row.applications = applications;
        }
        if let Some(inbound) = self.inbound {
            row.inbound = inbound;
        }
        // Names alone have it, and a change of the address can take it away.
        row.within = self.within;
    }
}

/// The place that a patch asks for; none, if it leaves the one that there is.
fn wanted_target(before: Option<&Target>, patch: &ResourcePatch) -> Option<Target> {
    if patch.kind.is_none() && patch.address.is_none() {
        return None;
    }
    Some(Target {
        kind: patch.kind.or(before.map(|target| target.kind))?,
        address: match (&patch.address, before) {
            (Some(address), _) => address.clone(),
            (None, before) => before?.address.clone(),
        },
    })
}
