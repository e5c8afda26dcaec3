//! A relay that runs, and is welcomed by its portal.

use crate::portal::{DEADLINE, FakePortal, Session};
use culvert_host::{Shutdown, observe};
use culvert_relay::status::Status;
use culvert_relay::{
    Enrolment, Observer, PortRange, RelayError, Settings, Sockets, TlsListen, TlsSettings,
};
use culvert_wire::messages::FromRelay;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Gateway ports of the relay.
pub(crate) const PORTS: u16 = 4;

/// Any free port.
const TLS: TlsListen = TlsListen::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

pub(crate) struct Scene {
    pub(crate) portal: FakePortal,
    pub(crate) session: Session,
    pub(crate) hello: FromRelay,
    pub(crate) first_port: u16,
    pub(crate) observer: Observer,
    stop: oneshot::Sender<()>,
    relay: JoinHandle<Result<(), RelayError>>,
    _directory: TempDir,
}

/// Sockets on ports that are free: the main port, and those behind it.
fn free_sockets() -> (u16, PortRange, Sockets) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let spread = (std::process::id() as u16).wrapping_mul(97) % 2_000;
        let main = 20_000 + (spread + number) % 2_000 * 8;
        let range: PortRange = format!("{}-{}", main + 1, main + PORTS).parse().unwrap();
        match Sockets::bind_ports(main, range) {
            Ok(sockets) => return (main, range, sockets.with_tls(TLS).unwrap()),
            Err(RelayError::Socket { .. }) if number < 500 => {}
            Err(error) => panic!("{error}"),
        }
    }
}

impl Scene {
    /// A relay with two workers, which the portal has welcomed.
    pub(crate) async fn start() -> Self {
        let portal = FakePortal::start().await;
        let directory = tempfile::tempdir().unwrap();
        let (port, gateway_ports, sockets) = free_sockets();
        let settings = Settings {
            state_dir: directory.path().join("relay"),
            name: "relay-1".to_owned(),
            version: "1.2.3".to_owned(),
            id: None,
            enrolment: Enrolment::from_token(&portal.token()).unwrap(),
            port,
            gateway_ports,
            addresses: vec!["127.0.0.1".parse().unwrap()],
            tls: TlsSettings {
                listen: TLS,
                certificates: None,
            },
            workers: NonZeroU32::new(2).unwrap(),
            rate_bytes_per_s: None,
            status_socket: directory.path().join("relay.sock"),
            proxy: None,
            exit_when_unreachable: false,
            confinement: None,
            sandbox: None,
        };
        let (observer, observed) = observe();
        let (stop, stopped) = oneshot::channel();
        let relay = tokio::spawn(culvert_relay::run(settings, sockets, observed, async {
            let _dropped = stopped.await;
            Shutdown::ForGood
        }));
        let (mut session, hello) = portal.accept(3).await;
        session.welcome().await;
        let scene = Self {
            portal,
            session,
            hello,
            first_port: gateway_ports.first(),
            observer,
            stop,
            relay,
            _directory: directory,
        };
        scene.status_where(|status| status.relay.is_some()).await;
        scene
    }

    /// The address of a gateway port.
    pub(crate) fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// The relay's state, once it is as it should be.
    pub(crate) async fn status_where(&self, is_right: impl Fn(&Status) -> bool) -> Status {
        let asked = async {
            loop {
                if let Some(status) = self.observer.status().await
                    && is_right(&status)
                {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(DEADLINE, asked).await {
            Ok(status) => status,
            Err(_) => panic!("the relay is otherwise: {:?}", self.observer.status().await),
        }
    }

    /// Ends the relay in order.
    pub(crate) async fn finish(self) {
        drop(self.stop);
        let ended = tokio::time::timeout(DEADLINE, self.relay).await;
        ended.unwrap().unwrap().unwrap();
    }
}
