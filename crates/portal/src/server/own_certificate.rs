//! The portal's own certificate and the one that comes after it, each with its key, in one text of PEM.
//!
//! So they are replaced together or not at all, and travel together into a database, a backup, or under a key. A portal
//! of an earlier version shows the first one and takes the other for a part of its chain, which nobody looks at.

use super::home::Home;
use super::options::host_of;
use crate::PortalError;
use culvert_store::{MAX_STATE_SECRET_LEN, SecretBytes, StateSecret, Store};
use culvert_wire::token::{CertificatePin, Portal};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use zeroize::Zeroizing;

/// The file of it, where no database keeps it.
pub(super) const OWN_FILE: &str = "certificate.pem";

/// The line with which a certificate begins in PEM (RFC 7468).
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// The pins of the portal's own certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnCertificates {
    /// The one that it shows.
    pub current: CertificatePin,
    /// The one that it will show.
    pub next: Option<CertificatePin>,
}

/// The certificate in use with its key, and the next one with its key.
pub(super) fn split(pem: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut begins = pem.windows(BEGIN.len()).enumerate();
    let second = begins.by_ref().filter(|(_, part)| *part == BEGIN).nth(1);
    match second {
        Some((place, _)) => {
            let (current, next) = pem.split_at(place);
            (current, Some(next))
        }
        None => (pem, None),
    }
}

/// A certificate for the host of the URL, with its key, in PEM.
///
/// It does not expire in practice: who knows it by its pin learns nothing from a date, and a date
/// would only be the day on which every machine loses the portal.
pub(super) fn make(url: &Portal, path: &Path) -> Result<Zeroizing<Vec<u8>>, PortalError> {
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

impl Home {
    /// The portal's own certificate, with the next one, which is made now if there is none.
    pub(super) async fn own_certificate(
        &self,
        store: &dyn Store,
        url: &Portal,
    ) -> Result<SecretBytes, PortalError> {
        let path = self.state().path().join(OWN_FILE);
        self.state_secret(store, StateSecret::Certificate, || make(url, &path))
            .await
    }

    /// The pins of the portal's own certificates; none where it never made one.
    ///
    /// # Errors
    /// [`PortalError::Store`], [`PortalError::State`], and [`PortalError::Certificate`] where they can't be read.
    pub async fn own_certificates(
        &self,
        store: &dyn Store,
    ) -> Result<Option<OwnCertificates>, PortalError> {
        match self.own_pem(store).await? {
            Some(pem) => self.pins(pem.expose()).map(Some),
            None => Ok(None),
        }
    }

    /// Makes the certificate that the portal will show, unless there is one.
    ///
    /// # Errors
    /// As [`Self::own_certificates`]; [`PortalError::OtherRotation`].
    pub async fn prepare_certificate(
        &self,
        store: &dyn Store,
        url: &Portal,
    ) -> Result<OwnCertificates, PortalError> {
        let pem = self.existing_pem(store).await?;
        let mut next = Zeroizing::new(pem.expose().to_vec());
        if split(&next).1.is_none() {
            next.extend_from_slice(&make(url, &self.state().path().join(OWN_FILE))?);
            self.replace(store, &pem, &next).await?;
        }
        self.pins(&next)
    }

    /// Has the portal show the next certificate. False if there is none.
    ///
    /// # Errors
    /// As [`Self::prepare_certificate`].
    pub async fn switch_certificate(&self, store: &dyn Store) -> Result<bool, PortalError> {
        let pem = self.existing_pem(store).await?;
        let Some(next) = split(pem.expose()).1 else {
            return Ok(false);
        };
        self.replace(store, &pem, next).await?;
        Ok(true)
    }

    /// Forgets the next certificate. False if there is none.
    ///
    /// # Errors
    /// As [`Self::prepare_certificate`].
    pub async fn drop_next_certificate(&self, store: &dyn Store) -> Result<bool, PortalError> {
        let pem = self.existing_pem(store).await?;
        let (current, next) = split(pem.expose());
        if next.is_none() {
            return Ok(false);
        }
        self.replace(store, &pem, current).await?;
        Ok(true)
    }

    async fn own_pem(&self, store: &dyn Store) -> Result<Option<SecretBytes>, PortalError> {
        if let Some(stored) = store.state_secret(StateSecret::Certificate, None).await? {
            return Ok(Some(stored));
        }
        let content = self.state().read_at_most(MAX_STATE_SECRET_LEN, OWN_FILE)?;
        Ok(content.map(|content| SecretBytes::new(content.expose().to_vec())))
    }

    /// The same, which a portal that runs has.
    pub(super) async fn existing_pem(&self, store: &dyn Store) -> Result<SecretBytes, PortalError> {
        let found = self.own_pem(store).await?;
        found.ok_or_else(|| PortalError::Certificate {
            path: self.state().path().join(OWN_FILE),
            reason: "there is none: a portal that starts makes one, unless --cert names another"
                .to_owned(),
        })
    }

    /// Of two that replace it at once in a database, one does. In a file, the last one does.
    async fn replace(
        &self,
        store: &dyn Store,
        current: &SecretBytes,
        next: &[u8],
    ) -> Result<(), PortalError> {
        let name = StateSecret::Certificate;
        if store.state_secret(name, None).await?.is_none() {
            return Ok(self.state().write(OWN_FILE, next)?);
        }
        let next = SecretBytes::new(next.to_vec());
        match store.replace_state_secret(name, current, next).await? {
            true => Ok(()),
            false => Err(PortalError::OtherRotation),
        }
    }

    fn pins(&self, pem: &[u8]) -> Result<OwnCertificates, PortalError> {
        let pin = |pem: &[u8]| {
            CertificateDer::from_pem_slice(pem)
                .map(|certificate| CertificatePin::of(&certificate))
                .map_err(|error| PortalError::Certificate {
                    path: self.state().path().join(OWN_FILE),
                    reason: format!("no certificate in PEM: {error}"),
                })
        };
        let (current, next) = split(pem);
        Ok(OwnCertificates {
            current: pin(current)?,
            next: next.map(pin).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_store_sql::{SqlStore, SqliteOptions};

    #[test]
    fn a_text_falls_into_the_certificate_in_use_and_the_next_one() {
        let url = Portal::new("https://portal.example", None).unwrap();
        let one = make(&url, Path::new("x")).unwrap();
        let other = make(&url, Path::new("x")).unwrap();
        assert_eq!(split(&one), (one.as_slice(), None));
        let both = [one.as_slice(), other.as_slice()].concat();
        assert_eq!(split(&both), (one.as_slice(), Some(other.as_slice())));
        assert_eq!(split(b"nothing"), (b"nothing".as_slice(), None));
        assert!(both.len() <= MAX_STATE_SECRET_LEN);
    }

    #[tokio::test]
    async fn a_next_certificate_is_made_once_and_becomes_the_one_or_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("portal")).unwrap();
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        let url = Portal::new("https://portal.example", None).unwrap();
        assert_eq!(home.own_certificates(&store).await.unwrap(), None);
        assert!(home.prepare_certificate(&store, &url).await.is_err());
        home.own_certificate(&store, &url).await.unwrap();
        let first = home.own_certificates(&store).await.unwrap().unwrap();
        assert_eq!(first.next, None);
        assert!(!home.switch_certificate(&store).await.unwrap());

        let prepared = home.prepare_certificate(&store, &url).await.unwrap();
        let again = home.prepare_certificate(&store, &url).await.unwrap();
        assert_eq!(prepared, again);
        assert_eq!(prepared.current, first.current);
        assert!(home.switch_certificate(&store).await.unwrap());
        let switched = home.own_certificates(&store).await.unwrap().unwrap();
        assert_eq!(Some(switched.current), prepared.next);
        assert_eq!(switched.next, None);

        home.prepare_certificate(&store, &url).await.unwrap();
        assert!(home.drop_next_certificate(&store).await.unwrap());
        assert!(!home.drop_next_certificate(&store).await.unwrap());
        let remaining = home.own_certificates(&store).await.unwrap().unwrap();
        assert_eq!(remaining, switched);
    }
}
