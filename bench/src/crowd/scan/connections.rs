//! Short TCP connections of one client, one after the other: how many fail, and how long they take.

use anyhow::{Result, ensure};
use culvert_lab::Namespace;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A connection that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(2);

/// Between two connections.
const PAUSE: Duration = Duration::from_millis(10);

const QUESTION: &[u8; 64] = &[0x5a; 64];

/// A server that sends back what comes, one connection after the other.
pub(super) struct Echo {
    pub(super) address: SocketAddr,
}

/// The connections of a span.
pub(super) struct Connections {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Option<Duration>>>,
}

/// The times of connections, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionTimes {
    pub(super) count: usize,
    pub(super) failed: usize,
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
}

impl Echo {
    /// It lasts as long as this process.
    pub(super) fn start(namespace: &Namespace, address: SocketAddr) -> Result<Self> {
        let listener = namespace.inside(|| Ok(TcpListener::bind(address)?))?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A connection that breaks is counted at its client.
                let _broken = echo(stream);
            }
        });
        Ok(Self { address })
    }
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut question = [0; QUESTION.len()];
    stream.read_exact(&mut question)?;
    stream.write_all(&question)
}

impl Connections {
    pub(super) fn start(client: &Namespace, to: SocketAddr) -> Self {
        let (client, is_over) = (client.clone(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut times = Vec::new();
            let all = client.inside(|| {
                while !flag.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    times.push(connect_once(to).ok().map(|()| began.elapsed()));
                    thread::sleep(PAUSE);
                }
                Ok(())
            });
            // The namespace is there as long as its handle.
            all.map(|()| times).unwrap_or_default()
        });
        Self { is_over, thread }
    }

    pub(super) fn stop(self) -> Result<ConnectionTimes> {
        self.is_over.store(true, Ordering::Relaxed);
        let times = self.thread.join().unwrap_or_default();
        ensure!(!times.is_empty(), "no connection was tried");
        let mut ms: Vec<f64> = times
            .iter()
            .map(|time| time.unwrap_or(LIMIT).as_secs_f64() * 1e3)
            .collect();
        ms.sort_by(f64::total_cmp);
        let at = |percent: usize| ms[(ms.len() * percent).div_ceil(100).max(1) - 1];
        Ok(ConnectionTimes {
            count: times.len(),
            failed: times.iter().filter(|time| time.is_none()).count(),
            median_ms: at(50),
            p99_ms: at(99),
        })
    }
}

/// Connects, asks, and hears the answer.
fn connect_once(to: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(QUESTION)?;
    let mut answer = [0; QUESTION.len()];
    stream.read_exact(&mut answer)
}

impl std::fmt::Display for ConnectionTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} connections: {} failed, half within {:.2} ms, 99 % within {:.2} ms",
            self.count, self.failed, self.median_ms, self.p99_ms
        )
    }
}
