//! All clients and gateways of a measurement, from the first time they come to the last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use culvert_ids::ResourceId;
use culvert_wire::GATEWAY_SESSION_PATH;
use nix::sys::signal::Signal;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};

use super::client::{Client, Event, What};
use super::dialer::Dialer;
use super::figures::{self, ReturnFigures, Spread};
use super::gateway::{self, GatewayEvent, Heard};
use super::portals::Portals;
use super::world::{Size, World};

/// The longest that everybody may take to come back. The target for 10,000 clients is 30 s, and 45 s with SQLite.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The longest that the first time may take: each machine is enrolled, by a write of its own.
const ENROLMENT_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// The time after which all that waits in queues has been written down.
const QUIET: Duration = Duration::from_secs(3);

/// All the clients, and the gateways that serve them.
pub(super) struct Crowd {
    pub(super) size: Size,
    begin: tokio::sync::watch::Sender<bool>,
    events: UnboundedReceiver<Event>,
    gateway_events: UnboundedReceiver<GatewayEvent>,
    bytes: Arc<AtomicU64>,
    /// Gateways that have a session.
    connected: BTreeSet<usize>,
    /// The errors of failed connection attempts, each with its count.
    failures: BTreeMap<String, u64>,
    /// The clients that have a grant for a resource.
    pub(super) granted: BTreeMap<ResourceId, BTreeSet<usize>>,
}

/// Something that happened to anybody.
pub(super) enum Happened {
    Client(Event),
    Gateway(GatewayEvent),
}

/// The times after which everybody was served.
pub(super) struct Served {
    pub(super) clients: Spread,
    pub(super) gateways: Spread,
}

impl Crowd {
    /// Lets the gateways come, and waits for them. The clients wait for [`Self::arrive`].
    pub(super) async fn gather(portals: &Portals, world: &World, newcomers: usize) -> Result<Self> {
        let (sender, events) = unbounded_channel();
        let (gateway_sender, gateway_events) = unbounded_channel();
        let (begin, begun) = tokio::sync::watch::channel(false);
        let bytes = Arc::new(AtomicU64::new(0));
        let newcomers = Arc::new(Semaphore::new(newcomers));
        for number in 0..world.size.gateways {
            let mut destination = portals.first().destination(world.gateway_token(number))?;
            destination.path = GATEWAY_SESSION_PATH;
            let dialer = Dialer::of_gateway(number, destination, portals.addresses());
            tokio::spawn(gateway::live(number, dialer, gateway_sender.clone()));
        }
        for number in 0..world.size.clients {
            let destination = portals.first().destination(world.client_token(number))?;
            let dialer = Dialer::of_client(number, destination, portals.addresses());
            let client = Client::new(number, sender.clone(), Arc::clone(&bytes));
            let begin = (begun.clone(), Arc::clone(&newcomers));
            tokio::spawn(client.live(dialer, begin));
        }
        let mut crowd = Self {
            size: world.size,
            begin,
            events,
            gateway_events,
            bytes,
            connected: BTreeSet::new(),
            failures: BTreeMap::new(),
            granted: BTreeMap::new(),
        };
        let gathered = async {
            while crowd.connected.len() < crowd.size.gateways {
                crowd.next().await?;
            }
            anyhow::Ok(())
        };
        let gathered = timeout(TIMEOUT, gathered).await;
        gathered.context("not all gateways are welcome")??;
        Ok(crowd)
    }

    /// Messages to clients until now, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The errors of failed attempts since the last call.
    pub(super) fn take_failures(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.failures)
    }

    /// The next event. It is noted who is connected, who has access, and which attempts failed.
    pub(super) async fn next(&mut self) -> Result<Happened> {
        let happened = tokio::select! {
            Some(event) = self.events.recv() => Happened::Client(event),
            Some(event) = self.gateway_events.recv() => Happened::Gateway(event),
            else => bail!("nobody is left"),
        };
        match &happened {
            Happened::Client(event) => match &event.what {
                What::Served(resource) => {
                    let clients = self.granted.entry(*resource).or_default();
                    clients.insert(event.client);
                }
                What::Failed(error) => *self.failures.entry(error.clone()).or_default() += 1,
                What::Ended(error) => bail!("client {} was turned away: {error}", event.client),
                What::Lost | What::Told(..) => {}
            },
            Happened::Gateway(event) => match event.what {
                Heard::Welcome => drop(self.connected.insert(event.gateway)),
                Heard::Lost => drop(self.connected.remove(&event.gateway)),
                Heard::Revoke(_) | Heard::Other => {}
            },
        }
        Ok(happened)
    }

    /// Lets all of them go, and waits until each has its grant.
    pub(super) async fn arrive(&mut self) -> Result<Served> {
        let start = Instant::now();
        self.begin.send_replace(true);
        self.all_served(start, ENROLMENT_TIMEOUT).await
    }

    async fn all_served(&mut self, start: Instant, limit: Duration) -> Result<Served> {
        let mut clients = BTreeMap::new();
        let mut gateways = BTreeMap::new();
        let waiting = async {
            while clients.len() < self.size.clients || self.connected.len() < self.size.gateways {
                match self.next().await? {
                    Happened::Client(event) => match event.what {
                        What::Served(_) => {
                            clients.insert(event.client, event.at.saturating_duration_since(start));
                        }
                        What::Lost => drop(clients.remove(&event.client)),
                        What::Failed(_) | What::Told(..) | What::Ended(_) => {}
                    },
                    Happened::Gateway(event) if event.what == Heard::Welcome => {
                        gateways.insert(event.gateway, event.at.saturating_duration_since(start));
                    }
                    Happened::Gateway(_) => {}
                }
            }
            anyhow::Ok(())
        };
        match timeout(limit, waiting).await {
            Ok(waited) => waited?,
            Err(_elapsed) => bail!(
                "{} of {} clients were served and {} of {} gateways welcome within {} s; attempts failed with {:?}",
                clients.len(),
                self.size.clients,
                self.connected.len(),
                self.size.gateways,
                limit.as_secs(),
                self.failures
            ),
        }
        Ok(Served {
            clients: Spread::of(clients.into_values()),
            gateways: Spread::of(gateways.into_values()),
        })
    }

    /// Ends all portals at once, starts them again at once, and waits until everybody is back with access.
    pub(super) async fn come_back(
        &mut self,
        portals: &mut Portals,
        signal: Signal,
    ) -> Result<ReturnFigures> {
        while self.events.try_recv().is_ok() {}
        while self.gateway_events.try_recv().is_ok() {}
        self.failures.clear();
        self.connected.clear();
        let before = portals.spent()?;
        let start = Instant::now();
        portals.restart(signal).await?;
        let away = start.elapsed();
        let back = self.all_served(start, TIMEOUT).await?;
        // The rest of what waits in the queues, before somebody counts it.
        sleep(QUIET).await;
        Ok(ReturnFigures {
            away_ms: figures::ms(away),
            back: back.clients,
            gateways_back: back.gateways,
            failed_attempts: self.take_failures(),
            spent: portals.spent()?.of_others_since(&before),
        })
    }
}
