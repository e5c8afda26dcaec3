//! Servers for the clients, and flows that record the times at which they stood still.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::namespace::Namespace;
use crate::wait_until;

/// Bytes that a served stream sends at once, and how often: 3 MB/s, so that several fit beside a
/// compiler.
const CHUNK_BYTES: usize = 16 * 1024;
const CHUNK_INTERVAL: Duration = Duration::from_millis(5);

/// A server that answers HTTP with one line, and any other first byte with an endless stream.
#[derive(Debug)]
pub struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at an address of the namespace.
    ///
    /// # Errors
    /// When it can't.
    pub fn start(namespace: &Namespace, address: IpAddr, port: u16) -> Result<Self> {
        let listener = namespace.inside(|| {
            let listener = TcpListener::bind((address, port));
            listener.with_context(|| format!("cannot listen at {address} port {port}"))
        })?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, from)) => {
                        let stopping = Arc::clone(&stopping);
                        thread::spawn(move || serve(stream, from, &stopping));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        let thread = Some(thread);
        Ok(Self { stop, thread })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Serves one connection; whatever goes wrong ends it.
fn serve(mut stream: TcpStream, from: SocketAddr, stop: &AtomicBool) {
    let _failed = stream.set_nonblocking(false);
    let mut first = [0; 1024];
    let Ok(len @ 1..) = stream.read(&mut first) else {
        return;
    };
    if first[..len].starts_with(b"GET ") {
        let here = stream.local_addr().map_or(from.ip(), |here| here.ip());
        let body = format!("you come from {} and reach {here}\n", from.ip());
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _gone = stream.write_all(format!("{head}{body}").as_bytes());
        return;
    }
    let chunk = [0x2a; CHUNK_BYTES];
    while !stop.load(Ordering::Relaxed) && stream.write_all(&chunk).is_ok() {
        thread::sleep(CHUNK_INTERVAL);
    }
}

/// A stream from a [`Server`] to a client, and when its last byte came.
#[derive(Debug)]
pub struct Download {
    stream: TcpStream,
    start: Instant,
    /// Milliseconds from `start` to the last byte.
    last_ms: Arc<AtomicU64>,
    /// The longest time without a byte, in milliseconds.
    longest_gap_ms: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Download {
    /// Connects from the namespace and reads until the connection ends.
    ///
    /// # Errors
    /// When nobody answers within ten seconds.
    pub fn start(namespace: &Namespace, address: IpAddr, port: u16) -> Result<Self> {
        let mut stream = namespace.inside(|| {
            let to = SocketAddr::new(address, port);
            let stream = TcpStream::connect_timeout(&to, Duration::from_secs(10));
            stream.with_context(|| format!("cannot connect to {to}"))
        })?;
        stream.write_all(b"stream\n")?;
        let download = Self {
            stream: stream.try_clone()?,
            start: Instant::now(),
            last_ms: Arc::default(),
            longest_gap_ms: Arc::default(),
            bytes: Arc::default(),
        };
        let (start, last_ms) = (download.start, Arc::clone(&download.last_ms));
        let (gap, bytes) = (
            Arc::clone(&download.longest_gap_ms),
            Arc::clone(&download.bytes),
        );
        thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            while let Ok(len @ 1..) = stream.read(&mut buffer) {
                let now_ms = millis(start.elapsed());
                let silent_ms = now_ms - last_ms.swap(now_ms, Ordering::Relaxed);
                gap.fetch_max(silent_ms, Ordering::Relaxed);
                bytes.fetch_add(len as u64, Ordering::Relaxed);
            }
        });
        wait_until("the download to begin", Duration::from_secs(10), || {
            download.bytes() > 4 * CHUNK_BYTES as u64
        })?;
        Ok(download)
    }

    /// Ends it from the client's side.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn end(&self) -> Result<()> {
        Ok(self.stream.shutdown(Shutdown::Both)?)
    }

    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The longest time without a byte so far, the time since the last one included.
    #[must_use]
    pub fn longest_gap(&self) -> Duration {
        let gap = Duration::from_millis(self.longest_gap_ms.load(Ordering::Relaxed));
        gap.max(self.silent_for())
    }

    /// Time since the last byte.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }

    /// Waits until nothing has come for two seconds, and says how long after `event` the last byte
    /// came.
    ///
    /// # Errors
    /// When it goes on for half a minute.
    pub fn cut_after(&self, event: Instant) -> Result<Duration> {
        let silence = Duration::from_secs(2);
        wait_until("the download to stop", Duration::from_secs(30), || {
            self.silent_for() >= silence
        })?;
        let last = self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        Ok(last.saturating_duration_since(event))
    }

    /// Waits until more bytes come than so far.
    ///
    /// # Errors
    /// When none come within `deadline`.
    pub fn goes_on(&self, deadline: Duration) -> Result<()> {
        let before = self.bytes();
        if self.silent_for() > deadline {
            bail!("nothing has come for {:?}", self.silent_for());
        }
        wait_until("the download to go on", deadline, || self.bytes() > before)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
