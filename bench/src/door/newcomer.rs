//! Somebody who begins a handshake, by the timers of the protocol: what is lost or refused is sent again after five
//! seconds.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use culvert_base::BootTime;
use culvert_session::parse::INITIATION_LEN;
use culvert_session::{
    Clock, HandshakeDatagram, Handshaker, Output, PeerId, PrivateKey, PublicKey, Tai64n,
};

/// A handshake without keys after this time has failed: the protocol's retransmission after five seconds was lost too.
const GIVEN_UP: Duration = Duration::from_secs(6);

/// The longest message of a handshake, and room to notice a longer one.
const BUFFER_BYTES: usize = 256;

/// Of a socket: zero would be without end.
const SHORTEST_TIMEOUT: Duration = Duration::from_micros(100);

/// One end that has no session yet.
pub(super) struct Newcomer {
    shaker: Handshaker,
    peer: PeerId,
    began: Instant,
}

impl Newcomer {
    /// Somebody with this key, whose one peer is `receiver`.
    pub(super) fn new(key: PrivateKey, receiver: &PublicKey) -> Result<Self> {
        let began = Instant::now();
        let mut shaker = Handshaker::new(random()?);
        shaker.set_private_key(Some(key), clock(began));
        shaker.set_up(true, clock(began));
        let peer = shaker.add_peer(*receiver)?;
        Ok(Self {
            shaker,
            peer,
            began,
        })
    }

    /// An initiation of a key that nobody knows.
    pub(super) fn any_initiation(receiver: &PublicKey) -> Result<[u8; INITIATION_LEN]> {
        let mut stranger = Self::new(PrivateKey::from_bytes(random()?), receiver)?;
        let began = stranger.began;
        stranger.shaker.handle_wanted(stranger.peer, clock(began));
        let initiation = stranger.datagrams().pop().context("no initiation")?;
        Ok(initiation.as_bytes().try_into()?)
    }

    /// The time from the first packet that wants to be sent until there are keys to seal it with, and until it is
    /// given up otherwise.
    pub(super) fn handshake(mut self, from: IpAddr, to: SocketAddr) -> Result<Duration> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect(to)?;
        let began = Instant::now();
        self.shaker.handle_wanted(self.peer, clock(self.began));
        while began.elapsed() < GIVEN_UP {
            for datagram in self.datagrams() {
                socket.send(datagram.as_bytes())?;
            }
            if self.shaker.sending(self.peer).is_some() {
                return Ok(began.elapsed());
            }
            let now = clock(self.began).now;
            let next = self.shaker.next_timeout().context("no timer runs")?;
            let wait = next.saturating_since(now).min(GIVEN_UP);
            socket.set_read_timeout(Some(wait.max(SHORTEST_TIMEOUT)))?;
            let mut buffer = [0; BUFFER_BYTES];
            match socket.recv(&mut buffer) {
                Ok(length) => {
                    let clock = clock(self.began);
                    let datagram = &buffer[..length];
                    let taken = self.shaker.handle_datagram(datagram, to, false, clock);
                    ensure!(taken.is_ok(), "the answer is refused: {taken:?}");
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.shaker.handle_timeout(clock(self.began));
                }
                Err(error) => return Err(error).context("cannot receive"),
            }
        }
        Ok(began.elapsed())
    }

    fn datagrams(&mut self) -> Vec<HandshakeDatagram> {
        let outputs = std::iter::from_fn(|| self.shaker.poll_output());
        let datagrams = outputs.filter_map(|output| match output {
            Output::Send { datagram, .. } => Some(datagram),
            _ => None,
        });
        datagrams.collect()
    }
}

fn clock(began: Instant) -> Clock {
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Clock {
        now: BootTime::ZERO.saturating_add(Duration::from_secs(1) + began.elapsed()),
        wall: Tai64n::from_unix(wall.as_secs(), wall.subsec_nanos()),
    }
}

pub(super) fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
