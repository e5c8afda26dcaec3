//! Secrets of the portal at identity providers, and whom these know.

use super::connection::Transaction;
use super::secrets::stored;
use super::value::Value;
use super::writing::Writing;
use super::{read, table};
use crate::sealing::{Sealing, SecretColumn, SecretRow};
use culvert_ids::{AccountId, ProviderId, TokenId};
use culvert_store::{
    Entity, EntityId, EntityKind, Identity, Kind, MAX_ROWS_PER_KIND, Membership, Provider,
    SecretBytes, StoreError,
};

pub(super) async fn secret(
    connection: &mut Transaction,
    sealing: &Sealing,
    account: AccountId,
    provider: ProviderId,
) -> Result<Option<SecretBytes>, StoreError> {
    read::last_seq(connection, account).await?;
    let sql = "SELECT secret FROM provider_secret WHERE account = ? AND provider_id = ?";
    let values = vec![account.as_bytes().into(), provider.as_bytes().into()];
    let row = SecretRow::of(SecretColumn::Provider, &account, provider.as_bytes());
    let stored = stored(connection, sql, values).await?;
    stored.map(|stored| sealing.open(&row, stored)).transpose()
}

pub(super) async fn identity(
    connection: &mut Transaction,
    account: AccountId,
    provider: ProviderId,
    subject: &str,
) -> Result<Option<Identity>, StoreError> {
    read::last_seq(connection, account).await?;
    known_as(connection, account, provider, subject).await
}

/// The same, in an account that exists.
pub(super) async fn known_as(
    connection: &mut Transaction,
    account: AccountId,
    provider: ProviderId,
    subject: &str,
) -> Result<Option<Identity>, StoreError> {
    let select = table::select(EntityKind::Identity);
    let sql = format!("{select} WHERE account = ? AND provider_id = ? AND subject = ?");
    let values = vec![
        account.as_bytes().into(),
        provider.as_bytes().into(),
        subject.into(),
    ];
    let row = connection.fetch_one(sql, values).await?;
    row.map(|row| table::read_as(row.columns())).transpose()
}

impl Writing {
    /// Deletes an identity, or a provider with all identities that it knows, and what they have made.
    pub(super) async fn unlink(
        &mut self,
        id: EntityId,
        expected_version: Option<u64>,
        except: Option<TokenId>,
    ) -> Result<(), StoreError> {
        let identities = match self.current(id, expected_version).await? {
            Entity::Identity(identity) => vec![identity],
            Entity::Provider(provider) => self.known_by(provider.id).await?,
            other => {
                return Err(StoreError::Invalid {
                    kind: other.kind(),
                    field: "id",
                    reason: "nobody is linked by it".to_owned(),
                });
            }
        };
        for identity in identities {
            self.end_what_it_made(&identity, except).await?;
        }
        self.delete(id, None, false).await
    }

    /// The identities that a provider knows.
    async fn known_by(&mut self, provider: ProviderId) -> Result<Vec<Identity>, StoreError> {
        let select = table::select(EntityKind::Identity);
        let sql = format!("{select} WHERE account = ? AND provider_id = ? ORDER BY id LIMIT ?");
        let values = vec![
            self.account().as_bytes().into(),
            provider.as_bytes().into(),
            u64::from(MAX_ROWS_PER_KIND).into(),
        ];
        let rows = self.connection().await?.fetch(sql, values).await?;
        rows.iter().map(table::read_as).collect()
    }

    /// Memberships that people have made since stay.
    async fn end_what_it_made(
        &mut self,
        identity: &Identity,
        except: Option<TokenId>,
    ) -> Result<(), StoreError> {
        let account = self.account();
        for id in &identity.memberships {
            let found = read::find(self.connection().await?, account, (*id).into()).await?;
            let made = found.and_then(Membership::from_entity);
            if made.is_some_and(|made| made.actor == identity.actor) {
                self.delete((*id).into(), None, false).await?;
            }
        }
        self.end_sessions_of(identity.actor, except).await
    }

    pub(super) async fn set_provider_secret(
        &mut self,
        id: ProviderId,
        secret: &SecretBytes,
    ) -> Result<(), StoreError> {
        let account = self.account();
        let row = SecretRow::of(SecretColumn::Provider, &account, id.as_bytes());
        let sealed = self.sealing().seal(&row, secret)?;
        let before = self.current(id.into(), None).await?;
        let Some(mut after) = Provider::from_entity(before.clone()) else {
            return Err(StoreError::NotFound(id.into()));
        };
        after.secret_set = Some(self.at());
        self.replace(before, Entity::Provider(after)).await?;
        let sql = "INSERT INTO provider_secret (account, provider_id, secret) VALUES (?, ?, ?) \
                   ON CONFLICT (account, provider_id) DO UPDATE SET secret = excluded.secret";
        let values = vec![
            self.account().as_bytes().into(),
            id.as_bytes().into(),
            Value::Blob(sealed),
        ];
        self.execute(sql, values).await?;
        Ok(())
    }
}
