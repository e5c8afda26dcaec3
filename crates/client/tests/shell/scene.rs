//! The scene: two namespaces, a link between them, and a client in the first.

use crate::portal::{DEADLINE, FakePortal};
use anyhow::Result;
use culvert_client::status::Status;
use culvert_client::{ClientError, DnsScope, Enrolment, Settings, ask_status};
use culvert_host::{ResolverChoice, ResolverMode, Routing};
use culvert_lab::{Family, Link, LinkShape, Namespace, Subnet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub(crate) struct Scene {
    pub(crate) client: Namespace,
    pub(crate) gateway: Namespace,
    pub(crate) link: Link,
}

/// A client that runs.
pub(crate) struct Running {
    stop: Arc<Notify>,
    ready: Arc<Notify>,
    ended: JoinHandle<Result<(), ClientError>>,
    status_socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let client =
            Namespace::new().expect("the tests need root and the tools of scripts/setup.sh");
        let gateway = Namespace::new().unwrap();
        let link = Link::new(&client, &gateway, Subnet(7), LinkShape::default()).unwrap();
        Self {
            client,
            gateway,
            link,
        }
    }

    /// An address at which the gateway of this number is not reached, and the one at which it is.
    pub(crate) fn candidates(&self, number: u8) -> Vec<SocketAddr> {
        let reached = self.link.subnet.host(Family::V4, 2);
        let nowhere = "192.0.2.99".parse().unwrap();
        [nowhere, reached]
            .map(|address| SocketAddr::new(address, crate::gateway::port(number)))
            .into()
    }

    /// Runs `work` in the client's namespace, on a runtime of its own.
    pub(crate) fn play(&self, work: impl AsyncFnOnce(&Self) + Send) {
        let played = self.client.inside(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(work(self));
            Ok(())
        });
        played.unwrap();
    }

    /// Runs a command in the client's namespace beside whatever else goes on.
    pub(crate) async fn command(&self, line: &str) -> Output {
        let (namespace, line) = (self.client.clone(), line.to_owned());
        let outcome = tokio::task::spawn_blocking(move || namespace.outcome(&line));
        outcome.await.unwrap().unwrap()
    }

    /// The output of a command in the client's namespace, whether it succeeds or not.
    pub(crate) async fn printed(&self, line: &str) -> String {
        let output = self.command(line).await;
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }
}

pub(crate) fn settings(directory: &tempfile::TempDir, token: &str) -> Settings {
    Settings {
        interface: "culvert0".parse().unwrap(),
        state_dir: directory.path().join("state"),
        name: "laptop".to_owned(),
        version: "1".to_owned(),
        id: None,
        enrolment: Enrolment::from_token(token).ok(),
        workers: 1,
        mtu: 1420,
        routing: Routing::CLIENT,
        dns: ResolverChoice::Mode(ResolverMode::Off),
        dns_listen: Vec::new(),
        dns_scope: DnsScope::Split,
        dns_upstreams: Vec::new(),
        status_socket: directory.path().join("client.sock"),
        proxy: None,
        exit_when_unreachable: false,
        confinement: None,
        sandbox: None,
        log: None,
        store: None,
    }
}

impl Running {
    /// Starts a client of this portal in the namespace of this thread.
    pub(crate) fn start(portal: &FakePortal, adjust: impl FnOnce(&mut Settings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(&directory, &portal.token());
        adjust(&mut settings);
        Self::run(directory, settings)
    }

    /// Starts a client that has no token and takes commands, in the namespace of this thread.
    pub(crate) fn start_without_token() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            enrolment: None,
            ..settings(&directory, "")
        };
        Self::run(directory, settings)
    }

    fn run(directory: tempfile::TempDir, settings: Settings) -> Self {
        let (stop, ready) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (stopped, is_ready) = (Arc::clone(&stop), Arc::clone(&ready));
        let status_socket = settings.status_socket.clone();
        let client = async move {
            let stop = async move {
                stopped.notified().await;
                culvert_host::Shutdown::ForGood
            };
            culvert_client::run(settings, culvert_host::observe().1, stop, |_| {
                is_ready.notify_one();
            })
            .await
        };
        Self {
            stop,
            ready,
            ended: tokio::spawn(client),
            status_socket,
            _directory: directory,
        }
    }

    /// The path of its socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.status_socket
    }

    /// Waits until the client says that it is ready.
    pub(crate) async fn ready(&mut self) {
        tokio::select! {
            () = self.ready.notified() => {}
            ended = &mut self.ended => panic!("{ended:?}"),
            () = tokio::time::sleep(DEADLINE) => panic!("not ready"),
        }
    }

    /// Waits until its first gateway has sent it more than handshakes are.
    pub(crate) async fn until_it_hears_much(&self) {
        let hears = |status: &Status| {
            let first = status.gateways.first();
            first.is_some_and(|gateway| gateway.rx_bytes > 1_000)
        };
        self.until(hears).await;
    }

    /// Waits until the client's state is as `is_so` says.
    pub(crate) async fn until(&self, is_so: impl Fn(&Status) -> bool) -> Status {
        let wait = async {
            loop {
                if let Ok(status) = ask_status(&self.status_socket).await
                    && is_so(&status)
                {
                    return status;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(status) => status,
            Err(_) => panic!("{:#?}", ask_status(&self.status_socket).await),
        }
    }

    /// The result of a client that ends by itself.
    pub(crate) async fn ended(self) -> Result<(), ClientError> {
        tokio::time::timeout(DEADLINE, self.ended)
            .await
            .unwrap()
            .unwrap()
    }

    /// Asks the client to end, and waits for it.
    pub(crate) async fn stop(self) {
        self.stop.notify_one();
        self.ended().await.unwrap();
    }
}
