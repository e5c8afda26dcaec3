//! Carries datagrams between a stream and its socket on loopback.

use crate::StreamEnd;
use crate::admission::Admitted;
use crate::counters::Counters;
use crate::tcp::Writer;
use culvert_base::{BootTime, Destination};
use culvert_relay_core::Message;
use culvert_relay_core::stream::{KEEPALIVE, KEEPALIVE_AFTER, Outbox, SILENCE_LIMIT, Unframer};
use culvert_udp::{ReceiveBatch, SendError, Socket};
use rustls::Connection;
use std::cell::RefCell;
use std::future::Future;
use std::io::{self, BufRead, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

/// Runs of one receive. Four full ones stay in the second-level cache until they are encrypted.
const RUNS_PER_BATCH: usize = 4;

/// Receives of each side in one turn; other streams have theirs then.
const RECEIVES_PER_TURN: usize = 2;

/// Bytes of one read of the TCP connection.
const READ_BYTES: usize = 256 * 1_024;

/// Frames that are encrypted at once, while the TCP connection takes all: one full batch.
const BYTES_AT_ONCE: usize = 66 * 1_024;

/// Frames that are encrypted at once after the TCP connection was full: one record of TLS. An encrypted record has to be
/// sent, however old it gets.
const BYTES_AT_ONCE_SLOWLY: usize = 16 * 1_024;

/// The interval at which a stream looks for silence and gives memory back.
const TICK: Duration = Duration::from_secs(1);

thread_local! {
    /// The buffers of the turn that a thread is at. A stream that waits has none.
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers {
        batch: ReceiveBatch::new(RUNS_PER_BATCH),
        stream: vec![0; READ_BYTES],
    });
}

struct Buffers {
    batch: ReceiveBatch,
    stream: Vec<u8>,
}

/// A socket on loopback that exchanges datagrams with one port there.
#[derive(Debug)]
pub(crate) struct Loopback {
    socket: AsyncFd<Descriptor>,
    peer: Destination,
}

#[derive(Debug)]
struct Descriptor(Socket);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Loopback {
    /// A socket for `peer_port`.
    pub(crate) fn open(peer_port: u16) -> io::Result<Self> {
        let socket = Socket::bind_loopback(peer_port).map_err(io::Error::other)?;
        Ok(Self {
            socket: register(Descriptor(socket))?,
            peer: Destination {
                address: (Ipv4Addr::LOCALHOST, peer_port).into(),
                source: None,
            },
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.socket.get_ref().0.local_port()).into()
    }

    async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await?.retain_ready();
        Ok(())
    }

    /// Receives runs of datagrams; false if there are none.
    fn receive(&self, batch: &mut ReceiveBatch) -> bool {
        let received = self.socket.try_io(Interest::READABLE, |socket| {
            match socket.0.receive_batch(batch)? {
                0 => Err(ErrorKind::WouldBlock.into()),
                count => Ok(count),
            }
        });
        match received {
            Ok(_) => true,
            Err(error) => {
                if error.kind() != ErrorKind::WouldBlock {
                    // Of an earlier datagram, for which nobody listened. The next turn receives what waits.
                    tracing::debug!(%error, "receiving on loopback");
                }
                false
            }
        }
    }

    /// Sends datagrams of one stride, in one call if the system takes it. Returns how many were not taken.
    fn send(&self, datagrams: &[u8], stride: usize) -> u64 {
        let socket = &self.socket.get_ref().0;
        match socket.send(datagrams, stride, &self.peer, 0) {
            Ok(()) => 0,
            Err(SendError::WouldBlock) => count(datagrams, stride),
            Err(_) if datagrams.len() > stride => {
                let send_one = |datagram: &[u8]| socket.send(datagram, stride, &self.peer, 0);
                let sent = datagrams.chunks(stride).map(send_one);
                sent.filter(Result::is_err).count() as u64
            }
            Err(error) => {
                tracing::debug!(%error, "sending on loopback");
                1
            }
        }
    }
}

/// Has the runtime wait for a socket.
#[expect(
    deprecated,
    reason = "it is unsound for what closes its descriptor early; a `Socket` owns its own, and the other way is unsafe"
)]
fn register(socket: Descriptor) -> io::Result<AsyncFd<Descriptor>> {
    AsyncFd::with_interest(socket, Interest::READABLE)
}

fn count(datagrams: &[u8], stride: usize) -> u64 {
    datagrams.len().div_ceil(stride.max(1)) as u64
}

fn is_registered(datagram: &[u8]) -> bool {
    matches!(Message::parse(datagram), Some(Message::Registered(_)))
}

/// A stream and its socket on loopback.
pub(crate) struct Pump {
    tls: Connection,
    tcp: TcpStream,
    loopback: Loopback,
    /// The place among a relay's streams.
    place: Option<Admitted>,
    counters: Arc<Counters>,
    outbox: Outbox,
    unframer: Unframer,
    /// The TCP connection is full.
    is_full: bool,
    began: Instant,
    sent: Instant,
    heard: Instant,
    /// Datagrams that were dropped, as far as they are counted.
    counted_drops: u64,
}

impl Pump {
    /// A stream that has been accepted.
    pub(crate) fn new(
        tls: Connection,
        tcp: TcpStream,
        loopback: Loopback,
        counters: Arc<Counters>,
    ) -> Self {
        let now = Instant::now();
        Self {
            tls,
            tcp,
            loopback,
            place: None,
            counters,
            outbox: Outbox::default(),
            unframer: Unframer::default(),
            is_full: false,
            began: now,
            sent: now,
            heard: now,
            counted_drops: 0,
        }
    }

    /// The same at a relay: it ends unless the end registers in time.
    pub(crate) fn with_place(self, place: Admitted) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    /// Carries datagrams until the stream ends, or `stop` is there.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) -> StreamEnd {
        let mut stop = pin!(stop);
        // Bytes behind the answer to the preface are decrypted already.
        let mut turned = self.decode();
        self.deliver();
        let mut timer = pin!(sleep_until(self.began + TICK));
        loop {
            if let Err(end) = turned {
                self.close();
                return end;
            }
            let due = self.wake_up();
            if due < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            let woken = tokio::select! {
                () = &mut stop => Err(StreamEnd::Here),
                () = evicted(&mut self.place) => Err(StreamEnd::TooMany),
                ready = self.tcp.readable() => ready.map_err(StreamEnd::Broken),
                ready = self.loopback.readable() => ready.map_err(StreamEnd::Broken),
                ready = self.tcp.writable(), if self.is_full => ready.map_err(StreamEnd::Broken),
                () = &mut timer => self.tick(),
            };
            turned = woken.and_then(|()| self.turn());
        }
    }

    /// The time of the next tick, or the one at which waiting datagrams are too old.
    fn wake_up(&self) -> Instant {
        let tick = Instant::now() + TICK;
        let expiry = self.outbox.poll_timeout().map(|at| {
            let span = at.saturating_since(BootTime::ZERO);
            self.began + span
        });
        expiry.map_or(tick, |expiry| expiry.min(tick))
    }

    fn now(&self) -> BootTime {
        BootTime::ZERO.saturating_add(self.began.elapsed())
    }

    /// Sends keepalives, and ends a silent stream.
    fn tick(&mut self) -> Result<(), StreamEnd> {
        self.outbox.expire(self.now());
        let age = self.began.elapsed();
        let is_late = |place: &Admitted| !place.is_registered() && age >= place.register_limit();
        if self.place.as_ref().is_some_and(is_late) {
            return Err(StreamEnd::Unregistered);
        }
        if self.heard.elapsed() >= SILENCE_LIMIT {
            return Err(StreamEnd::Silent);
        }
        if self.sent.elapsed() >= KEEPALIVE_AFTER && !self.is_full {
            self.sent = Instant::now();
            self.encrypt(&KEEPALIVE)?;
        }
        if self.heard.elapsed() >= TICK && self.sent.elapsed() >= TICK {
            self.unframer.rest();
            self.outbox.rest();
        }
        Ok(())
    }

    /// Carries what waits on either side, a bounded part of it.
    fn turn(&mut self) -> Result<(), StreamEnd> {
        BUFFERS.with_borrow_mut(|buffers| {
            for _ in 0..RECEIVES_PER_TURN {
                if !self.receive_datagrams(&mut buffers.batch)? {
                    break;
                }
                self.flush()?;
            }
            for _ in 0..RECEIVES_PER_TURN {
                if !self.receive_stream(&mut buffers.stream)? {
                    break;
                }
            }
            self.flush()
        })
    }

    fn receive_datagrams(&mut self, batch: &mut ReceiveBatch) -> Result<bool, StreamEnd> {
        if !self.loopback.receive(batch) {
            return Ok(false);
        }
        let now = self.now();
        let awaits = self
            .place
            .as_ref()
            .is_some_and(|place| !place.is_registered());
        let mut has_registered = false;
        let (mut datagrams, mut bytes) = (0, 0);
        for run in batch.iter_mut().filter(|run| !run.truncated) {
            if awaits {
                // The relay's own word: nobody else sends to this socket.
                has_registered |= run.bytes.chunks(run.stride).any(is_registered);
            }
            datagrams += count(run.bytes, run.stride);
            bytes += run.bytes.len() as u64;
            self.outbox.push(run.bytes, run.stride, now);
        }
        self.counters.datagrams_out.add(datagrams);
        self.counters.bytes_out.add(bytes);
        if let Some(place) = self.place.as_mut().filter(|_| has_registered)
            && !place.register()
        {
            return Err(StreamEnd::TooMany);
        }
        Ok(true)
    }

    /// Writes as much as the TCP connection takes.
    fn flush(&mut self) -> Result<(), StreamEnd> {
        loop {
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut Writer(&self.tcp)) {
                    Ok(0) => return Err(StreamEnd::Broken(ErrorKind::WriteZero.into())),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.is_full = true;
                        self.count_drops();
                        return Ok(());
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(StreamEnd::Broken(error)),
                }
            }
            let most = match self.is_full {
                true => BYTES_AT_ONCE_SLOWLY,
                false => BYTES_AT_ONCE,
            };
            let now = self.now();
            let Some(frames) = self.outbox.take(most, now) else {
                self.is_full = false;
                self.count_drops();
                return Ok(());
            };
            let written = self.tls.writer().write_all(frames);
            written.map_err(StreamEnd::Broken)?;
            self.sent = Instant::now();
        }
    }

    fn encrypt(&mut self, frames: &[u8]) -> Result<(), StreamEnd> {
        let written = self.tls.writer().write_all(frames);
        written.map_err(StreamEnd::Broken)
    }

    fn count_drops(&mut self) {
        let dropped = self.outbox.dropped();
        self.counters.too_slow.add(dropped - self.counted_drops);
        self.counted_drops = dropped;
    }

    /// Reads from the TCP connection, and delivers what came; false if nothing did.
    fn receive_stream(&mut self, buffer: &mut [u8]) -> Result<bool, StreamEnd> {
        let mut rest: &[u8] = match self.tcp.try_read(buffer) {
            Ok(0) => return Err(StreamEnd::Closed),
            Ok(read) => &buffer[..read],
            Err(error) => {
                return match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
                    ErrorKind::ConnectionReset => Err(StreamEnd::Closed),
                    _ => Err(StreamEnd::Broken(error)),
                };
            }
        };
        while !rest.is_empty() {
            self.tls.read_tls(&mut rest).map_err(StreamEnd::Broken)?;
            let state = self.tls.process_new_packets();
            let state = state.map_err(StreamEnd::Tls)?;
            if state.plaintext_bytes_to_read() > 0 {
                self.decode()?;
            }
            if state.peer_has_closed() {
                self.deliver();
                return Err(StreamEnd::Closed);
            }
        }
        self.deliver();
        Ok(true)
    }

    /// Reads the frames that are decrypted, and delivers full batches. At a fault, all that came before it.
    fn decode(&mut self) -> Result<(), StreamEnd> {
        let decoded = loop {
            let mut reader = self.tls.reader();
            let plaintext = match reader.fill_buf() {
                Ok([]) => break Err(StreamEnd::Closed),
                Ok(plaintext) => plaintext,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => break Err(StreamEnd::Broken(error)),
            };
            self.heard = Instant::now();
            let len = plaintext.len();
            let delivery = Delivery {
                loopback: &self.loopback,
                counters: &self.counters,
            };
            let mut emit = |datagrams: &[u8], stride: usize| delivery.send(datagrams, stride);
            if let Err(error) = self.unframer.push(plaintext, &mut emit) {
                break Err(StreamEnd::Frame(error));
            }
            reader.consume(len);
        };
        self.deliver();
        decoded
    }

    /// Delivers the datagrams that have come whole.
    fn deliver(&mut self) {
        let delivery = Delivery {
            loopback: &self.loopback,
            counters: &self.counters,
        };
        let mut emit = |datagrams: &[u8], stride: usize| delivery.send(datagrams, stride);
        self.unframer.flush(&mut emit);
    }

    /// Says goodbye, if the TCP connection takes it.
    fn close(&mut self) {
        self.tls.send_close_notify();
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Writer(&self.tcp)) {
                Ok(written) if written > 0 => {}
                // The other side is told by the end of the connection.
                _ => return,
            }
        }
    }
}

async fn evicted(place: &mut Option<Admitted>) {
    match place {
        Some(place) => place.evicted().await,
        None => std::future::pending().await,
    }
}

/// The way of datagrams out of a stream.
struct Delivery<'a> {
    loopback: &'a Loopback,
    counters: &'a Counters,
}

impl Delivery<'_> {
    fn send(&self, datagrams: &[u8], stride: usize) {
        self.counters.datagrams_in.add(count(datagrams, stride));
        self.counters.bytes_in.add(datagrams.len() as u64);
        let lost = self.loopback.send(datagrams, stride);
        if lost > 0 {
            self.counters.not_delivered.add(lost);
        }
    }
}
