//! A client's first connections to one address after the other: each needs access that nobody has asked for yet.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Product;
use super::servers::Server;
use crate::namespace::Namespace;
use crate::wait_until;

/// Networks of the private one in which nothing else is. Every address there answers.
const UNUSED_NETS: [&str; 2] = ["10.50.0.64/26", "10.50.0.128/25"];
const UNUSED: RangeInclusive<u8> = 64..=254;

/// The port at which these addresses answer.
const PORT: u16 = 8080;

/// Between two uses.
const PAUSE: Duration = Duration::from_millis(250);

/// The time of one attempt to connect, after which a new one begins. The client holds its packet until there is access.
const ATTEMPT: Duration = Duration::from_secs(2);

/// Longer than a use takes while everything is well.
const ORDINARY: Duration = Duration::from_millis(100);

/// Between two attempts, the first of which may have been refused at once.
const RETRY: Duration = Duration::from_millis(50);

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct FirstUse {
    /// The address that it reaches.
    pub address: IpAddr,
    /// The time of its first packet.
    pub began: Instant,
    /// The time of the server's answer, if it has come.
    pub answered: Option<Instant>,
}

impl FirstUse {
    /// The time until the answer, or until now.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.answered.unwrap_or_else(Instant::now) - self.began
    }
}

/// A thread that uses one address after the other for the first time.
#[derive(Debug)]
pub struct FirstUses {
    stop: Arc<AtomicBool>,
    uses: Arc<Mutex<Vec<FirstUse>>>,
    thread: Option<JoinHandle<()>>,
}

impl FirstUses {
    /// The part of an access file by which the group `staff` may use all these addresses, each as a resource of the site
    /// `lab`.
    #[must_use]
    pub fn access() -> String {
        let of = |number: u8| {
            let address = unused(number);
            format!(
                "[[resource]]\nname = \"app-{number}\"\nsite = \"lab\"\nkind = \"address\"\naddress = \"{address}\"\n\
                 filters = [{{ protocol = \"tcp\", ports = [{PORT}] }}]\n\n\
                 [[policy]]\nname = \"staff-app-{number}\"\ngroup = \"staff\"\nresource = \"app-{number}\"\n\n"
            )
        };
        UNUSED.map(of).collect()
    }

    /// A server behind the gateways that answers at all these addresses.
    ///
    /// # Errors
    /// When `ip` refuses, as it does the second time.
    pub fn serve(product: &Product) -> Result<Server> {
        for net in UNUSED_NETS {
            product
                .private
                .run(&format!("ip route add local {net} dev lo"))?;
        }
        Server::start(&product.private, Ipv4Addr::UNSPECIFIED.into(), PORT)
    }

    /// Begins to connect from the namespace. It ends with the last address.
    #[must_use]
    pub fn start(namespace: &Namespace) -> Self {
        let (stop, uses) = (Arc::<AtomicBool>::default(), Arc::default());
        let (namespace, stopping, noted) =
            (namespace.clone(), Arc::clone(&stop), Arc::clone(&uses));
        let thread = thread::spawn(move || {
            let _not_entered = namespace.inside(|| {
                for address in UNUSED.map(unused) {
                    use_once(SocketAddr::new(address, PORT), &noted, &stopping);
                    if stopping.load(Ordering::Relaxed) {
                        break;
                    }
                    thread::sleep(PAUSE);
                }
                Ok(())
            });
        });
        let thread = Some(thread);
        Self { stop, uses, thread }
    }

    /// All that have begun.
    #[must_use]
    pub fn so_far(&self) -> Vec<FirstUse> {
        lock(&self.uses).clone()
    }

    /// The first one that began after `event` and has its answer.
    #[must_use]
    pub fn first_after(&self, event: Instant) -> Option<FirstUse> {
        let uses = lock(&self.uses);
        let is_it = |it: &&FirstUse| it.began >= event && it.answered.is_some();
        uses.iter().find(is_it).copied()
    }

    /// The one of this address, if it has begun.
    #[must_use]
    pub fn of(&self, address: IpAddr) -> Option<FirstUse> {
        let uses = lock(&self.uses);
        uses.iter().find(|it| it.address == address).copied()
    }

    /// Waits until one is without an answer for longer than any takes, `event` being what keeps it waiting.
    ///
    /// # Errors
    /// When none is within `deadline`, as after the last address.
    pub fn kept_waiting_by(&self, event: Instant, deadline: Duration) -> Result<FirstUse> {
        let waits = || {
            let last = lock(&self.uses).last().copied()?;
            let since = last.began.max(event);
            (last.answered.is_none() && since.elapsed() >= ORDINARY).then_some(last)
        };
        let mut waiting = None;
        wait_until("a first use that waits", deadline, || {
            waiting = waits();
            waiting.is_some()
        })?;
        waiting.context("one has just been waiting")
    }
}

impl Drop for FirstUses {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn unused(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 50, 0, number).into()
}

/// Tries until the server has answered.
fn use_once(target: SocketAddr, uses: &Mutex<Vec<FirstUse>>, stop: &AtomicBool) {
    lock(uses).push(FirstUse {
        address: target.ip(),
        began: Instant::now(),
        answered: None,
    });
    while !stop.load(Ordering::Relaxed) {
        if is_answered(target) {
            if let Some(last) = lock(uses).last_mut() {
                last.answered = Some(Instant::now());
            }
            return;
        }
        thread::sleep(RETRY);
    }
}

fn is_answered(target: SocketAddr) -> bool {
    let answer = || -> Result<bool> {
        let mut stream = TcpStream::connect_timeout(&target, ATTEMPT)?;
        stream.set_read_timeout(Some(ATTEMPT))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut first = [0; 12];
        stream.read_exact(&mut first)?;
        Ok(first == *b"HTTP/1.1 200")
    };
    answer().unwrap_or(false)
}

fn lock(uses: &Mutex<Vec<FirstUse>>) -> MutexGuard<'_, Vec<FirstUse>> {
    uses.lock().unwrap_or_else(PoisonError::into_inner)
}
