use super::{Caller, ListRequest, Service, names, show};
use culvert_ids::ActorId;
use culvert_portal_base::{Fault, birth};
use culvert_store::{self as store, Stamp};
use culvert_wire::api::{Actor, ActorPatch, NewActor, Page};

impl Service {
    /// A page of the actors that the caller may see.
    pub async fn actors(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Actor>, Fault> {
        self.list(caller, request, show::actor).await
    }

    /// Those that are machines.
    pub async fn service_accounts(
        &self,
        caller: &Caller,
        request: &ListRequest,
    ) -> Result<Page<Actor>, Fault> {
        let request = request.of_part(store::Part::ServiceAccounts);
        self.list(caller, &request, show::actor).await
    }

    /// The actor with this id.
    pub async fn actor(&self, caller: &Caller, id: ActorId) -> Result<Actor, Fault> {
        self.read(caller, id).await.map(show::actor)
    }

    /// Creates an actor.
    pub async fn create_actor(&self, caller: &Caller, new: NewActor) -> Result<Actor, Fault> {
        let (born, random) = birth()?;
        let row = store::Actor {
            id: ActorId::new(born, random),
            kind: show::actor_kind(new.kind),
            name: names::name("name", &new.name)?,
            disabled: false,
            sign_in: None,
            stamp: Stamp::default(),
        };
        self.create(caller, row).await.map(show::actor)
    }

    /// Changes an actor; with `expected`, only that version of it.
    pub async fn change_actor(
        &self,
        caller: &Caller,
        id: ActorId,
        expected: Option<u64>,
        patch: ActorPatch,
    ) -> Result<Actor, Fault> {
        match patch.disabled {
            Some(true) => {
                self.may_shut_out(caller, [id], |_, actor| actor == id)
                    .await?;
            }
            _ => self.may_touch_actor(caller, id).await?,
        }
        let change = |row: &mut store::Actor| {
            if let Some(name) = &patch.name {
                row.name = names::name_after(Some(&row.name), "name", name)?;
            }
            row.disabled = patch.disabled.unwrap_or(row.disabled);
            Ok(())
        };
        self.change(caller, id, expected, change)
            .await
            .map(show::actor)
    }

    /// Its memberships go with it; its tokens and clients only with `cascade`.
    pub async fn delete_actor(
        &self,
        caller: &Caller,
        id: ActorId,
        expected: Option<u64>,
        cascade: bool,
    ) -> Result<(), Fault> {
        self.may_shut_out(caller, [id], |_, actor| actor == id)
            .await?;
        self.delete::<store::Actor>(caller, id, expected, cascade)
            .await
    }
}
