//! Records through a TLS stream of the relay: from an end's socket over loopback to its stream, and to the gateway.

use super::common::{BATCH, FIRST_PORT, GATEWAY_PORTS, MAIN_PORT, RECORD, Rate, at, batch};
use super::ends::{End, record};
use super::worker::Worker;
use anyhow::{Context, Result, ensure};
use culvert_base::Family;
use culvert_link::system_look_up;
use culvert_relay_tls::{Bridge, BridgeSettings};
use culvert_udp::{ReceiveBatch, SendError, Socket};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const TLS_PORT: u16 = 8_443;

/// The client's receiver index, to which the gateway answers pings.
const INDEX: u32 = 77;

/// Bytes of a ping: one of 64 bytes in a tunnel.
const PING: usize = 128;

/// The time between two pings.
const PING_EVERY: Duration = Duration::from_millis(5);

/// Bytes on their way at most, as a TCP connection in the tunnel has them: 2 ms at 2 Gbit/s.
const WINDOW: usize = 512 * 1_024;

/// Bytes on their way count as lost if nothing comes for this long.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// A client behind a network that blocks UDP, and its gateway.
struct Pair {
    worker: Worker,
    client: End,
    gateway: End,
    /// Dropping it closes the stream.
    _bridge: Bridge,
    _runtime: Runtime,
}

/// The measurements.
pub(super) struct Measured {
    pub(super) rate: Rate,
    /// The median and the 99th percentile of the round trips of pings in the same stream.
    pub(super) ping: [Duration; 2],
}

impl Pair {
    fn open() -> Result<Self> {
        let worker = Worker::start_with_tls(MAIN_PORT, GATEWAY_PORTS, TLS_PORT)?;
        let gateway = End::register(at(FIRST_PORT), None)?;
        let socket = Socket::bind(Family::V4, 0, 0)?;
        // As in a client: two threads for everything that waits for the network.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let bridge = runtime.block_on(Bridge::open(BridgeSettings {
            addresses: vec![at(TLS_PORT)],
            pin: worker.pin().context("the worker has no certificate")?,
            gateway_port: FIRST_PORT,
            tunnel_port: socket.local_port(),
            proxy: None,
            mark: None,
            look_up: system_look_up,
        }))?;
        let client = End::register_from(socket, bridge.local(), FIRST_PORT, Some(1))?;
        Ok(Self {
            worker,
            client,
            gateway,
            _bridge: bridge,
            _runtime: runtime,
        })
    }
}

/// Carries batches for a while, at `rate` bytes a second at most, with pings between them.
pub(super) fn measure(span: Duration, rate: Option<f64>) -> Result<Measured> {
    let pair = Pair::open()?;
    // The relay reads the client's index in its initiation.
    pair.client.send(&record(1, INDEX, 148), 148)?;
    let mut flow = Flow::new(&pair);
    let before = pair.worker.usage()?.cpu;
    let began = Instant::now();
    while began.elapsed() < span {
        let allowed = rate.map_or(f64::MAX, |rate| rate * began.elapsed().as_secs_f64());
        flow.send(allowed)?;
        flow.receive()?;
    }
    let elapsed = began.elapsed();
    let cpu = pair.worker.usage()?.cpu.saturating_sub(before);
    let bits = flow.arrived as f64 * 8.0 / 1e9;
    flow.trips.sort_unstable();
    let sent_pings = flow.pings;
    let trips = &flow.trips;
    ensure!(
        trips.len() as u64 * 10 >= sent_pings * 9,
        "{} of {sent_pings} pings came back",
        trips.len()
    );
    Ok(Measured {
        rate: Rate {
            gbit_per_s: bits / elapsed.as_secs_f64(),
            gbit_per_core: bits / cpu.as_secs_f64(),
            lost: flow.lost / RECORD as u64,
        },
        ping: [trips[trips.len() / 2], trips[trips.len() * 99 / 100]],
    })
}

/// The two ends of the flow, both in this thread.
struct Flow<'a> {
    pair: &'a Pair,
    began: Instant,
    batch: Vec<u8>,
    into: ReceiveBatch,
    sent: u64,
    arrived: u64,
    lost: u64,
    heard: Instant,
    pings: u64,
    pinged: Instant,
    trips: Vec<Duration>,
}

impl<'a> Flow<'a> {
    fn new(pair: &'a Pair) -> Self {
        let now = Instant::now();
        Self {
            pair,
            began: now,
            batch: batch(&record(4, 1, RECORD)),
            into: ReceiveBatch::new(4),
            sent: 0,
            arrived: 0,
            lost: 0,
            heard: now,
            pings: 0,
            pinged: now,
            trips: Vec::new(),
        }
    }

    fn send(&mut self, allowed: f64) -> Result<()> {
        let client = &self.pair.client;
        if self.pinged.elapsed() >= PING_EVERY {
            self.pinged = Instant::now();
            self.pings += 1;
            let mut ping = record(4, 1, PING);
            let nanos = u64::try_from(self.began.elapsed().as_nanos())?;
            ping[8..16].copy_from_slice(&nanos.to_le_bytes());
            client.send(&ping, PING)?;
        }
        let size = (BATCH * RECORD) as u64;
        while self.sent - self.arrived - self.lost + size <= WINDOW as u64
            && (self.sent as f64) < allowed
        {
            match client.socket.send(&self.batch, RECORD, &client.relay, 0) {
                Ok(()) => self.sent += size,
                Err(SendError::WouldBlock) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        let Pair {
            client, gateway, ..
        } = self.pair;
        if gateway.socket.receive_batch(&mut self.into)? > 0 {
            self.heard = Instant::now();
            for run in self.into.iter_mut() {
                for datagram in run.bytes.chunks(run.stride) {
                    if datagram.len() == PING {
                        let mut answer = datagram.to_vec();
                        answer[4..8].copy_from_slice(&INDEX.to_le_bytes());
                        gateway.send(&answer, PING)?;
                    } else if datagram.len() == RECORD {
                        self.arrived += RECORD as u64;
                    }
                }
            }
        } else if self.heard.elapsed() > LOST_AFTER {
            self.lost = self.sent - self.arrived;
            self.heard = Instant::now();
        }
        if client.socket.receive_batch(&mut self.into)? > 0 {
            for run in self.into.iter_mut().filter(|run| run.bytes.len() >= PING) {
                for answer in run.bytes.chunks_exact(PING) {
                    let mut nanos = [0; 8];
                    nanos.copy_from_slice(&answer[8..16]);
                    let sent = Duration::from_nanos(u64::from_le_bytes(nanos));
                    self.trips.push(self.began.elapsed().saturating_sub(sent));
                }
            }
        }
        Ok(())
    }
}
