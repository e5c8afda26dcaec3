//! The portal's certificate: its own, made on the first start, or that of given files.

use super::home::Home;
use super::options::{CertificateFiles, host_of};
use super::validity;
use crate::PortalError;
use culvert_portal_base::CertificateState;
use culvert_store::{StateSecret, Store};
use culvert_wire::Timestamp;
use culvert_wire::token::{CertificatePin, Portal};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use zeroize::Zeroizing;

/// Certificate and key in one file of the state directory: they are replaced together or not at
/// all.
pub(super) const OWN_FILE: &str = "certificate.pem";

/// Most bytes of a file of certificates or of a key: a chain of a few certificates has some
/// kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The certificate that new connections are shown, and where it comes from.
#[derive(Debug)]
pub(crate) struct Certificate {
    source: Source,
    /// The portal's URL, as machines ask for it.
    url: Portal,
    current: RwLock<Current>,
    /// The reason for which the files were refused when they were last read.
    refused: RwLock<Option<String>>,
}

#[derive(Debug)]
enum Source {
    Own,
    Files(CertificateFiles),
}

#[derive(Clone, Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    pin: CertificatePin,
    /// The authorities that this machine trusts vouch for it, so a token need not name it.
    vouched_for: bool,
    /// The time at which it ends.
    ends: Option<Timestamp>,
}

impl Certificate {
    /// The certificate of `files`; without them, the one of the state directory, made now if there
    /// is none.
    pub(crate) async fn open(
        files: Option<CertificateFiles>,
        home: &Home,
        store: &dyn Store,
        url: &Portal,
    ) -> Result<Self, PortalError> {
        let (source, current) = match files {
            Some(files) => {
                let current = Current::of_files(&files, url)?;
                (Source::Files(files), current)
            }
            None => (Source::Own, Current::own(home, store, url).await?),
        };
        Ok(Self {
            source,
            url: url.clone(),
            current: RwLock::new(current),
            refused: RwLock::default(),
        })
    }

    /// Reads the files again. If they can't be used, the certificate stays as it was.
    pub(crate) fn reload(&self) -> Result<Reloaded, PortalError> {
        let Source::Files(files) = &self.source else {
            return Ok(Reloaded::Unchanged);
        };
        let next = Current::of_files(files, &self.url);
        let refused = next.as_ref().err().map(ToString::to_string);
        *self.refused.write().unwrap_or_else(PoisonError::into_inner) = refused;
        let next = next?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.pin == next.pin {
            return Ok(Reloaded::Unchanged);
        }
        let tokens_void = !current.vouched_for;
        *current = next;
        Ok(Reloaded::Changed { tokens_void })
    }

    /// The files to watch for changes.
    pub(crate) fn files(&self) -> Option<&CertificateFiles> {
        match &self.source {
            Source::Own => None,
            Source::Files(files) => Some(files),
        }
    }

    /// The portal's URL and certificate, as a token tells them.
    pub(crate) fn portal(&self) -> Portal {
        let current = self.current();
        Portal {
            url: self.url.url.clone(),
            pin: (!current.vouched_for).then_some(current.pin),
        }
    }

    /// All that people have to look after.
    pub(crate) fn state(&self) -> CertificateState {
        let refused = self.refused.read().unwrap_or_else(PoisonError::into_inner);
        CertificateState {
            ends: self.current().ends,
            refused: refused.clone(),
        }
    }

    /// SHA-256 of the certificate.
    pub(crate) fn pin(&self) -> CertificatePin {
        self.current().pin
    }

    fn current(&self) -> Current {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The result of reading the files again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// They hold what they held.
    Unchanged,
    /// They hold another certificate.
    Changed {
        /// Tokens that were issued until now name the certificate that is gone.
        tokens_void: bool,
    },
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key)
    }
}

impl Current {
    async fn own(home: &Home, store: &dyn Store, url: &Portal) -> Result<Self, PortalError> {
        let path = home.state().path().join(OWN_FILE);
        let name = StateSecret::Certificate;
        let pem = home.state_secret(store, name, || make(url, &path)).await?;
        let pem = pem.expose();
        let mut current = Self::of_pem(pem, &path, pem, &path, url)?;
        // Nobody but the tokens vouches for it, whatever this machine trusts.
        current.vouched_for = false;
        Ok(current)
    }

    fn of_files(files: &CertificateFiles, url: &Portal) -> Result<Self, PortalError> {
        let certificate = read(&files.certificate)?;
        let key = read(&files.key)?;
        Self::of_pem(&certificate, &files.certificate, &key, &files.key, url)
    }

    fn of_pem(
        chain: &[u8],
        chain_path: &Path,
        key: &[u8],
        key_path: &Path,
        url: &Portal,
    ) -> Result<Self, PortalError> {
        let refused = |path: &Path, reason: String| PortalError::Certificate {
            path: path.to_owned(),
            reason,
        };
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| refused(chain_path, format!("no certificate in PEM: {error}")))?;
        let Some(end_entity) = chain.first() else {
            let reason = "it holds no certificate; give the chain in PEM, the portal's own first";
            return Err(refused(chain_path, reason.to_owned()));
        };
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| refused(key_path, format!("no private key in PEM: {error}")))?;
        let pin = CertificatePin::of(end_entity);
        let ends = validity::ends(end_entity);
        let vouched_for = is_vouched_for(&chain, url);
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| {
            let reason = format!("it does not go with {}: {error}", chain_path.display());
            refused(key_path, reason)
        })?;
        Ok(Self {
            key: Arc::new(key),
            pin,
            vouched_for,
            ends,
        })
    }
}

/// The one provider of cryptography.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A certificate for the host of the URL, with its key, in PEM.
///
/// It does not expire in practice: who knows it by its pin learns nothing from a date, and a date
/// would only be the day on which every machine loses the portal.
fn make(url: &Portal, path: &Path) -> Result<Zeroizing<Vec<u8>>, PortalError> {
    let failed = |error: rcgen::Error| PortalError::Certificate {
        path: path.to_owned(),
        reason: format!("making one for {}: {error}", url.url),
    };
    let mut names = vec![host_of(url).to_owned()];
    for local in ["localhost", "127.0.0.1", "::1"] {
        if names[0] != local {
            names.push(local.to_owned());
        }
    }
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "Culvert portal");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    let mut pem = Zeroizing::new(certificate.pem().into_bytes());
    let key = Zeroizing::new(key.serialize_pem());
    pem.extend_from_slice(key.as_bytes());
    Ok(pem)
}

/// True if a machine that trusts the same authorities as this one would accept the chain.
fn is_vouched_for(chain: &[CertificateDer<'static>], url: &Portal) -> bool {
    let Ok(host) = ServerName::try_from(host_of(url).to_owned()) else {
        return false;
    };
    let Some((end_entity, intermediates)) = chain.split_first() else {
        return false;
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    verifier.is_ok_and(|verifier| {
        verifier
            .verify_server_cert(end_entity, intermediates, &host, &[], UnixTime::now())
            .is_ok()
    })
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, PortalError> {
    use std::io::Read;
    let refused = |reason: String| PortalError::Certificate {
        path: path.to_owned(),
        reason,
    };
    let file = std::fs::File::open(path).map_err(|error| refused(error.to_string()))?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| refused(error.to_string()))?;
    Ok(bytes)
}

/// The metadata of files; if it differs, the files may hold something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileLook(Vec<Option<(u64, i64, i64, u64)>>);

impl FileLook {
    pub(crate) fn of(files: &[PathBuf]) -> Self {
        let look = |path: &PathBuf| {
            use std::os::unix::fs::MetadataExt;
            let found = std::fs::metadata(path).ok()?;
            Some((found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
        };
        Self(files.iter().map(look).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_store_sql::{SqlStore, SqliteOptions};

    fn url() -> Portal {
        Portal::new("https://portal.example:8443", None).unwrap()
    }

    async fn home() -> (tempfile::TempDir, Home, SqlStore) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("portal")).unwrap();
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        (dir, home, store)
    }

    async fn open(
        files: Option<CertificateFiles>,
        home: &Home,
        store: &SqlStore,
    ) -> Result<Certificate, PortalError> {
        Certificate::open(files, home, store, &url()).await
    }

    fn write_files(dir: &Path) -> CertificateFiles {
        let made = rcgen::generate_simple_self_signed(vec!["portal.example".to_owned()]).unwrap();
        let files = CertificateFiles {
            certificate: dir.join("c.pem"),
            key: dir.join("k.pem"),
        };
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files
    }

    #[tokio::test]
    async fn the_own_certificate_is_made_once_and_tokens_name_it() {
        let (dir, home, store) = home().await;
        let first = open(None, &home, &store).await.unwrap();
        let again = open(None, &home, &store).await.unwrap();
        assert_eq!(first.pin(), again.pin());
        assert_eq!(first.portal().pin, Some(first.pin()));
        let file = dir.path().join("portal").join(OWN_FILE);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(file).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn files_that_change_are_read_again_and_bad_ones_change_nothing() {
        let (dir, home, store) = home().await;
        let files = write_files(dir.path());
        let certificate = open(Some(files.clone()), &home, &store).await.unwrap();
        let first = certificate.pin();
        assert_eq!(
            certificate.portal().pin,
            Some(first),
            "no authority vouches for it"
        );
        assert_eq!(certificate.reload().unwrap(), Reloaded::Unchanged);

        let paths = [files.certificate.clone(), files.key.clone()];
        let before = FileLook::of(&paths);
        write_files(dir.path());
        assert_ne!(FileLook::of(&paths), before);
        let tokens_void = true;
        assert_eq!(
            certificate.reload().unwrap(),
            Reloaded::Changed { tokens_void }
        );
        let second = certificate.pin();
        assert_ne!(first, second);

        assert_eq!(certificate.state().refused, None);
        std::fs::write(&files.certificate, "no certificate").unwrap();
        assert!(certificate.reload().is_err());
        assert_eq!(certificate.pin(), second);
        let refused = certificate.state().refused.unwrap();
        assert!(refused.contains("c.pem"), "{refused}");
        write_files(dir.path());
        certificate.reload().unwrap();
        assert_eq!(certificate.state().refused, None);
    }

    #[tokio::test]
    async fn a_key_of_another_certificate_is_refused_by_its_name() {
        let (dir, home, store) = home().await;
        let files = write_files(dir.path());
        let other = KeyPair::generate().unwrap();
        std::fs::write(&files.key, other.serialize_pem()).unwrap();
        let error = open(Some(files.clone()), &home, &store).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&files.key.display().to_string()) && text.contains("does not go"),
            "{text}"
        );
        let missing = CertificateFiles {
            key: dir.path().join("none.pem"),
            ..files
        };
        let error = open(Some(missing), &home, &store).await.unwrap_err();
        assert!(error.to_string().contains("none.pem"), "{error}");
    }
}
