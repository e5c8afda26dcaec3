//! Two ends with a clock that the test moves by hand.

use culvert_base::BootTime;
use culvert_session::parse::DataHeader;
use culvert_session::{
    Activity, Clock, DATA_OVERHEAD, Destination, DropReason, HandshakeDatagram, Handshaker, Index,
    Output, PROMPT_KEEPALIVE_TIMEOUT, PeerId, PresharedKey, PrivateKey, PublicKey, Suite, Tai64n,
    Transport,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const START: BootTime = BootTime::from_nanos(1_000_000_000_000);
/// Seconds since the Unix epoch at [`START`].
pub(crate) const START_WALL: u64 = 1_800_000_000;

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn clock_at(since_start: Duration) -> Clock {
    Clock {
        now: START.saturating_add(since_start),
        wall: Tai64n::from_unix(
            START_WALL + since_start.as_secs(),
            since_start.subsec_nanos(),
        ),
    }
}

pub(crate) fn private_key(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number; 32])
}

pub(crate) fn public_key(number: u8) -> PublicKey {
    private_key(number).public_key()
}

pub(crate) fn address(number: u8) -> SocketAddr {
    SocketAddr::new([10, 0, 0, number].into(), 51820)
}

/// One end that knows one peer.
pub(crate) struct End {
    pub(crate) shaker: Handshaker,
    pub(crate) peer: PeerId,
    pub(crate) address: SocketAddr,
}

impl End {
    /// An end that is up; `number` gives its key, address and seed.
    pub(crate) fn new(number: u8, peer: u8) -> Self {
        Self::with(Handshaker::new([number; 32]), number, peer)
    }

    /// An end that answers one-way data promptly.
    pub(crate) fn prompt(number: u8, peer: u8) -> Self {
        let mut shaker = Handshaker::new([number; 32]);
        shaker.set_keepalive_timeout(PROMPT_KEEPALIVE_TIMEOUT);
        Self::with(shaker, number, peer)
    }

    fn with(mut shaker: Handshaker, number: u8, peer: u8) -> Self {
        shaker.set_private_key(Some(private_key(number)), clock_at(Duration::ZERO));
        shaker.set_up(true, clock_at(Duration::ZERO));
        let peer = shaker.add_peer(public_key(peer)).unwrap();
        Self {
            shaker,
            peer,
            address: address(number),
        }
    }

    pub(crate) fn drain(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.shaker.poll_output()).collect()
    }

    /// The datagrams that the end wants to send, without its other outputs.
    pub(crate) fn datagrams(&mut self) -> Vec<HandshakeDatagram> {
        self.drain().iter().filter_map(datagram).collect()
    }

    /// The only datagram the end wants to send.
    pub(crate) fn datagram(&mut self) -> HandshakeDatagram {
        let [datagram] = self.datagrams()[..] else {
            panic!("not exactly one datagram");
        };
        datagram
    }

    pub(crate) fn wants(&mut self, clock: Clock) {
        self.shaker.handle_wanted(self.peer, clock);
    }

    pub(crate) fn receives(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        clock: Clock,
    ) -> Result<PeerId, DropReason> {
        self.shaker.handle_datagram(datagram, from, false, clock)
    }

    pub(crate) fn activity(&self) -> Arc<Activity> {
        self.shaker.activity(self.peer).unwrap()
    }

    pub(crate) fn sending(&self) -> Option<Arc<Transport>> {
        self.shaker.sending(self.peer)
    }

    pub(crate) fn receiving(&self) -> Vec<Index> {
        let receiving = self.shaker.receiving(self.peer);
        receiving.map(|keys| keys.local_index()).collect()
    }

    pub(crate) fn set_suite(&mut self, suite: Suite) {
        self.shaker.set_suite(self.peer, suite);
    }

    pub(crate) fn set_preshared_key(&mut self, key: [u8; 32]) {
        let key = PresharedKey::from_bytes(key);
        self.shaker.set_preshared_key(self.peer, key);
    }

    /// Runs the timers in order until `until`; returns when each output came, since the start.
    pub(crate) fn run_timers(&mut self, until: Duration) -> Vec<(Duration, Output)> {
        let mut outputs = Vec::new();
        while let Some(at) = self.shaker.next_timeout() {
            let at = at.saturating_since(START);
            if at > until {
                break;
            }
            self.shaker.handle_timeout(clock_at(at));
            outputs.extend(self.drain().into_iter().map(|output| (at, output)));
        }
        outputs
    }
}

pub(crate) fn datagram(output: &Output) -> Option<HandshakeDatagram> {
    match *output {
        Output::Send { datagram, .. } | Output::SendCookieReply { datagram, .. } => Some(datagram),
        _ => None,
    }
}

pub(crate) fn is_initiation(output: &Output) -> bool {
    matches!(output, Output::Send { datagram, to: Destination::Peer, .. } if datagram[0] == 1)
}

pub(crate) fn pair() -> (End, End) {
    (End::new(1, 2), End::new(2, 1))
}

/// An empty packet, as the workers of `from` would seal it.
pub(crate) fn sealed_keepalive(from: &End, clock: Clock) -> [u8; DATA_OVERHEAD] {
    let keys = from.sending().unwrap();
    let reservation = keys.reserve(1, clock.now).unwrap();
    let mut record = [0; DATA_OVERHEAD];
    keys.seal_batch(reservation, &mut record, DATA_OVERHEAD);
    from.activity().keepalive_sent(clock.now);
    record
}

/// True if the workers of `to` open `record`.
pub(crate) fn opens_keepalive(to: &mut End, mut record: [u8; DATA_OVERHEAD], clock: Clock) -> bool {
    let index = DataHeader::parse(&record).unwrap().receiver;
    let mut receiving = to.shaker.receiving(to.peer);
    let Some(keys) = receiving.find(|keys| keys.local_index() == index) else {
        return false;
    };
    drop(receiving);
    let opened = keys.open_batch(&mut record, DATA_OVERHEAD, clock.now);
    if opened.opened().is_empty() {
        return false;
    }
    to.activity().keepalive_received(clock.now);
    if keys.confirm(clock.now) {
        to.shaker.handle_confirmed(to.peer, index, clock);
    }
    true
}

/// One empty packet from one end to the other.
pub(crate) fn keepalive(from: &End, to: &mut End, clock: Clock) -> bool {
    opens_keepalive(to, sealed_keepalive(from, clock), clock)
}

/// A whole handshake from `from`'s wish to the confirmation, with no time passing.
pub(crate) fn shake(from: &mut End, to: &mut End, clock: Clock) {
    from.wants(clock);
    let initiation = from.datagram();
    to.receives(&initiation, from.address, clock).unwrap();
    let response = to.datagram();
    from.receives(&response, to.address, clock).unwrap();
    assert!(
        from.drain()
            .contains(&Output::SendKeepalive { peer: from.peer })
    );
    assert!(keepalive(from, to, clock));
    to.drain();
}

/// True if both ends send under the same key pair.
pub(crate) fn share_keys(a: &End, b: &End) -> bool {
    let (Some(a), Some(b)) = (a.sending(), b.sending()) else {
        return false;
    };
    a.local_index() == b.remote_index() && a.remote_index() == b.local_index()
}
