//! Measures handshakes with an end that strangers flood with initiations.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use culvert_lab::{Implementation, Namespace, WireGuardEnd};
use culvert_session::{PrivateKey, PublicKey};

use super::attack::{Attack, Counts, Kind};
use super::newcomer::{Newcomer, random};
use super::strangers::Strangers;
use super::waits::{GIVEN_UP, report};

const PORT: u16 = 51820;
const MTU_BYTES: u32 = 1420;

/// Inside the tunnel.
const INNER: &str = "10.98.0.1/16";

/// Between two handshakes.
const PAUSE: Duration = Duration::from_millis(250);

/// A flood has run for this long before anything is measured, so that the end is under load.
const LEAD: Duration = Duration::from_secs(2);

/// The rate of the strangers, and the number of measurements.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Initiations a second that strangers send; 0 is as many as one thread can.
    #[arg(long, default_value_t = 20_000)]
    initiations_per_s: u32,
    /// Handshakes to measure under each flood.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100))]
    handshakes: u8,
}

/// Handshakes under every kind of flood, printed. Returns the longest.
pub(super) fn measure(options: &Options, namespace: &Namespace) -> Result<Duration> {
    // Of everybody else.
    namespace.run("ip -6 route add local 3fff::/20 dev lo")?;
    let end = WireGuardEnd::start(&Implementation::culvert(), namespace)?;
    end.configure(PORT, &[INNER.to_owned()], MTU_BYTES)?;
    let mut longest = Duration::ZERO;
    let mut peers = 0;
    for strangers in [Strangers::OneAddress, Strangers::OneSite] {
        for kind in Kind::ALL {
            let mut keys = Vec::new();
            for _ in 0..options.handshakes {
                peers += 1;
                keys.push(add_peer(&end, peers)?);
            }
            let flood = Flood {
                end: &end,
                strangers,
                kind,
                per_second: options.initiations_per_s,
            };
            longest = longest.max(flood.measure(keys)?);
        }
    }
    Ok(longest)
}

/// A peer whose key nobody has used yet.
fn add_peer(end: &WireGuardEnd, number: u16) -> Result<PrivateKey> {
    let key = PrivateKey::from_bytes(random()?);
    let public_key = STANDARD.encode(key.public_key().as_bytes());
    let [high, low] = number.to_be_bytes();
    let address = format!("10.98.{}.{low}/32", 1 + high);
    end.set_peer(&public_key, None, &address, None)?;
    Ok(key)
}

/// A flood, and the end that it is for.
struct Flood<'end> {
    end: &'end WireGuardEnd,
    strangers: Strangers,
    kind: Kind,
    per_second: u32,
}

impl Flood<'_> {
    /// Has each key make a handshake meanwhile, and prints how long it took.
    fn measure(&self, keys: Vec<PrivateKey>) -> Result<Duration> {
        let counts = Counts::default();
        let before = self.drops()?;
        let began = Instant::now();
        let times = self.end.namespace.inside(|| self.run(keys, &counts))?;
        let seconds = began.elapsed().as_secs_f64();
        let sent = counts.sent.load(Ordering::Relaxed);
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{:.0} initiations a second {}, {}; {sent} in {seconds:.1} s",
            sent as f64 / seconds,
            self.strangers.name(),
            self.kind.name(),
        )?;
        let longest = report(&mut out, "a handshake", times)?;
        for (reason, count) in self.drops()? {
            let count = count - before.get(&reason).copied().unwrap_or_default();
            if count > 0 {
                writeln!(out, "  dropped as {reason}: {count}")?;
            }
        }
        Ok(longest)
    }

    fn run(&self, keys: Vec<PrivateKey>, counts: &Counts) -> Result<Vec<Duration>> {
        let to = SocketAddr::new(self.strangers.target(), PORT);
        let receiver = self.public_key()?;
        let attack = Attack::new(self.strangers, self.kind, to, &receiver)?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let flood = scope.spawn(|| attack.run(self.per_second, &is_over, counts));
            let times = self
                .lead(counts)
                .and_then(|()| handshakes(keys, to, &receiver));
            is_over.store(true, Ordering::Relaxed);
            flood.join().expect("the flood does not panic")?;
            times
        })
    }

    /// Waits until the strangers have what they need.
    fn lead(&self, counts: &Counts) -> Result<()> {
        thread::sleep(LEAD);
        let began = Instant::now();
        let addresses = self.strangers.addresses();
        let wanted = match self.kind {
            // The last ones are answered without a cookie again and again.
            Kind::Cookies => addresses - addresses / 100,
            Kind::WrongMac1 | Kind::NoCookie => 0,
        };
        loop {
            let cookies = counts.cookies.load(Ordering::Relaxed);
            if cookies >= wanted {
                return Ok(());
            }
            ensure!(
                began.elapsed() < GIVEN_UP,
                "the strangers got {cookies} of {wanted} cookies"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn public_key(&self) -> Result<PublicKey> {
        let key = STANDARD.decode(&self.end.keys.public_key)?;
        let key: [u8; 32] = key.try_into().ok().context("a key has 32 bytes")?;
        Ok(PublicKey::from_bytes(key))
    }

    /// Counts of the messages that the end has dropped, by stage and reason.
    fn drops(&self) -> Result<BTreeMap<String, u64>> {
        let status = self.end.culvert_json()?;
        let drops = status["drops"].as_array().context("no list of drops")?;
        let named = drops.iter().map(|drop| {
            let [stage, reason] = ["stage", "reason"].map(|key| drop[key].as_str().unwrap_or("?"));
            let count = drop["count"].as_u64().unwrap_or_default();
            (format!("{stage} {reason}"), count)
        });
        Ok(named.collect())
    }
}

/// The address of somebody who is no stranger: each has another, and an IPv6 /32 of their own (RFC 9637).
fn newcomer_address(to: SocketAddr, number: u8) -> IpAddr {
    match to {
        SocketAddr::V4(_) => Ipv4Addr::new(127, 0, 1, 1 + number).into(),
        SocketAddr::V6(_) => Ipv6Addr::new(0x3fff, number.into(), 0, 0, 0, 0, 0, 1).into(),
    }
}

/// The time of a handshake of each key, one after the other.
fn handshakes(
    keys: Vec<PrivateKey>,
    to: SocketAddr,
    receiver: &PublicKey,
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for (number, key) in (0..).zip(keys) {
        let from = newcomer_address(to, number);
        times.push(Newcomer::new(key, receiver)?.handshake(from, to)?);
        thread::sleep(PAUSE);
    }
    Ok(times)
}
