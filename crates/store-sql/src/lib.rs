//! The portal's database: an implementation of [`culvert_store::Store`] on SQLite, in one file, and on PostgreSQL.
//!
//! SQLite is the default:
//!
//! - **Write-ahead log, one writer.** All writes go through one connection, in `BEGIN IMMEDIATE`
//!   transactions one after another; readers have connections of their own and see the last commit
//!   while a write is under way.
//! - **`synchronous=FULL`.** A commit is on the disk before it is acknowledged: neither a crash of
//!   the process nor a loss of power takes it back. A configuration changes some tens of times a
//!   second at most, and what comes at a high rate comes in batches, so one flush a commit is cheap.
//! - **Nobody else reads it.** The file has mode 0600, a directory that is made for it 0700; what
//!   is deleted is overwritten (`secure_delete`).
//!
//! PostgreSQL is used without any state of a session ([`postgres`]). Changes of an account's configuration take turns
//! by a lock, and each read sees one state.
//!
//! Secrets are wiped from what the store hands out; the pages that SQLite has in memory, and what a server keeps, are
//! not.

#![forbid(unsafe_code)]

mod access;
mod activity;
mod addresses;
mod ahead;
mod apply;
mod arrays;
mod attempts;
mod auth;
mod backup;
mod changes;
mod commits;
mod connection;
mod counts;
mod delete;
mod dialect;
mod enrol;
mod enrol_relays;
mod factors;
mod fault;
mod flows;
mod grants;
mod invitations;
mod list;
mod log_query;
mod logs;
mod migrate;
mod open;
mod options;
mod owners;
mod passkeys;
mod passwords;
mod pending;
mod plain_clients;
mod pool;
mod portals;
mod postgres;
mod proof;
mod providers;
mod read;
mod read_ahead;
mod readable;
mod recent_use;
mod rekey;
mod reports;
mod rows;
mod schema;
mod sealing;
#[cfg(test)]
mod secret_columns;
mod secrets;
mod secrets_key;
mod seen;
mod shown;
mod sinks;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod totals;
mod turn;
mod unwritten;
mod upgrade;
mod value;
mod write_rows;
mod writer;
mod writing;

pub use backup::{BackupError, BackupFile, backup, restore};
pub use commits::CommitSignal;
pub use migrate::{Compared, MigrateError, Migrated, Migration, Report, Step};
pub use open::SqliteOptions;
pub use options::StoreOptions;
pub use postgres::{PostgresOptions, UrlError};
pub use rekey::{SecretsStatus, rekey, secrets_status};
pub use schema::{Schema, SchemaState, SchemaStatus, Step as SchemaStep};
pub use sealing::{Randomness, Sealer, SecretsAccess};
pub use store::SqlStore;
