//! A company of clients that want grants of one gateway at once: the portal's program, the gateway's program, and a control
//! session for each client.
//!
//! Portal and gateway are the programs themselves. The clients are in this process, without packets, each by TLS from an
//! address of its own. All share this machine's processors, so the processor time of each is told beside the time that
//! passed.

mod gateway;
mod member;

use super::program::resident_bytes;
use crate::portal::dialer::Dialer;
use crate::portal::process::Process;
use crate::portal::raise_descriptors;
use crate::portal::world::{Size, World};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use culvert_ids::ClientId;
use culvert_lab::Namespace;
use culvert_lab::measure::Usage;
use gateway::Gateway;
use member::{Event, Member, What};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// All grants in force, at most.
const MOST_ALL: Duration = Duration::from_secs(15);

/// A revocation in the middle of it, at most.
const MOST_REVOCATION: Duration = Duration::from_secs(1);

/// The longest that everything may take before it has failed.
const LIMIT: Duration = Duration::from_secs(120);

/// The longest that all may take to be enrolled: each is a write of its own.
const ENROLMENT_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Clients that are on their way at a time while all are enrolled.
const NEWCOMERS: usize = 200;

/// The time after which nothing is left in queues.
const QUIET: Duration = Duration::from_secs(3);

/// Between two questions to the gateway.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// 10,000 clients that want grants of one real gateway by a real portal.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Clients, each with a control session.
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
    /// Grants that each of them asks for at once.
    #[arg(long, default_value_t = 3)]
    grants: usize,
    /// Into how many groups clients and resources fall.
    #[arg(long, default_value_t = 100)]
    groups: usize,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// Everybody.
struct Stage {
    portal: Process,
    gateway: Arc<Gateway>,
    events: UnboundedReceiver<Event>,
    asks: watch::Sender<bool>,
    /// The id of each member that has a session.
    ids: BTreeMap<usize, ClientId>,
    granted: BTreeMap<usize, usize>,
    grants: usize,
    /// Reasons of denials and lost sessions, each with its count.
    failures: BTreeMap<String, u32>,
}

/// Processor time used so far.
#[derive(Clone, Copy)]
struct Spent {
    portal: Duration,
    gateway: Duration,
    own: Duration,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let size = Size {
        clients: arguments.clients,
        gateways: 1,
        resources: arguments.groups * arguments.grants,
        groups: arguments.groups,
    };
    size.check()?;
    ensure!(arguments.clients >= 10, "--clients is at least 10");
    raise_descriptors(size.clients)?;
    let namespace = Namespace::new()?;
    let missed = namespace.inside(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(measure(&namespace, size, arguments.grants))
    })?;
    for line in &missed {
        writeln!(std::io::stdout(), "missed: {line}")?;
    }
    ensure!(!arguments.check || missed.is_empty(), "a target is missed");
    Ok(())
}

async fn measure(namespace: &Namespace, size: Size, grants: usize) -> Result<Vec<String>> {
    let portal = Process::start().await?;
    let world = World::make(&portal, size).await?;
    let gateway = Arc::new(Gateway::start(namespace, world.gateway_token(0))?);
    sleep(QUIET).await;
    let idle = resident_bytes(portal.id())?;
    let began = Instant::now();
    let mut stage = Stage::gather(portal, gateway, &world, grants).await?;
    let came = began.elapsed();
    sleep(QUIET).await;
    let with_sessions = resident_bytes(stage.portal.id())?;
    let per_client = |bytes: u64| bytes as f64 / 1024.0 / size.clients as f64;
    writeln!(
        std::io::stdout(),
        "{} clients come for the first time: {:.1} s; memory of the portal for each: {:.1} KiB",
        size.clients,
        came.as_secs_f64(),
        per_client(with_sessions.saturating_sub(idle))
    )?;
    let before = stage.gateway.memory()?;
    let missed = stage.storm().await?;
    writeln!(
        std::io::stdout(),
        "memory for each client with its grants: portal {:.1} KiB more, gateway {:.1} KiB",
        per_client(resident_bytes(stage.portal.id())?.saturating_sub(with_sessions)),
        per_client(stage.gateway.memory()?.saturating_sub(before))
    )?;
    Ok(missed)
}

impl Stage {
    /// Everybody has a session.
    async fn gather(
        portal: Process,
        gateway: Arc<Gateway>,
        world: &World,
        grants: usize,
    ) -> Result<Self> {
        let (sender, events) = unbounded_channel();
        let (asks, may_ask) = watch::channel(false);
        let places = Arc::new(Semaphore::new(NEWCOMERS));
        let addresses: Arc<[_]> = [portal.listen()].into();
        for number in 0..world.size.clients {
            let destination = portal.destination(world.client_token(number))?;
            let dialer = Dialer::of_client(number, destination, Arc::clone(&addresses));
            let member = Member {
                number,
                events: sender.clone(),
                places: Arc::clone(&places),
                asks: may_ask.clone(),
            };
            tokio::spawn(member.live(dialer));
        }
        let mut stage = Self {
            portal,
            gateway,
            events,
            asks,
            ids: BTreeMap::new(),
            granted: BTreeMap::new(),
            grants,
            failures: BTreeMap::new(),
        };
        let all_came = async {
            while stage.ids.len() < world.size.clients {
                stage.next().await?;
            }
            anyhow::Ok(())
        };
        let came = timeout(ENROLMENT_LIMIT, all_came).await;
        came.with_context(|| format!("{} clients came; {:?}", stage.ids.len(), stage.failures))??;
        Ok(stage)
    }

    /// The next event. It is noted who has what.
    async fn next(&mut self) -> Result<Event> {
        let event = self.events.recv().await.context("nobody is left")?;
        match &event.what {
            What::Welcome(id, resources) => {
                ensure!(
                    *resources == self.grants,
                    "a client sees {resources} resources"
                );
                self.ids.insert(event.member, *id);
            }
            What::Granted => *self.granted.entry(event.member).or_default() += 1,
            What::Denied(why) | What::Lost(why) => {
                *self.failures.entry(why.clone()).or_default() += 1;
            }
        }
        Ok(event)
    }

    fn spent(&self) -> Result<Spent> {
        Ok(Spent {
            portal: self.portal.usage()?.cpu,
            gateway: self.gateway.cpu()?,
            own: Usage::of(std::process::id())?.cpu,
        })
    }

    /// Everybody asks; one is revoked in the middle. Returns the targets that were missed.
    async fn storm(&mut self) -> Result<Vec<String>> {
        let wanted = self.ids.len() * self.grants;
        let before = self.spent()?;
        let began = Instant::now();
        self.asks.send_replace(true);
        let (mut count, mut last) = (0, began);
        let mut revocation = None;
        let mut victim = None;
        // The one that is revoked has all of its grants by then.
        while count < wanted {
            let event = match timeout(LIMIT.saturating_sub(began.elapsed()), self.next()).await {
                Ok(event) => event?,
                Err(_elapsed) => bail!("{count} of {wanted} grants; {:?}", self.failures),
            };
            if matches!(event.what, What::Granted) {
                (count, last) = (count + 1, event.at);
            }
            if count == wanted / 2 && revocation.is_none() {
                let (member, id) = self.served().context("nobody has all grants")?;
                victim = Some(member);
                revocation = Some(self.revoke(id).await?);
            }
        }
        let took = last.duration_since(began);
        let spent = self.spent()?;
        let revocation = revocation.context("nobody was revoked")?;
        let of = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64();
        writeln!(
            std::io::stdout(),
            "{wanted} grants in force: {:.1} s (at most {} s); processor time: portal {:.1} s, gateway {:.1} s, \
             the clients {:.1} s",
            took.as_secs_f64(),
            MOST_ALL.as_secs(),
            of(spent.portal, before.portal),
            of(spent.gateway, before.gateway),
            of(spent.own, before.own)
        )?;
        writeln!(
            std::io::stdout(),
            "a revocation in the middle: {:.0} ms until the gateway says so (at most {} ms); failures: {:?}",
            revocation.as_secs_f64() * 1e3,
            MOST_REVOCATION.as_millis(),
            self.failures
        )?;
        let (in_force, _) = self.gateway.grants()?;
        let expected = (wanted - self.grants) as u64;
        ensure!(
            victim.is_some() && in_force == expected,
            "{in_force} of {expected} grants are in force at the gateway"
        );
        let mut missed = Vec::new();
        if took > MOST_ALL {
            missed.push(format!(
                "all grants in force after {:.1} s",
                took.as_secs_f64()
            ));
        }
        if revocation > MOST_REVOCATION {
            missed.push(format!("a revocation took {revocation:.1?}"));
        }
        Ok(missed)
    }

    /// A member that has all of its grants.
    fn served(&self) -> Option<(usize, ClientId)> {
        let mut all = self.granted.iter();
        let (member, _) = all.find(|(_, count)| **count == self.grants)?;
        Some((*member, *self.ids.get(member)?))
    }

    /// Revokes a client. Returns the time until the gateway counts its grants as revoked; the question is part of it.
    async fn revoke(&self, id: ClientId) -> Result<Duration> {
        let began = Instant::now();
        self.portal.act(&format!("/clients/{id}/revoke")).await?;
        let revoked = async {
            loop {
                let gateway = Arc::clone(&self.gateway);
                let (_, revoked) = tokio::task::spawn_blocking(move || gateway.grants()).await??;
                if revoked >= self.grants as u64 {
                    return anyhow::Ok(began.elapsed());
                }
                sleep(ASK_EVERY).await;
            }
        };
        timeout(LIMIT, revoked)
            .await
            .context("the gateway does not say that grants were revoked")?
    }
}
