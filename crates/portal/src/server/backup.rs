//! A state directory in one file, and back.

use super::home::{Home, WHEREABOUTS_FILE};
use super::own_certificate::OWN_FILE;
use crate::PortalError;
use culvert_age::{Envelope, Identity, Recipient};
use culvert_store::SecretBytes;
use culvert_store_sql::{BackupFile, backup, restore};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of the directory beside the database: the portal's certificate, which tokens name, and
/// its address.
const FILES: [&str; 2] = [OWN_FILE, WHEREABOUTS_FILE];

/// The database while it is being restored. While it is there, the directory is not whole.
const UNFINISHED_DATABASE: &str = "portal.db.restoring";

/// The file that the directory's lock leaves behind.
const LOCK_FILE: &str = ".lock";

impl Home {
    /// Writes all that a portal needs to come back to a new file, whether it runs or not. With
    /// `recipients` it is encrypted, and each of them can decrypt it.
    ///
    /// # Errors
    /// [`PortalError::Backup`], [`PortalError::Recipients`] and [`PortalError::Random`]; there is no
    /// file then.
    pub async fn back_up(&self, recipients: &[Recipient], to: &Path) -> Result<(), PortalError> {
        let envelope = match recipients {
            [] => None,
            _ => Some(envelope(recipients)?),
        };
        let mut files = Vec::new();
        for name in FILES {
            if let Some(content) = self.state().read(name)? {
                files.push(BackupFile {
                    name: name.to_owned(),
                    content: SecretBytes::new(content.expose().to_vec()),
                });
            }
        }
        Ok(backup(&self.database_path(), &files, envelope, to).await?)
    }

    /// Fills an empty directory, which is made if it is missing, with what a backup holds. An encrypted
    /// one needs one of `identities`. The database comes last: until then no portal starts there, and
    /// this can be done again.
    ///
    /// # Errors
    /// [`PortalError::NotEmpty`], [`PortalError::State`] and [`PortalError::Backup`]. Nothing is
    /// left in the directory then.
    pub async fn restore(
        path: &Path,
        identities: &[Identity],
        from: &Path,
    ) -> Result<Self, PortalError> {
        let home = Self::open_unfinished(path)?;
        home.expect_empty()?;
        let restored = home.fill(identities, from).await;
        if restored.is_err() {
            home.empty();
        }
        restored.map(|()| home)
    }

    /// The unfinished database, if an interrupted restore left the directory without a database.
    pub(super) fn half_restored(&self) -> Option<PathBuf> {
        let unfinished = self.unfinished();
        let is_half = unfinished.exists() && !self.database_path().exists();
        is_half.then_some(unfinished)
    }

    fn expect_empty(&self) -> Result<(), PortalError> {
        let path = self.state().path();
        let failed = |source| PortalError::Directory {
            path: path.to_owned(),
            source,
        };
        if self.half_restored().is_some() {
            self.empty();
        }
        for entry in fs::read_dir(path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if name != LOCK_FILE {
                return Err(PortalError::NotEmpty {
                    path: path.to_owned(),
                    found: name.display().to_string(),
                });
            }
        }
        Ok(())
    }

    async fn fill(&self, identities: &[Identity], from: &Path) -> Result<(), PortalError> {
        let unfinished = self.unfinished();
        for file in restore(from, identities, &unfinished).await? {
            // Others are of a later version, or of nobody that we know.
            if FILES.contains(&file.name.as_str()) {
                self.state().write(&file.name, file.content.expose())?;
            }
        }
        let path = self.state().path();
        let moved = fs::rename(&unfinished, self.database_path())
            .and_then(|()| fs::File::open(path)?.sync_all());
        moved.map_err(|source| PortalError::Directory {
            path: path.to_owned(),
            source,
        })
    }

    /// Removes the files that a restore wrote, and last the sign that it is unfinished. A file that
    /// can't be removed makes the next restore fail, and its error names the file.
    fn empty(&self) {
        for name in FILES {
            drop(self.state().remove(name));
        }
        drop(fs::remove_file(self.unfinished()));
    }

    fn unfinished(&self) -> PathBuf {
        self.database_path().with_file_name(UNFINISHED_DATABASE)
    }
}

fn envelope(recipients: &[Recipient]) -> Result<Envelope, PortalError> {
    let mut missing = None;
    let envelope = Envelope::new(recipients, |bytes| {
        if let Err(error) = getrandom::fill(bytes) {
            missing = Some(error);
        }
    });
    match missing {
        Some(error) => Err(error.into()),
        None => Ok(envelope?),
    }
}
