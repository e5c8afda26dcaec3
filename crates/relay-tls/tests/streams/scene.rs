//! A relay's side with the UDP socket of a gateway port, and an end's socket of WireGuard.

use culvert_link::system_look_up;
use culvert_relay_core::message::{Registered, Transaction};
use culvert_relay_tls::{
    Acceptor, AcceptorSettings, Bridge, BridgeError, BridgeSettings, Certificates, Limits, Report,
};
use culvert_wire::token::CertificatePin;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Long enough for a machine that does something else meanwhile.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A relay's side.
pub(crate) struct Relay {
    acceptor: Acceptor,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) address: SocketAddr,
    /// The socket of the gateway port.
    pub(crate) gateway: UdpSocket,
}

/// A certificate and its key, in PEM.
pub(crate) fn pem() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["relay.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

impl Relay {
    pub(crate) async fn start(limits: Limits) -> Self {
        let gateway = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = gateway.local_addr().unwrap().port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (chain, key) = pem();
        let certificates = Certificates::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let certificates = Arc::new(certificates);
        let acceptor = Acceptor::start(AcceptorSettings {
            listeners: vec![listener],
            certificates: Arc::clone(&certificates),
            gateway_ports: port..=port,
            limits,
            threads: NonZeroUsize::MIN,
        });
        Self {
            acceptor: acceptor.unwrap(),
            certificates,
            address,
            gateway,
        }
    }

    pub(crate) fn settings(&self, end: &UdpSocket) -> BridgeSettings {
        BridgeSettings {
            addresses: vec![self.address],
            pin: self.certificates.pin(),
            gateway_port: self.gateway.local_addr().unwrap().port(),
            tunnel_port: end.local_addr().unwrap().port(),
            proxy: None,
            mark: None,
            look_up: system_look_up,
        }
    }

    pub(crate) fn report(&self) -> Report {
        self.acceptor.report()
    }

    /// Waits until the numbers are such.
    pub(crate) async fn until(&self, mut is_so: impl FnMut(&Report) -> bool) -> Report {
        let waited = timeout(LONG, async {
            loop {
                let report = self.report();
                if is_so(&report) {
                    return report;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        match waited.await {
            Ok(report) => report,
            Err(_) => panic!("still {:?}", self.report()),
        }
    }

    pub(crate) fn stop(self) {
        self.acceptor.stop();
    }
}

/// An end's socket, as WireGuard's is.
pub(crate) async fn end() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap()
}

/// An open stream, its end's socket, and the address at which the relay sees it, registered.
pub(crate) async fn open(relay: &Relay) -> (Bridge, UdpSocket, SocketAddr) {
    let socket = end().await;
    let bridge = Bridge::open(relay.settings(&socket)).await.unwrap();
    let before = relay.report().streams;
    socket.send_to(b"register", bridge.local()).await.unwrap();
    let mut buffer = [0; 100];
    let (len, seen) = receive(&relay.gateway, &mut buffer).await;
    assert_eq!(&buffer[..len], b"register");
    let answer = Registered::new(Transaction([1; 16]), 60, &[2; 32]).encode();
    relay.gateway.send_to(&answer, seen).await.unwrap();
    let (len, from) = receive(&socket, &mut buffer).await;
    assert_eq!((&buffer[..len], from), (&answer[..], bridge.local()));
    relay.until(|report| report.streams > before).await;
    (bridge, socket, seen)
}

pub(crate) async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    timeout(LONG, socket.recv_from(buffer))
        .await
        .unwrap()
        .unwrap()
}

/// The reason why no stream opens.
pub(crate) async fn refused(settings: BridgeSettings) -> BridgeError {
    timeout(LONG, Bridge::open(settings))
        .await
        .unwrap()
        .unwrap_err()
}

/// A pin that is nobody's.
pub(crate) fn no_pin() -> CertificatePin {
    CertificatePin::of(b"nobody")
}
