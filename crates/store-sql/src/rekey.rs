//! From secrets in clear to encrypted ones, from one key to another, and back.
//!
//! One transaction does all of it, so a process that is killed leaves the secrets as they were or as they are to
//! be. The previous values may then still be in free pages and in the write-ahead log. The row of the key says
//! so until [`clean`] has come to its end, and whoever opens the database with the key does that first.

use super::fault::fault;
use super::open::{self, SqliteOptions};
use super::schema::Schema;
use super::secrets_key::{self, clean, has_table, key_of, set_key};
use super::value::{Columns, Value, query};
use crate::sealing::{Sealer, Sealing, SecretColumn, SecretRow};
use culvert_secrets::KeyId;
use culvert_store::{SecretBytes, StoreError};
use sqlx::sqlite::SqliteRow;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::path::Path;

/// The state of the secrets of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsStatus {
    /// The key that encrypts them, if one does.
    pub key: Option<KeyId>,
    /// No free page holds what secrets were before they were encrypted.
    pub is_clean: bool,
    /// The kinds of secrets, and the number of each.
    pub secrets: Vec<(&'static str, u64)>,
}

impl SecretsStatus {
    /// The number of secrets.
    pub fn total(&self) -> u64 {
        self.secrets.iter().map(|(_, number)| number).sum()
    }
}

/// Encrypts all secrets with `to` that were encrypted with `from`; none of the two means in clear. It
/// returns what is so now. Secrets of the state directory go with the encryption: the caller has them in files.
///
/// # Errors
/// Those of [`super::SqlStore::open`]; [`StoreError::Corrupt`] where a secret is not usable. All is as it was then,
/// except where the secrets are encrypted, and cleaning up after that failed.
pub async fn rekey(
    database: &Path,
    from: Option<&Sealer>,
    to: Option<&Sealer>,
) -> Result<SecretsStatus, StoreError> {
    let mut connection = open::for_rekey(database, from).await?;
    replace_all(&mut connection, from, to).await?;
    clean(&mut connection).await?;
    let status = status(&mut connection).await?;
    connection.close().await.map_err(fault)?;
    Ok(status)
}

/// The state of the secrets of a database, whether a portal runs on it or not. With a key, each secret
/// is decrypted for a test.
///
/// # Errors
/// As [`rekey`].
pub async fn secrets_status(
    database: &Path,
    key: Option<&Sealer>,
) -> Result<SecretsStatus, StoreError> {
    let options = SqliteOptions::file(database);
    let mut connection = options.bare().connect().await.map_err(fault)?;
    let schema = Schema::of_sqlite();
    schema.check_whole(open::state(&mut connection).await?)?;
    let found = status(&mut connection).await?;
    if let Some(key) = key {
        secrets_key::expect(found.key, Some(key))?;
        let sealing = Sealing::Key(key.clone());
        for column in SecretColumn::ALL {
            for row in &rows(&mut connection, column).await? {
                let stored = StoredSecret::read(column, row)?;
                sealing.open(&stored.row(column), stored.value.expose().to_vec())?;
            }
        }
    }
    connection.close().await.map_err(fault)?;
    Ok(found)
}

/// One transaction, which is rolled back where a secret is not usable.
pub(super) async fn replace_all(
    connection: &mut SqliteConnection,
    from: Option<&Sealer>,
    to: Option<&Sealer>,
) -> Result<(), StoreError> {
    let sealing = |sealer: Option<&Sealer>| {
        sealer.map_or(Sealing::Plain, |sealer| Sealing::Key(sealer.clone()))
    };
    let (before, after) = (sealing(from), sealing(to));
    let begun = connection.begin_with("BEGIN IMMEDIATE").await;
    let mut transaction = begun.map_err(fault)?;
    for column in SecretColumn::ALL {
        if column == SecretColumn::State && !after.is_encrypted() {
            let done = query("DELETE FROM state_secret", Vec::new());
            done.execute(&mut *transaction).await.map_err(fault)?;
            continue;
        }
        for row in &rows(&mut transaction, column).await? {
            let stored = StoredSecret::read(column, row)?;
            let place = stored.row(column);
            let secret = before.open(&place, stored.value.expose().to_vec())?;
            let sealed = Value::Blob(after.seal(&place, &secret)?);
            stored.replace(&mut transaction, column, sealed).await?;
        }
    }
    set_key(&mut transaction, to.map(Sealer::key_id), false).await?;
    transaction.commit().await.map_err(fault)
}

async fn status(connection: &mut SqliteConnection) -> Result<SecretsStatus, StoreError> {
    let key = key_of(connection).await?;
    let mut secrets = Vec::new();
    for column in SecretColumn::ALL {
        let [table, ..] = column.names();
        if !has_table(connection, table).await? {
            continue;
        }
        let sql = format!("SELECT count(*) AS rows FROM {table}");
        let row = query(sql, Vec::new()).fetch_one(&mut *connection).await;
        let number = Columns::sqlite(&row.map_err(fault)?).number("rows")?;
        secrets.push((column.contents(), number));
    }
    Ok(SecretsStatus {
        key: key.map(|(key, _)| key),
        is_clean: key.is_none_or(|(_, is_clean)| is_clean),
        secrets,
    })
}

/// At most [`culvert_store::MAX_ROWS_PER_KIND`] of an account, of some 100 bytes.
async fn rows(
    connection: &mut SqliteConnection,
    column: SecretColumn,
) -> Result<Vec<SqliteRow>, StoreError> {
    let [table, value, key] = column.names();
    let account = if column.has_account() {
        "account"
    } else {
        "x''"
    };
    let sql = format!(
        "SELECT {account} AS account, typeof({key}) = 'text' AS is_text, CAST({key} AS BLOB) AS row, \
         {value} AS value FROM {table}"
    );
    let rows = query(sql, Vec::new()).fetch_all(connection).await;
    rows.map_err(fault)
}

/// A row with a secret as it was read.
struct StoredSecret {
    account: Vec<u8>,
    row: Vec<u8>,
    is_text: bool,
    /// It may be in clear.
    value: SecretBytes,
}

impl StoredSecret {
    fn read(column: SecretColumn, row: &SqliteRow) -> Result<Self, StoreError> {
        let row = Columns::sqlite(row);
        let account = match column.has_account() {
            true => row.get("account")?,
            false => Vec::new(),
        };
        Ok(Self {
            account,
            row: row.get("row")?,
            is_text: row.flag("is_text")?,
            value: SecretBytes::new(row.get("value")?),
        })
    }

    fn row(&self, column: SecretColumn) -> SecretRow<'_> {
        SecretRow {
            column,
            account: &self.account,
            row: &self.row,
        }
    }

    async fn replace(
        &self,
        connection: &mut SqliteConnection,
        column: SecretColumn,
        sealed: Value,
    ) -> Result<(), StoreError> {
        let [table, value, key] = column.names();
        let row = match self.is_text {
            true => String::from_utf8_lossy(&self.row).as_ref().into(),
            false => Value::Blob(self.row.clone()),
        };
        let mut values = vec![sealed, row];
        let mut sql = format!("UPDATE {table} SET {value} = ? WHERE {key} = ?");
        if column.has_account() {
            sql += " AND account = ?";
            values.push(Value::Blob(self.account.clone()));
        }
        let done = query(sql, values).execute(connection).await;
        match done.map_err(fault)?.rows_affected() {
            1 => Ok(()),
            _ => Err(StoreError::corrupt("a secret's row is not unique")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SecretsAccess, SqlStore};
    use culvert_ids::AccountId;
    use culvert_secrets::SecretsKey;
    use culvert_store::{Account, AccountSettings, Author, SecretName, Stamp, Store};
    use culvert_wire::Timestamp;

    const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);
    const PLANTED: &[u8] = b"planted-secret-of-pairs";

    fn sealer() -> Sealer {
        Sealer::new(SecretsKey::from_bytes(&[1; 32]), |nonce| {
            nonce.fill(9);
            Ok(())
        })
    }

    async fn open(path: &Path, access: SecretsAccess) -> SqlStore {
        let options = SqliteOptions::file(path).secrets(access);
        SqlStore::open(&options).await.unwrap()
    }

    async fn pairs(store: &SqlStore) -> SecretBytes {
        let planted = SecretBytes::new(PLANTED.to_vec());
        let secret = store.secret(ACCOUNT, SecretName::Pairs, planted).await;
        secret.unwrap()
    }

    /// A copy of database and log, as a process leaves them that is killed at this moment.
    fn killed(directory: &Path, name: &str) -> std::path::PathBuf {
        let copy = directory.join(name);
        std::fs::create_dir(&copy).unwrap();
        for file in ["portal.db", "portal.db-wal"] {
            std::fs::copy(directory.join(file), copy.join(file)).unwrap();
        }
        copy
    }

    fn holds_planted(directory: &Path) -> bool {
        let files = std::fs::read_dir(directory).unwrap();
        files.map(|file| file.unwrap().path()).any(|path| {
            let content = std::fs::read(path).unwrap_or_default();
            content.windows(PLANTED.len()).any(|bytes| bytes == PLANTED)
        })
    }

    #[tokio::test]
    async fn whoever_is_killed_while_encrypting_leaves_the_old_state_or_the_new_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("portal.db");
        let store = open(&path, SecretsAccess::Plain).await;
        let account = Account {
            id: ACCOUNT,
            name: "Example".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        };
        let at = Timestamp::from_unix_ms(1);
        let made = store.create_account(account, Author::PORTAL, at).await;
        made.unwrap();
        pairs(&store).await;
        store.close().await;

        let mut connection = open::for_rekey(&path, None).await.unwrap();
        // Nothing that a rollback would have to bring back is in the database's file before the commit.
        let sql = "PRAGMA cache_spill = OFF; BEGIN IMMEDIATE; UPDATE secret SET value = x'00'; ";
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        let before = killed(place.path(), "before the commit");
        sqlx::raw_sql("ROLLBACK")
            .execute(&mut connection)
            .await
            .unwrap();
        let old = open(&before.join("portal.db"), SecretsAccess::Plain).await;
        assert_eq!(pairs(&old).await.expose(), PLANTED);

        replace_all(&mut connection, None, Some(&sealer()))
            .await
            .unwrap();
        let unclean = killed(place.path(), "before cleaning up");
        assert!(
            holds_planted(&unclean),
            "otherwise there is nothing to clean up"
        );
        let database = unclean.join("portal.db");
        assert!(!secrets_status(&database, None).await.unwrap().is_clean);
        let new = open(&database, SecretsAccess::Key(sealer())).await;
        assert_eq!(pairs(&new).await.expose(), PLANTED);
        assert!(!holds_planted(&unclean), "the next start cleans up");
        assert!(secrets_status(&database, None).await.unwrap().is_clean);
    }
}
