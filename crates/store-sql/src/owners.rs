//! Owners are changed by owners alone, and so are the providers that they are known by.
//!
//! The portal checks that before it writes, for its answer to say why. Someone may become an owner, or be linked to a
//! provider, in between. The check here sees that, because the transaction has the writer.

use super::fault::fault;
use super::value::{Value, query};
use super::write::Writing;
use culvert_ids::{ActorId, ProviderId};
use culvert_store::{Denial, Entity, Role, StoreError};

/// That a row of `actor` comes in as an owner: by signing in, or by a token that is good at the time in the one place.
const IS_OWNER: &str = "(actor.sign_in_role = 'owner' OR EXISTS (\
    SELECT 1 FROM token WHERE token.account = actor.account AND token.actor_id = actor.id \
    AND token.kind = 'api' AND token.role = 'owner' AND token.revoked_ms IS NULL \
    AND (token.expires_ms IS NULL OR token.expires_ms > ?)))";

impl Writing {
    /// Refuses an author who is less than an owner where the row is an owner, an owner's token or identity, or a provider
    /// that an owner is known by. A row that is about to make an owner is one already.
    pub(super) async fn check_owners(&mut self, row: &Entity) -> Result<(), StoreError> {
        if self.author().role.is_none_or(|role| role >= Role::Owner) {
            return Ok(());
        }
        let is_owners = match row {
            Entity::Actor(actor) => {
                let as_owner = actor.sign_in.is_some_and(|of| of.role == Role::Owner);
                as_owner || self.is_owner(actor.id).await?
            }
            Entity::Identity(identity) => self.is_owner(identity.actor).await?,
            Entity::Token(token) => token.scope.role() == Some(Role::Owner),
            Entity::Provider(provider) => self.knows_owner(provider.id).await?,
            _ => false,
        };
        match is_owners {
            true => Err(Denial::OwnersOnly.into()),
            false => Ok(()),
        }
    }

    async fn is_owner(&mut self, actor: ActorId) -> Result<bool, StoreError> {
        let sql = format!("SELECT 1 FROM actor WHERE account = ? AND id = ? AND {IS_OWNER}");
        self.is_any(sql, actor.as_bytes().into()).await
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
        let row = query(sql, values).fetch_optional(self.connection()).await;
        Ok(row.map_err(fault)?.is_some())
    }
}
