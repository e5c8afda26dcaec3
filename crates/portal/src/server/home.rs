//! The state directory: the database, the certificate, and where the portal is.

use crate::PortalError;
use culvert_host::{StateDir, StateLock};
use culvert_store::{StateSecret, Store};
use culvert_wire::Timestamp;
use culvert_wire::token::{CertificatePin, Portal};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The directory of log sinks that are files.
const SINK_DIR: &str = "logs";

/// The address that the portal published last, for commands that make tokens whether it runs or not.
pub(super) const WHEREABOUTS_FILE: &str = "portal.json";

/// Most bytes of it: eight URLs of 512 bytes, two pins, and room for fields of later versions.
const MAX_WHEREABOUTS_LEN: usize = 16 << 10;

/// The key of the marks by which browsers are known. Without it, people's browsers are unknown until they sign in.
pub(super) const BROWSER_KEY_FILE: &str = "browsers.key";

/// The database's file.
pub(super) const DATABASE_FILE: &str = "portal.db";

/// The database of the portal where it is on a PostgreSQL server, without a password.
pub(super) const POSTGRES_FILE: &str = "postgres";

/// A portal's state directory, which nobody but its owner can enter.
#[derive(Debug)]
pub struct Home {
    state: StateDir,
    _lock: Option<StateLock>,
}

/// The portal's URLs and certificates, as it tells machines of them. Commands on its machine read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The URL and the pin of the certificate, as tokens tell them.
    pub portal: Portal,
    /// Other URLs at which machines find it.
    pub also: Vec<String>,
    /// The certificate is one of `--cert`.
    pub is_given: bool,
    /// The certificate that it will show.
    pub next: Option<HandedOut>,
}

/// A certificate that machines are told of before the portal shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOut {
    /// SHA-256 of the certificate.
    pub pin: CertificatePin,
    /// The time since which this portal tells them; none where it does not, because another one leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// The same in its file.
#[derive(Serialize, Deserialize)]
struct Whereabouts {
    url: String,
    pin: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_given: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<HandedOut>,
}

impl Home {
    /// Opens the directory for the portal itself; makes it with mode 0700 if it is missing. One
    /// process at a time has it.
    ///
    /// # Errors
    /// [`PortalError::State`] with the fix where others can enter it, or another portal has it;
    /// [`PortalError::HalfRestored`]; [`PortalError::DatabaseGone`]; [`PortalError::OnPostgres`].
    pub fn open(path: &Path) -> Result<Self, PortalError> {
        let home = Self::open_unfinished(path)?;
        home.expect_file()?;
        if let Some(path) = home.half_restored() {
            return Err(PortalError::HalfRestored { path });
        }
        // Before the first start says where the portal is, there is a database.
        if home.state.read(WHEREABOUTS_FILE)?.is_some() && home.is_database_gone() {
            let path = home.database_path();
            return Err(PortalError::DatabaseGone { path });
        }
        Ok(home)
    }

    /// As [`Self::open`], for a portal whose database is on a PostgreSQL server.
    ///
    /// # Errors
    /// [`PortalError::State`]; [`PortalError::HasFile`] where the directory has a database of its own.
    pub fn open_on_postgres(path: &Path) -> Result<Self, PortalError> {
        let home = Self::open_unfinished(path)?;
        if !home.is_database_gone() {
            let path = home.database_path();
            return Err(PortalError::HasFile { path });
        }
        Ok(home)
    }

    /// Remembers that the database is on a server: a start on a file would begin without it.
    ///
    /// # Errors
    /// [`PortalError::State`].
    pub fn note_postgres(&self, place: &str) -> Result<(), PortalError> {
        Ok(self.state.write(POSTGRES_FILE, place.as_bytes())?)
    }

    /// Refuses a directory whose portal has its database on a server.
    ///
    /// # Errors
    /// [`PortalError::OnPostgres`].
    pub fn expect_file(&self) -> Result<(), PortalError> {
        match self.state.read(POSTGRES_FILE)? {
            Some(place) => Err(PortalError::OnPostgres {
                path: self.state.path().to_owned(),
                place: String::from_utf8_lossy(place.expose()).into_owned(),
            }),
            None => Ok(()),
        }
    }

    /// True if the database's file is empty, and no journal holds anything that has yet to get
    /// there.
    pub(super) fn is_database_gone(&self) -> bool {
        let is_empty = |name: &str| {
            let file = self.state.path().join(name);
            file.metadata().is_ok_and(|file| file.len() == 0) || !file.exists()
        };
        is_empty(DATABASE_FILE) && is_empty(&format!("{DATABASE_FILE}-wal"))
    }

    /// As [`Self::open`], whatever is in the directory.
    pub(super) fn open_unfinished(path: &Path) -> Result<Self, PortalError> {
        let state = StateDir::open(path)?;
        let _lock = Some(state.lock()?);
        Ok(Self { state, _lock })
    }

    /// Opens the directory beside a portal that may be running.
    ///
    /// # Errors
    /// As [`Self::open`]; a directory that is missing is not made.
    pub fn open_beside(path: &Path) -> Result<Self, PortalError> {
        if !path.exists() {
            return Err(PortalError::NoHome {
                path: path.to_owned(),
            });
        }
        let state = StateDir::open(path)?;
        Ok(Self { state, _lock: None })
    }

    /// The path of the database, which need not exist yet.
    #[must_use]
    pub fn database_path(&self) -> PathBuf {
        self.state.path().join(DATABASE_FILE)
    }

    /// The directory of the files of log sinks.
    pub(crate) fn sink_dir(&self) -> PathBuf {
        self.state.path().join(SINK_DIR)
    }

    /// The address of the portal, if it ever ran here.
    ///
    /// # Errors
    /// [`PortalError::State`], and [`PortalError::Whereabouts`] where the file is damaged.
    pub fn whereabouts(&self) -> Result<Option<Portal>, PortalError> {
        Ok(self.published()?.map(|published| published.portal))
    }

    /// The same with everything else that machines are told.
    ///
    /// # Errors
    /// As [`Self::whereabouts`].
    pub fn published(&self) -> Result<Option<Published>, PortalError> {
        let text = self
            .state
            .read_at_most(MAX_WHEREABOUTS_LEN, WHEREABOUTS_FILE)?;
        let Some(text) = text else {
            return Ok(None);
        };
        let damaged = || PortalError::Whereabouts {
            path: self.state.path().join(WHEREABOUTS_FILE),
        };
        let found: Whereabouts = serde_json::from_slice(text.expose()).map_err(|_| damaged())?;
        let pin = found.pin.as_deref().map(str::parse).transpose();
        let pin = pin.map_err(|_| damaged())?;
        Ok(Some(Published {
            portal: Portal::new(&found.url, pin).map_err(|_| damaged())?,
            also: found.also,
            is_given: found.is_given,
            next: found.next,
        }))
    }

    /// The key of the marks by which browsers are known, which is drawn at the first start.
    pub(crate) async fn browser_key(
        &self,
        store: &dyn Store,
    ) -> Result<Zeroizing<[u8; 32]>, PortalError> {
        let make = || {
            let mut key = Zeroizing::new(vec![0; 32]);
            getrandom::fill(&mut key)?;
            Ok(key)
        };
        let name = StateSecret::Browsers;
        let stored = self.state_secret(store, name, make).await?;
        let mut key = Zeroizing::new([0; 32]);
        if stored.expose().len() != key.len() {
            return Err(PortalError::BrowserKey {
                path: self.state.path().join(BROWSER_KEY_FILE),
            });
        }
        key.copy_from_slice(stored.expose());
        Ok(key)
    }

    pub(crate) fn note_published(&self, published: &Published) -> Result<(), PortalError> {
        let whereabouts = Whereabouts {
            url: published.portal.url.clone(),
            pin: published.portal.pin.map(|pin| pin.to_string()),
            also: published.also.clone(),
            is_given: published.is_given,
            next: published.next,
        };
        // Strings alone; they have a JSON form.
        let text = serde_json::to_vec(&whereabouts).unwrap_or_default();
        Ok(self.state.write(WHEREABOUTS_FILE, &text)?)
    }

    pub(crate) const fn state(&self) -> &StateDir {
        &self.state
    }
}
