//! All members of a company that begin at once, each from an address of its own, as fast as this process can.
//!
//! They behave as WireGuard does: a member that gets no answer begins again after 5 s, and shows the cookie that it was sent.

use super::super::company::Company;
use super::super::initiators::{Initiator, wait};
use anyhow::Result;
use culvert_base::{Destination, Family, LocalAddress};
use culvert_session::parse::{CookieReply, Message, Response};
use culvert_udp::{ReceiveBatch, SendError, Socket};
use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Rekey-Timeout of the WireGuard paper.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The first address of the members. Each is in a network of its own: a site behind one address is not what is measured.
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 0);
const BITS_BETWEEN: u32 = 8;

/// The longest sleep while everybody waits.
const PAUSE: Duration = Duration::from_millis(1);

/// The result of a storm.
pub(super) struct StormFigures {
    pub(super) completed: usize,
    pub(super) initiations: usize,
    pub(super) cookies: usize,
    pub(super) took: Duration,
}

/// The members, and what they wait for.
pub(super) struct Storm {
    members: Vec<Member>,
    socket: Socket,
    to: SocketAddr,
    received: ReceiveBatch,
    /// By the index under which each member receives.
    waiting: HashMap<u32, usize>,
    /// Members that begin again then, if they have no answer, in the order of times.
    again: VecDeque<(Instant, usize)>,
    figures: StormFigures,
}

struct Member {
    initiator: Initiator,
    from: Destination,
    index: u32,
    is_done: bool,
}

impl Storm {
    pub(super) fn new(company: &Company, to: SocketAddr) -> Result<Self> {
        let member = |number: u32| -> Result<Member> {
            let own = Ipv4Addr::from_bits(FIRST.to_bits() + (number << BITS_BETWEEN) + 1);
            Ok(Member {
                initiator: Initiator::new(company, number)?,
                from: Destination {
                    address: to,
                    source: Some(LocalAddress {
                        ip: own.into(),
                        interface: 0,
                    }),
                },
                index: 0,
                is_done: false,
            })
        };
        Ok(Self {
            members: (0..company.len()).map(member).collect::<Result<_>>()?,
            socket: Socket::bind(Family::V4, 0, 0)?,
            to,
            received: ReceiveBatch::new(64),
            waiting: HashMap::new(),
            again: VecDeque::new(),
            figures: StormFigures {
                completed: 0,
                initiations: 0,
                cookies: 0,
                took: Duration::ZERO,
            },
        })
    }

    /// Until all are done, or for `limit`.
    pub(super) fn run(mut self, limit: Duration) -> Result<StormFigures> {
        let began = Instant::now();
        let mut next = 0;
        while self.figures.completed < self.members.len() && began.elapsed() < limit {
            let due = match self.again.front() {
                _ if next < self.members.len() => {
                    next += 1;
                    Some(next - 1)
                }
                Some((at, _)) if *at <= Instant::now() => {
                    self.again.pop_front().map(|(_, member)| member)
                }
                _ => None,
            };
            if let Some(member) = due.filter(|member| !self.members[*member].is_done) {
                self.begin(member)?;
            }
            if !self.take()? && due.is_none() {
                wait(&self.socket, PAUSE)?;
            }
        }
        self.figures.took = began.elapsed();
        Ok(self.figures)
    }

    fn begin(&mut self, number: usize) -> Result<()> {
        let member = &mut self.members[number];
        let datagram = member.initiator.begin()?;
        self.waiting.remove(&member.index);
        member.index = datagram[4..8].try_into().map(u32::from_le_bytes)?;
        self.waiting.insert(member.index, number);
        self.again.push_back((Instant::now() + AGAIN_AFTER, number));
        self.figures.initiations += 1;
        let sent = self.socket.send(&datagram, datagram.len(), &member.from, 0);
        match sent {
            // A full queue of the kernel loses it, as a network would.
            Ok(()) | Err(SendError::WouldBlock | SendError::Passing(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what has come. False where nothing has.
    fn take(&mut self) -> Result<bool> {
        if self.socket.receive_batch(&mut self.received)? == 0 {
            return Ok(false);
        }
        let mut confirmations = Vec::new();
        for run in self.received.iter_mut() {
            for datagram in run.bytes.chunks(run.stride) {
                let receiver = match Message::parse(datagram) {
                    Some(
                        Message::Response(Response { receiver, .. })
                        | Message::CookieReply(CookieReply { receiver, .. }),
                    ) => receiver.0,
                    _ => continue,
                };
                let Some(&number) = self.waiting.get(&receiver) else {
                    continue;
                };
                let member = &mut self.members[number];
                if let Some(Message::CookieReply(_)) = Message::parse(datagram) {
                    member.initiator.take_cookie(datagram, self.to)?;
                    self.figures.cookies += 1;
                    continue;
                }
                let record = member.initiator.complete(datagram, self.to)?;
                self.waiting.remove(&receiver);
                member.is_done = true;
                self.figures.completed += 1;
                confirmations.push((record, member.from));
            }
        }
        for (record, from) in confirmations {
            // A lost one is made good by the member's first packet.
            let _lost = self.socket.send(&record, record.len(), &from, 0);
        }
        Ok(true)
    }
}
