use super::{Caller, ListRequest, Service, names, ranges, show, warnings};
use culvert_ids::{AccountId, ResourceId};
use culvert_policy::Prefix;
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, Kind, ListFilter, PageLimit, Stamp, StoreError};
use culvert_wire::api::{NewResource, Page, Resource, ResourcePatch};
use culvert_wire::model::Target;

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
        let target = Target {
            kind: new.kind,
            address: new.address,
        };
        let (born, random) = birth()?;
        let row = store::Resource {
            id: ResourceId::new(born, random),
            site: new.site,
            name: names::resource_name(None, "", &new.name)?,
            within: names::within("", target.kind, new.within.as_deref())?,
            target: names::target(None, "", &target, &tunnel)?,
            filters: names::filters(None, "", &new.filters)?,
            applications: names::applications("", &new.applications)?,
            stamp: Stamp::default(),
        };
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
            if let Some(name) = &patch.name {
                row.name = names::resource_name(Some(&row.name), "", name)?;
            }
            if patch.kind.is_some() || patch.address.is_some() {
                let address = patch.address.as_ref().unwrap_or(&row.target.address);
                let target = Target {
                    kind: patch.kind.unwrap_or(row.target.kind),
                    address: address.clone(),
                };
                row.target = names::target(Some(&row.target), "", &target, &tunnel)?;
            }
            if let Some(filters) = &patch.filters {
                row.filters = names::filters(Some(&row.filters), "", filters)?;
            }
            if let Some(applications) = &patch.applications {
                row.applications = names::applications("", applications)?;
            }
            let within = patch.within.as_deref().or(row.within.as_deref());
            row.within = names::within("", row.target.kind, within)?;
            row.site = patch.site.unwrap_or(row.site);
            Ok(())
        };
        let row = self.change(caller, id, expected, change).await?;
        Ok(self.show_written(row, caller.account(), &tunnel).await)
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
