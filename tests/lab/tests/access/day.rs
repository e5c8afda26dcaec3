//! Daily life in little time: the events of days come one after another, then all at once, while flows that policy
//! allows go on. Afterwards each program holds no more than before, and its logs are short.
//!
//! An ordinary run goes through all events once in either way. `make day` goes on for half an hour, all at once.

use crate::common::{Bed, SOON, WEB_PORT, access};
use anyhow::{Context, Result, ensure};
use culvert_lab::product::{
    Client, Gateway, Names, NumberedStream, PRIVATE_NAME, PRIVATE_OTHER_V4, PRIVATE_V4, Portal,
};
use culvert_lab::{Namespace, wait_until};
use std::fmt;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Minutes for which it goes on, in the environment.
const MINUTES: &str = "CULVERT_DAY_MINUTES";

/// From the beginning of one round at once to the next.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(120);

/// Between two events of one kind where other kinds happen at the same time, and for as long as a fault of a name or of
/// a gateway stays.
const BETWEEN_EVENTS: Duration = Duration::from_secs(3);

/// An allowed flow continues at the latest this long after any event. A gateway that died is noticed within 5 s, and
/// a machine that compiles beside it takes its time.
const GOES_ON: Duration = Duration::from_secs(20);

/// Log lines of one program in a minute.
const MAX_LINES_PER_MINUTE: f64 = 10.0;

/// A rate of lines is meaningless before.
const RATED_AFTER: Duration = Duration::from_secs(300);

/// Memory that a program may hold more at the end than after the first round: allocators and caches settle.
const MAX_GROWTH_PERCENT: u64 = 20;
const MAX_GROWTH_KIB: u64 = 8 * 1024;

/// Connections that are under way in the moment of counting.
const MAX_MORE_DESCRIPTORS: u64 = 8;

/// An event of daily life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    ClientComes,
    ClientGoes,
    LeaseChanges,
    NetworkGoesAndComes,
    PolicyIsAdded,
    PolicyIsRemoved,
    NameMoves,
    SiteDnsFails,
    PortalRestarts,
    PortalIsKilled,
    GatewayDrains,
    GatewayIsKilled,
    GatewayRestarts,
}

/// A gateway dies right after the flows have come to it.
const EVENTS: [Event; 13] = [
    Event::ClientComes,
    Event::LeaseChanges,
    Event::PolicyIsAdded,
    Event::GatewayDrains,
    Event::GatewayIsKilled,
    Event::NameMoves,
    Event::PortalRestarts,
    Event::NetworkGoesAndComes,
    Event::SiteDnsFails,
    Event::PolicyIsRemoved,
    Event::PortalIsKilled,
    Event::GatewayRestarts,
    Event::ClientGoes,
];

/// It goes with an address.
const WAY_OUT: &str = "ip route replace default via 10.200.14.1";

/// The gateway that dies and comes back; the other one lives all day.
const MORTAL: usize = 1;

/// Memory, descriptors and threads of a program.
#[derive(Clone, Copy, Debug)]
struct Held {
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
}

impl Held {
    fn by(process_id: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process_id}/status"))?;
        let number = |field: &str| {
            let line = status.lines().find(|line| line.starts_with(field));
            let words = line.and_then(|line| line.split_whitespace().nth(1));
            words
                .and_then(|word| word.parse().ok())
                .context("no such field")
        };
        let descriptors = fs::read_dir(format!("/proc/{process_id}/fd"))?.count();
        Ok(Self {
            resident_kib: number("VmRSS:")?,
            descriptors: descriptors as u64,
            threads: number("Threads:")?,
        })
    }

    /// True if it is as much as before, within the limits above.
    fn is_like(self, before: Self) -> bool {
        let allowed = before.resident_kib * (100 + MAX_GROWTH_PERCENT) / 100 + MAX_GROWTH_KIB;
        self.resident_kib <= allowed
            && self.descriptors <= before.descriptors + MAX_MORE_DESCRIPTORS
            && self.threads <= before.threads
    }
}

impl fmt::Display for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resident_kib,
            descriptors,
            threads,
        } = self;
        write!(
            formatter,
            "{} MiB, {descriptors} descriptors, {threads} threads",
            resident_kib / 1024
        )
    }
}

/// The lines that a program has logged in all of its lives.
#[derive(Debug, Default)]
struct Lines {
    of_past_lives: usize,
}

impl Lines {
    fn end_life(&mut self, output: &str) {
        self.of_past_lives += output.lines().count();
    }

    fn per_minute(&self, output: &str, span: Duration) -> f64 {
        let lines = self.of_past_lives + output.lines().count();
        lines as f64 * 60.0 / span.as_secs_f64()
    }
}

struct Day {
    bed: Bed,
    /// It comes and goes.
    other: Client,
    stream: NumberedStream,
    lease: Lease,
    portal_lines: Lines,
    mortal_lines: Lines,
}

impl Day {
    fn new() -> Result<Self> {
        let bed = Bed::new(2)?;
        let mut other = bed.product.other_client()?;
        other.name = "other".to_owned();
        let portal = &bed.product.portal;
        portal.token("client --actor laptop", &other.token_file())?;
        let stream = bed.numbered_stream()?;
        Ok(Self {
            bed,
            other,
            stream,
            lease: Lease::default(),
            portal_lines: Lines::default(),
            mortal_lines: Lines::default(),
        })
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        let product = &mut self.bed.product;
        match event {
            Event::ClientComes => self.other.start(),
            Event::ClientGoes => self.other.stop(),
            Event::LeaseChanges => self.lease.change(&product.client.namespace),
            Event::NetworkGoesAndComes => lose_network(&product.client.namespace),
            Event::PolicyIsAdded => add_policy(&product.portal),
            Event::PolicyIsRemoved => remove_policy(&product.portal),
            Event::NameMoves => {
                product
                    .names
                    .set(PRIVATE_NAME, &[PRIVATE_OTHER_V4.parse()?]);
                self.comes_to_be_found()?;
                self.bed
                    .product
                    .names
                    .set(PRIVATE_NAME, &[PRIVATE_V4.parse()?]);
                Ok(())
            }
            Event::SiteDnsFails => {
                fail_name(&product.names);
                Ok(())
            }
            Event::PortalRestarts => restart_portal(&mut product.portal, &mut self.portal_lines),
            Event::PortalIsKilled => kill_portal(&mut product.portal, &mut self.portal_lines),
            Event::GatewayDrains => self.drain(),
            Event::GatewayIsKilled => self.kill_the_one_in_use(),
            Event::GatewayRestarts => {
                restart_gateway(&mut product.gateways[MORTAL], &mut self.mortal_lines)
            }
        }
    }

    /// Lets events of one kind happen one after another, those of different kinds at the same time. An event that needs
    /// the portal waits until it is there.
    fn happen_at_once(&mut self) -> Result<()> {
        let product = &mut self.bed.product;
        let (names, namespace) = (&product.names, &product.client.namespace);
        let (steady, mortal) = product.gateways.split_at_mut(MORTAL);
        let (steady, mortal) = (&steady[0].name, &mut mortal[0]);
        let portal = Mutex::new(&mut product.portal);
        let portal = || portal.lock().unwrap_or_else(PoisonError::into_inner);
        let (other, lease) = (&mut self.other, &mut self.lease);
        let (portal_lines, mortal_lines) = (&mut self.portal_lines, &mut self.mortal_lines);
        let pause = || thread::sleep(BETWEEN_EVENTS);
        thread::scope(|scope| {
            let kinds = [
                scope.spawn(|| {
                    other.start().context("a client comes")?;
                    pause();
                    other.stop().context("a client goes")
                }),
                scope.spawn(|| {
                    lease.change(namespace)?;
                    pause();
                    lose_network(namespace)
                }),
                scope.spawn(|| {
                    add_policy(&portal()).context("a policy is added")?;
                    pause();
                    remove_policy(&portal()).context("a policy is removed")
                }),
                scope.spawn(|| {
                    names.set(PRIVATE_NAME, &[PRIVATE_OTHER_V4.parse()?]);
                    pause();
                    fail_name(names);
                    names.set(PRIVATE_NAME, &[PRIVATE_V4.parse()?]);
                    Ok(())
                }),
                scope.spawn(|| {
                    restart_portal(&mut portal(), portal_lines)?;
                    pause();
                    kill_portal(&mut portal(), portal_lines)
                }),
                scope.spawn(|| {
                    // It is refused while no other gateway could take the clients.
                    let drain = format!("gateway drain {steady} --now");
                    wait_until("another gateway for the clients", GOES_ON, || {
                        portal().admin(&drain).is_ok()
                    })?;
                    pause();
                    portal()
                        .admin(&format!("gateway undrain {steady}"))
                        .map(drop)
                }),
                scope.spawn(|| {
                    mortal_lines.end_life(&mortal.output());
                    mortal.kill()?;
                    pause();
                    mortal.start().context("a gateway comes back")?;
                    pause();
                    restart_gateway(mortal, mortal_lines)
                }),
            ];
            while kinds.iter().any(|kind| !kind.is_finished()) {
                self.stream.goes_on(GOES_ON)?;
            }
            let outcomes = kinds.map(|kind| kind.join().expect("an event does not panic"));
            outcomes.into_iter().collect()
        })
    }

    /// Sends the flows away from the gateway that lives all day.
    fn drain(&mut self) -> Result<()> {
        let product = &self.bed.product;
        let name = &product.gateways[1 - MORTAL].name;
        product
            .portal
            .admin(&format!("gateway drain {name} --now"))?;
        wait_until("the flows to go through the other one", GOES_ON, || {
            self.bed.serves_now() == Some(MORTAL)
        })?;
        self.stream.goes_on(GOES_ON)?;
        product.portal.admin(&format!("gateway undrain {name}"))?;
        Ok(())
    }

    fn kill_the_one_in_use(&mut self) -> Result<()> {
        ensure!(
            self.bed.serves_now() == Some(MORTAL),
            "nobody uses the one that dies"
        );
        let mortal = &mut self.bed.product.gateways[MORTAL];
        self.mortal_lines.end_life(&mortal.output());
        mortal.kill()?;
        self.stream.goes_on(GOES_ON)?;
        self.bed.product.gateways[MORTAL].start()
    }

    fn comes_to_be_found(&self) -> Result<()> {
        wait_until("an answer by name", GOES_ON, || {
            let line = format!("curl -fsS -m 2 http://{PRIVATE_NAME}/");
            self.bed.product.client.run_with_dns(&line).is_ok()
        })
    }

    /// The flow that policy allows goes on, and new connections succeed.
    fn works(&self) -> Result<()> {
        self.stream.goes_on(GOES_ON)?;
        self.bed.comes_to_reach(PRIVATE_V4, WEB_PORT)?;
        self.comes_to_be_found()
    }

    /// The client and a gateway live all day; of the others this is of their present life.
    fn held(&mut self) -> Result<[(&'static str, Held); 4]> {
        let product = &mut self.bed.product;
        Ok([
            ("client", Held::by(product.client.process()?.id())?),
            (
                "gateway",
                Held::by(product.gateways[1 - MORTAL].process()?.id())?,
            ),
            (
                "mortal gateway",
                Held::by(product.gateways[MORTAL].process()?.id())?,
            ),
            ("portal", Held::by(product.portal.process()?.id())?),
        ])
    }

    fn lines_per_minute(&self, span: Duration) -> [(&'static str, f64); 4] {
        let product = &self.bed.product;
        let none = Lines::default();
        [
            ("client", none.per_minute(&product.client.output(), span)),
            (
                "gateway",
                none.per_minute(&product.gateways[1 - MORTAL].output(), span),
            ),
            (
                "mortal gateway",
                self.mortal_lines
                    .per_minute(&product.gateways[MORTAL].output(), span),
            ),
            (
                "portal",
                self.portal_lines.per_minute(&product.portal.output(), span),
            ),
        ]
    }
}

/// Addresses of one network, as DHCP may give them.
#[derive(Debug, Default)]
struct Lease {
    changes: usize,
}

impl Lease {
    fn change(&mut self, client: &Namespace) -> Result<()> {
        let host = |changes: usize| if changes.is_multiple_of(2) { 2 } else { 77 };
        let (old, new) = (host(self.changes), host(self.changes + 1));
        self.changes += 1;
        let script = format!(
            "ip address del 10.200.14.{old}/24 dev veth14; ip address add 10.200.14.{new}/24 dev veth14; {WAY_OUT}",
        );
        client.shell(&script).map(drop)
    }
}

fn lose_network(client: &Namespace) -> Result<()> {
    let script = format!("ip link set veth14 down; sleep 3; ip link set veth14 up; {WAY_OUT}");
    client.shell(&script).map(drop)
}

fn add_policy(portal: &Portal) -> Result<()> {
    let more = access().replace("members = []", "members = [\"laptop\"]");
    portal.apply(&more).map(drop)
}

fn remove_policy(portal: &Portal) -> Result<()> {
    portal.apply(&access()).map(drop)
}

/// The site's DNS says SERVFAIL about one name for a while.
fn fail_name(names: &Names) {
    const SERVFAIL: u8 = 2;
    names.set_fault(PRIVATE_NAME, SERVFAIL);
    thread::sleep(BETWEEN_EVENTS);
    names.set_fault(PRIVATE_NAME, 0);
}

fn restart_portal(portal: &mut Portal, lines: &mut Lines) -> Result<()> {
    lines.end_life(&portal.output());
    portal.stop()?;
    portal.start()
}

fn kill_portal(portal: &mut Portal, lines: &mut Lines) -> Result<()> {
    lines.end_life(&portal.output());
    portal.kill()?;
    thread::sleep(BETWEEN_EVENTS);
    portal.start()
}

fn restart_gateway(gateway: &mut Gateway, lines: &mut Lines) -> Result<()> {
    lines.end_life(&gateway.output());
    gateway.restart()
}

/// The time for which it is to go on; none for one round.
fn span() -> Option<Duration> {
    let text = std::env::var(MINUTES).ok()?;
    let minutes: u64 = text.parse().expect("a number of minutes");
    Some(Duration::from_secs(60 * minutes))
}

#[test]
fn flows_that_are_allowed_go_on_through_all_that_happens_and_nothing_grows() {
    let span = span();
    let began = Instant::now();
    let mut day = Day::new().unwrap();
    let mut first = None;
    let mut rounds = 0;
    for event in EVENTS {
        day.happen(event)
            .with_context(|| format!("{event:?}"))
            .unwrap();
        day.works()
            .with_context(|| format!("after {event:?}"))
            .unwrap();
    }
    loop {
        let round_began = Instant::now();
        day.happen_at_once().context("all at once").unwrap();
        day.works().context("after all at once").unwrap();
        rounds += 1;
        let now = day.held().unwrap();
        first.get_or_insert(now);
        let Some(span) = span else { break };
        if began.elapsed() >= span {
            break;
        }
        thread::sleep(BETWEEN_ROUNDS.saturating_sub(round_began.elapsed()));
    }
    // Idle descriptors of the last events go.
    wait_until("no program to hold more than before", SOON, || {
        let now = day.held().unwrap();
        let pairs = now.iter().zip(first.unwrap());
        pairs
            .into_iter()
            .all(|((_, now), (_, first))| now.is_like(first))
    })
    .unwrap_or_else(|error| panic!("{error}: {first:?}, then {:?}", day.held()));
    let took = began.elapsed();
    for ((name, first), (_, now)) in first.unwrap().iter().zip(day.held().unwrap()) {
        println!("{name}: after round 1 {first}; after round {rounds} {now}");
    }
    for (name, lines) in day.lines_per_minute(took) {
        println!("{name}: {lines:.1} lines a minute");
        assert!(
            took < RATED_AFTER || lines <= MAX_LINES_PER_MINUTE,
            "{name}: {lines} lines a minute"
        );
    }
    println!(
        "longest silence of the datagrams: {:?}",
        day.stream.longest_gap()
    );
}
