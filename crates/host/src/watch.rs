//! Noticing that the network around this host has changed.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use culvert_netlink::packet::NetlinkPayload;
use culvert_netlink::route::RouteNetlinkMessage;
use culvert_netlink::route::rule::RuleMessage;
use culvert_netlink::{Messages, Protocol, Socket, read};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::addresses::{HostAddress, all_but_of, candidates, usable};
use crate::netlink::{is_overflow, receive, register};
use crate::routing::{Path, rule_table, table_of};
use crate::{HostError, InterfaceName, Network, Routing, Table};

/// The time for which changes are gathered before they are looked at. A cable that is plugged in,
/// an address from DHCP and its routes come within less.
pub const DEBOUNCE: Duration = Duration::from_millis(500);

/// The most destinations of a [`NetworkWatch`]: the portal and the gateways that a client uses at one
/// time, a few of each site.
pub const MAX_DESTINATIONS: usize = 64;

/// Destinations that stand for the Internet where none are given: a root name server's addresses,
/// which every host reaches by its default route. The kernel is asked for the way, nothing is sent.
const INTERNET: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 41, 0, 4)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30)),
];

/// The groups that are heard: links, addresses, routes and rules of both families.
const GROUPS: [u32; 7] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV6_RULE,
];

/// Maximum number of failed looks in a row before the watch gives up: with [`DEBOUNCE`] in between,
/// more than occur while interfaces come and go.
const MAX_FAILURES: u32 = 10;

/// The kernel's table of addresses of its own, which change with the addresses themselves.
const LOCAL_TABLE: u32 = 255;

/// The changes to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// Interfaces whose changes are nobody's news: Culvert's own.
    pub own_interfaces: Vec<InterfaceName>,
    /// The tables and rules that are set up here. Ways are looked up as marked packets go.
    pub routing: Routing,
    /// Destinations of packets that matter, such as the portal and the gateways in use; if none are given,
    /// the Internet. At most [`MAX_DESTINATIONS`]; further ones are passed over.
    pub destinations: Vec<IpAddr>,
    /// The time for which changes are gathered: [`DEBOUNCE`].
    pub debounce: Duration,
}

/// Watches the network of the namespace in which it was opened.
#[derive(Debug)]
pub struct NetworkWatch {
    network: Network,
    events: Events,
    options: WatchOptions,
    snapshot: Snapshot,
    /// The time of the next look, if something has happened since the last one.
    due: Option<Instant>,
    /// The number of failed looks in a row.
    failures: u32,
}

/// The kinds of change, at least one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkChange {
    /// The usable addresses of this host.
    pub addresses: bool,
    /// The ways to the destinations: another interface, next hop or source address, or none at all.
    pub ways: bool,
    /// The rules that lead to our tables, by our own doing or another's: apply the wanted state again,
    /// which changes nothing where nothing is missing.
    pub rules: bool,
}

/// The part that is compared, and all addresses, which are not.
#[derive(Debug, Clone)]
struct Snapshot {
    all_addresses: BTreeSet<IpAddr>,
    addresses: BTreeSet<HostAddress>,
    /// One for each destination; `None` where there is no way.
    ways: Vec<Option<Path>>,
    rules: Vec<RuleMessage>,
}

impl NetworkWatch {
    /// Begins to watch: changes from now on are reported. Must be called in a tokio runtime. Needs no
    /// privilege.
    ///
    /// # Errors
    /// The system's.
    pub async fn open(options: WatchOptions) -> Result<Self, HostError> {
        // Listening first: what happens while looking is looked at again.
        let events = Events::open()
            .map_err(|error| HostError::system("listen for changes of the network", error))?;
        let mut network = Network::open()?;
        let snapshot = Snapshot::take(&mut network, &options).await?;
        Ok(Self {
            network,
            events,
            options,
            snapshot,
            due: None,
            failures: 0,
        })
    }

    /// Waits until the network has changed, and settled for [`WatchOptions::debounce`]. A change
    /// that came and went within that time is not reported.
    ///
    /// Dropping the future loses nothing: the next call goes on where this one was.
    ///
    /// # Errors
    /// The system's; the watch is of no more use then.
    pub async fn changed(&mut self) -> Result<NetworkChange, HostError> {
        loop {
            let due = match self.due {
                Some(due) => due,
                None => {
                    self.await_event().await?;
                    let due = Instant::now() + self.options.debounce;
                    *self.due.insert(due)
                }
            };
            // All further events until then are looked at together.
            match tokio::time::timeout_at(due, self.await_nothing()).await {
                Ok(error) => return Err(error),
                Err(_) => {
                    if let Some(change) = self.look().await? {
                        return Ok(change);
                    }
                }
            }
        }
    }

    /// The addresses under which others may reach this host, those of interfaces that lead out
    /// first: at most [`MAX_CANDIDATES`](crate::MAX_CANDIDATES).
    #[must_use]
    pub fn candidates(&self) -> Vec<IpAddr> {
        self.snapshot.candidates()
    }

    /// Every address of this host but those of our own interfaces, at the last look.
    #[must_use]
    pub const fn all_addresses(&self) -> &BTreeSet<IpAddr> {
        &self.snapshot.all_addresses
    }

    /// Watches the ways to other destinations from now on. That they are others is not told as a
    /// change.
    ///
    /// # Errors
    /// The system's; the former destinations stay.
    pub async fn set_destinations(&mut self, destinations: Vec<IpAddr>) -> Result<(), HostError> {
        let options = WatchOptions {
            destinations,
            ..self.options.clone()
        };
        self.snapshot.ways = ways(&mut self.network, &options).await?;
        self.options = options;
        Ok(())
    }

    /// Waits for an event that may matter.
    async fn await_event(&mut self) -> Result<(), HostError> {
        let tables = self.options.routing.tables().map(Table::get);
        loop {
            if self
                .events
                .next(|event| is_relevant(event, &tables))
                .await?
            {
                return Ok(());
            }
        }
    }

    /// Reads events for as long as it is polled.
    async fn await_nothing(&mut self) -> HostError {
        loop {
            if let Err(error) = self.events.next(|_| false).await {
                return error;
            }
        }
    }

    /// Compares the present state with the last one.
    async fn look(&mut self) -> Result<Option<NetworkChange>, HostError> {
        match Snapshot::take(&mut self.network, &self.options).await {
            Ok(snapshot) => {
                self.due = None;
                self.failures = 0;
                let change = self.snapshot.difference(&snapshot);
                self.snapshot = snapshot;
                Ok(change)
            }
            // Such as listings that changes interrupted.
            Err(error) if self.failures < MAX_FAILURES => {
                tracing::debug!(%error, "the network is looked at again");
                self.failures += 1;
                self.due = Some(Instant::now() + self.options.debounce);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Snapshot {
    async fn take(network: &mut Network, options: &WatchOptions) -> Result<Self, HostError> {
        let tables = options.routing.tables().map(Table::get);
        let links = network.links().await?;
        let addresses = network.all_addresses().await?;
        let mut rules = network.all_rules().await?;
        rules.retain(|rule| tables.contains(&rule_table(rule)));
        Ok(Self {
            all_addresses: all_but_of(&links, &addresses, &options.own_interfaces),
            addresses: usable(&links, &addresses, &options.own_interfaces),
            ways: ways(network, options).await?,
            rules,
        })
    }

    fn difference(&self, now: &Self) -> Option<NetworkChange> {
        let change = NetworkChange {
            addresses: self.addresses != now.addresses,
            ways: self.ways != now.ways,
            rules: self.rules != now.rules,
        };
        let has_changed = change.addresses || change.ways || change.rules;
        has_changed.then_some(change)
    }

    fn candidates(&self) -> Vec<IpAddr> {
        let ways_out: Vec<u32> = self
            .ways
            .iter()
            .flatten()
            .map(|path| path.interface_index)
            .collect();
        candidates(&self.addresses, &ways_out)
    }
}

impl Network {
    /// The addresses under which others may reach this host now, as
    /// [`NetworkWatch::candidates`] has them.
    ///
    /// # Errors
    /// The system's.
    pub async fn candidates(
        &mut self,
        own_interfaces: &[InterfaceName],
        routing: &Routing,
    ) -> Result<Vec<IpAddr>, HostError> {
        let options = WatchOptions {
            own_interfaces: own_interfaces.to_vec(),
            routing: *routing,
            destinations: Vec::new(),
            debounce: DEBOUNCE,
        };
        Ok(Snapshot::take(self, &options).await?.candidates())
    }
}

/// The ways to the destinations, as the tunnel's own packets go.
async fn ways(
    network: &mut Network,
    options: &WatchOptions,
) -> Result<Vec<Option<Path>>, HostError> {
    let destinations = match &options.destinations[..] {
        [] => &INTERNET,
        given => given,
    };
    let mut ways = Vec::new();
    for &destination in destinations.iter().take(MAX_DESTINATIONS) {
        ways.push(network.path(destination, options.routing.mark).await?);
    }
    Ok(ways)
}

/// True if an event may mean a change: not one of our own routes, of which thousands come and go, and
/// not one of the kernel's for addresses, which are told themselves.
fn is_relevant(event: &RouteNetlinkMessage, own_tables: &[u32; 2]) -> bool {
    match event {
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
            let table = table_of(route);
            table != LOCAL_TABLE && !own_tables.contains(&table)
        }
        _ => true,
    }
}

/// The kernel's events. The kernel's own queue bounds what waits; what does not fit is told as
/// loss.
struct Events {
    socket: AsyncFd<Socket>,
    buffer: Vec<u8>,
}

impl Events {
    fn open() -> io::Result<Self> {
        // The first 32 groups can be joined by their bits.
        let groups = GROUPS.iter().map(|group| 1_u32 << (group - 1)).sum();
        let socket = Socket::open(Protocol::Route, groups)?;
        Ok(Self {
            socket: register(socket)?,
            buffer: Vec::new(),
        })
    }

    /// Waits for the next datagram; returns whether an event in it is as asked for. Lost events and
    /// those that cannot be read are.
    async fn next(
        &mut self,
        is_wanted: impl Fn(&RouteNetlinkMessage) -> bool,
    ) -> Result<bool, HostError> {
        match receive(&self.socket, &mut self.buffer).await {
            Ok(()) => Ok(has_event(&self.buffer, is_wanted)),
            Err(error) if is_overflow(&error) => Ok(true),
            Err(error) => Err(HostError::system(
                "listen for changes of the network",
                error,
            )),
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events(…)")
    }
}

/// True if an event of a datagram is as asked for, or cannot be read.
fn has_event(datagram: &[u8], is_wanted: impl Fn(&RouteNetlinkMessage) -> bool) -> bool {
    Messages::of(datagram).any(|message| {
        let Ok(message) = message else {
            return true;
        };
        match read(&message).map(|read| read.payload) {
            Ok(NetlinkPayload::InnerMessage(event)) => is_wanted(&event),
            Ok(NetlinkPayload::Noop) => false,
            Ok(_) | Err(_) => true,
        }
    })
}
