//! A copy of the database while it is in use, and the way back.
//!
//! A backup is the portal's database with one table more: the files of its state directory that are
//! of no use without it. It is one file, and SQLite itself tells whether it is whole. An encrypted backup
//! is that file inside an age file; the copy is made in memory then, so that no disk holds it in plain.

use super::fault::fault;
use super::open::check;
use super::schema::Schema;
use culvert_age::{AgeError, Envelope, Identity};
use culvert_store::{SecretBytes, StoreError};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteOwnedBuf, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use zeroize::Zeroize;

/// The table that makes a backup of a database. No script of the schema has it.
const CREATE_FILES: &str =
    "CREATE TABLE backup_file (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT";

/// The first bytes of every database of SQLite, <https://www.sqlite.org/fileformat.html#the_database_header>.
const BEGINNING: &[u8; 16] = b"SQLite format 3\0";

/// A file of the state directory that comes with the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Its name in the directory.
    pub name: String,
    /// Its content.
    pub content: SecretBytes,
}

/// The reason why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Nothing is overwritten.
    #[error("{} exists: choose another name, or remove it if it is not needed", path.display())]
    Exists {
        /// The existing file: the backup itself, or the partial file of a backup that is under way
        /// or broke off.
        path: PathBuf,
    },
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no room for the backup.
    #[error(
        "{}: there is no room for the backup on its file system: make room there, or give another place",
        path.display()
    )]
    NoRoom {
        /// The backup, of which nothing is left.
        path: PathBuf,
    },
    /// The file is something else.
    #[error(
        "{} is no backup of a portal: give a file that `culvert portal backup` has made",
        path.display()
    )]
    NotABackup {
        /// The file.
        path: PathBuf,
    },
    /// The file was a backup once.
    #[error("{} is damaged: {detail}; restore another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        detail: String,
    },
    /// The file is encrypted, and no identity was given.
    #[error(
        "{} is encrypted: give the file of an identity that decrypts it (--identity FILE)",
        path.display()
    )]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// An identity was given for a file that is not encrypted. Somebody may have exchanged it.
    #[error(
        "{} is not encrypted: make sure that it is your backup, and leave out --identity",
        path.display()
    )]
    NotEncrypted {
        /// The file.
        path: PathBuf,
    },
    /// The file can't be decrypted.
    #[error("{}: {source}; restore another backup, or give the identity of this one", path.display())]
    Decrypting {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: AgeError,
    },
    /// The database.
    #[error("database {}: {source}", path.display())]
    Store {
        /// The database.
        path: PathBuf,
        /// The fault of the database.
        source: StoreError,
    },
}

/// Writes a copy of the database, as it is at one instant, together with `files` to a new file,
/// while others go on reading and writing. The database may be that of another version of the
/// program: it stays as it is. The copy is there when it is whole and on the disk, with mode 0600:
/// it has the same secrets.
///
/// In an `envelope` it is encrypted. The plain copy is in memory alone then, for a moment twice.
///
/// # Errors
/// [`BackupError::Exists`], [`BackupError::File`]; [`BackupError::Store`] where the database can't be
/// read, or the copy can't be written; [`BackupError::NoRoom`].
pub async fn backup(
    database: &Path,
    files: &[BackupFile],
    envelope: Option<Envelope>,
    to: &Path,
) -> Result<(), BackupError> {
    let partial = beside(to, ".partial");
    if to.symlink_metadata().is_ok() {
        return Err(BackupError::Exists {
            path: to.to_owned(),
        });
    }
    let target = create(&partial)?;
    let copied = async {
        let mut source = open_database(database).await?;
        match envelope {
            Some(envelope) => {
                let image = copy_in_memory(&mut source, files).await?;
                seal(envelope, image, &target)?;
            }
            None => copy_to_file(&mut source, files, &partial).await?,
        }
        source.close().await.map_err(fault).map_err(Copying::Source)
    };
    let written = match copied.await {
        Ok(()) => publish(&partial, to),
        Err(Copying::Target(StoreError::Full { .. })) => Err(no_room(to)),
        Err(Copying::File(error)) => Err(writing_failed(to, error)),
        Err(Copying::Source(source) | Copying::Target(source)) => Err(BackupError::Store {
            path: database.to_owned(),
            source,
        }),
    };
    if written.is_err() {
        // It is of no use, and if it can't be removed there is nothing to be done about it.
        drop(fs::remove_file(&partial));
    }
    written
}

/// Makes a database of a backup, in a new file with mode 0600 that is on the disk when this returns,
/// and gives back the files that came with it. The file is removed again where that fails.
///
/// # Errors
/// [`BackupError::NotABackup`], [`BackupError::Damaged`], [`BackupError::Exists`] and
/// [`BackupError::File`]; [`BackupError::Encrypted`], [`BackupError::NotEncrypted`] and
/// [`BackupError::Decrypting`]; [`BackupError::Store`] where a later version of the program made it.
pub async fn restore(
    from: &Path,
    identities: &[Identity],
    to: &Path,
) -> Result<Vec<BackupFile>, BackupError> {
    let source = open_backup(from)?;
    match (&source, identities) {
        (Source::Encrypted(_), []) => {
            return Err(BackupError::Encrypted {
                path: from.to_owned(),
            });
        }
        (Source::Plain(_), [_, ..]) => {
            return Err(BackupError::NotEncrypted {
                path: from.to_owned(),
            });
        }
        _ => {}
    }
    let target = create(to)?;
    let restored = async {
        match source {
            Source::Plain(file) => {
                copy_file(file, &target).map_err(|error| file_error(to, error))?;
            }
            Source::Encrypted(file) => decrypt(file, identities, &target, [from, to])?,
        }
        let files = detach(from, to).await?;
        target.sync_all().map_err(|error| file_error(to, error))?;
        Ok(files)
    };
    let restored = restored.await;
    if restored.is_err() {
        drop(fs::remove_file(to));
    }
    restored
}

/// The side that failed: the database, or the copy of it. They may lie on two disks.
enum Copying {
    Source(StoreError),
    Target(StoreError),
    File(io::Error),
}

/// The kind of a file, by its first bytes.
enum Source {
    Plain(File),
    Encrypted(File),
}

async fn open_database(database: &Path) -> Result<SqliteConnection, Copying> {
    let options = SqliteConnectOptions::new().filename(database);
    let connection = options.connect().await.map_err(fault);
    let mut connection = connection.map_err(Copying::Source)?;
    let fits = check(&mut connection, &Schema::of_sqlite()).await;
    fits.map_err(Copying::Source)?;
    Ok(connection)
}

async fn copy_to_file(
    source: &mut SqliteConnection,
    files: &[BackupFile],
    partial: &Path,
) -> Result<(), Copying> {
    let Some(target) = partial.to_str() else {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8");
        return Err(Copying::Target(StoreError::Unavailable(error.into())));
    };
    copy(source, target).await.map_err(Copying::Target)?;
    let attached = async {
        let mut connection = alone(partial).await?;
        attach(&mut connection, files).await?;
        connection.close().await.map_err(fault)
    };
    attached.await.map_err(Copying::Target)
}

/// The bytes of the file that [`copy_to_file`] would write.
async fn copy_in_memory(
    source: &mut SqliteConnection,
    files: &[BackupFile],
) -> Result<SqliteOwnedBuf, Copying> {
    /// Each copy has a name of its own in this process.
    static COPIES: AtomicU64 = AtomicU64::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let name = format!("file:culvert-backup-{number}?mode=memory&cache=shared");
    let copied = async {
        // It is there as long as this connection.
        let mut connection = alone(Path::new(&name)).await?;
        copy(source, &name).await?;
        attach(&mut connection, files).await?;
        let image = connection.serialize(None).await.map_err(fault)?;
        connection.close().await.map_err(fault)?;
        Ok(image)
    };
    copied.await.map_err(Copying::Source)
}

fn seal(envelope: Envelope, mut image: SqliteOwnedBuf, target: &File) -> Result<(), Copying> {
    let sealed = envelope.seal(image.as_ref(), BufWriter::new(target));
    image.as_mut().zeroize();
    sealed.map_err(|error| match error {
        AgeError::Write(error) => Copying::File(error),
        error => Copying::File(io::Error::other(error)),
    })
}

fn decrypt(
    source: File,
    identities: &[Identity],
    target: &File,
    [from, to]: [&Path; 2],
) -> Result<(), BackupError> {
    let opened = culvert_age::open(BufReader::new(source), target, identities);
    opened.map_err(|error| match error {
        AgeError::Write(error) => file_error(to, error),
        AgeError::Read(error) => file_error(from, error),
        source => BackupError::Decrypting {
            path: from.to_owned(),
            source,
        },
    })
}

/// Copies what the last commit left, the write-ahead log included.
async fn copy(source: &mut SqliteConnection, target: &str) -> Result<(), StoreError> {
    let copied = sqlx::query("VACUUM INTO ?").bind(target).execute(source);
    copied.await.map(drop).map_err(fault)
}

async fn attach(connection: &mut SqliteConnection, files: &[BackupFile]) -> Result<(), StoreError> {
    sqlx::query(CREATE_FILES)
        .execute(&mut *connection)
        .await
        .map_err(fault)?;
    for file in files {
        sqlx::query("INSERT INTO backup_file (name, content) VALUES (?, ?)")
            .bind(&file.name)
            .bind(file.content.expose())
            .execute(&mut *connection)
            .await
            .map_err(fault)?;
    }
    Ok(())
}

async fn detach(from: &Path, to: &Path) -> Result<Vec<BackupFile>, BackupError> {
    let failed = |source| match source {
        StoreError::Corrupt { detail } => BackupError::Damaged {
            path: from.to_owned(),
            detail,
        },
        source => BackupError::Store {
            path: from.to_owned(),
            source,
        },
    };
    let mut connection = alone(to).await.map_err(failed)?;
    let marked = sqlx::query("SELECT name FROM sqlite_schema WHERE name = 'backup_file'")
        .fetch_optional(&mut connection)
        .await
        .map_err(|error| failed(fault(error)))?;
    if marked.is_none() {
        return Err(not_a_backup(from));
    }
    let files = strip(&mut connection).await.map_err(failed)?;
    connection
        .close()
        .await
        .map_err(|error| failed(fault(error)))?;
    Ok(files)
}

/// Checks every page, takes the files out, and leaves nothing of them.
async fn strip(connection: &mut SqliteConnection) -> Result<Vec<BackupFile>, StoreError> {
    check(connection, &Schema::of_sqlite()).await?;
    let found: String = sqlx::query_scalar("PRAGMA integrity_check(1)")
        .fetch_one(&mut *connection)
        .await
        .map_err(fault)?;
    if found != "ok" {
        return Err(StoreError::corrupt(found));
    }
    let rows: Vec<(String, Vec<u8>)> =
        sqlx::query_as("SELECT name, content FROM backup_file ORDER BY name")
            .fetch_all(&mut *connection)
            .await
            .map_err(fault)?;
    let drop_files = "PRAGMA secure_delete = ON; DROP TABLE backup_file";
    sqlx::raw_sql(drop_files)
        .execute(connection)
        .await
        .map_err(fault)?;
    let file = |(name, content)| BackupFile {
        name,
        content: SecretBytes::new(content),
    };
    Ok(rows.into_iter().map(file).collect())
}

/// A connection to a file that nobody else knows of: it needs no log beside it, since a crash leaves
/// a file that is written anew.
async fn alone(path: &Path) -> Result<SqliteConnection, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Memory)
        .synchronous(SqliteSynchronous::Full)
        .pragma("trusted_schema", "OFF")
        .pragma("cell_size_check", "ON");
    options.connect().await.map_err(fault)
}

/// A file that is a database or encrypted by how it begins, from its beginning.
fn open_backup(path: &Path) -> Result<Source, BackupError> {
    let opened = || {
        let mut file = File::open(path)?;
        let mut beginning = Vec::new();
        let longest = BEGINNING.len().max(culvert_age::MAGIC.len());
        Read::by_ref(&mut file)
            .take(longest as u64)
            .read_to_end(&mut beginning)?;
        file.rewind()?;
        Ok((file, beginning))
    };
    let (file, beginning) = opened().map_err(|error| file_error(path, error))?;
    if beginning.starts_with(BEGINNING) {
        Ok(Source::Plain(file))
    } else if beginning.starts_with(culvert_age::MAGIC) {
        Ok(Source::Encrypted(file))
    } else {
        Err(not_a_backup(path))
    }
}

fn copy_file(mut source: File, mut target: &File) -> io::Result<()> {
    io::copy(&mut source, &mut target)?;
    Ok(())
}

fn not_a_backup(path: &Path) -> BackupError {
    BackupError::NotABackup {
        path: path.to_owned(),
    }
}

fn create(path: &Path) -> Result<File, BackupError> {
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists {
            path: path.to_owned(),
        },
        io::ErrorKind::StorageFull => no_room(path),
        _ => file_error(path, error),
    })
}

fn publish(partial: &Path, to: &Path) -> Result<(), BackupError> {
    let moved = || {
        File::open(partial)?.sync_all()?;
        // Unlike a rename, a link never takes the place of a file that came into being meanwhile.
        fs::hard_link(partial, to)?;
        fs::remove_file(partial)?;
        File::open(directory_of(to))?.sync_all()
    };
    moved().map_err(|error| writing_failed(to, error))
}

fn directory_of(file: &Path) -> &Path {
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

fn writing_failed(to: &Path, error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::StorageFull => no_room(to),
        _ => file_error(to, error),
    }
}

fn no_room(to: &Path) -> BackupError {
    BackupError::NoRoom {
        path: to.to_owned(),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn file_error(path: &Path, source: io::Error) -> BackupError {
    BackupError::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::directory_of;
    use std::path::Path;

    #[test]
    fn a_backup_without_a_directory_is_written_where_the_program_runs() {
        let directory = |file| directory_of(Path::new(file));
        assert_eq!(directory("portal.backup"), Path::new("."));
        assert_eq!(directory("kept/portal.backup"), Path::new("kept"));
        assert_eq!(directory("/portal.backup"), Path::new("/"));
    }
}
