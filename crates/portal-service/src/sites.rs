use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::{RelayId, SiteId};
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, Stamp};
use culvert_wire::api::{NewSite, Page, Site, SitePatch};

/// The word by which a site uses all relays of the account.
pub const ANY_RELAY: &str = "any";

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
            relays: None,
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
        let relays = match &patch.relays {
            Some(written) => Some(self.relays_of_site(caller, written).await?),
            None => None,
        };
        let change = |row: &mut store::Site| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            if let Some(relays) = &relays {
                row.relays.clone_from(relays);
            }
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::site)
    }

    /// The relays that a site is to use; none where it may use all.
    async fn relays_of_site(
        &self,
        caller: &Caller,
        written: &[String],
    ) -> Result<Option<Vec<RelayId>>, Fault> {
        if written == [ANY_RELAY] {
            return Ok(None);
        }
        let mut relays = Vec::new();
        for (at, text) in written.iter().enumerate() {
            let field = format!("relays[{at}]");
            let id: RelayId = text.parse().map_err(|_| {
                let detail = format!("write the id of a relay, or `{ANY_RELAY}` alone");
                Fault::invalid(&field, detail)
            })?;
            let found = self.read::<store::Relay>(caller, id).await;
            let row = found.map_err(|fault| fault.at_field(&field))?;
            if !relays.contains(&row.id) {
                relays.push(row.id);
            }
        }
        Ok(Some(relays))
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
