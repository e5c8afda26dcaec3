//! Owners of the account: admins do not change owners, and the last one stays. The write decides it; the check here says
//! it before anything is asked for or read.

use super::{Caller, Service};
use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_portal_base::{Fault, now};
use culvert_store::rules::owners;
use culvert_store::{self as store, ActorKind, Owner};

/// The owners of an account, with the ways by which they are.
pub(super) struct Owners(Vec<Owner>);

impl Owners {
    pub(super) fn has(&self, actor: ActorId) -> bool {
        self.0.iter().any(|owner| owner.actor == actor)
    }

    /// Refuses to let an admin change an owner, or what an owner has.
    fn may_touch(&self, caller: &Caller, actor: ActorId) -> Result<(), Fault> {
        match !caller.is_owner() && self.has(actor) {
            true => caller.may_change_owners(),
            false => Ok(()),
        }
    }
}

impl Service {
    /// The actors who own the account.
    pub(super) async fn owners(&self, account: AccountId) -> Result<Owners, Fault> {
        let owners = self.database.store.owners(account, now());
        Ok(Owners(self.database.ask("owners", owners).await?))
    }

    /// Refuses to let an admin change an owner, or what an owner has. The write refuses it too, unless it changes nothing.
    pub(super) async fn may_touch_actor(
        &self,
        caller: &Caller,
        actor: ActorId,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        match caller.is_owner() {
            true => Ok(()),
            false => self
                .owners(caller.account())
                .await?
                .may_touch(caller, actor),
        }
    }

    /// True if the caller may change this actor, and what it has.
    pub async fn may_change_actor(&self, caller: &Caller, actor: ActorId) -> Result<bool, Fault> {
        match self.may_touch_actor(caller, actor).await {
            Ok(()) => Ok(true),
            Err(Fault::Forbidden(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Like [`Self::may_touch_actor`], of the actors for whom something would end. Refuses to take away the last way in
    /// for an owner, as the write does. `goes` says of each way if it would end: of an owner's token or, without a token, of
    /// an owner's password.
    pub(super) async fn may_shut_out(
        &self,
        caller: &Caller,
        actors: impl IntoIterator<Item = ActorId> + Send,
        goes: impl Fn(Option<TokenId>, ActorId) -> bool + Send,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let actors: Vec<ActorId> = actors.into_iter().collect();
        let owners = self.owners(caller.account()).await?;
        for actor in actors {
            owners.may_touch(caller, actor)?;
        }
        Ok(owners::keep_one(&owners.0, goes)?)
    }
}

/// True if the actor may hold API tokens: administrators, and machines that act for them.
pub(super) fn may_use_api(actor: &store::Actor) -> bool {
    actor.is_administrator() || actor.kind == ActorKind::ServiceAccount
}
