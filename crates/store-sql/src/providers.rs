//! Secrets of the portal at identity providers, and whom these know.

use super::connection::Transaction;
use super::secrets::stored;
use super::value::Value;
use super::writing::Writing;
use super::{read, table};
use crate::sealing::{Sealing, SecretColumn, SecretRow};
use culvert_ids::{AccountId, ProviderId};
use culvert_store::{Entity, EntityKind, Identity, Kind, Provider, SecretBytes, StoreError};

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
