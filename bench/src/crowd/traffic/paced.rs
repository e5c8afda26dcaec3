//! Handshakes at a rate, whose initiations were made ahead: initiators of a real company have processors of their own.

use super::super::company::Company;
use super::super::initiators::{Initiator, wait};
use anyhow::{Context, Result};
use culvert_base::{Destination, Family};
use culvert_session::parse::{Message, Response};
use culvert_udp::{ReceiveBatch, Socket};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Members that take part, spread over the company.
const MOST_MEMBERS: u32 = 2_000;

/// Between two stamps of one member: responders take stamps for whole steps of 2^24 ns (WireGuard paper, section 5.1).
const STAMPS_APART: Duration = Duration::from_millis(50);

/// A response that comes later belongs to no phase.
const LATE: Duration = Duration::from_millis(500);

/// Handshakes of the members in turn.
pub(super) struct Paced {
    socket: Socket,
    to: Destination,
    received: ReceiveBatch,
    /// Those with an initiation each that was not sent yet, in the order of their turns.
    ready: VecDeque<Ready>,
    /// By the index under which each initiator receives.
    waiting: HashMap<u32, (Initiator, Instant)>,
}

struct Ready {
    initiator: Initiator,
    initiation: Vec<u8>,
}

impl Paced {
    /// Makes so many initiations.
    pub(super) fn new(company: &Company, to: SocketAddr, count: u32) -> Result<Self> {
        let members = company.len().min(MOST_MEMBERS);
        let step = company.len() / members;
        let ready = (0..count).map(|turn| {
            let ahead = STAMPS_APART.saturating_mul(turn / members);
            let mut initiator = Initiator::new(company, turn % members * step)?.ahead_by(ahead);
            let initiation = initiator.begin()?;
            Ok(Ready {
                initiator,
                initiation,
            })
        });
        Ok(Self {
            ready: ready.collect::<Result<_>>()?,
            socket: Socket::bind(Family::V4, 0, 0)?,
            to: Destination {
                address: to,
                source: None,
            },
            received: ReceiveBatch::new(16),
            waiting: HashMap::new(),
        })
    }

    /// So many handshakes a second for `span`. It sleeps in between. Returns how many were completed.
    pub(super) fn shake_at(&mut self, per_s: u32, span: Duration) -> Result<u32> {
        let began = Instant::now();
        let (mut begun, mut completed) = (0, 0);
        while began.elapsed() < span {
            let due = (began.elapsed().as_secs_f64() * f64::from(per_s)) as u32;
            while begun < due {
                self.begin()?;
                begun += 1;
            }
            let taken = self.take()?;
            completed += taken;
            if taken == 0 {
                let next = Duration::from_secs_f64(f64::from(begun + 1) / f64::from(per_s));
                let rest = next.min(span).saturating_sub(began.elapsed());
                wait(&self.socket, rest)?;
            }
        }
        self.waiting.retain(|_, (_, began)| began.elapsed() < LATE);
        Ok(completed)
    }

    fn begin(&mut self) -> Result<()> {
        let ready = self.ready.pop_front();
        let Ready {
            initiator,
            initiation,
        } = ready.context("more handshakes than were made ready")?;
        let index = initiation[4..8].try_into().map(u32::from_le_bytes)?;
        self.waiting.insert(index, (initiator, Instant::now()));
        self.socket
            .send(&initiation, initiation.len(), &self.to, 0)?;
        Ok(())
    }

    /// Confirms the keys of the responses that have come. Returns how many they were.
    fn take(&mut self) -> Result<u32> {
        if self.socket.receive_batch(&mut self.received)? == 0 {
            return Ok(0);
        }
        let mut confirmations = Vec::new();
        for run in self.received.iter_mut() {
            for datagram in run.bytes.chunks(run.stride) {
                let Some(Message::Response(Response { receiver, .. })) = Message::parse(datagram)
                else {
                    // Keepalives of the program.
                    continue;
                };
                if let Some((mut initiator, _)) = self.waiting.remove(&receiver.0) {
                    confirmations.push(initiator.complete(datagram, self.to.address)?);
                }
            }
        }
        for confirmation in &confirmations {
            self.socket
                .send(confirmation, confirmation.len(), &self.to, 0)?;
        }
        Ok(u32::try_from(confirmations.len())?)
    }
}
