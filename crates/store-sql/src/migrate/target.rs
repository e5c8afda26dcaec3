//! The database that is filled: one transaction, and a file gets its name only after it.

use super::error::MigrateError;
use super::source::without_limits;
use super::tables;
use crate::connection::Transaction;
use crate::dialect::Dialect;
use crate::fault::fault;
use crate::open;
use crate::options::StoreOptions;
use crate::postgres;
use culvert_store::StoreError;
use sqlx::sqlite::SqlitePool;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The database that is filled.
pub(super) struct Target {
    place: String,
    pub(super) transaction: Transaction,
    /// The file, if it is one.
    file: Option<NewFile>,
}

/// A file that is removed unless it was finished.
struct NewFile {
    path: PathBuf,
    pool: Option<SqlitePool>,
    is_finished: bool,
    /// The lock of its directory: two that fill one file would spoil it.
    _directory: File,
}

impl Target {
    pub(super) async fn begin(options: &StoreOptions) -> Result<Self, MigrateError> {
        let place = options.to_string();
        let failed = |source| MigrateError::database(&place, source);
        let (mut transaction, file) = match options {
            StoreOptions::Sqlite(options) => {
                let path = options.path().unwrap_or(Path::new(""));
                let mut file = NewFile::create(path)?;
                let pool = open::empty(path).await.map_err(failed)?;
                let begun = pool.begin_with("BEGIN EXCLUSIVE").await;
                file.pool = Some(pool);
                let begun = begun.map_err(|error| failed(fault(error)))?;
                (Transaction::Sqlite(begun), Some(file))
            }
            StoreOptions::Postgres(options) => {
                let begun = postgres::begin_empty(options).await;
                let (transaction, is_empty) = begun.map_err(failed)?;
                if !is_empty {
                    return Err(MigrateError::NotEmpty { place });
                }
                (transaction, None)
            }
        };
        let prepared = async {
            without_limits(&mut transaction).await?;
            // A database that was opened with a key of secrets, and never used, has these.
            for table in [tables::SECRETS_KEY, tables::STATE_SECRET] {
                let sql = format!("DELETE FROM {table}");
                transaction.execute(sql, Vec::new()).await?;
            }
            Ok(())
        };
        prepared.await.map_err(failed)?;
        Ok(Self {
            place,
            transaction,
            file,
        })
    }

    /// An error that is the target's.
    pub(super) fn failed(&self, source: StoreError) -> MigrateError {
        MigrateError::database(&self.place, source)
    }

    /// Counts the values of columns, by which a server plans from its first query on.
    pub(super) async fn analyze(&mut self) -> Result<(), MigrateError> {
        if self.transaction.dialect() == Dialect::Sqlite {
            return Ok(());
        }
        let tables: Vec<&str> = tables::all().map(|table| table.name).collect();
        let sql = format!("ANALYZE {}", tables.join(", "));
        let done = self.transaction.script(sql).await;
        done.map_err(|source| self.failed(source))
    }

    /// Makes all of it last.
    pub(super) async fn commit(self) -> Result<(), MigrateError> {
        let Self {
            place,
            transaction,
            file,
        } = self;
        let committed = transaction.commit().await;
        committed.map_err(|source| match &file {
            Some(_) => MigrateError::database(&place, source),
            None => MigrateError::Commit {
                place: place.clone(),
                source,
            },
        })?;
        match file {
            Some(file) => file.finish().await,
            None => Ok(()),
        }
    }
}

impl NewFile {
    fn create(path: &Path) -> Result<Self, MigrateError> {
        let failed = |source| MigrateError::File {
            path: path.to_owned(),
            source,
        };
        let directory = File::open(directory_of(path)).map_err(failed)?;
        directory.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => MigrateError::UnderWay {
                path: path.to_owned(),
            },
            TryLockError::Error(error) => failed(error),
        })?;
        // Left by one that was killed.
        remove(path).map_err(failed)?;
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        created.map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            pool: None,
            is_finished: false,
            _directory: directory,
        })
    }

    async fn finish(mut self) -> Result<(), MigrateError> {
        if let Some(pool) = &self.pool {
            pool.close().await;
        }
        let synced = || {
            File::open(&self.path)?.sync_all()?;
            File::open(directory_of(&self.path))?.sync_all()
        };
        synced().map_err(|source| MigrateError::File {
            path: self.path.clone(),
            source,
        })?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // If it can't be removed, the next one that fills it does.
            drop(remove(&self.path));
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    for path in [path, Path::new(&journal)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn directory_of(file: &Path) -> &Path {
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}
