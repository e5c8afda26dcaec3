//! The time that people and machines wait while strangers hold the door open, from one address and then from all
//! networks of one site.
//!
//! At a portal, the strangers hold thousands of connections that say nothing, and make them anew as often as they are
//! closed. At a WireGuard end, they send handshake initiations without pause ([`handshakes`]). Portal and end are the
//! program itself, in a namespace of its own. The strangers run beside it, on the same processors.

mod attack;
mod handshakes;
mod newcomer;
mod strangers;
mod waits;

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use culvert_lab::Namespace;
use culvert_link::connect;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::handshakes::Options;
use self::strangers::{Strangers, TARGET_V6};
use self::waits::{GIVEN_UP, report};
use crate::console::answer::{Asker, give_password};
use crate::portal::client::greet;
use crate::portal::process::Process;
use crate::portal::world::{Size, World};

/// The longest that anybody may wait.
const TARGET: Duration = Duration::from_secs(1);

/// Between two rounds: a machine begins one session a second.
const PAUSE: Duration = Duration::from_millis(1_100);

/// File descriptors besides those of the strangers.
const OTHER_DESCRIPTORS: u64 = 256;

/// Times of signing in and of a machine's session under strangers' idle connections, and a WireGuard handshake
/// under their initiations.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only one of the two.
    #[arg(long)]
    only: Option<Part>,
    /// Idle connections that are kept up.
    #[arg(long, default_value_t = 16_384)]
    connections: usize,
    /// After how many milliseconds one that was closed is made anew.
    #[arg(long, default_value_t = 5_000)]
    again_ms: u64,
    /// Sign-ins and sessions to measure. An address has 20 sign-ins at once.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    #[command(flatten)]
    handshakes: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Idle connections to a portal.
    Connections,
    /// Handshake initiations to a WireGuard end.
    Handshakes,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let namespace = Namespace::new()?;
    // The owner of a /48 may send from all of it.
    namespace.run("sysctl -q -w net.ipv6.ip_nonlocal_bind=1")?;
    namespace.run("ip -6 route add local 2001:db8:1::/48 dev lo")?;
    namespace.run(&format!("ip -6 address add {TARGET_V6}/128 dev lo nodad"))?;
    let mut slowest = Duration::ZERO;
    if arguments.only != Some(Part::Handshakes) {
        raise_descriptors(arguments.connections)?;
        for strangers in [Strangers::OneAddress, Strangers::OneSite] {
            let most = namespace.inside(|| {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build()?;
                runtime.block_on(measure(arguments, strangers))
            })?;
            slowest = slowest.max(most);
        }
    }
    if arguments.only != Some(Part::Connections) {
        slowest = slowest.max(handshakes::measure(&arguments.handshakes, &namespace)?);
    }
    ensure!(
        slowest <= TARGET,
        "somebody waited for {} ms: more than {} s",
        slowest.as_millis(),
        TARGET.as_secs()
    );
    Ok(())
}

fn raise_descriptors(connections: usize) -> Result<()> {
    let needed = connections as u64 + OTHER_DESCRIPTORS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(
        hard >= needed,
        "{connections} connections need {needed} file descriptors, and {hard} are allowed: `ulimit -Hn {needed}`"
    );
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard)?;
    Ok(())
}

/// Prints what was measured, and returns the longest of it.
async fn measure(arguments: &Arguments, strangers: Strangers) -> Result<Duration> {
    let portal = Process::start_at(strangers.target()).await?;
    let size = Size {
        clients: 1,
        gateways: 1,
        resources: 1,
        groups: 1,
    };
    let world = World::make(&portal, size).await?;
    give_password(&portal).await?;
    let destination = portal.destination(world.client_token(0))?;

    let idle = Idle::keep_up(arguments, strangers, portal.listen());
    idle.all_have_come(arguments.connections).await?;
    let (mut signing_in, mut sessions) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        signing_in.push(
            timed("signing in", async {
                Asker::sign_in(&portal).await.map(drop)
            })
            .await?,
        );
        let session = async {
            let mut connected = connect(&destination).await?;
            greet(&mut connected.connection).await
        };
        sessions.push(timed("a machine's session", session).await?);
        sleep(PAUSE).await;
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} idle connections {}; {} were made, {} failed",
        arguments.connections,
        strangers.name(),
        idle.counts.made.load(Ordering::Relaxed),
        idle.counts.failed.load(Ordering::Relaxed),
    )?;
    let mut longest = Duration::ZERO;
    for (name, times) in [
        ("signing in", signing_in),
        ("a machine's session", sessions),
    ] {
        longest = longest.max(report(&mut out, name, times)?);
    }
    Ok(longest)
}

async fn timed(what: &str, does: impl Future<Output = Result<()>>) -> Result<Duration> {
    let began = Instant::now();
    timeout(GIVEN_UP, does)
        .await
        .with_context(|| format!("{what} takes more than {} s", GIVEN_UP.as_secs()))?
        .with_context(|| format!("{what} failed"))?;
    Ok(began.elapsed())
}

/// Connections that say nothing.
struct Idle {
    counts: Arc<Counts>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Strangers that have tried once.
    came: AtomicUsize,
    next: AtomicUsize,
    made: AtomicUsize,
    failed: AtomicUsize,
}

impl Idle {
    fn keep_up(arguments: &Arguments, strangers: Strangers, to: SocketAddr) -> Self {
        let counts = Arc::new(Counts::default());
        let again = Duration::from_millis(arguments.again_ms);
        let mut tasks = JoinSet::new();
        for number in 0..arguments.connections {
            let counts = Arc::clone(&counts);
            // Spread over the time after which each comes again.
            let first = again.mul_f64(number as f64 / arguments.connections as f64);
            tasks.spawn(async move {
                sleep(first).await;
                let mut has_come = false;
                loop {
                    let address = strangers.address(counts.next.fetch_add(1, Ordering::Relaxed));
                    let connected = open(address, to).await;
                    if !std::mem::replace(&mut has_come, true) {
                        counts.came.fetch_add(1, Ordering::Relaxed);
                    }
                    match connected {
                        Ok(mut stream) => {
                            counts.made.fetch_add(1, Ordering::Relaxed);
                            // Until it is closed, however.
                            let _ = stream.read(&mut [0]).await;
                        }
                        Err(_) => {
                            counts.failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    sleep(again).await;
                }
            });
        }
        Self {
            counts,
            _tasks: tasks,
        }
    }

    async fn all_have_come(&self, count: usize) -> Result<()> {
        let all = async {
            while self.counts.came.load(Ordering::Relaxed) < count {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let come = timeout(4 * GIVEN_UP, all).await;
        come.context("the strangers can't connect")
    }
}

async fn open(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = match from {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}
