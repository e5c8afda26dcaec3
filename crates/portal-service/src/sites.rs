use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::SiteId;
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, Stamp};
use culvert_wire::api::{NewSite, Page, Site, SitePatch};

impl Service {
    /// A page of the sites that the caller may see.
    pub async fn sites(&self, caller: &Caller, request: &ListRequest) -> Result<Page<Site>, Fault> {
        self.list(caller, request, show::site).await
    }

    /// The site with this id.
    pub async fn site(&self, caller: &Caller, id: SiteId) -> Result<Site, Fault> {
        self.read(caller, id).await.map(show::site)
    }

    /// Creates a site.
    pub async fn create_site(&self, caller: &Caller, new: NewSite) -> Result<Site, Fault> {
        let (born, random) = birth()?;
        let row = store::Site {
            id: SiteId::new(born, random),
            name: names::name("name", &new.name)?,
            stamp: Stamp::default(),
        };
        self.create(caller, row).await.map(show::site)
    }

    /// Changes a site; with `expected`, only that version of it.
    pub async fn change_site(
        &self,
        caller: &Caller,
        id: SiteId,
        expected: Option<u64>,
        patch: SitePatch,
    ) -> Result<Site, Fault> {
        let change = |row: &mut store::Site| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::site)
    }

    /// Its resources, gateways and tokens go only with `cascade`.
    pub async fn delete_site(
        &self,
        caller: &Caller,
        id: SiteId,
        expected: Option<u64>,
        cascade: bool,
    ) -> Result<(), Fault> {
        self.delete::<store::Site>(caller, id, expected, cascade)
            .await
    }
}
