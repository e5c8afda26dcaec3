//! TLS toward servers that are known by authorities: versions 1.3 and 1.2, the latter with ECDHE and AEAD suites alone, which
//! are all that rustls has.

use super::DialError;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The TLS versions and suites that the other side must speak.
const ACCEPTED: &str =
    "accepted are TLS 1.3, and TLS 1.2 with ECDHE and AES-GCM or ChaCha20-Poly1305";

/// The authorities that this machine trusts.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Trusts `roots`.
///
/// # Errors
/// [`DialError::Tls`] where the library can't be set up.
pub fn client_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, DialError> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| DialError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Begins TLS with `host`, whose certificate must be for it.
pub(crate) async fn handshake(
    config: Arc<ClientConfig>,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, DialError> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| DialError::Name(host.to_owned()))?;
    let connected = TlsConnector::from(config).connect(name, stream).await;
    connected.map_err(|error| DialError::Tls(reason(&error)))
}

/// The reason why the handshake failed, and the fix.
fn reason(error: &io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let why = match inner {
        Some(Error::AlertReceived(AlertDescription::ProtocolVersion)) => {
            format!("it speaks neither TLS 1.3 nor TLS 1.2; {ACCEPTED}")
        }
        Some(Error::AlertReceived(
            AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity,
        )) => format!("it has no cipher suite in common with the portal; {ACCEPTED}"),
        Some(Error::PeerIncompatible(_)) => {
            format!("its TLS version or cipher suite is not accepted; {ACCEPTED}")
        }
        Some(Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            "it asks for a client certificate, and the portal has none".to_owned()
        }
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "its certificate is from an authority that is not trusted here".to_owned()
        }
        Some(Error::InvalidMessage(_)) => "it does not speak TLS at this port".to_owned(),
        Some(_) => return format!("TLS: {error}"),
        None => "it ended the connection within the TLS handshake".to_owned(),
    };
    format!("{why} (TLS: {error})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{InvalidMessage, PeerIncompatible};

    #[test]
    fn a_handshake_that_fails_says_why_and_what_would_do() {
        let of = |error: Error| reason(&io::Error::new(io::ErrorKind::InvalidData, error));
        for (error, says) in [
            (
                Error::AlertReceived(AlertDescription::ProtocolVersion),
                "neither TLS 1.3 nor TLS 1.2",
            ),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                "AES-GCM",
            ),
            (
                Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13),
                "AES-GCM",
            ),
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "authority",
            ),
            (
                Error::InvalidMessage(InvalidMessage::InvalidContentType),
                "does not speak TLS",
            ),
            (Error::DecryptError, "TLS: "),
        ] {
            let text = of(error.clone());
            assert!(text.contains(says), "{error:?}: {text}");
            assert!(text.contains(&error.to_string()), "{text}");
        }
        let ended = reason(&io::ErrorKind::UnexpectedEof.into());
        assert!(ended.contains("ended the connection"), "{ended}");
    }
}
