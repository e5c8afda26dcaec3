//! The state of a schema, and the end of an upgrade.

use super::connection::Transaction;
use super::open;
use super::options::StoreOptions;
use super::pool::Pool;
use super::postgres;
use super::schema::SchemaStatus;
use super::store::SqlStore;
use super::turn::Turn;
use super::value::Columns;
use culvert_ids::AccountId;
use culvert_store::StoreError;

impl SqlStore {
    /// The schema of the database, for its operator.
    ///
    /// # Errors
    /// As all methods of [`culvert_store::Store`].
    pub async fn schema(&self) -> Result<SchemaStatus, StoreError> {
        let mut transaction = self.reading().await?;
        let (schema, state) = match (self.options(), &mut transaction) {
            (StoreOptions::Sqlite(options), Transaction::Sqlite(connection)) => {
                (options.known_schema(), open::state(connection).await?)
            }
            (StoreOptions::Postgres(options), transaction) => {
                let state = postgres::state(transaction).await?;
                (options.known_schema(), state)
            }
            (StoreOptions::Sqlite(_), Transaction::Postgres { .. }) => {
                return Err(StoreError::corrupt(
                    "another database than the one that was opened",
                ));
            }
        };
        Ok(schema.status(state))
    }

    /// Takes away what programs of earlier versions alone need. They can't work on the database from then on. A portal on
    /// SQLite must not run meanwhile; those on PostgreSQL may, if they are of the new version.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] while a portal of an earlier version is there. Nothing is changed then.
    pub async fn finish_upgrade(&self) -> Result<SchemaStatus, StoreError> {
        let finished = match (&self.writer.pool, self.options()) {
            (Pool::Sqlite(pool), StoreOptions::Sqlite(options)) => {
                let schema = options.known_schema();
                let state = open::contract(pool, &schema).await;
                state.map(|state| schema.status(state))
            }
            (Pool::Postgres(pool), StoreOptions::Postgres(options)) => {
                let schema = options.known_schema();
                let finish = async {
                    let turn = Some(Turn::NewAccount);
                    let mut transaction = postgres::begin_writing(pool, turn, None).await?;
                    // A change of the configuration that has begun comes to its end before.
                    for account in accounts(&mut transaction).await? {
                        postgres::take_turn(&mut transaction, Turn::Account(account)).await?;
                    }
                    let state = postgres::contract(&mut transaction, &schema).await?;
                    transaction.commit().await?;
                    Ok(schema.status(state))
                };
                finish.await
            }
            (Pool::Sqlite(_), _) | (Pool::Postgres(_), _) => Err(StoreError::corrupt(
                "another database than the one that was opened",
            )),
        };
        self.writer.note(finished)
    }
}

async fn accounts(transaction: &mut Transaction) -> Result<Vec<AccountId>, StoreError> {
    let sql = "SELECT account FROM account ORDER BY account";
    let rows = transaction.fetch(sql, Vec::new()).await?;
    let account = |row: Columns<'_>| row.bytes("account").map(AccountId::from_bytes);
    rows.iter().map(account).collect()
}
