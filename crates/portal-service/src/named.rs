//! Things by the names that people know them by.

use super::{Caller, ListRequest, Service, show};
use culvert_base::quoted;
use culvert_ids::{ActorId, ClientId, GatewayId, ResourceId};
use culvert_portal_base::Fault;
use culvert_store::{self as store, EntityId, Kind, ListFilter, PageLimit};
use culvert_wire::api::{Actor, Client, Group, Resource};
use std::collections::{BTreeMap, BTreeSet};

/// The number of names offered in place of one that nothing has: a line of them.
const NAMES_OFFERED: u64 = 5;

impl Service {
    /// The name of the caller.
    pub async fn own_name(&self, caller: &Caller) -> Result<String, Fault> {
        let row: store::Actor = self.get(caller.account(), caller.actor()?).await?;
        Ok(row.name)
    }

    /// The name of the account, which everybody in it may know.
    pub async fn organisation(&self, caller: &Caller) -> Result<String, Fault> {
        let row: store::Account = self.get(caller.account(), caller.account()).await?;
        Ok(row.name)
    }

    /// The actor of this name.
    pub async fn actor_named(&self, caller: &Caller, name: &str) -> Result<Actor, Fault> {
        self.named(caller, name).await.map(show::actor)
    }

    /// The group of this name.
    pub async fn group_named(&self, caller: &Caller, name: &str) -> Result<Group, Fault> {
        self.named(caller, name).await.map(show::group)
    }

    /// The resource of this name.
    pub async fn resource_named(&self, caller: &Caller, name: &str) -> Result<Resource, Fault> {
        let row = self.named(caller, name).await?;
        self.show_resource(row, caller.account()).await
    }

    /// The client of this name.
    pub async fn client_named(&self, caller: &Caller, name: &str) -> Result<Client, Fault> {
        self.named(caller, name).await.map(show::client)
    }

    /// The row of that name, whatever the case of its letters; of several, as revoked machines leave
    /// them, the newest.
    async fn named<T: Kind>(&self, caller: &Caller, name: &str) -> Result<T, Fault> {
        caller.may_read()?;
        let filter = ListFilter {
            name: Some(name.to_owned()),
            ..ListFilter::default()
        };
        let mut rows: Vec<T> = self.all(caller.account(), &filter).await?;
        match rows.pop() {
            Some(row) => Ok(row),
            None => Err(self.nothing_named::<T>(caller, name).await?),
        }
    }

    /// Says what else has the words in its name: of thousands nobody knows each by heart.
    pub(super) async fn nothing_named<T: Kind>(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<Fault, Fault> {
        let what = T::KIND;
        let mut detail = format!("there is no {what} named {}", quoted(name));
        let filter = ListFilter {
            name_contains: Some(name.to_owned()),
            ..ListFilter::default()
        };
        let list = self.database.store.list(
            caller.account(),
            what,
            &filter,
            None,
            PageLimit::new(NAMES_OFFERED),
        );
        let page = self.database.ask("list", list).await?;
        let names: Vec<String> = page
            .items
            .iter()
            .filter_map(|row| row.name().map(quoted))
            .collect();
        if !name.is_empty() && !names.is_empty() {
            let more = if page.next.is_some() { ", …" } else { "" };
            detail = format!(
                "{detail}; with that in their names: {}{more}",
                names.join(", ")
            );
        }
        Ok(Fault::NotFound(detail))
    }

    /// The name of what a log speaks of; its id, where it is gone.
    pub async fn actor_name(&self, caller: &Caller, id: ActorId) -> Result<String, Fault> {
        self.name_or_id(caller, id).await
    }

    /// The name of the client.
    pub async fn client_name(&self, caller: &Caller, id: ClientId) -> Result<String, Fault> {
        self.name_or_id(caller, id).await
    }

    /// The name of the gateway.
    pub async fn gateway_name(&self, caller: &Caller, id: GatewayId) -> Result<String, Fault> {
        self.name_or_id(caller, id).await
    }

    /// The name of the resource.
    pub async fn resource_name(&self, caller: &Caller, id: ResourceId) -> Result<String, Fault> {
        self.name_or_id(caller, id).await
    }

    /// The name of the row; its id, if it has no name or is gone.
    async fn name_or_id(&self, caller: &Caller, id: impl Into<EntityId>) -> Result<String, Fault> {
        let id = id.into();
        let name = self.names_of(caller, [id]).await?.remove(&id);
        Ok(name.unwrap_or_else(|| id.to_string()))
    }

    /// The names of rows, of those that are there and have one: one question, however many they are.
    pub async fn names_of(
        &self,
        caller: &Caller,
        ids: impl IntoIterator<Item = EntityId>,
    ) -> Result<BTreeMap<EntityId, String>, Fault> {
        caller.may_read()?;
        let ids: BTreeSet<EntityId> = ids.into_iter().collect();
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids: Vec<EntityId> = ids.into_iter().collect();
        let names = self.database.store.names(caller.account(), &ids);
        Ok(self.database.ask("names", names).await?)
    }
}

impl ListRequest {
    /// Rows that have this text in one of the texts that people know them by.
    pub fn searching(text: Option<&str>) -> Self {
        Self {
            filter: ListFilter {
                text: text.map(str::to_owned),
                ..ListFilter::default()
            },
            ..Self::default()
        }
    }
}
