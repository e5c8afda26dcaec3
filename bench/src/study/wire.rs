//! A link that delays and loses packets, for kernels without netem: a TUN interface in each namespace,
//! and threads of this program in between.
//!
//! Without loss it carries superframes whole, so that it is fast enough for the network below a
//! tunnel. With loss it carries single packets, because only a packet that the network would lose may
//! be lost. The study says what it carries at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use culvert_io_models::{Way, Weather};
use culvert_lab::{Link, Namespace, Subnet};
use culvert_tun::{Device, Options};

/// The MTU of an Ethernet link.
const MTU_BYTES: u16 = 1500;

/// A wire, until it is dropped.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) link: Link,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Wire {
    /// Joins two namespaces; with `offload` it carries superframes whole, which none may where some are lost. The
    /// choice of the lost ones follows from `seed`, another in either direction.
    pub(crate) fn between(
        left: &Namespace,
        right: &Namespace,
        subnet: Subnet,
        weather: Weather,
        offload: bool,
        seed: u32,
    ) -> Result<Self> {
        let interface = format!("wire{}", subnet.0);
        let options = Options {
            name: interface.clone(),
            mtu: MTU_BYTES,
            offload,
            steering: None,
            bound: false,
        };
        let open = |namespace: &Namespace| {
            namespace.inside(|| Device::create(&options).context("cannot make a wire"))
        };
        let (left_end, right_end) = (open(left)?, open(right)?);
        let link = Link::on(left, right, subnet, interface)?;
        let over = Arc::new(AtomicBool::new(false));
        let ends = [Arc::new(left_end), Arc::new(right_end)];
        let one_way = |from: u8| {
            let way = Way::new(weather, 2 * u64::from(seed) + u64::from(from));
            let from = usize::from(from);
            let (from, to) = (Arc::clone(&ends[from]), Arc::clone(&ends[1 - from]));
            let over = Arc::clone(&over);
            thread::Builder::new()
                .name("wire".to_owned())
                .spawn(move || {
                    // An interface that is gone ends the way.
                    let _gone = way.forward(&from.queues()[0], &to.queues()[0], &over);
                })
        };
        let threads = vec![one_way(0)?, one_way(1)?];
        Ok(Self {
            link,
            over,
            threads,
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _panicked = thread.join();
        }
    }
}
