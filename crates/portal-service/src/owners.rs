//! Owners of the account: admins do not change owners, and the last one stays.

use super::{Caller, Service};
use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_portal_base::{Fault, now};
use culvert_store::{self as store, ActorKind, Owner, OwnerBy};

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

    /// Refuses to take away the last way in for an owner. `goes` says of each whether it would no
    /// longer be one: of an owner's token, or, without a token, of an owner's password.
    fn keep_one(&self, goes: impl Fn(Option<TokenId>, ActorId) -> bool) -> Result<(), Fault> {
        let ways: Vec<_> = self.0.iter().filter_map(way_in).collect();
        let goes = |(token, owner): &(Option<TokenId>, &Owner)| goes(*token, owner.actor);
        let is_left = |way: &(Option<TokenId>, &Owner)| !goes(way) && !way.1.disabled;
        if !ways.iter().any(&goes) || ways.iter().any(is_left) {
            return Ok(());
        }
        Err(Fault::Conflict(
            "it is the last way in for an owner: make another owner's token first".to_owned(),
        ))
    }
}

/// The token by which an owner comes in; no token, if by a password. None, if nothing comes of the way: a provider can
/// close a sign-in without a password, and a person's token may do no more than the person.
const fn way_in(owner: &Owner) -> Option<(Option<TokenId>, &Owner)> {
    match owner.by {
        OwnerBy::SignIn { has_password: true } => Some((None, owner)),
        OwnerBy::Token {
            id,
            is_bounded: false,
        } => Some((Some(id), owner)),
        OwnerBy::SignIn { .. } | OwnerBy::Token { .. } => None,
    }
}

impl Service {
    /// The actors who own the account.
    pub(super) async fn owners(&self, account: AccountId) -> Result<Owners, Fault> {
        let owners = self.database.store.owners(account, now());
        Ok(Owners(self.database.ask("owners", owners).await?))
    }

    /// Refuses to let an admin change an owner, or what an owner has. The store refuses such a write too, but for the
    /// client tokens and sessions of owners, and for what changes nothing.
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
    /// for an owner: `goes` says of each whether it would no longer be one, of an owner's token or, without a token, of an owner's password.
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
        owners.keep_one(goes)
    }
}

/// True if the actor may hold API tokens: administrators, and machines that act for them.
pub(super) fn may_use_api(actor: &store::Actor) -> bool {
    actor.is_administrator() || actor.kind == ActorKind::ServiceAccount
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: ActorId = ActorId::from_bytes([1; 16]);
    const BOB: ActorId = ActorId::from_bytes([2; 16]);
    const TOKEN: TokenId = TokenId::from_bytes([3; 16]);

    fn owner(actor: ActorId, by: OwnerBy) -> Owner {
        Owner {
            actor,
            disabled: false,
            by,
        }
    }

    fn token(is_bounded: bool) -> OwnerBy {
        OwnerBy::Token {
            id: TOKEN,
            is_bounded,
        }
    }

    #[test]
    fn the_last_way_in_for_an_owner_stays() {
        let password = OwnerBy::SignIn { has_password: true };
        let by_provider = OwnerBy::SignIn {
            has_password: false,
        };
        let disabled = Owner {
            disabled: true,
            ..owner(BOB, password)
        };
        for (other, may_go) in [
            (owner(BOB, password), true),
            (owner(BOB, token(false)), true),
            // Others can close these ways, or they are closed.
            (owner(BOB, by_provider), false),
            (owner(BOB, token(true)), false),
            (disabled, false),
        ] {
            let owners = Owners(vec![owner(ADA, password), other]);
            let remaining = owners.keep_one(|_, actor| actor == ADA);
            assert_eq!(remaining.is_ok(), may_go, "{other:?}");
            // Nothing is refused that takes nothing away.
            assert_eq!(owners.keep_one(|_, _| false), Ok(()), "{other:?}");
        }
    }

    #[test]
    fn of_an_owner_s_ways_one_may_go() {
        let password = OwnerBy::SignIn { has_password: true };
        let owners = Owners(vec![owner(ADA, password), owner(ADA, token(false))]);
        assert_eq!(owners.keep_one(|token, _| token == Some(TOKEN)), Ok(()));
        assert!(owners.keep_one(|_, actor| actor == ADA).is_err());
        assert!(owners.has(ADA) && !owners.has(BOB));
    }
}
