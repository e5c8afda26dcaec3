//! One TCP flow through the tunnel, as fast as it can, and its rate while it lasts.
//!
//! iperf3 tells whole seconds of a flow, and begins a new one for each test. Here one flow crosses all phases.

use anyhow::{Context, Result, bail};
use culvert_lab::Namespace;
use nix::sys::socket::{setsockopt, sockopt};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes of a write, as those of iperf3.
const WRITE_BYTES: usize = 128 << 10;

/// Bytes of a read.
const READ_BYTES: usize = 1 << 20;

/// A flow without progress for this long has failed.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// A flow from a client to a server. It ends when it is dropped.
pub(super) struct Flow {
    received: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    pub(super) fn start(client: &Namespace, server: &Namespace, address: IpAddr) -> Result<Self> {
        let listener = server.inside(|| Ok(TcpListener::bind((address, 0))?))?;
        let to = listener.local_addr()?;
        let sender = client
            .inside(|| Ok(TcpStream::connect_timeout(&to, STALL_LIMIT)?))
            .context("cannot connect through the tunnel")?;
        // Hosts have different defaults, and figures of two of them cannot be compared.
        setsockopt(&sender, sockopt::TcpCongestion, &OsString::from("cubic"))
            .context("this kernel has no cubic")?;
        sender.set_write_timeout(Some(STALL_LIMIT))?;
        let (receiver, _) = listener.accept()?;
        receiver.set_read_timeout(Some(STALL_LIMIT))?;
        let (received, is_over) = (Arc::default(), Arc::default());
        let mut flow = Self {
            received: Arc::clone(&received),
            is_over: Arc::clone(&is_over),
            threads: Vec::new(),
        };
        flow.threads
            .push(thread::spawn(move || send(sender, &is_over)));
        flow.threads
            .push(thread::spawn(move || receive(receiver, &received)));
        Ok(flow)
    }

    /// The point from which a rate is taken.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            at: Instant::now(),
            received: self.received.load(Ordering::Relaxed),
        }
    }

    /// Bits a second since then.
    pub(super) fn rate_since(&self, mark: &Mark) -> Result<f64> {
        let now = self.mark();
        let bytes = now.received - mark.received;
        if bytes == 0 {
            bail!("the flow stands still");
        }
        let span = now.at.duration_since(mark.at);
        Ok(crate::tcp::float(bytes) * 8.0 / span.as_secs_f64())
    }
}

/// A moment of a flow.
pub(super) struct Mark {
    at: Instant,
    received: u64,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Nothing in them panics.
            let _ended = thread.join();
        }
    }
}

/// Sends until it is over. A flow that breaks stands still, which is seen where its rate is taken.
fn send(mut stream: TcpStream, is_over: &AtomicBool) {
    let payload = vec![0x5a; WRITE_BYTES];
    while !is_over.load(Ordering::Relaxed) && stream.write_all(&payload).is_ok() {}
}

fn receive(mut stream: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(len) = stream.read(&mut buffer) {
        if len == 0 {
            break;
        }
        received.fetch_add(len as u64, Ordering::Relaxed);
    }
}
