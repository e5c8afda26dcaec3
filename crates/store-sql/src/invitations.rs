//! Links by which people set a password, once. A person has at most one.

use super::connection::Transaction;
use super::writing::Writing;
use super::{auth, read};
use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_store::{
    Actor, Denial, Entity, EntityKind, Kind, Part, Role, SecretBytes, SignIn, StoreError, Token,
    TokenScope,
};
use culvert_wire::Timestamp;
use culvert_wire::token::SecretDigest;
use std::cmp::Reverse;

/// The role of a person who did not sign in before, unless the link names another.
const FIRST_ROLE: Role = Role::User;

/// The person whom the link invites. It compares the secret before anything else, so that only who has it learns from
/// the time that the answer takes.
pub(super) async fn find(
    connection: &mut Transaction,
    account: AccountId,
    actor: ActorId,
    digest: &SecretDigest,
    now: Timestamp,
) -> Result<Actor, StoreError> {
    read::last_seq(connection, account).await?;
    let sql = "SELECT digest FROM invitation WHERE account = ? AND actor_id = ?";
    let values = vec![account.as_bytes().into(), actor.as_bytes().into()];
    let row = connection.fetch_one(sql, values).await?;
    let Some(row) = row else {
        return Err(Denial::UnknownToken.into());
    };
    if SecretDigest::from_bytes(row.columns().bytes("digest")?) != *digest {
        return Err(Denial::WrongSecret.into());
    }
    let person = auth::enabled(connection, account, actor).await?;
    let ends = person.sign_in.and_then(|sign_in| sign_in.invitation_ends);
    match ends {
        Some(ends) if now < ends => Ok(person),
        Some(_) => Err(Denial::Expired.into()),
        None => Err(Denial::Revoked.into()),
    }
}

impl Writing {
    pub(super) async fn invite(
        &mut self,
        actor: ActorId,
        role: Option<Role>,
        digest: &SecretDigest,
        ends: Timestamp,
        expected_version: Option<u64>,
    ) -> Result<(), StoreError> {
        let before = self.current(actor.into(), expected_version).await?;
        let Some(row) = Actor::from_entity(before.clone()) else {
            return Err(StoreError::NotFound(actor.into()));
        };
        if role.is_none() && row.sign_in.is_none() {
            self.check_lowers_no_token(actor, FIRST_ROLE).await?;
        }
        let was = row.sign_in.unwrap_or(SignIn {
            role: FIRST_ROLE,
            password_set: None,
            second_factor: None,
            recovery_codes: 0,
            passkeys: 0,
            invitation_ends: None,
        });
        let after = Actor {
            sign_in: Some(SignIn {
                role: role.unwrap_or(was.role),
                invitation_ends: Some(ends),
                ..was
            }),
            ..row
        };
        self.replace(before, Entity::Actor(after)).await?;
        let sql = "INSERT INTO invitation (account, actor_id, digest) VALUES (?, ?, ?) \
                   ON CONFLICT (account, actor_id) DO UPDATE SET digest = excluded.digest";
        let values = vec![
            self.account().as_bytes().into(),
            actor.as_bytes().into(),
            digest.as_bytes().as_slice().into(),
        ];
        self.execute(sql, values).await?;
        Ok(())
    }

    /// Refuses a link without a role that would lower the actor's API tokens: they may do no more than a person who signs in.
    async fn check_lowers_no_token(&mut self, actor: ActorId, to: Role) -> Result<(), StoreError> {
        let at = self.at();
        let tokens = self.tokens_of(actor.into(), vec![Part::MadeTokens]).await?;
        let is_lowered = |token: &Token| {
            let is_live = token.revoked.is_none() && token.expires.is_none_or(|ends| at < ends);
            is_live && matches!(token.scope, TokenScope::Api { role, .. } if to < role)
        };
        match tokens.iter().any(is_lowered) {
            true => Err(StoreError::Invalid {
                kind: EntityKind::Actor,
                field: "role",
                reason: "API tokens of this person have a higher role than a user: give the role with the link"
                    .to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// The transaction has the writer: of several who use one link, one comes first.
    pub(super) async fn use_invitation(
        &mut self,
        actor: ActorId,
        digest: &SecretDigest,
        verifier: &SecretBytes,
    ) -> Result<(), StoreError> {
        let (account, at) = (self.account(), self.at());
        find(self.connection().await?, account, actor, digest, at).await?;
        self.end_sessions_of(actor, None).await?;
        self.set_password(actor, None, verifier, None).await
    }

    /// Ends the sessions that there are now, but for one: none begins or ends between this and the commit.
    pub(super) async fn end_sessions_of(
        &mut self,
        actor: ActorId,
        except: Option<TokenId>,
    ) -> Result<(), StoreError> {
        let sessions = vec![Part::Sessions];
        for session in self.tokens_of(actor.into(), sessions).await? {
            if Some(session.id) != except {
                self.delete(session.id.into(), None, false).await?;
            }
        }
        Ok(())
    }

    /// Ends the sessions that are over, and all others but the newest ones.
    pub(super) async fn end_old_sessions_of(
        &mut self,
        actor: ActorId,
        keep: usize,
    ) -> Result<(), StoreError> {
        let at = self.at();
        let sessions = self.tokens_of(actor.into(), vec![Part::Sessions]).await?;
        let goes_on = |token: &Token| token.expires.is_none_or(|expires| at < expires);
        let (mut live, over): (Vec<_>, Vec<_>) = sessions.into_iter().partition(goes_on);
        live.sort_by_key(|token| Reverse((token.stamp.created, token.id)));
        for session in over.into_iter().chain(live.into_iter().skip(keep)) {
            self.delete(session.id.into(), None, false).await?;
        }
        Ok(())
    }

    /// Voids the person's link, if there is one. The row of the person says so already.
    pub(super) async fn forget_invitation(&mut self, actor: ActorId) -> Result<(), StoreError> {
        let sql = "DELETE FROM invitation WHERE account = ? AND actor_id = ?";
        let values = vec![self.account().as_bytes().into(), actor.as_bytes().into()];
        self.execute(sql, values).await?;
        Ok(())
    }
}
