//! Two ends of a tunnel with a live session between them, composed as the engine composes them.

use blake2::digest::consts::U16;
use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use culvert_base::BootTime;
use culvert_session::parse::DataHeader;
use culvert_session::{
    Clock, DATA_HEADER_LEN, DATA_OVERHEAD, DropReason, Handshaker, Index, Output, PeerId,
    PresharedKey, PrivateKey, PublicKey, Suite, Tai64n, Transport,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// When the boot-time clock starts, so that no time is near zero.
const START: BootTime = BootTime::from_nanos(1_000_000_000_000);
/// When the wall clock starts, in seconds since the Unix epoch.
const START_WALL_SECONDS: u64 = 1_700_000_000;

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Left, Self::Right];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// One end.
pub(crate) struct End {
    pub(crate) handshaker: Handshaker,
    pub(crate) peer: PeerId,
    public_key: PublicKey,
}

/// A handshake message on the wire: who sent it, and what.
pub(crate) type Sent = (Side, Vec<u8>);

/// Both ends and their clock.
pub(crate) struct Pair {
    ends: [End; 2],
    elapsed: Duration,
}

impl Pair {
    /// Two ends that have completed a handshake, the left one as its initiator, and know it.
    pub(crate) fn established(suite: Suite) -> Self {
        let keys = [[7; 32], [9; 32]].map(PrivateKey::from_bytes);
        let publics = [keys[0].public_key(), keys[1].public_key()];
        let mut pair = Self {
            ends: [
                End::new(&keys[0], publics[1], suite),
                End::new(&keys[1], publics[0], suite),
            ],
            elapsed: Duration::ZERO,
        };
        let [(_, initiation)] = pair.want(Side::Left).try_into().expect("an initiation");
        let (accepted, sent) = pair.deliver(Side::Right, &initiation, false);
        accepted.expect("a genuine initiation is accepted");
        let [(_, response)] = sent.try_into().expect("a response");
        let (accepted, _) = pair.deliver(Side::Left, &response, false);
        accepted.expect("a genuine response is accepted");
        pair.assert_live();
        pair
    }

    pub(crate) fn end(&self, side: Side) -> &End {
        &self.ends[side as usize]
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    pub(crate) fn clock(&self) -> Clock {
        let seconds = START_WALL_SECONDS + self.elapsed.as_secs();
        Clock {
            now: START.saturating_add(self.elapsed),
            wall: Tai64n::from_unix(seconds, self.elapsed.subsec_nanos()),
        }
    }

    /// Time passes; returns what the ends' timers send.
    pub(crate) fn advance(&mut self, by: Duration) -> Vec<Sent> {
        self.elapsed += by;
        let clock = self.clock();
        let mut sent = Vec::new();
        for side in Side::BOTH {
            self.ends[side as usize].handshaker.handle_timeout(clock);
            sent.extend(self.drain(side));
        }
        sent
    }

    /// `side` has data and wants a key to send it under; returns what it sends for that.
    pub(crate) fn want(&mut self, side: Side) -> Vec<Sent> {
        let clock = self.clock();
        let end = &mut self.ends[side as usize];
        end.handshaker.handle_wanted(end.peer, clock);
        self.drain(side)
    }

    /// Gives `to` a handshake message and returns its judgement and what it sends.
    pub(crate) fn deliver(
        &mut self,
        to: Side,
        datagram: &[u8],
        under_load: bool,
    ) -> (Result<PeerId, DropReason>, Vec<Sent>) {
        let clock = self.clock();
        let end = &mut self.ends[to as usize];
        let before = end.keys();
        let result = end.handshaker.handle_datagram(
            datagram,
            ADDRESSES[to.other() as usize],
            under_load,
            clock,
        );
        let outputs: Vec<Output> = std::iter::from_fn(|| end.handshaker.poll_output()).collect();
        assert!(outputs.len() <= MAX_OUTPUTS, "{outputs:?}");
        if result.is_err() {
            let is_cookie_reply =
                |output: &Output| matches!(output, Output::SendCookieReply { .. });
            assert!(outputs.iter().all(is_cookie_reply), "{outputs:?}");
            assert_eq!(end.keys(), before, "a refused datagram changes no key");
        }
        (result, sent(to, &outputs))
    }

    /// A packet that is sealed at either end opens at the other.
    pub(crate) fn assert_live(&mut self) {
        for from in Side::BOTH {
            let clock = self.clock();
            let mut record = self.ends[from as usize].seal(b"sixteen bytes ok", clock);
            self.ends[from.other() as usize].open(&mut record, self.clock());
            assert_eq!(
                record[DATA_HEADER_LEN..record.len() - 16],
                *b"sixteen bytes ok"
            );
            let end = self.end(from);
            assert!(end.handshaker.indices_in_use() <= 4, "one peer has four");
        }
    }

    /// Gives a handshake message a right `mac1` for `to`, as anybody can who knows its public key.
    pub(crate) fn repair_mac1(&self, to: Side, message: &mut [u8]) {
        let Some(start) = message.len().checked_sub(32) else {
            return;
        };
        let public_key = self.end(to).public_key;
        let label = Blake2s256::new()
            .chain_update(b"mac1----")
            .chain_update(public_key.as_bytes());
        let (covered, macs) = message.split_at_mut(start);
        let mut mac = Blake2sMac::<U16>::new_from_slice(&label.finalize())
            .expect("BLAKE2s takes keys of 32 bytes");
        Mac::update(&mut mac, covered);
        macs[..16].copy_from_slice(&mac.finalize().into_bytes());
    }

    fn drain(&mut self, side: Side) -> Vec<Sent> {
        let handshaker = &mut self.ends[side as usize].handshaker;
        let outputs: Vec<Output> = std::iter::from_fn(|| handshaker.poll_output()).collect();
        assert!(outputs.len() <= MAX_OUTPUTS, "{outputs:?}");
        sent(side, &outputs)
    }
}

/// One call on a handshaker with one peer makes at most a handful. The longest list is that of an
/// accepted response (roamed, keys changed, completed, keepalive) or of a tick with every timer due.
const MAX_OUTPUTS: usize = 8;

/// The addresses of the ends: left, right.
const ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::new(
        std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
        51820,
    ),
    SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 51821),
];

fn sent(by: Side, outputs: &[Output]) -> Vec<Sent> {
    let datagram = |output: &Output| match output {
        Output::Send { datagram, .. } | Output::SendCookieReply { datagram, .. } => {
            Some((by, datagram.as_bytes().to_vec()))
        }
        _ => None,
    };
    outputs.iter().filter_map(datagram).collect()
}

impl End {
    fn new(key: &PrivateKey, peer_key: PublicKey, suite: Suite) -> Self {
        let clock = Clock {
            now: START,
            wall: Tai64n::from_unix(START_WALL_SECONDS, 0),
        };
        let public_key = key.public_key();
        let mut handshaker = Handshaker::new(*public_key.as_bytes());
        handshaker.set_private_key(Some(key.clone()), clock);
        let peer = handshaker.add_peer(peer_key).expect("the first peer");
        handshaker.set_suite(peer, suite);
        handshaker.set_preshared_key(peer, PresharedKey::from_bytes([3; 32]));
        handshaker.set_up(true, clock);
        while handshaker.poll_output().is_some() {}
        Self {
            handshaker,
            peer,
            public_key,
        }
    }

    /// The keys that send.
    pub(crate) fn sending(&self) -> Arc<Transport> {
        let sending = self.handshaker.sending(self.peer);
        sending.expect("the session is live")
    }

    /// The receiver indices of the keys that send and of those that receive.
    fn keys(&self) -> (Option<Index>, Vec<Index>) {
        let sending = self.handshaker.sending(self.peer);
        let receiving = self.handshaker.receiving(self.peer);
        (
            sending.map(|keys| keys.local_index()),
            receiving.map(|keys| keys.local_index()).collect(),
        )
    }

    fn seal(&mut self, content: &[u8], clock: Clock) -> Vec<u8> {
        let now = clock.now;
        let mut record = vec![0; content.len() + DATA_OVERHEAD];
        record[DATA_HEADER_LEN..][..content.len()].copy_from_slice(content);
        let sending = self.sending();
        let reservation = sending.reserve(1, now).expect("the session is young");
        let stride = record.len();
        sending.seal_batch(reservation, &mut record, stride);
        if let Some(activity) = self.handshaker.activity(self.peer) {
            activity.data_sent(now);
            if activity.wants_watch() {
                self.handshaker.handle_active(self.peer, clock);
            }
        }
        record
    }

    fn open(&mut self, record: &mut [u8], clock: Clock) {
        let header = DataHeader::parse(record).expect("a sealed record");
        let keys = self
            .handshaker
            .receiving(self.peer)
            .find(|keys| keys.local_index() == header.receiver)
            .expect("the receiver has the keys that the sender uses");
        let stride = record.len();
        let batch = keys.open_batch(record, stride, clock.now);
        assert!(batch.opened().contains(0), "{batch:?}");
        if let Some(activity) = self.handshaker.activity(self.peer) {
            activity.data_received(clock.now);
            if activity.wants_watch() {
                self.handshaker.handle_active(self.peer, clock);
            }
        }
        if keys.confirm(clock.now) {
            self.handshaker
                .handle_confirmed(self.peer, keys.local_index(), clock);
            while self.handshaker.poll_output().is_some() {}
        }
    }
}
