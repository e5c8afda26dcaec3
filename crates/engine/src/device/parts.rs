//! The parts of a device before its threads start: the interface, the gates, and the workers with their queues.

use crate::configuration::{BULK_QUEUES_PER_WORKER, GateKind, Options};
use crate::control::{DeviceGates, Shared};
use crate::entropy::random_seed;
use crate::error::EngineError;
use crate::store::StoredDescriptors;
use crate::worker::{Worker, WorkerOptions};
use culvert_base::frames::RESERVED_QUEUES;
use culvert_datapath::{Gates, Mechanism, WorkerCounters};
use culvert_packet::Accept;
use culvert_policy::gate::{ClientGate, Seed};
use culvert_tun::{Queue, QueueCredit, Steering, SteeringState};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The interface that an earlier process left, or a new one.
pub(super) fn make_tun(options: &Options) -> Result<culvert_tun::Device, EngineError> {
    let wanted = culvert_tun::Options {
        name: options.interface.clone(),
        mtu: options.mtu,
        offload: options.mechanisms.has(Mechanism::TunOffload),
        steering: options
            .mechanisms
            .has(Mechanism::Steering)
            .then(|| Steering {
                priority_queues: true,
                bulk_queues: u16::try_from(options.workers * BULK_QUEUES_PER_WORKER)
                    .expect("MAX_WORKERS times the queues of one fits 16 bits"),
            }),
        bound: options.mechanisms.has(Mechanism::QueueBound),
    };
    let Some(store) = &options.store else {
        return Ok(culvert_tun::Device::create(&wanted)?);
    };
    let left = store.take(StoredDescriptors::Queues);
    if !left.is_empty() {
        match culvert_tun::Device::take_over(&wanted, left) {
            Ok(tun) => {
                tracing::info!(interface = tun.name(), "the interface is taken over");
                return Ok(tun);
            }
            Err(error) => tracing::warn!("the interface is made anew: {error}"),
        }
    }
    store.forget(StoredDescriptors::Queues);
    let tun = culvert_tun::Device::create(&wanted)?;
    let queues: Vec<_> = tun.queues().iter().map(AsFd::as_fd).collect();
    store.keep(StoredDescriptors::Queues, &queues);
    Ok(tun)
}

impl DeviceGates {
    pub(super) fn new(kind: GateKind, workers: usize) -> Result<Self, EngineError> {
        Ok(match kind {
            GateKind::Open => Self::default(),
            GateKind::Gateway { masquerades } => {
                let seeds: Result<Vec<_>, _> = (0..workers).map(|_| random_seed()).collect();
                Self {
                    gateway: Some(Arc::new(Gates::new(seeds?, masquerades))),
                    client: None,
                }
            }
            GateKind::Client => Self {
                gateway: None,
                client: Some(Arc::new(ClientGate::new(Seed::new(random_seed()?)))),
            },
        })
    }
}

/// A client's workers count bytes by destination.
pub(super) fn counters_for(gate: GateKind) -> Arc<WorkerCounters> {
    match gate {
        GateKind::Client => Arc::new(WorkerCounters::with_traffic()),
        GateKind::Open | GateKind::Gateway { .. } => Arc::default(),
    }
}

/// Shares the TUN's queues out among the workers: the priority queues to the first, bulk queues in
/// equal parts. Without steering there is one queue, and one worker reads it: a second reader of the
/// same queue would reorder flows.
pub(super) fn make_workers(
    options: &Options,
    tun: &mut culvert_tun::Device,
    counters: &[Arc<WorkerCounters>],
    shared: &Arc<Shared>,
) -> Result<Vec<Worker>, EngineError> {
    let has_priority =
        matches!(tun.steering(), SteeringState::On(steering) if steering.priority_queues);
    let offloads = tun.offloads();
    let coalesces = options.mechanisms.has(Mechanism::Coalescing);
    let accept = Accept {
        tcp4: coalesces && offloads.tso4.is_on(),
        tcp6: coalesces && offloads.tso6.is_on(),
        udp4: coalesces && offloads.uso4.is_on(),
        udp6: coalesces && offloads.uso6.is_on(),
    };
    let mut shares: Vec<(Vec<Queue>, Vec<QueueCredit>)> =
        (0..options.workers).map(|_| Default::default()).collect();
    let queues = tun.take_queues();
    let mut credits = tun.take_credits().into_iter();
    let writer = |worker: usize| {
        // Every worker has a queue of its own where there are several, and shares the one otherwise.
        let queue = queues
            .get(worker * BULK_QUEUES_PER_WORKER)
            .or(queues.first());
        let queue = queue.ok_or(EngineError::Ended)?;
        queue
            .try_clone()
            .map_err(EngineError::system("share the TUN"))
    };
    let writers: Vec<Queue> = (0..options.workers).map(writer).collect::<Result<_, _>>()?;
    for (number, queue) in queues.into_iter().enumerate() {
        let bulk = number.saturating_sub(if has_priority { RESERVED_QUEUES } else { 0 });
        let (its_queues, its_accounts) = &mut shares[bulk / BULK_QUEUES_PER_WORKER];
        its_queues.push(queue);
        its_accounts.extend(credits.next());
    }
    shares
        .into_iter()
        .zip(writers)
        .zip(counters)
        .enumerate()
        .map(|(worker, (((queues, credits), writer), counters))| {
            Worker::new(WorkerOptions {
                worker,
                queues,
                credits,
                writer,
                has_priority: has_priority && worker == 0,
                accept,
                mechanisms: options.mechanisms,
                counters: Arc::clone(counters),
                shared: Arc::clone(shared),
                unrouted: options.unrouted.clone(),
            })
            .map_err(EngineError::system("watch the devices"))
        })
        .collect()
}
