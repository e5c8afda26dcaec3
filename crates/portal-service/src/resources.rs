use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::ResourceId;
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, Stamp};
use culvert_wire::api::{NewResource, Page, Resource, ResourcePatch};
use culvert_wire::model::Target;

impl Service {
    /// A page of the resources that the caller may see.
    pub async fn resources(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Resource>, Fault> {
        self.list(caller, request, show::resource).await
    }

    /// The resource with this id.
    pub async fn resource(&self, caller: &Caller, id: ResourceId) -> Result<Resource, Fault> {
        self.read(caller, id).await.map(show::resource)
    }

    /// Creates a resource.
    pub async fn create_resource(
        &self,
        caller: &Caller,
        new: NewResource,
    ) -> Result<Resource, Fault> {
        let target = Target {
            kind: new.kind,
            address: new.address,
        };
        let (born, random) = birth()?;
        let row = store::Resource {
            id: ResourceId::new(born, random),
            site: new.site,
            name: names::resource_name("", &new.name)?,
            within: names::within("", target.kind, new.within.as_deref())?,
            target: names::target("", &target)?,
            filters: names::filters("", &new.filters)?,
            applications: names::applications("", &new.applications)?,
            stamp: Stamp::default(),
        };
        self.create(caller, row).await.map(show::resource)
    }

    /// Changes a resource; with `expected`, only that version of it.
    pub async fn change_resource(
        &self,
        caller: &Caller,
        id: ResourceId,
        expected: Option<u64>,
        patch: ResourcePatch,
    ) -> Result<Resource, Fault> {
        let change = |row: &mut store::Resource| {
            if let Some(name) = &patch.name {
                row.name = names::resource_name("", name)?;
            }
            if patch.kind.is_some() || patch.address.is_some() {
                let address = patch.address.as_ref().unwrap_or(&row.target.address);
                let target = Target {
                    kind: patch.kind.unwrap_or(row.target.kind),
                    address: address.clone(),
                };
                row.target = names::target("", &target)?;
            }
            if let Some(filters) = &patch.filters {
                row.filters = names::filters("", filters)?;
            }
            if let Some(applications) = &patch.applications {
                row.applications = names::applications("", applications)?;
            }
            let within = patch.within.as_deref().or(row.within.as_deref());
            row.within = names::within("", row.target.kind, within)?;
            row.site = patch.site.unwrap_or(row.site);
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::resource)
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
