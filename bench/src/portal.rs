//! The load that one portal carries: clients that connect all at once, one change among many
//! objects, and the reconnection of everybody after a restart.
//!
//! The portal is the program itself, in a directory of its own. Clients and the gateway are simulated,
//! without their packets. Each is a TLS connection of its own that exchanges the messages of the real ones,
//! and waits between attempts as they do. They run beside the portal, on the same processors.

pub(crate) mod client;
mod figures;
mod gateway;
pub(crate) mod process;
mod rest;
pub(crate) mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};

use self::client::{Event, What};
use self::figures::{ChangeFigures, Figures, ReturnFigures, Spread};
use self::process::Process;
use self::world::{Size, World};

/// The limit of one measurement. The target for 1,000 clients is 10 s.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The silence after which a change counts as delivered to everybody.
const QUIET: Duration = Duration::from_secs(3);

/// File descriptors besides those of the clients.
const OTHER_DESCRIPTORS: u64 = 256;

/// The load that one portal carries: clients that connect at once, a change among many, restarts.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of clients that connect at once.
    #[arg(long, default_value_t = 1_000)]
    clients: usize,
    /// The number of resources, each with one policy.
    #[arg(long, default_value_t = 10_000)]
    resources: usize,
    /// Into how many groups clients and resources fall: a client sees the resources of its group.
    #[arg(long, default_value_t = 100)]
    groups: usize,
    /// Write the figures into this file as well.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let size = Size {
        clients: arguments.clients,
        resources: arguments.resources,
        groups: arguments.groups,
    };
    size.check()?;
    raise_descriptors(size.clients)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let figures = runtime.block_on(measure(size))?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    figures.print()
}

/// Every client is a socket here and one in the portal, which inherits the limit.
fn raise_descriptors(clients: usize) -> Result<()> {
    let needed = clients as u64 + OTHER_DESCRIPTORS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if hard < needed {
        bail!(
            "{clients} clients need {needed} file descriptors, and {hard} are allowed: `ulimit -Hn {needed}`"
        );
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard)?;
    Ok(())
}

async fn measure(size: Size) -> Result<Figures> {
    let began = Instant::now();
    let mut portal = Process::start().await?;
    let world = World::make(&portal, size).await?;
    let configured = began.elapsed();
    let idle = portal.usage()?;
    eprintln!(
        "the portal has its configuration after {:.1} s",
        configured.as_secs_f64()
    );

    let mut crowd = Crowd::gather(&portal, &world).await?;
    let arrival = crowd.arrive().await?;
    let failed_attempts = std::mem::take(&mut crowd.failures);
    let busy = portal.usage()?;
    let arrival_bytes = crowd.bytes();
    eprintln!("everybody is served");
    let change = crowd.change(&portal).await?;
    eprintln!("a change was told");
    let restart = crowd.come_back(&mut portal, Signal::SIGTERM).await?;
    eprintln!("everybody is back after a restart");
    let crash = crowd.come_back(&mut portal, Signal::SIGKILL).await?;
    Ok(Figures {
        machine: crate::machine::Machine::this(),
        clients: size.clients,
        resources: size.resources,
        groups: size.groups,
        configured_s: configured.as_secs_f64(),
        idle_peak_rss_bytes: idle.peak_rss_bytes,
        arrival,
        arrival_bytes,
        arrival_cpu_s: (busy.cpu - idle.cpu).as_secs_f64(),
        peak_rss_bytes: busy.peak_rss_bytes,
        failed_attempts,
        change,
        restart,
        crash,
    })
}

/// All the clients, and the gateway that serves them.
struct Crowd {
    size: usize,
    begin: Option<tokio::sync::watch::Sender<bool>>,
    events: UnboundedReceiver<Event>,
    bytes: Arc<AtomicU64>,
    gateway: gateway::Gateway,
    /// The errors of failed connection attempts, each with its count.
    failures: BTreeMap<String, u64>,
    /// The resource that a client got a grant for.
    granted: BTreeMap<usize, culvert_ids::ResourceId>,
}

impl Crowd {
    async fn gather(portal: &Process, world: &World) -> Result<Self> {
        let gateway = gateway::Gateway::start(portal.destination(&world.gateway_token)?).await?;
        let (sender, events) = unbounded_channel();
        let (begin, begun) = tokio::sync::watch::channel(false);
        let bytes = Arc::new(AtomicU64::new(0));
        for number in 0..world.size.clients {
            let token = &world.client_tokens[number % world.size.groups];
            let destination = portal.destination(token)?;
            let events = sender.clone();
            let bytes = Arc::clone(&bytes);
            tokio::spawn(client::live(
                number,
                destination,
                events,
                bytes,
                begun.clone(),
            ));
        }
        Ok(Self {
            size: world.size.clients,
            begin: Some(begin),
            events,
            bytes,
            gateway,
            failures: BTreeMap::new(),
            granted: BTreeMap::new(),
        })
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Lets all of them go at once, and waits until each has its grant.
    async fn arrive(&mut self) -> Result<Spread> {
        let start = Instant::now();
        if let Some(begin) = self.begin.take() {
            begin.send_replace(true);
            // It lives on: clients that find it gone would not begin.
            self.begin = Some(begin);
        }
        self.all_served(start).await
    }

    async fn all_served(&mut self, start: Instant) -> Result<Spread> {
        let mut served = BTreeMap::new();
        let deadline = start + TIMEOUT;
        while served.len() < self.size {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(Some(event)) = timeout(left, self.events.recv()).await else {
                bail!(
                    "{} of {} clients were served within {} s; attempts failed with {:?}",
                    served.len(),
                    self.size,
                    TIMEOUT.as_secs(),
                    self.failures
                );
            };
            match event.what {
                What::Served(resource) => {
                    self.granted.insert(event.client, resource);
                    served.insert(event.client, event.at.saturating_duration_since(start));
                }
                What::Failed(error) => *self.failures.entry(error).or_default() += 1,
                What::Ended(error) => bail!("client {} was turned away: {error}", event.client),
                What::Lost => {
                    served.remove(&event.client);
                }
                What::Told(_) => {}
            }
        }
        Ok(Spread::of(served.into_values()))
    }

    /// Disables the one policy that gives a resource, and sees who hears of it.
    async fn change(&mut self, portal: &Process) -> Result<ChangeFigures> {
        let resource = *self.granted.get(&0).context("client 0 has no grant")?;
        let concerned = self.granted.values().filter(|of| **of == resource).count();
        let policies = portal
            .get(&format!("/policies?resource={resource}"))
            .await?;
        let policy = &policies["items"][0];
        let path = format!("/policies/{}", policy["id"].as_str().context("a policy")?);
        let gateway_before = self.gateway.messages();
        while self.events.try_recv().is_ok() {}

        let start = Instant::now();
        let patch = json!({"disabled": true});
        portal.patch(&path, &policy["version"], &patch).await?;
        let answered = start.elapsed();
        let mut told: BTreeMap<usize, Duration> = BTreeMap::new();
        let mut messages = 0;
        let mut others = 0;
        while let Ok(Some(event)) = timeout(QUIET, self.events.recv()).await {
            let What::Told(kind) = event.what else {
                bail!("client {} lost its session by a change", event.client);
            };
            if self.granted.get(&event.client) != Some(&resource) {
                eprintln!(
                    "client {} heard {kind}, which is not its concern",
                    event.client
                );
                others += 1;
                continue;
            }
            messages += 1;
            told.insert(event.client, event.at.saturating_duration_since(start));
        }
        ensure!(
            told.len() == concerned,
            "{} of {concerned} clients were told",
            told.len()
        );
        self.granted.retain(|_, of| *of != resource);
        Ok(ChangeFigures {
            concerned,
            messages,
            messages_to_others: others,
            messages_to_gateway: self.gateway.messages() - gateway_before,
            answered_ms: figures::ms(answered),
            told: Spread::of(told.into_values()),
        })
    }

    /// Ends the portal, starts it again at once, and waits until everybody is back with access.
    async fn come_back(&mut self, portal: &mut Process, signal: Signal) -> Result<ReturnFigures> {
        while self.events.try_recv().is_ok() {}
        self.failures.clear();
        let start = Instant::now();
        portal.restart(signal).await?;
        let away = start.elapsed();
        let ready = Instant::now();
        let back = self.all_served(ready).await?;
        // The rest of what waits in the queues, before somebody counts it.
        sleep(QUIET).await;
        let usage = portal.usage()?;
        Ok(ReturnFigures {
            away_ms: figures::ms(away),
            back,
            failed_attempts: self.failures.clone(),
            peak_rss_bytes: usage.peak_rss_bytes,
            cpu_s: usage.cpu.as_secs_f64(),
        })
    }
}
