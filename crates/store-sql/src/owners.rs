//! Owners are changed by owners alone, and so are the providers that they are known by. An owner stays.
//!
//! The portal checks that before it writes, for its answer to say why. Someone may become an owner, or be linked to a
//! provider, in between; another portal may take away another owner. The check here sees that, because the transaction has
//! the writer, or the account's lock.

use super::connection::Transaction;
use super::read;
use super::value::{Columns, Value};
use super::writing::Writing;
use culvert_ids::{AccountId, ActorId, ID_LEN, ProviderId, TokenId};
use culvert_store::rules;
use culvert_store::{Actor, Denial, Entity, Owner, OwnerBy, Role, StoreError};
use culvert_wire::Timestamp;

/// That a row of `actor` comes in as an owner: by signing in, or by a token that is good at the time in the one place.
const IS_OWNER: &str = "(actor.sign_in_role = 'owner' OR EXISTS (\
    SELECT 1 FROM token WHERE token.account = actor.account AND token.actor_id = actor.id \
    AND token.kind = 'api' AND token.role = 'owner' AND token.revoked_ms IS NULL \
    AND (token.expires_ms IS NULL OR token.expires_ms > ?)))";

/// The ways by which actors are owners, in one statement: few actors are, of many.
pub(super) async fn owners(
    connection: &mut Transaction,
    account: AccountId,
    now: Timestamp,
) -> Result<Vec<Owner>, StoreError> {
    read::last_seq(connection, account).await?;
    ways(connection, account, now).await
}

/// The same, in an account that exists.
async fn ways(
    connection: &mut Transaction,
    account: AccountId,
    now: Timestamp,
) -> Result<Vec<Owner>, StoreError> {
    let sql = "SELECT actor.id AS id, disabled, sign_in_role, password_set_ms, NULL AS token_id \
               FROM actor WHERE account = ?1 AND sign_in_role = 'owner' \
               UNION ALL \
               SELECT actor.id, disabled, sign_in_role, password_set_ms, token.id \
               FROM token JOIN actor \
               ON actor.account = token.account AND actor.id = token.actor_id \
               WHERE token.account = ?1 AND token.kind = 'api' AND token.role = 'owner' \
               AND token.revoked_ms IS NULL \
               AND (token.expires_ms IS NULL OR token.expires_ms > ?2)";
    let values = vec![account.as_bytes().into(), now.into()];
    let rows = connection.fetch(sql, values).await?;
    rows.iter().map(read_owner).collect()
}

fn read_owner(row: Columns<'_>) -> Result<Owner, StoreError> {
    let role: Option<&str> = row.get("sign_in_role")?;
    let token: Option<[u8; ID_LEN]> = row.optional_bytes("token_id")?;
    let has_password = row.optional_time("password_set_ms")?.is_some();
    Ok(Owner {
        actor: ActorId::from_bytes(row.bytes("id")?),
        disabled: row.flag("disabled")?,
        by: match token {
            Some(id) => OwnerBy::Token {
                id: TokenId::from_bytes(id),
                is_bounded: role.is_some_and(|role| role != "owner"),
            },
            None => OwnerBy::SignIn { has_password },
        },
    })
}

impl Writing {
    /// Notes if an owner can come in, ahead of the first change of the write that could end it: that an actor changes or
    /// goes, or an owner's token. New rows end nothing.
    pub(super) async fn note_ways_in(
        &mut self,
        before: &Entity,
        after: Option<&Entity>,
    ) -> Result<(), StoreError> {
        let could_end = match (before, after) {
            (Entity::Actor(was), Some(Entity::Actor(is))) => comes_in_by(was) != comes_in_by(is),
            (Entity::Actor(_), _) => true,
            (Entity::Token(token), _) => token.scope.role() == Some(Role::Owner),
            _ => false,
        };
        if could_end && self.owner_came_in().is_none() {
            let can_come_in = self.can_owner_come_in().await?;
            self.note_owner_came_in(can_come_in);
        }
        Ok(())
    }

    /// Refuses a write after which no owner could come in, if one could before.
    pub(super) async fn check_owner_stays(&mut self) -> Result<(), StoreError> {
        match self.owner_came_in() == Some(true) && !self.can_owner_come_in().await? {
            true => Err(StoreError::LastOwner),
            false => Ok(()),
        }
    }

    async fn can_owner_come_in(&mut self) -> Result<bool, StoreError> {
        let (account, at) = (self.account(), self.at());
        let owners = ways(self.connection().await?, account, at).await?;
        Ok(rules::owners::can_come_in(&owners))
    }

    /// Refuses an author who is less than an owner where the row is or was an owner, an owner's token or identity, or a
    /// provider that an owner is known by. A row that is about to make an owner is one already. Everybody ends and makes their
    /// own sessions and tokens, whatever the role of the token in use.
    pub(super) async fn check_owners(
        &mut self,
        before: Option<&Entity>,
        row: &Entity,
    ) -> Result<(), StoreError> {
        if self.author().role.is_none_or(|role| role >= Role::Owner) {
            return Ok(());
        }
        let by_itself = is_owners(row) || before.is_some_and(is_owners);
        // Updates change no id, so that the row before and the row after have one answer.
        let is_owners = by_itself
            || match row {
                Entity::Actor(actor) => self.is_owner(actor.id).await?,
                Entity::Token(token) => match token.scope.actor() {
                    Some(actor) if self.author().actor != Some(actor) => {
                        self.is_owner(actor).await?
                    }
                    _ => false,
                },
                Entity::Identity(identity) => self.is_owner(identity.actor).await?,
                Entity::Provider(provider) => self.knows_owner(provider.id).await?,
                _ => false,
            };
        match is_owners {
            true => Err(Denial::OwnersOnly.into()),
            false => Ok(()),
        }
    }

    /// True if the actor is an owner before the write, and so after it: the author is none, and makes and ends none.
    async fn is_owner(&mut self, actor: ActorId) -> Result<bool, StoreError> {
        if self.owners().is_none() {
            let (account, at) = (self.account(), self.at());
            let owners = ways(self.connection().await?, account, at).await?;
            let actors = owners.into_iter().map(|owner| owner.actor);
            *self.owners() = Some(actors.collect());
        }
        let owners = self.owners().as_ref();
        Ok(owners.is_some_and(|owners| owners.contains(&actor)))
    }

    async fn knows_owner(&mut self, provider: ProviderId) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT 1 FROM identity JOIN actor \
             ON actor.account = identity.account AND actor.id = identity.actor_id \
             WHERE identity.account = ? AND identity.provider_id = ? AND {IS_OWNER} LIMIT 1"
        );
        self.is_any(sql, provider.as_bytes().into()).await
    }

    async fn is_any(&mut self, sql: String, id: Value) -> Result<bool, StoreError> {
        let values = vec![self.account().as_bytes().into(), id, self.at().into()];
        let row = self.connection().await?.fetch_one(sql, values).await?;
        Ok(row.is_some())
    }
}

/// The fields of an actor that decide if they come in as an owner.
fn comes_in_by(actor: &Actor) -> (bool, Option<(Role, bool)>) {
    let sign_in = actor.sign_in;
    let sign_in = sign_in.map(|sign_in| (sign_in.role, sign_in.password_set.is_some()));
    (actor.disabled, sign_in)
}

/// True if the row says by itself that it is an owner, or an owner's token.
fn is_owners(row: &Entity) -> bool {
    match row {
        Entity::Actor(actor) => actor.sign_in.is_some_and(|of| of.role == Role::Owner),
        Entity::Token(token) => token.scope.role() == Some(Role::Owner),
        _ => false,
    }
}
