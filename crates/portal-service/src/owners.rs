//! Owners of the account: admins do not change owners, and the last one stays.

use super::{Caller, Service};
use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_portal_base::{Fault, now};
use culvert_store::{Actor, ActorKind, EntityId, ListFilter, Role, Token};
use culvert_wire::Timestamp;
use std::collections::BTreeSet;

/// True if the token makes its holder an owner.
pub(super) fn is_live_owner_token(token: &Token, now: Timestamp) -> bool {
    token.scope.role() == Some(Role::Owner)
        && token.revoked.is_none()
        && token.expires.is_none_or(|expires| now < expires)
}

/// True if the actor comes in as an owner, by whatever way.
fn signs_in_as_owner(actor: &Actor) -> bool {
    actor
        .sign_in
        .is_some_and(|sign_in| sign_in.role == Role::Owner)
}

/// True if the actor comes in as an owner by a password: the only way that nobody else can close, as
/// a provider can.
fn has_password_as_owner(actor: &Actor) -> bool {
    let sign_in = actor.sign_in;
    signs_in_as_owner(actor) && sign_in.is_some_and(|sign_in| sign_in.password_set.is_some())
}

impl Service {
    /// Refuses to let an admin change an owner, or what an owner has.
    pub(super) async fn may_touch_actor(
        &self,
        caller: &Caller,
        actor: ActorId,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        if !caller.is_owner() && self.is_owner(caller.account(), actor).await? {
            caller.may_change_owners()?;
        }
        Ok(())
    }

    async fn is_owner(&self, account: AccountId, actor: ActorId) -> Result<bool, Fault> {
        if signs_in_as_owner(&self.get(account, actor).await?) {
            return Ok(true);
        }
        let filter = ListFilter {
            refers_to: vec![EntityId::Actor(actor)],
            ..ListFilter::default()
        };
        let tokens: Vec<Token> = self.all(account, &filter).await?;
        let now = now();
        Ok(tokens.iter().any(|token| is_live_owner_token(token, now)))
    }

    /// Refuses to take away the last way in for an owner. `goes` says of each whether it would no
    /// longer be one: of an owner's token, or, without a token, of an owner's password.
    pub(super) async fn keep_an_owner(
        &self,
        account: AccountId,
        goes: impl Fn(Option<TokenId>, ActorId) -> bool + Send,
    ) -> Result<(), Fault> {
        let now = now();
        let tokens: Vec<Token> = self.all(account, &ListFilter::default()).await?;
        let actors: Vec<Actor> = self.all(account, &ListFilter::default()).await?;
        // A person's token may do no more than the person.
        let bounded: BTreeSet<ActorId> = actors
            .iter()
            .filter(|actor| actor.sign_in.is_some() && !signs_in_as_owner(actor))
            .map(|actor| actor.id)
            .collect();
        let by_token = tokens
            .iter()
            .filter(|token| is_live_owner_token(token, now))
            .filter_map(|token| Some((Some(token.id), token.scope.actor()?)))
            .filter(|(_, actor)| !bounded.contains(actor));
        let by_password = actors
            .iter()
            .filter(|actor| has_password_as_owner(actor))
            .map(|actor| (None, actor.id));
        let owners: Vec<(Option<TokenId>, ActorId)> = by_token.chain(by_password).collect();
        if !owners.iter().any(|(token, actor)| goes(*token, *actor)) {
            return Ok(());
        }
        for (token, actor) in &owners {
            if goes(*token, *actor) {
                continue;
            }
            let actor: Actor = self.get(account, *actor).await?;
            if !actor.disabled {
                return Ok(());
            }
        }
        Err(Fault::Conflict(
            "it is the last way in for an owner: make another owner's token first".to_owned(),
        ))
    }

    /// The actors who own the account.
    pub(super) async fn owners(&self, account: AccountId) -> Result<BTreeSet<ActorId>, Fault> {
        let now = now();
        let tokens: Vec<Token> = self.all(account, &ListFilter::default()).await?;
        let by_token = tokens
            .iter()
            .filter(|token| is_live_owner_token(token, now))
            .filter_map(|token| token.scope.actor());
        let actors: Vec<Actor> = self.all(account, &ListFilter::default()).await?;
        let by_sign_in = actors.iter().filter(|actor| signs_in_as_owner(actor));
        Ok(by_token.chain(by_sign_in.map(|actor| actor.id)).collect())
    }
}

/// True if actors of the kind may hold API tokens: administrators, and machines that act for them.
pub(super) const fn may_use_api(kind: ActorKind) -> bool {
    matches!(kind, ActorKind::Admin | ActorKind::ServiceAccount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_store::{SignIn, Stamp};

    #[test]
    fn a_password_is_a_way_in_for_an_owner_where_its_person_is_one() {
        let set = Timestamp::from_unix_ms(1);
        for (role, password_set, is_way_in) in [
            (Role::Owner, Some(set), true),
            (Role::Owner, None, false),
            (Role::Admin, Some(set), false),
            (Role::Admin, None, false),
        ] {
            let mut actor = Actor {
                id: ActorId::from_bytes([1; 16]),
                kind: ActorKind::User,
                name: "ada".to_owned(),
                disabled: false,
                sign_in: None,
                stamp: Stamp::default(),
            };
            assert!(!has_password_as_owner(&actor));
            actor.sign_in = Some(SignIn {
                role,
                password_set,
                second_factor: None,
                recovery_codes: 0,
                passkeys: 0,
            });
            assert_eq!(has_password_as_owner(&actor), is_way_in, "{role:?}");
        }
    }
}
