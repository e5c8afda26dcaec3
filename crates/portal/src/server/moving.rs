//! A state directory whose portal moves to a PostgreSQL server, or back to a file.
//!
//! Each step leaves a directory in which a portal starts on the database that it had or on the new one, or is refused:
//! never on a database of before.

use super::home::{DATABASE_FILE, Home, POSTGRES_FILE};
use crate::PortalError;
use culvert_host::{FileRefusal, HostError};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The database while it is filled from a server.
const NEW_DATABASE: &str = "portal.db.migrating";

/// The suffixes of a database's log and of the log's index.
const LOG_SUFFIXES: [&str; 2] = ["-wal", "-shm"];

impl Home {
    /// As [`Self::open`], or [`Self::open_on_postgres`] where the directory remembers that; none while a portal runs here.
    ///
    /// # Errors
    /// As these.
    pub fn open_unless_running(path: &Path) -> Result<Option<Self>, PortalError> {
        let opened = match Self::open_beside(path)?.postgres()? {
            Some(_) => Self::open_on_postgres(path),
            None => Self::open(path),
        };
        match opened {
            Err(PortalError::State(HostError::FileRefused(refused)))
                if refused.refusal == FileRefusal::InUse =>
            {
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    /// The database of the portal where it is on a server, without a password.
    ///
    /// # Errors
    /// [`PortalError::State`].
    pub fn postgres(&self) -> Result<Option<String>, PortalError> {
        let place = self.state().read(POSTGRES_FILE)?;
        Ok(place.map(|place| String::from_utf8_lossy(place.expose()).into_owned()))
    }

    /// The file that is filled from a server, until [`Self::move_to_file`] gives it its name.
    #[must_use]
    pub fn new_database_path(&self) -> PathBuf {
        self.database_path().with_file_name(NEW_DATABASE)
    }

    /// The portal's database is on a server from here on. The file gets another name, which ends with `mark`, so that no
    /// portal starts on it. Returns where it is.
    ///
    /// # Errors
    /// [`PortalError::State`] and [`PortalError::Directory`].
    pub fn move_to_postgres(&self, place: &str, mark: &str) -> Result<PathBuf, PortalError> {
        let old = format!("{DATABASE_FILE}.migrated-{mark}");
        self.rename(DATABASE_FILE, &old)?;
        // The last connection to a database removes its log. There is one only while somebody else reads it.
        for suffix in LOG_SUFFIXES {
            let from = format!("{DATABASE_FILE}{suffix}");
            if self.state().path().join(&from).exists() {
                self.rename(&from, &format!("{old}{suffix}"))?;
            }
        }
        self.note_postgres(place)?;
        Ok(self.state().path().join(old))
    }

    /// The portal's database is the new file from here on.
    ///
    /// # Errors
    /// [`PortalError::State`] and [`PortalError::Directory`].
    pub fn move_to_file(&self) -> Result<(), PortalError> {
        // Without both, no portal starts but on the server that it had.
        self.state().remove(POSTGRES_FILE)?;
        self.rename(NEW_DATABASE, DATABASE_FILE)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), PortalError> {
        let path = self.state().path();
        let renamed = fs::rename(path.join(from), path.join(to));
        let renamed = renamed.and_then(|()| File::open(path)?.sync_all());
        renamed.map_err(|source| PortalError::Directory {
            path: path.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, name: &str) {
        fs::write(directory.join(name), name).unwrap();
    }

    #[test]
    fn a_file_that_was_left_is_not_opened_again_and_its_log_goes_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("portal");
        let home = Home::open(&path).unwrap();
        for name in ["portal.db", "portal.db-wal"] {
            write(&path, name);
        }
        assert!(Home::open_unless_running(&path).unwrap().is_none());
        let old = home.move_to_postgres("culvert at db", "7").unwrap();
        assert_eq!(old, path.join("portal.db.migrated-7"));
        assert!(old.exists() && path.join("portal.db.migrated-7-wal").exists());
        assert!(!path.join("portal.db").exists() && !path.join("portal.db-wal").exists());
        drop(home);
        let refused = Home::open(&path).unwrap_err();
        assert!(
            matches!(refused, PortalError::OnPostgres { .. }),
            "{refused}"
        );
        let home = Home::open_unless_running(&path).unwrap().unwrap();
        assert_eq!(home.postgres().unwrap().as_deref(), Some("culvert at db"));

        fs::write(home.new_database_path(), "new").unwrap();
        home.move_to_file().unwrap();
        drop(home);
        let home = Home::open_unless_running(&path).unwrap().unwrap();
        assert_eq!(home.postgres().unwrap(), None);
        assert_eq!(fs::read_to_string(home.database_path()).unwrap(), "new");
    }
}
