//! The certificates that a relay shows: the one of now, and for a while the one before.

use culvert_wire::token::CertificatePin;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// For how long the certificate before the last change is shown to ends that know no other. Tokens last an hour, and
/// each brings the certificate of its time.
pub const PREVIOUS_FOR: Duration = Duration::from_secs(2 * 3_600);

/// The protocol (ALPN) by which an end tells the certificate that it knows.
const PIN_PROTOCOL: &[u8] = b"culvert-pin/";

/// The certificate or its key can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CertificateError(String);

/// The certificates of a relay. An end that knows the one before is shown that one.
#[derive(Debug)]
pub struct Certificates(RwLock<Shown>);

#[derive(Clone, Debug)]
struct Shown {
    current: Certificate,
    previous: Option<(Certificate, Instant)>,
}

#[derive(Clone, Debug)]
struct Certificate {
    key: Arc<CertifiedKey>,
    pin: CertificatePin,
}

/// The protocols that an end offers: that of streams, and one that tells the certificate that it knows.
pub(crate) fn protocols(pin: CertificatePin) -> Vec<Vec<u8>> {
    vec![culvert_relay_core::stream::ALPN.to_vec(), pin_protocol(pin)]
}

fn pin_protocol(pin: CertificatePin) -> Vec<u8> {
    [PIN_PROTOCOL, pin.to_string().as_bytes()].concat()
}

impl Certificates {
    /// From a chain of certificates and a private key, both in PEM.
    ///
    /// # Errors
    /// [`CertificateError`] says which of them can't be used.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        Ok(Self(RwLock::new(Shown {
            current: Certificate::from_pem(chain, key)?,
            previous: None,
        })))
    }

    /// Shows another one from now on, and the one before for [`PREVIOUS_FOR`] to ends that know no other. False if it
    /// is the same one.
    ///
    /// # Errors
    /// As [`Self::from_pem`]; then the certificate stays as it was.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<bool, CertificateError> {
        let next = Certificate::from_pem(chain, key)?;
        let mut shown = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = next.pin != shown.current.pin;
        let before = std::mem::replace(&mut shown.current, next);
        if is_other {
            shown.previous = Some((before, Instant::now() + PREVIOUS_FOR));
        }
        Ok(is_other)
    }

    /// The pin of the certificate of now.
    #[must_use]
    pub fn pin(&self) -> CertificatePin {
        self.shown().current.pin
    }

    fn shown(&self) -> Shown {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Certificate {
    fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let error = |text: String| CertificateError(text);
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|fault| error(format!("no certificate in PEM: {fault}")))?;
        let first = chain
            .first()
            .ok_or_else(|| error("there is no certificate in it".to_owned()))?;
        let pin = CertificatePin::of(first);
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|fault| error(format!("no private key in PEM: {fault}")))?;
        let provider = aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider)
            .map_err(|fault| error(format!("certificate and key don't fit: {fault}")))?;
        Ok(Self {
            key: Arc::new(key),
            pin,
        })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let Shown { current, previous } = self.shown();
        if let Some((previous, until)) = previous {
            let wanted = pin_protocol(previous.pin);
            let mut offered = hello.alpn().into_iter().flatten();
            if Instant::now() < until && offered.any(|protocol| protocol == wanted) {
                return Some(previous.key);
            }
        }
        Some(current.key)
    }
}
