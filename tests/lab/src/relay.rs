//! A path that does as it is told.
//!
//! The relay stands between two ends: the left one believes it to be the right one. A function
//! decides for each datagram what the relay sends on: the same datagram, another one, several,
//! none.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::namespace::Namespace;

/// The largest UDP payload.
const DATAGRAM_MAX_BYTES: usize = 65_535;

/// The longest time in which a dropped relay stops.
const READ_TIMEOUT: Duration = Duration::from_millis(50);

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the end that knows the relay as its peer.
    LeftToRight,
    /// From the end behind the relay.
    RightToLeft,
}

/// A running relay; it ends when dropped.
#[derive(Debug)]
pub struct Relay {
    sides: Arc<Sides>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay in `namespace` that listens on `listen` for the left end and passes to the
    /// right end at `right`.
    ///
    /// `decide` is called for each datagram, from one thread a direction; what it returns is sent
    /// on.
    ///
    /// # Errors
    /// When the sockets cannot be bound.
    pub fn start(
        namespace: &Namespace,
        listen: SocketAddr,
        right: SocketAddr,
        decide: impl Fn(Direction, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Result<Self> {
        let sides = Arc::new(namespace.inside(|| Sides::bind(listen, right))?);
        let decide = Arc::new(decide);
        let threads = [Direction::LeftToRight, Direction::RightToLeft]
            .into_iter()
            .map(|direction| {
                let (sides, decide) = (sides.clone(), decide.clone());
                thread::spawn(move || sides.pump(direction, |datagram| decide(direction, datagram)))
            })
            .collect();
        Ok(Self { sides, threads })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.sides.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the deciding function has been printed already.
            let _panicked = thread.join();
        }
    }
}

#[derive(Debug)]
struct Sides {
    left: UdpSocket,
    /// The left end is wherever its last datagram came from.
    left_at: Mutex<Option<SocketAddr>>,
    right: UdpSocket,
    stop: AtomicBool,
}

impl Sides {
    fn bind(listen: SocketAddr, right_at: SocketAddr) -> Result<Self> {
        let left = UdpSocket::bind(listen).context("cannot bind the relay")?;
        let right = UdpSocket::bind(SocketAddr::new(listen.ip(), 0))?;
        right.connect(right_at)?;
        for socket in [&left, &right] {
            socket.set_read_timeout(Some(READ_TIMEOUT))?;
        }
        Ok(Self {
            left,
            left_at: Mutex::new(None),
            right,
            stop: AtomicBool::new(false),
        })
    }

    /// Carries one direction until told to stop.
    fn pump(&self, direction: Direction, decide: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
        let from = match direction {
            Direction::LeftToRight => &self.left,
            Direction::RightToLeft => &self.right,
        };
        let mut buffer = vec![0; DATAGRAM_MAX_BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            // Errors are time-outs, or refusals of an end that is down: both pass.
            let Ok((length, source)) = from.recv_from(&mut buffer) else {
                continue;
            };
            if direction == Direction::LeftToRight {
                *self.left_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
            }
            for datagram in decide(&buffer[..length]) {
                self.forward(direction, &datagram);
            }
        }
    }

    /// Sends on; a datagram that an end refuses is lost, as on any path.
    fn forward(&self, direction: Direction, datagram: &[u8]) {
        match direction {
            Direction::LeftToRight => {
                let _lost = self.right.send(datagram);
            }
            Direction::RightToLeft => {
                if let Some(at) = *self.left_at.lock().unwrap_or_else(PoisonError::into_inner) {
                    let _lost = self.left.send_to(datagram, at);
                }
            }
        }
    }
}
