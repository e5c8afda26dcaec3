//! Keys by which people sign in, as their authenticators made them.

use super::connection::Transaction;
use super::read;
use super::shown::Part;
use super::value::{Columns, Value};
use super::writing::Writing;
use culvert_ids::{AccountId, ActorId};
use culvert_store::rules::check_name;
use culvert_store::{
    Denial, EntityId, EntityKind, MAX_CREDENTIAL_LEN, MAX_PASSKEYS, MAX_PUBLIC_KEY_LEN, NewPasskey,
    Passkey, StoreError,
};

pub(super) async fn of(
    connection: &mut Transaction,
    account: AccountId,
    actor: ActorId,
) -> Result<Vec<Passkey>, StoreError> {
    read::last_seq(connection, account).await?;
    let sql = "SELECT * FROM passkey WHERE account = ? AND actor_id = ? \
               ORDER BY created_ms, credential";
    let values = vec![account.as_bytes().into(), actor.as_bytes().into()];
    let rows = connection.fetch(sql, values).await?;
    rows.iter().map(read).collect()
}

pub(super) async fn called(
    connection: &mut Transaction,
    account: AccountId,
    credential: &[u8],
) -> Result<Option<Passkey>, StoreError> {
    read::last_seq(connection, account).await?;
    let sql = "SELECT * FROM passkey WHERE account = ? AND credential = ?";
    let values = vec![account.as_bytes().into(), credential.into()];
    let row = connection.fetch_one(sql, values).await?;
    row.map(|row| read(row.columns())).transpose()
}

fn read(row: Columns<'_>) -> Result<Passkey, StoreError> {
    let actor = EntityId::from_bytes(EntityKind::Actor, row.bytes("actor_id")?);
    let EntityId::Actor(actor) = actor else {
        return Err(StoreError::corrupt("an actor that is none"));
    };
    Ok(Passkey {
        actor,
        credential: row.get("credential")?,
        public_key: row.get("public_key")?,
        name: row.text("name")?,
        created: row.time("created_ms")?,
        last_used: row.optional_time("last_used_ms")?,
    })
}

impl Writing {
    /// Adds a passkey. Returns how many the person has.
    pub(super) async fn add_passkey(
        &mut self,
        actor: ActorId,
        had: u32,
        passkey: &NewPasskey,
    ) -> Result<u32, StoreError> {
        check_name(EntityKind::Actor, &passkey.name)?;
        let too_many = |what, limit: usize| StoreError::TooMany {
            what,
            limit: limit as u64,
        };
        if had as usize >= MAX_PASSKEYS {
            return Err(too_many("passkeys of one person", MAX_PASSKEYS));
        }
        if passkey.credential.len() > MAX_CREDENTIAL_LEN {
            return Err(too_many("bytes of a passkey's id", MAX_CREDENTIAL_LEN));
        }
        if passkey.public_key.len() > MAX_PUBLIC_KEY_LEN {
            return Err(too_many("bytes of a public key", MAX_PUBLIC_KEY_LEN));
        }
        let sql = "INSERT INTO passkey (account, credential, actor_id, public_key, uses, name, created_ms) \
                   VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (account, credential) DO NOTHING";
        let values = vec![
            self.account().as_bytes().into(),
            passkey.credential.as_slice().into(),
            actor.as_bytes().into(),
            passkey.public_key.as_slice().into(),
            u64::from(passkey.uses).into(),
            passkey.name.as_str().into(),
            self.at().into(),
        ];
        match self.execute(sql, values).await? {
            0 => Err(Denial::Used.into()),
            _ => Ok(had + 1),
        }
    }

    pub(super) async fn rename_passkey(
        &mut self,
        actor: ActorId,
        credential: &[u8],
        name: &str,
    ) -> Result<(), StoreError> {
        check_name(EntityKind::Actor, name)?;
        let sql = "UPDATE passkey SET name = ? \
                   WHERE account = ? AND actor_id = ? AND credential = ?";
        let mut values = vec![name.into()];
        values.extend(self.passkey_of(actor, credential));
        self.found(actor, sql, values).await
    }

    pub(super) async fn remove_passkey(
        &mut self,
        actor: ActorId,
        credential: &[u8],
    ) -> Result<(), StoreError> {
        let sql = "DELETE FROM passkey WHERE account = ? AND actor_id = ? AND credential = ?";
        let values = self.passkey_of(actor, credential);
        self.found(actor, sql, values).await
    }

    /// Web Authentication Level 3, section 7.2, step 22: "If authData.signCount is nonzero or
    /// credentialRecord.signCount is nonzero", it must be greater than what is stored.
    ///
    /// The transaction has the writer: of several that use one signature, one comes first.
    pub(super) async fn use_passkey(
        &mut self,
        actor: ActorId,
        credential: &[u8],
        uses: u32,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE passkey SET uses = ?, last_used_ms = ? \
                   WHERE account = ? AND actor_id = ? AND credential = ? \
                   AND (uses < ? OR (uses = 0 AND ? = 0))";
        let mut values = vec![u64::from(uses).into(), self.at().into()];
        values.extend(self.passkey_of(actor, credential));
        values.extend([u64::from(uses).into(), u64::from(uses).into()]);
        match self.execute(sql, values).await? {
            0 => Err(Denial::Used.into()),
            _ => {
                self.shown().add(actor, Part::Passkey);
                Ok(())
            }
        }
    }

    fn passkey_of(&self, actor: ActorId, credential: &[u8]) -> Vec<Value> {
        vec![
            self.account().as_bytes().into(),
            actor.as_bytes().into(),
            credential.into(),
        ]
    }

    async fn found(
        &mut self,
        actor: ActorId,
        sql: &str,
        values: Vec<Value>,
    ) -> Result<(), StoreError> {
        match self.execute(sql, values).await? {
            0 => Err(StoreError::NotFound(actor.into())),
            _ => Ok(()),
        }
    }
}
