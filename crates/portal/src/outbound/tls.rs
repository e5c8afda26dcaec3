//! TLS toward identity providers and log sinks.

use super::{OutboundError, bare};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Trusts `roots`.
pub(crate) fn client_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, OutboundError> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| OutboundError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Begins TLS with `host`, whose certificate must be for it.
pub(crate) async fn handshake(
    config: Arc<ClientConfig>,
    host: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, OutboundError> {
    let host = bare(host);
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| OutboundError::Name(host.to_owned()))?;
    let connected = TlsConnector::from(config).connect(name, stream).await;
    connected.map_err(|error| OutboundError::Tls(error.to_string()))
}
