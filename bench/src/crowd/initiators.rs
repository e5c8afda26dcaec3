//! Initiators of handshakes: a closed loop of some that are under way at a time.

use super::company::{Company, own_key};
use anyhow::{Context, Result};
use culvert_base::{BootTime, Destination, Family};
use culvert_session::parse::{Message, Response};
use culvert_session::{Clock, DATA_OVERHEAD, Handshaker, Output, PeerId, Tai64n};
use culvert_udp::{ReceiveBatch, Socket};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Handshakes under way at a time: fewer than those from which on a program asks for cookies.
const UNDER_WAY: usize = 32;

/// Peers that take part in the loop, spread over all.
const MOST_IN_LOOP: u32 = 2_000;

/// Handshakes of one initiator in the loop: Culvert answers 20 in a row, and then one a second.
const MOST_EACH: usize = 15;

/// The time between two handshakes of one initiator: other programs answer one peer 50 times a second.
const PAUSE: Duration = Duration::from_millis(25);

/// The same by its own clock.
const BETWEEN: Duration = Duration::from_secs(20);

/// A handshake that is not answered by then is lost.
const LOST: Duration = Duration::from_millis(500);

/// Members with their handshakes.
pub(super) struct Initiators<'company> {
    company: &'company Company,
    socket: Socket,
    to: Destination,
    received: ReceiveBatch,
    members: Vec<Initiator>,
    /// By the index under which each initiator receives.
    waiting: HashMap<u32, (usize, Instant)>,
    lost: u32,
}

/// One member.
pub(super) struct Initiator {
    shaker: Handshaker,
    program: PeerId,
    now: BootTime,
    /// Its wall clock is ahead of the machine's by so much.
    ahead: Duration,
    began: Option<Instant>,
}

/// The handshakes of a span.
pub(super) struct Rate {
    pub(super) handshakes: u32,
    pub(super) lost: u32,
    pub(super) span: Duration,
    pub(super) median: Duration,
}

impl<'company> Initiators<'company> {
    pub(super) fn new(company: &'company Company, to: SocketAddr) -> Result<Self> {
        let in_loop = company.len().min(MOST_IN_LOOP);
        let step = company.len() / in_loop;
        let members = (0..in_loop).map(|number| Initiator::new(company, number * step));
        Ok(Self {
            company,
            socket: Socket::bind(Family::V4, 0, 0)?,
            to: Destination {
                address: to,
                source: None,
            },
            received: ReceiveBatch::new(16),
            members: members.collect::<Result<_>>()?,
            waiting: HashMap::new(),
            lost: 0,
        })
    }

    /// Handshakes one after the other, [`UNDER_WAY`] at a time, for `span` at most.
    pub(super) fn shake_for(&mut self, span: Duration) -> Result<Rate> {
        let began = Instant::now();
        let (mut begun, most) = (0, self.members.len() * MOST_EACH);
        let mut times = Vec::new();
        while began.elapsed() < span && times.len() + (self.lost as usize) < most {
            while self.waiting.len() < UNDER_WAY && begun < most {
                let next = begun % self.members.len();
                if !self.members[next].is_rested() {
                    break;
                }
                self.begin(next)?;
                begun += 1;
            }
            if !self.waiting.is_empty() {
                self.receive(&mut times)?;
            }
        }
        let span = began.elapsed();
        while !self.waiting.is_empty() {
            self.receive(&mut Vec::new())?;
        }
        let handshakes = u32::try_from(times.len())?;
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied();
        Ok(Rate {
            handshakes,
            lost: self.lost,
            span,
            median: median.context("no handshake has completed")?,
        })
    }

    /// Handshakes with every member of the company, so that each has a session.
    pub(super) fn shake_with_all(&mut self) -> Result<()> {
        // Stamps have a granularity, and new initiators do not know those of the loop.
        std::thread::sleep(2 * PAUSE);
        let mut times = Vec::new();
        for number in 0..self.company.len() {
            let slot = number as usize % self.members.len();
            self.members[slot] = Initiator::new(self.company, number)?;
            self.begin(slot)?;
            while self.waiting.len() >= UNDER_WAY.min(self.members.len()) {
                self.receive(&mut times)?;
            }
        }
        while !self.waiting.is_empty() {
            self.receive(&mut times)?;
        }
        Ok(())
    }

    fn begin(&mut self, member: usize) -> Result<()> {
        let initiator = &mut self.members[member];
        let datagram = initiator.begin()?;
        let index = datagram[4..8].try_into().map(u32::from_le_bytes)?;
        self.waiting.insert(index, (member, Instant::now()));
        self.socket.send(&datagram, datagram.len(), &self.to, 0)?;
        Ok(())
    }

    /// Takes what has come, and waits for something where nothing has.
    fn receive(&mut self, times: &mut Vec<Duration>) -> Result<()> {
        while !self.take(times)? {
            let before = self.waiting.len();
            self.waiting.retain(|_, (_, began)| began.elapsed() < LOST);
            let lost = before - self.waiting.len();
            self.lost += u32::try_from(lost)?;
            if lost > 0 || self.waiting.is_empty() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Takes the responses that have come. False where nothing has.
    fn take(&mut self, times: &mut Vec<Duration>) -> Result<bool> {
        if self.socket.receive_batch(&mut self.received)? == 0 {
            return Ok(false);
        }
        let mut confirmations = Vec::new();
        for run in self.received.iter_mut() {
            for datagram in run.bytes.chunks(run.stride) {
                let Some(Message::Response(Response { receiver, .. })) = Message::parse(datagram)
                else {
                    // Keepalives of the program.
                    continue;
                };
                let Some((member, began)) = self.waiting.remove(&receiver.0) else {
                    continue;
                };
                let initiator = &mut self.members[member];
                confirmations.push(initiator.complete(datagram, self.to.address)?);
                times.push(began.elapsed());
            }
        }
        for confirmation in confirmations {
            let len = confirmation.len();
            self.socket.send(&confirmation, len, &self.to, 0)?;
        }
        Ok(true)
    }
}

/// Sleeps until something comes, for `span` at most.
pub(super) fn wait(socket: &Socket, span: Duration) -> Result<()> {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec::try_from(span)?))?;
    Ok(())
}

impl Initiator {
    pub(super) fn new(company: &Company, number: u32) -> Result<Self> {
        let mut seed = [3; 32];
        seed[..4].copy_from_slice(&number.to_be_bytes());
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH)?;
        seed[8..24].copy_from_slice(&elapsed.as_nanos().to_be_bytes());
        let mut shaker = Handshaker::new(seed);
        let now = BootTime::ZERO.saturating_add(BETWEEN);
        let clock = clock(now, Duration::ZERO)?;
        shaker.set_private_key(Some(company.member(number).private_key()), clock);
        shaker.set_up(true, clock);
        let program = shaker.add_peer(own_key().public_key())?;
        Ok(Self {
            shaker,
            program,
            now,
            ahead: Duration::ZERO,
            began: None,
        })
    }

    /// Its wall clock is ahead of the machine's by so much.
    pub(super) fn ahead_by(mut self, ahead: Duration) -> Self {
        self.ahead = ahead;
        self
    }

    fn clock(&self) -> Result<Clock> {
        clock(self.now, self.ahead)
    }

    fn is_rested(&self) -> bool {
        self.began.is_none_or(|began| began.elapsed() >= PAUSE)
    }

    /// The initiation of one more handshake.
    pub(super) fn begin(&mut self) -> Result<Vec<u8>> {
        self.began = Some(Instant::now());
        self.now = self.now.saturating_add(BETWEEN);
        let clock = self.clock()?;
        self.shaker.handle_recheck(self.program, clock);
        let mut outputs = std::iter::from_fn(|| self.shaker.poll_output());
        let sent = outputs.find_map(|output| match output {
            Output::Send { datagram, .. } => Some(datagram.as_bytes().to_vec()),
            _ => None,
        });
        sent.context("no initiation was made")
    }

    /// Takes the response. Returns an empty record, which confirms the keys.
    pub(super) fn complete(&mut self, response: &[u8], from: SocketAddr) -> Result<Vec<u8>> {
        let clock = self.clock()?;
        let handled = self.shaker.handle_datagram(response, from, false, clock);
        handled.map_err(|reason| anyhow::anyhow!("a response was refused: {reason}"))?;
        while self.shaker.poll_output().is_some() {}
        let keys = self
            .shaker
            .sending(self.program)
            .context("there are keys")?;
        let reservation = keys.reserve(1, self.now).context("fresh keys")?;
        let mut record = vec![0; DATA_OVERHEAD];
        keys.seal_batch(reservation, &mut record, DATA_OVERHEAD);
        Ok(record)
    }

    /// Takes a cookie, which the next initiation shows.
    pub(super) fn take_cookie(&mut self, reply: &[u8], from: SocketAddr) -> Result<()> {
        let clock = self.clock()?;
        let handled = self.shaker.handle_datagram(reply, from, false, clock);
        handled.map_err(|reason| anyhow::anyhow!("a cookie was refused: {reason}"))?;
        while self.shaker.poll_output().is_some() {}
        Ok(())
    }
}

/// An initiator's own clock; the wall clock, by which initiations are stamped, is the machine's or ahead of it.
fn clock(now: BootTime, ahead: Duration) -> Result<Clock> {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH)? + ahead;
    Ok(Clock {
        now,
        wall: Tai64n::from_unix(wall.as_secs(), wall.subsec_nanos()),
    })
}
