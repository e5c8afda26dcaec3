use super::{Caller, ListRequest, Service, names, ranges, show, warnings};
use culvert_ids::{AccountId, ResourceId};
use culvert_policy::Prefix;
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, Kind, ListFilter, PageLimit, Stamp};
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
        let filter = ListFilter {
            refers_to: vec![row.site.into()],
            targets: warnings::spellings(&row.target),
            ..ListFilter::default()
        };
        let limit = PageLimit::new(warnings::MAX_LOOKED_AT.into());
        let list = self
            .database
            .store
            .list(account, store::Resource::KIND, &filter, None, limit);
        let page = self.database.ask("list", list).await?;
        let others = page.items.into_iter();
        let others: Vec<_> = others.filter_map(store::Resource::from_entity).collect();
        let warning = warnings::of_same_address(&row, &others);
        let mut shown = show::resource(row, &tunnel);
        shown.warnings.extend(warning);
        Ok(shown)
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
        self.show_resource(row, caller.account()).await
    }

    /// Changes a resource; with `expected`, only that version of it.
    pub async fn change_resource(
        &self,
        caller: &Caller,
        id: ResourceId,
        expected: Option<u64>,
        patch: ResourcePatch,
    ) -> Result<Resource, Fault> {
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
        self.show_resource(row, caller.account()).await
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
