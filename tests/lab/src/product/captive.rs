//! A network that answers everything itself, as those of hotels do before a guest has paid.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

use super::networks::join;
use crate::link::Subnet;
use crate::namespace::Namespace;
use culvert_base::Family;

/// The ports to which all TCP and all UDP is led.
pub const CAPTIVE_TCP_PORT: u16 = 8443;
const UDP_PORT: u16 = 9;

/// The first bytes of Culvert's own datagrams, and the kinds of a question for the address and of its answer.
const CULVERT: &[u8] = b"CVR";
const ASK: u8 = 1;
const CHALLENGE: u8 = 2;

/// The network. Its router is led all TCP at [`CAPTIVE_TCP_PORT`], and answers UDP with lies.
#[derive(Debug)]
pub struct CaptiveNetwork {
    /// Its router, where something is to listen for TCP.
    pub router: Namespace,
    net: Subnet,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl CaptiveNetwork {
    /// A router beside a machine, which does not use it yet.
    ///
    /// # Errors
    /// When `ip` or `nft` refuses.
    pub(super) fn new(machine: &Namespace, net: Subnet) -> Result<Self> {
        let router = Namespace::new()?;
        join(&router, machine, net)?;
        router.shell(&format!(
            "nft 'add table ip captive; \
             add chain ip captive in {{ type nat hook prerouting priority dstnat; }}; \
             add rule ip captive in meta l4proto tcp redirect to :{CAPTIVE_TCP_PORT}; \
             add rule ip captive in meta l4proto udp redirect to :{UDP_PORT}'"
        ))?;
        let socket = router.inside(|| Ok(UdpSocket::bind(("0.0.0.0", UDP_PORT))?))?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stopping, counting) = (Arc::clone(&stop), Arc::clone(&answered));
        let thread = thread::spawn(move || lie(&socket, &stopping, &counting));
        Ok(Self {
            router,
            net,
            stop,
            answered,
            thread: Some(thread),
        })
    }

    /// The router's address for the machine.
    pub(super) fn via(&self) -> String {
        self.net.host(Family::V4, 1).to_string()
    }

    /// Datagrams that were answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

impl Drop for CaptiveNetwork {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Answers each datagram by itself, by garbage, and a question of an end by a challenge without any secret.
fn lie(socket: &UdpSocket, stop: &AtomicBool, answered: &AtomicU64) {
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        answered.fetch_add(1, Ordering::Relaxed);
        let datagram = &mut buffer[..len];
        // A datagram that does not leave is one lie less.
        let _unsent = socket.send_to(datagram, from);
        if datagram.starts_with(CULVERT) && datagram.get(3) == Some(&ASK) {
            datagram[3] = CHALLENGE;
            let _unsent = socket.send_to(datagram, from);
        }
        datagram.iter_mut().for_each(|byte| *byte = !*byte);
        let _unsent = socket.send_to(datagram, from);
    }
}
