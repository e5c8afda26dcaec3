//! The portal's own secrets: in files of the state directory, or in a database that keeps them. And all secrets from one key to
//! another.

use super::home::{BROWSER_KEY_FILE, Home};
use super::own_certificate::OWN_FILE;
use crate::PortalError;
use culvert_secrets::{KEY_LEN, SecretsKey};
use culvert_store::{MAX_STATE_SECRET_LEN, SecretBytes, StateSecret, Store, StoreError};
use culvert_store_sql::{Sealer, SecretsAccess};
use culvert_store_sql::{SecretsStatus, SqlStore, SqliteOptions, rekey, secrets_status};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use zeroize::Zeroizing;

/// The sealer of secrets with this key, with nonces of the operating system.
#[must_use]
pub fn sealer(key: SecretsKey) -> Sealer {
    Sealer::new(key, |nonce| Ok(getrandom::fill(nonce)?))
}

/// A new key of secrets.
///
/// # Errors
/// [`PortalError::Random`].
pub fn new_secrets_key() -> Result<SecretsKey, PortalError> {
    let mut bytes = Zeroizing::new([0; KEY_LEN]);
    getrandom::fill(bytes.as_mut_slice())?;
    Ok(SecretsKey::from_bytes(&bytes))
}

/// The file of a secret that no database keeps.
const fn file_of(name: StateSecret) -> &'static str {
    match name {
        StateSecret::Certificate => OWN_FILE,
        StateSecret::Browsers => BROWSER_KEY_FILE,
    }
}

impl Home {
    /// As [`Self::open`], for a portal that ran here and does not run now.
    ///
    /// # Errors
    /// As [`Self::open`]; [`PortalError::NoHome`] where no portal ever ran.
    pub fn open_stopped(path: &Path) -> Result<Self, PortalError> {
        let missing = || PortalError::NoHome {
            path: path.to_owned(),
        };
        if !path.exists() {
            return Err(missing());
        }
        let home = Self::open(path)?;
        match home.database_path().exists() {
            true => Ok(home),
            false => Err(missing()),
        }
    }

    /// The state of the portal's secrets, whether it runs or not. With a key, each is decrypted for a test.
    ///
    /// # Errors
    /// [`PortalError::Store`].
    pub async fn secrets_status(&self, key: Option<&Sealer>) -> Result<SecretsStatus, PortalError> {
        Ok(secrets_status(&self.database_path(), key).await?)
    }

    /// Encrypts all secrets with the key. Finishes an attempt that was interrupted, too.
    ///
    /// # Errors
    /// [`PortalError::Store`], also where another key encrypts them already; [`PortalError::State`] and
    /// [`PortalError::Directory`].
    pub async fn encrypt_secrets(&self, key: &Sealer) -> Result<SecretsStatus, PortalError> {
        let path = self.database_path();
        match secrets_status(&path, None).await?.key {
            None => drop(rekey(&path, None, Some(key)).await?),
            Some(needed) if needed != key.key_id() => {
                let given = key.key_id();
                return Err(StoreError::OtherSecretsKey { needed, given }.into());
            }
            Some(_) => {}
        }
        let store = self.open_store(key).await?;
        let sealed = self.seal_files(&store).await;
        store.close().await;
        sealed?;
        self.secrets_status(Some(key)).await
    }

    /// Encrypts all secrets anew, with another key.
    ///
    /// # Errors
    /// [`PortalError::Store`].
    pub async fn rotate_secrets(
        &self,
        from: &Sealer,
        to: &Sealer,
    ) -> Result<SecretsStatus, PortalError> {
        drop(rekey(&self.database_path(), Some(from), Some(to)).await?);
        self.secrets_status(Some(to)).await
    }

    /// Decrypts all secrets. Those of the state directory are in files first: a portal that is started after an
    /// attempt that was ended moves them back.
    ///
    /// # Errors
    /// [`PortalError::Store`] and [`PortalError::State`].
    pub async fn decrypt_secrets(&self, key: &Sealer) -> Result<SecretsStatus, PortalError> {
        let store = self.open_store(key).await?;
        let written = self.write_files(&store).await;
        store.close().await;
        written?;
        Ok(rekey(&self.database_path(), Some(key), None).await?)
    }

    /// Moves secrets of files into a database that keeps them.
    pub(super) async fn seal_files(&self, store: &dyn Store) -> Result<(), PortalError> {
        for name in StateSecret::ALL {
            let file = file_of(name);
            let Some(content) = self.state().read(file)? else {
                continue;
            };
            let content = SecretBytes::new(content.expose().to_vec());
            match store.state_secret(name, Some(content.clone())).await? {
                None => return Ok(()),
                Some(stored) if stored == content => self.wipe(file)?,
                Some(_) => tracing::warn!(
                    path = %self.state().path().join(file).display(),
                    "the database holds another secret than this file, which is not used: remove it"
                ),
            }
        }
        Ok(())
    }

    async fn write_files(&self, store: &dyn Store) -> Result<(), PortalError> {
        for name in StateSecret::ALL {
            if let Some(secret) = store.state_secret(name, None).await? {
                self.state().write(file_of(name), secret.expose())?;
            }
        }
        Ok(())
    }

    /// The secret of that name, which `make` makes where there is none yet.
    pub(super) async fn state_secret(
        &self,
        store: &dyn Store,
        name: StateSecret,
        make: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, PortalError>,
    ) -> Result<SecretBytes, PortalError> {
        if let Some(stored) = store.state_secret(name, None).await? {
            return Ok(stored);
        }
        let file = file_of(name);
        if let Some(content) = self.state().read_at_most(MAX_STATE_SECRET_LEN, file)? {
            return Ok(SecretBytes::new(content.expose().to_vec()));
        }
        let made = SecretBytes::from(make()?);
        if let Some(stored) = store.state_secret(name, Some(made.clone())).await? {
            return Ok(stored);
        }
        self.state().write(file, made.expose())?;
        Ok(made)
    }

    async fn open_store(&self, key: &Sealer) -> Result<SqlStore, PortalError> {
        let options = SqliteOptions::file(self.database_path());
        let access = SecretsAccess::Key(key.clone());
        Ok(SqlStore::open(&options.secrets(access)).await?)
    }

    /// Removes a file, and overwrites it first. File systems that copy on write, and SSDs, keep what was there.
    fn wipe(&self, file: &str) -> Result<(), PortalError> {
        let path = self.state().path().join(file);
        let overwritten = || -> io::Result<()> {
            let mut opened = OpenOptions::new().write(true).open(&path)?;
            let len = opened.metadata()?.len();
            io::copy(&mut io::Read::take(io::repeat(0), len), &mut opened)?;
            opened.flush()?;
            opened.sync_all()
        };
        overwritten().map_err(|source| PortalError::Directory {
            path: path.clone(),
            source,
        })?;
        Ok(self.state().remove(file)?)
    }
}
