//! The portal's certificate: its own, made on the first start, or that of given files. And the one that comes after it.

use super::home::Home;
use super::options::{CertificateFiles, host_of};
use super::own_certificate::{OWN_FILE, split};
use super::validity;
use crate::PortalError;
use culvert_portal_base::CertificateState;
use culvert_store::{SecretBytes, Store};
use culvert_wire::Timestamp;
use culvert_wire::messages::PortalSet;
use culvert_wire::token::{CertificatePin, Portal};
use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use zeroize::Zeroizing;

/// Most bytes of a file of certificates or of a key: a chain of a few certificates has some
/// kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The certificate that new connections are shown, and where it comes from.
#[derive(Debug)]
pub(crate) struct Certificate {
    given: Given,
    /// The portal's URLs, the one that tokens name first.
    urls: Vec<Portal>,
    current: RwLock<Current>,
    /// The reasons for which files were refused when they were last read.
    refused: RwLock<Refused>,
}

/// The reasons for which files are not used.
#[derive(Clone, Debug, Default)]
struct Refused {
    given: Option<String>,
    next: Option<String>,
}

/// The files of certificates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// Without them, the portal makes its own.
    pub(crate) files: Option<CertificateFiles>,
    /// The certificate that comes after it; the file may be missing.
    pub(crate) next: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    known: Known,
    /// The time at which it ends.
    ends: Option<Timestamp>,
    /// The certificate that will be shown after it.
    next: Option<Known>,
    /// The file that it was read from, if it was.
    next_file: Option<NextFile>,
}

/// A file of the next certificate, as it was read.
#[derive(Clone, Debug)]
struct NextFile {
    look: FileLook,
    known: Known,
}

/// The ways in which machines know a certificate.
#[derive(Clone, Copy, Debug)]
struct Known {
    pin: CertificatePin,
    /// The authorities that this machine trusts vouch for it at the URL of tokens, so a token need not name it.
    vouched_for: bool,
    /// They do so at each URL.
    vouched_for_at_all: bool,
    /// It names the host of the URL of tokens.
    names_host: bool,
}

impl Certificate {
    /// The certificate that is given; without one, the portal's own, made now if there is none. `urls` are the portal's,
    /// the one that tokens name first.
    pub(crate) async fn open(
        given: Given,
        home: &Home,
        store: &dyn Store,
        urls: Vec<Portal>,
    ) -> Result<Self, PortalError> {
        let mut current = match &given.files {
            None => {
                let pem = home.own_certificate(store, &urls[0]).await?;
                Current::own(home, &pem, &urls)?
            }
            Some(files) => Current::of_files(files, &urls)?,
        };
        current.set_next(given.next.as_deref(), &urls, None)?;
        Ok(Self {
            given,
            urls,
            current: RwLock::new(current),
            refused: RwLock::default(),
        })
    }

    /// Reads it again. If that is not possible, the certificate stays as it was. So does the next one, alone.
    pub(crate) async fn reload(
        &self,
        home: &Home,
        store: &dyn Store,
    ) -> Result<Reloaded, PortalError> {
        let mut read = match &self.given.files {
            None => {
                let pem = home.existing_pem(store).await?;
                Current::own(home, &pem, &self.urls)?
            }
            Some(files) => {
                let read = Current::of_files(files, &self.urls);
                self.refused().given = read.as_ref().err().map(ToString::to_string);
                read?
            }
        };
        let next = self.given.next.as_deref();
        let set = read.set_next(next, &self.urls, self.current().next_file);
        self.note_next(set.err());
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, read);
        let pin_of = |known: Known| known.pin;
        let (was_next, is_next) = (before.next.map(pin_of), current.next.map(pin_of));
        Ok(match before.known.pin == current.known.pin {
            true if was_next == is_next => Reloaded::Unchanged,
            true => Reloaded::Next,
            false if before.known.vouched_for => Reloaded::Changed,
            false if was_next == Some(current.known.pin) => Reloaded::Switched,
            false => Reloaded::ChangedAtOnce,
        })
    }

    /// Notes that the next certificate could be read, or not. The log has each reason once.
    fn note_next(&self, error: Option<PortalError>) {
        let reason = error.map(|error| error.to_string());
        let mut refused = self.refused();
        if refused.next == reason {
            return;
        }
        if let Some(error) = &reason {
            tracing::error!(
                %error,
                "machines are not told of the next certificate (--next-cert), but still of the one before: correct the file"
            );
        }
        refused.next = reason;
    }

    /// True if the portal made it for itself.
    pub(crate) const fn is_own(&self) -> bool {
        self.given.files.is_none()
    }

    /// The files to watch for changes.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Given { files, next } = self.given.clone();
        let files = files.map(|files| [files.certificate, files.key]);
        files.into_iter().flatten().chain(next).collect()
    }

    /// The portal's URL and certificate, as a token tells them.
    pub(crate) fn portal(&self) -> Portal {
        let known = self.current().known;
        Portal {
            pin: (!known.vouched_for).then_some(known.pin),
            ..self.urls[0].clone()
        }
    }

    /// The portal's URLs and certificates, as machines keep them.
    pub(crate) fn portals(&self) -> PortalSet {
        let current = self.current();
        let known = || [Some(current.known), current.next].into_iter().flatten();
        let pinned = known().filter(|known| !known.vouched_for_at_all);
        PortalSet {
            urls: self.urls.iter().map(|url| url.url.clone()).collect(),
            pins: pinned.map(|known| known.pin).collect(),
            authorities: known().any(|known| known.vouched_for || known.vouched_for_at_all),
        }
    }

    /// The pin of the certificate that will be shown after this one.
    pub(crate) fn next(&self) -> Option<CertificatePin> {
        self.current().next.map(|known| known.pin)
    }

    /// True if it names the host of the URL that tokens name. Machines that know it by its pin do not look at that.
    pub(crate) fn names_host(&self) -> bool {
        self.is_own() || self.current().known.names_host
    }

    /// All that people have to look after.
    pub(crate) fn state(&self) -> CertificateState {
        let Refused { given, next } = self.refused().clone();
        CertificateState {
            ends: self.current().ends,
            refused: given,
            next_refused: next,
        }
    }

    /// SHA-256 of the certificate.
    pub(crate) fn pin(&self) -> CertificatePin {
        self.current().known.pin
    }

    fn refused(&self) -> RwLockWriteGuard<'_, Refused> {
        self.refused.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Current {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The result of reading it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// It is what it was.
    Unchanged,
    /// Another one comes after it.
    Next,
    /// It is another one, and tokens named neither.
    Changed,
    /// It is the one that machines were told of before.
    Switched,
    /// It is another one that no machine was told of, and tokens name the one before.
    ChangedAtOnce,
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key)
    }
}

impl Current {
    fn own(home: &Home, pem: &SecretBytes, urls: &[Portal]) -> Result<Self, PortalError> {
        let path = home.state().path().join(OWN_FILE);
        let (pem, next) = split(pem.expose());
        let next = next.map(|next| chain(next, &path)).transpose()?;
        let mut current = Self::of_pem(pem, &path, pem, &path, |it| Known::by_pin(it, urls))?;
        current.next = next.map(|next| Known::by_pin(&next, urls));
        Ok(current)
    }

    fn of_files(files: &CertificateFiles, urls: &[Portal]) -> Result<Self, PortalError> {
        let certificate = read(&files.certificate)?;
        let key = read(&files.key)?;
        let of = |chain: &[CertificateDer<'static>]| Known::of(chain, urls);
        Self::of_pem(&certificate, &files.certificate, &key, &files.key, of)
    }

    /// The next certificate is that of a file, unless the portal made one. A file that can't be read leaves the one that
    /// was read `before`; one that has not changed is not read again.
    fn set_next(
        &mut self,
        file: Option<&Path>,
        urls: &[Portal],
        before: Option<NextFile>,
    ) -> Result<(), PortalError> {
        let Some(file) = file.filter(|_| self.next.is_none()) else {
            return Ok(());
        };
        let (found, read) = match NextFile::read(file, urls, before.as_ref()) {
            Ok(found) => (found, Ok(())),
            Err(error) => (before, Err(error)),
        };
        let known = found.as_ref().map(|found| found.known);
        self.next = known.filter(|known| known.pin != self.known.pin);
        self.next_file = found;
        read
    }

    fn of_pem(
        pem: &[u8],
        chain_path: &Path,
        key: &[u8],
        key_path: &Path,
        known: impl FnOnce(&[CertificateDer<'static>]) -> Known,
    ) -> Result<Self, PortalError> {
        let chain = chain(pem, chain_path)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| refused(key_path, format!("no private key in PEM: {error}")))?;
        let known = known(&chain);
        let ends = validity::ends(&chain[0]);
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| {
            let reason = format!("it does not go with {}: {error}", chain_path.display());
            refused(key_path, reason)
        })?;
        Ok(Self {
            key: Arc::new(key),
            known,
            ends,
            next: None,
            next_file: None,
        })
    }
}

impl NextFile {
    /// The file as it is now; none if there is none.
    fn read(
        file: &Path,
        urls: &[Portal],
        before: Option<&Self>,
    ) -> Result<Option<Self>, PortalError> {
        let there = file.try_exists();
        if !there.map_err(|error| refused(file, error.to_string()))? {
            return Ok(None);
        }
        let look = FileLook::of(&[file.to_owned()]);
        if let Some(before) = before.filter(|before| before.look == look) {
            return Ok(Some(before.clone()));
        }
        let known = Known::of(&chain(&read(file)?, file)?, urls);
        Ok(Some(Self { look, known }))
    }
}

impl Known {
    fn of(chain: &[CertificateDer<'static>], urls: &[Portal]) -> Self {
        let vouched_for = is_vouched_for(chain, &urls[0]);
        let others = &urls[1..];
        Self {
            vouched_for,
            vouched_for_at_all: vouched_for && others.iter().all(|url| is_vouched_for(chain, url)),
            ..Self::by_pin(chain, urls)
        }
    }

    /// Nobody but tokens and the portal vouches for it, whatever this machine trusts.
    fn by_pin(chain: &[CertificateDer<'static>], urls: &[Portal]) -> Self {
        Self {
            pin: CertificatePin::of(&chain[0]),
            vouched_for: false,
            vouched_for_at_all: false,
            names_host: names_host(&chain[0], &urls[0]),
        }
    }
}

/// The certificates of a text of PEM, of which there is one at least.
fn chain(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, PortalError> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refused(path, format!("no certificate in PEM: {error}")))?;
    if chain.is_empty() {
        let reason = "it holds no certificate; give the chain in PEM, the portal's own first";
        return Err(refused(path, reason.to_owned()));
    }
    Ok(chain)
}

fn refused(path: &Path, reason: String) -> PortalError {
    PortalError::Certificate {
        path: path.to_owned(),
        reason,
    }
}

fn names_host(certificate: &CertificateDer<'_>, url: &Portal) -> bool {
    let Ok(host) = ServerName::try_from(host_of(url).to_owned()) else {
        return false;
    };
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|parsed| verify_server_name(&parsed, &host).is_ok())
}

/// The one provider of cryptography.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
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
    let refused = |error: std::io::Error| refused(path, error.to_string());
    let file = std::fs::File::open(path).map_err(refused)?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(refused)?;
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
mod tests;
