//! All rows of one database into another: from SQLite to PostgreSQL, and back.
//!
//! The target is written in one transaction, which is committed after all rows were compared. A migration that ends
//! before leaves the target as it was. Nothing is written to the source, except that its schema is brought up to date
//! as by every open.
//!
//! Logs are the largest tables, and their rows never change. They are copied while the portal still runs
//! ([`Migration::copy_logs`]), so that it is away only for the rest ([`Migration::finish`]). Rows of logs that the
//! portal removed meanwhile are removed from the target before the comparison.

mod compare;
mod error;
mod prune;
mod rows;
mod source;
mod tables;

pub(super) use tables::{Kind as ColumnKind, columns_of};
mod target;

use crate::connection::Transaction;
use crate::options::StoreOptions;
use crate::value::Value;
use culvert_ids::{AccountId, ID_LEN};
use culvert_store::StoreError;
pub use error::MigrateError;
use prune::Side;
use rows::CopiedRow;
use source::{Reading, Source};
use std::collections::BTreeMap;
use std::fmt;
use tables::{ACCOUNTS, LOGS, TABLES, Table};
use target::Target;

/// A step that is done, for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many rows of this table were copied, of those that were there.
    Copied {
        /// The table.
        table: &'static str,
        /// Its rows in the target.
        rows: u64,
    },
    /// So many rows of this table are the same in both databases.
    Compared {
        /// The table.
        table: &'static str,
        /// Its rows.
        rows: u64,
    },
}

/// Takes steps as they are done.
pub type Report<'a> = &'a mut (dyn FnMut(Step) + Send);

/// The rows that the target has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The number of rows by table.
    pub rows: BTreeMap<&'static str, u64>,
}

impl Migrated {
    /// The rows of all logs.
    pub fn log_rows(&self) -> u64 {
        LOGS.iter().filter_map(|log| self.rows.get(log.name)).sum()
    }

    /// The rows of all other tables.
    pub fn other_rows(&self) -> u64 {
        self.rows.values().sum::<u64>() - self.log_rows()
    }

    /// True if a key encrypts the secrets in it.
    pub fn is_encrypted(&self) -> bool {
        self.rows
            .get(tables::SECRETS_KEY)
            .is_some_and(|keys| *keys > 0)
    }
}

/// A migration that is under way. Dropped, it has not happened.
pub struct Migration {
    target: Target,
    source: Source,
    /// The last number that was copied of each log, by table and account.
    copied: BTreeMap<(&'static str, AccountId), i64>,
    /// The number of rows that were copied of each log.
    rows: BTreeMap<&'static str, u64>,
}

/// A migration whose target has all that the source has, and is not committed yet. Dropped, it has not happened.
pub struct Compared {
    target: Target,
    source: Source,
    reading: Reading,
    rows: BTreeMap<&'static str, u64>,
}

impl Migration {
    /// Opens both databases. A file that is the target must be one that nobody else uses: it is made anew, and the
    /// caller gives it its name in the end.
    ///
    /// # Errors
    /// [`MigrateError`]; nothing is written then.
    pub async fn begin(
        from: impl Into<StoreOptions>,
        to: impl Into<StoreOptions>,
    ) -> Result<Self, MigrateError> {
        let source = Source::open(from.into()).await?;
        let target = Target::begin(&to.into()).await?;
        let mut migration = Self {
            target,
            source,
            copied: BTreeMap::new(),
            rows: BTreeMap::new(),
        };
        let accounts = migration.accounts().await?;
        match accounts.is_empty() {
            true => Err(MigrateError::Empty {
                place: migration.source.place().to_owned(),
            }),
            false => Ok(migration),
        }
    }

    /// Copies the rows of logs that are there, while others may add some. Returns how many rows of logs were copied until now.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn copy_logs(&mut self, report: Report<'_>) -> Result<u64, MigrateError> {
        for account in self.accounts().await? {
            for log in &LOGS {
                loop {
                    let mut reading = self.source.read().await?;
                    let rows = self.next_of_log(&mut reading, log, account).await?;
                    drop(reading);
                    if self.add_to_log(log, account, rows, report).await? {
                        break;
                    }
                }
            }
        }
        Ok(self.rows.values().sum())
    }

    /// Takes the source from the portal; false while one runs on it. The caller has the portal's state directory.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn take_source(&mut self) -> Result<bool, MigrateError> {
        self.source.take().await
    }

    /// Copies the rest, and compares all of it. No portal runs on the source from here on.
    ///
    /// # Errors
    /// [`MigrateError`].
    pub async fn finish(mut self, report: Report<'_>) -> Result<Compared, MigrateError> {
        let accounts = self.accounts().await?;
        let mut reading = self.source.read_last(&accounts).await?;
        let from = &mut reading.transaction;
        let accounts = self.copy_accounts(from).await?;
        for account in &accounts {
            for log in &LOGS {
                loop {
                    let rows = self.next_of_log(from, log, *account).await?;
                    if self.add_to_log(log, *account, rows, report).await? {
                        break;
                    }
                }
                let pruned =
                    prune::prune(from, &mut self.target.transaction, log, account.as_bytes());
                pruned.await.map_err(|side| match side {
                    Side::Source(source) => self.source.failed(source),
                    Side::Target(source) => self.target.failed(source),
                })?;
            }
        }
        for table in &TABLES {
            self.copy(from, table, report).await?;
        }
        self.target.analyze().await?;
        let rows = self.compare(from, report).await?;
        let Self { target, source, .. } = self;
        Ok(Compared {
            target,
            source,
            reading,
            rows,
        })
    }

    /// Writes the accounts as they are now: rows of logs refer to them. Returns their ids.
    async fn accounts(&mut self) -> Result<Vec<AccountId>, MigrateError> {
        let mut reading = self.source.read().await?;
        self.copy_accounts(&mut reading).await
    }

    async fn copy_accounts(
        &mut self,
        from: &mut Transaction,
    ) -> Result<Vec<AccountId>, MigrateError> {
        let mut ids = Vec::new();
        let mut after = None;
        loop {
            let rows = rows::next(from, &ACCOUNTS, after.take()).await;
            let rows = rows.map_err(|source| self.source.failed(source))?;
            for row in &rows {
                let id = account_id(row);
                ids.push(id.map_err(|source| self.source.failed(source))?);
            }
            after = rows.last().map(|last| rows::key(&ACCOUNTS, last));
            let is_last = rows.len() < rows::BATCH;
            let written = rows::write(&mut self.target.transaction, &ACCOUNTS, rows, true).await;
            written.map_err(|source| self.target.failed(source))?;
            if is_last {
                return Ok(ids);
            }
        }
    }

    async fn next_of_log(
        &self,
        from: &mut Transaction,
        log: &'static Table,
        account: AccountId,
    ) -> Result<Vec<CopiedRow>, MigrateError> {
        let after = self.copied.get(&(log.name, account));
        let after = after.copied().unwrap_or(i64::MIN);
        let rows = rows::next_of_log(from, log, account.as_bytes(), after).await;
        rows.map_err(|source| self.source.failed(source))
    }

    /// True if there were no more.
    async fn add_to_log(
        &mut self,
        log: &'static Table,
        account: AccountId,
        rows: Vec<CopiedRow>,
        report: Report<'_>,
    ) -> Result<bool, MigrateError> {
        let number = rows.len();
        if let Some(seq) = rows.last().and_then(|last| seq(log, last)) {
            self.copied.insert((log.name, account), seq);
        }
        self.write(log, rows).await?;
        let copied = self.rows.entry(log.name).or_default();
        *copied += number as u64;
        if number > 0 {
            report(Step::Copied {
                table: log.name,
                rows: *copied,
            });
        }
        Ok(number < rows::BATCH)
    }

    /// Copies a whole table.
    async fn copy(
        &mut self,
        from: &mut Transaction,
        table: &'static Table,
        report: Report<'_>,
    ) -> Result<(), MigrateError> {
        let mut after = None;
        let mut number = 0;
        loop {
            let rows = rows::next(from, table, after.take()).await;
            let rows = rows.map_err(|source| self.source.failed(source))?;
            let is_last = rows.len() < rows::BATCH;
            number += rows.len() as u64;
            after = rows.last().map(|last| rows::key(table, last));
            self.write(table, rows).await?;
            if is_last {
                break;
            }
        }
        report(Step::Copied {
            table: table.name,
            rows: number,
        });
        Ok(())
    }

    async fn write(&mut self, table: &Table, rows: Vec<CopiedRow>) -> Result<(), MigrateError> {
        let written = rows::write(&mut self.target.transaction, table, rows, false).await;
        written.map_err(|source| self.target.failed(source))
    }

    /// Reads every table of both databases. Returns the number of rows by table.
    async fn compare(
        &mut self,
        from: &mut Transaction,
        report: Report<'_>,
    ) -> Result<BTreeMap<&'static str, u64>, MigrateError> {
        let mut rows = BTreeMap::new();
        for table in tables::all() {
            let to = &mut self.target.transaction;
            let (source, target) =
                tokio::join!(compare::contents(from, table), compare::contents(to, table));
            let source = source.map_err(|source| self.source.failed(source))?;
            let target = target.map_err(|source| self.target.failed(source))?;
            if source != target {
                return Err(MigrateError::Differs {
                    table: table.name,
                    source_rows: source.rows,
                    target_rows: target.rows,
                });
            }
            rows.insert(table.name, target.rows);
            report(Step::Compared {
                table: table.name,
                rows: target.rows,
            });
        }
        Ok(rows)
    }
}

impl Compared {
    /// Makes it last. A file that is the target is on the disk then.
    ///
    /// # Errors
    /// [`MigrateError`]; the target is as it was then, except after [`MigrateError::Commit`].
    pub async fn commit(self) -> Result<Migrated, MigrateError> {
        let Self {
            target,
            source,
            reading,
            rows,
        } = self;
        target.commit().await?;
        drop(reading);
        source.close().await;
        Ok(Migrated { rows })
    }
}

impl fmt::Debug for Migration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Migration")
            .field("source", &self.source.place())
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Compared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Compared")
            .field("source", &self.source.place())
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

fn account_id(row: &CopiedRow) -> Result<AccountId, StoreError> {
    let key = rows::key(&ACCOUNTS, row);
    let [Value::Blob(id)] = key.as_slice() else {
        return Err(StoreError::corrupt("an account without an id"));
    };
    let id = <[u8; ID_LEN]>::try_from(id.as_slice());
    id.map(AccountId::from_bytes)
        .map_err(|_| StoreError::corrupt("an account with an id of a wrong length"))
}

/// The number of a row of a log.
fn seq(log: &Table, row: &CopiedRow) -> Option<i64> {
    match rows::key(log, row).as_slice() {
        [_, Value::Integer(seq)] => Some(*seq),
        _ => None,
    }
}
