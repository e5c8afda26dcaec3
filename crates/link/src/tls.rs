//! TLS 1.3 to the portal: its certificate is one that the token or the portal itself has named, or the authorities that
//! this system trusts vouch for it. Resolvers are known by authorities alone.

use crate::ConnectError;
use culvert_control::Trust;
use culvert_wire::Timestamp;
use culvert_wire::token::CertificatePin;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, WantsVerifier,
};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The TLS configuration that checks the portal's certificate.
pub(crate) fn configuration(trust: &Trust) -> Result<ClientConfig, ConnectError> {
    let mut configuration = match (trust.pins.is_empty(), trust.authorities) {
        (true, true) => trusting_authorities()?,
        // Without a pin and without authorities, no certificate counts.
        (_, authorities) => {
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier = PinnedCertificate {
                pins: trust.pins.clone(),
                authorities: match authorities {
                    // Without any authority, the pins still count.
                    true => by_authorities(&provider).ok(),
                    false => None,
                },
                provider: Arc::clone(&provider),
            };
            builder(&provider)?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth()
        }
    };
    // A WebSocket is opened by HTTP/1.1; a portal behind a proxy must not be offered more.
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(configuration)
}

/// TLS 1.3 to a server for whose name the authorities that this system trusts vouch.
///
/// # Errors
/// [`ConnectError::NoAuthorities`] and [`ConnectError::Local`].
pub fn trusting_authorities() -> Result<ClientConfig, ConnectError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    Ok(builder(&provider)?
        .with_root_certificates(authorities()?)
        .with_no_client_auth())
}

/// TLS 1.3 to a server whose certificate is this one and no other, with these protocols (ALPN, RFC 7301).
///
/// # Errors
/// [`ConnectError::Local`].
pub fn pinned(pin: CertificatePin, protocols: Vec<Vec<u8>>) -> Result<ClientConfig, ConnectError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = PinnedCertificate {
        pins: vec![pin],
        authorities: None,
        provider: Arc::clone(&provider),
    };
    let mut configuration = builder(&provider)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    configuration.alpn_protocols = protocols;
    Ok(configuration)
}

fn by_authorities(
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, ConnectError> {
    let roots = Arc::new(authorities()?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
    verifier.map_err(|error| ConnectError::Local {
        what: "set up TLS 1.3",
        source: std::io::Error::other(error),
    })
}

fn builder(
    provider: &Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, ConnectError> {
    ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| ConnectError::Local {
            what: "set up TLS 1.3",
            source: std::io::Error::other(error),
        })
}

/// True if a handshake failed because the certificate is not the pinned one.
#[must_use]
pub fn is_wrong_certificate(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(Error::InvalidCertificate(
            CertificateError::ApplicationVerificationFailure
        ))
    )
}

/// The fault of the certificate's dates, in words, if a handshake failed because of them.
pub(crate) fn wrong_dates(error: &std::io::Error) -> Option<String> {
    let Error::InvalidCertificate(fault) = error.get_ref()?.downcast_ref()? else {
        return None;
    };
    let at = |time: &UnixTime| Timestamp::from_unix_ms(time.as_secs().saturating_mul(1_000));
    match fault {
        CertificateError::Expired => Some("has expired".to_owned()),
        CertificateError::ExpiredContext { not_after, .. } => {
            Some(format!("expired at {}", at(not_after)))
        }
        CertificateError::NotValidYet => Some("is not valid yet".to_owned()),
        CertificateError::NotValidYetContext { not_before, .. } => {
            Some(format!("is not valid before {}", at(not_before)))
        }
        _ => None,
    }
}

fn authorities() -> Result<RootCertStore, ConnectError> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "some certificate authorities are not readable");
    }
    let mut store = RootCertStore::empty();
    let (added, _unusable) = store.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(ConnectError::NoAuthorities);
    }
    Ok(store)
}

/// Trusts a few certificates. Authorities are asked about others only if the portal has said so.
///
/// Dates and names of these are not checked: the issuer of the token, or the portal that it led to, vouched for exactly
/// these certificates. That the peer has its private key is checked by the handshake's signature.
#[derive(Debug)]
struct PinnedCertificate {
    pins: Vec<CertificatePin>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = CertificatePin::of(end_entity).to_string();
        for wanted in self.pins.iter().map(ToString::to_string) {
            if bool::from(shown.as_bytes().ct_eq(wanted.as_bytes())) {
                return Ok(ServerCertVerified::assertion());
            }
        }
        match &self.authorities {
            Some(authorities) => authorities.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    use std::time::Duration;

    /// A day, in Unix seconds.
    const MAY_FIRST_2026_S: u64 = 1_777_593_600;
    const DAY_S: u64 = 86_400;

    /// The message about a certificate that is valid from 1 May 2026 until the 11th.
    fn said_at(unix_s: u64) -> Option<String> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["portal.example".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2026, 5, 1);
        params.not_after = date_time_ymd(2026, 5, 11);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let name = ServerName::try_from("portal.example").unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(unix_s));
        let verdict =
            verifier
                .build()
                .unwrap()
                .verify_server_cert(certificate.der(), &[], &name, &[], now);
        let error = verdict.err()?;
        let text = wrong_dates(&std::io::Error::new(std::io::ErrorKind::InvalidData, error));
        Some(text.unwrap_or_else(|| "something else".to_owned()))
    }

    #[test]
    fn a_certificate_that_is_not_valid_now_is_told_from_others_that_are_not_trusted() {
        assert_eq!(said_at(MAY_FIRST_2026_S + DAY_S), None);
        assert_eq!(
            said_at(MAY_FIRST_2026_S - DAY_S).unwrap(),
            "is not valid before 2026-05-01T00:00:00Z"
        );
        assert_eq!(
            said_at(MAY_FIRST_2026_S + 11 * DAY_S).unwrap(),
            "expired at 2026-05-11T00:00:00Z"
        );
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert_eq!(wrong_dates(&std::io::Error::other(unknown)), None);
        assert_eq!(wrong_dates(&std::io::Error::other("x")), None);
    }
}
