//! The whole portal: TLS by its own certificate, its limits, and sessions behind them.

use crate::access::{ask, id_in};
use crate::portal::{
    MEMBERSHIP, Machine, RESOURCE, client_bearer, configuration, gateway_bearer, hello_client,
    hello_gateway, now, request,
};
use culvert_portal::{Home, Options, Portal, sealer};
use culvert_secrets::SecretsKey;
use culvert_store::{Author, Mutation, Store};
use culvert_store_sql::SecretsAccess;
use culvert_store_sql::{SqlStore, SqliteOptions};
use culvert_wire::messages::{FromGateway, ToClient, ToGateway};
use culvert_wire::token::{Bearer, CertificatePin};
use culvert_wire::{CLIENT_SESSION_PATH, GATEWAY_SESSION_PATH, Message};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Accepts the one certificate of that pin.
#[derive(Debug)]
struct Pinned(CertificatePin);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        assert_eq!(CertificatePin::of(certificate), self.0);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        panic!("the portal speaks TLS 1.3 alone");
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

async fn dial<M: Message>(
    portal: &Portal,
    path: &str,
    bearer: &Bearer,
) -> Machine<M, TlsStream<TcpStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned(portal.pin())))
        .with_no_client_auth();
    let stream = TcpStream::connect(portal.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await.unwrap();
    let url = format!("wss://{}{path}", portal.address());
    let request = request(&url, Some(&bearer.expose()));
    Machine::begin(request, stream).await.unwrap()
}

#[tokio::test]
async fn access_is_given_and_taken_back_over_tls() {
    access(SecretsAccess::Plain).await;
}

#[tokio::test]
async fn access_is_given_and_taken_back_by_a_portal_whose_secrets_are_encrypted() {
    let key = SecretsKey::from_bytes(&[1; 32]);
    access(SecretsAccess::Key(sealer(key))).await;
}

async fn access(secrets: SecretsAccess) {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::open(&directory.path().join("portal")).unwrap();
    let store = SqlStore::open(&SqliteOptions::file(home.database_path()).secrets(secrets)).await;
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let options = Options::new("127.0.0.1:0".parse().unwrap());
    let portal = Portal::start(options, home, Arc::clone(&store))
        .await
        .unwrap();
    let write = |mutations: Vec<Mutation>| {
        let (store, account) = (Arc::clone(&store), portal.account());
        async move {
            store
                .write(account, Author::PORTAL, now(), mutations)
                .await
                .unwrap()
        }
    };
    write(configuration()).await;
    let mut gateway = dial(&portal, GATEWAY_SESSION_PATH, &gateway_bearer()).await;
    gateway.say(&hello_gateway("gateway")).await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
    let mut client = dial(&portal, CLIENT_SESSION_PATH, &client_bearer()).await;
    client.say(&hello_client("laptop")).await;
    match client.hear().await {
        ToClient::Welcome { resources, .. } => assert_eq!(resources[0].id, RESOURCE),
        other => panic!("{other:?}"),
    }
    client.say(&ask(1)).await;
    let ToGateway::Grant { token, .. } = gateway.hear().await else {
        panic!("a grant");
    };
    let (grant, names) = (id_in(&token), Vec::new());
    let accepted = FromGateway::GrantAccepted { grant, names };
    gateway.say(&accepted).await;
    assert!(matches!(
        client.hear().await,
        ToClient::AccessGranted { .. }
    ));
    write(vec![Mutation::Delete {
        id: MEMBERSHIP.into(),
        expected_version: None,
        cascade: false,
    }])
    .await;
    assert_eq!(gateway.hear().await, ToGateway::Revoke { grant });
    assert!(matches!(
        client.hear().await,
        ToClient::AccessRevoked { .. }
    ));
    assert!(matches!(
        client.hear().await,
        ToClient::ResourceRemoved { .. }
    ));
    // The portal takes its leave from both.
    let stopped = tokio::spawn(portal.stop());
    assert!(matches!(client.hear().await, ToClient::Refused { .. }));
    assert!(matches!(gateway.hear().await, ToGateway::Refused { .. }));
    drop((client, gateway));
    stopped.await.unwrap();
}
