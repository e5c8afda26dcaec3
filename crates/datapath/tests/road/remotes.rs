//! Peers: keys of both ends, and what each end seals and opens with them.

use crate::device::{Device, Run, START, Sent};
use culvert_base::Prefix;
use culvert_datapath::{AllowedIps, Peer, Receiving, Sending, Snapshot};
use culvert_packet::ecn::Ecn;
use culvert_packet::ip::IpView;
use culvert_packet::record::RecordShape;
use culvert_session::{
    Clock, DATA_HEADER_LEN, DATA_OVERHEAD, Handshaker, Output, PeerId, PrivateKey, Tai64n,
    Transport,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// MTU of the interface, in bytes.
pub(crate) const MTU: u16 = 1420;

const SHAPE: RecordShape = RecordShape { mtu: MTU as usize };

/// Bytes of the tag behind each record's plaintext.
const TAG_LEN: usize = DATA_OVERHEAD - DATA_HEADER_LEN;

/// The number that both ends give each other in a handshake.
const HANDSHAKE_PEER: PeerId = PeerId(0);

/// A peer, its keys at this end and its own.
pub(crate) struct Remote {
    pub(crate) peer: Arc<Peer>,
    /// The key that this end seals and opens with.
    pub(crate) receiving: Arc<Transport>,
    /// The key that the peer seals and opens with.
    pub(crate) own: Arc<Transport>,
    /// This end answered the handshake and has not heard data since.
    pub(crate) is_unconfirmed: bool,
}

impl Remote {
    /// A peer behind 192.0.2.`number` that owns 10.8.`number`.0/24 and fd08:`number`::/32. This end has begun the
    /// handshake.
    pub(crate) fn new(number: u32) -> Self {
        let [local, own] = handshake(number, true);
        Self::with(number, &local, own)
    }

    /// The same, but the peer has begun the handshake.
    pub(crate) fn that_began(number: u32) -> Self {
        let [own, local] = handshake(number, false);
        Self {
            is_unconfirmed: true,
            ..Self::with(number, &local, own)
        }
    }

    fn with(number: u32, local: &Arc<Transport>, own: Arc<Transport>) -> Self {
        let id = PeerId(number);
        let public_key = PrivateKey::from_bytes([number as u8 + 1; 32]).public_key();
        let peer = Peer::new(id, public_key, Arc::default());
        peer.set_endpoint(endpoint(number));
        // The keys are new: the timers look at the peer.
        assert!(peer.activity.wants_watch());
        Self {
            peer: Arc::new(peer),
            receiving: Arc::clone(local),
            own,
            is_unconfirmed: false,
        }
    }

    /// The same, and this end has heard data.
    pub(crate) fn confirmed(self) -> Self {
        Self {
            is_unconfirmed: false,
            ..self
        }
    }

    /// The key that this end seals with.
    pub(crate) fn sending(&self) -> Arc<Sending> {
        self.peer.sending_key().unwrap()
    }

    /// Gives this end the keys of the handshake.
    fn set_keys(&self) {
        let local = Some(Arc::clone(&self.receiving));
        match self.is_unconfirmed {
            true => self.peer.set_keys(None, local),
            false => self.peer.set_keys(local, None),
        };
    }

    pub(crate) fn id(&self) -> PeerId {
        self.peer.id
    }

    /// An address that it owns.
    pub(crate) fn inner(&self) -> IpAddr {
        inner(self.id().0)
    }

    /// Seals packets, all as long as the first but the last, which may be shorter, into one run of datagrams.
    pub(crate) fn seals(&self, packets: &[Vec<u8>]) -> Run {
        let records = packets.iter().map(|packet| {
            let mut record = vec![0; SHAPE.record_len(packet.len())];
            record[DATA_HEADER_LEN..][..packet.len()].copy_from_slice(packet);
            record
        });
        self.seals_records(&records.collect::<Vec<_>>())
    }

    /// Seals records with room for header and tag.
    pub(crate) fn seals_records(&self, records: &[Vec<u8>]) -> Run {
        let stride = records[0].len();
        let mut bytes = records.concat();
        let count = u32::try_from(records.len()).unwrap();
        let reservation = self.own.reserve(count, START).unwrap();
        self.own.seal_batch(reservation, &mut bytes, stride);
        Run {
            bytes,
            stride,
            is_truncated: false,
            source: endpoint(self.id().0),
            ecn: Ecn::NotEct,
        }
    }

    /// The packets that it opens of what was sent, in their order, each without its padding. A record that does not
    /// open fails the test.
    pub(crate) fn opens(&self, sent: &[Sent]) -> Vec<Vec<u8>> {
        let opened = sent.iter().flat_map(|sent| {
            let mut bytes = sent.bytes.clone();
            let opened = self.own.open_batch(&mut bytes, sent.stride, START);
            let count = bytes.len().div_ceil(sent.stride);
            assert_eq!(opened.opened().len(), count, "{opened:?}");
            let records = bytes.chunks(sent.stride).map(plaintext);
            records.collect::<Vec<_>>()
        });
        opened.collect()
    }
}

/// The packet in an opened record, or all of its contents where it is none.
fn plaintext(record: &[u8]) -> Vec<u8> {
    let inner = &record[DATA_HEADER_LEN..record.len() - TAG_LEN];
    let len = IpView::parse(inner).map_or(inner.len(), |view| view.total_len());
    inner[..len].to_vec()
}

/// The address that a peer is behind.
pub(crate) fn endpoint(number: u32) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, number as u8), 51_820).into()
}

/// An IPv4 address that a peer owns.
pub(crate) fn inner(number: u32) -> IpAddr {
    Ipv4Addr::new(10, 8, number as u8, 1).into()
}

/// An IPv6 address that a peer owns.
pub(crate) fn inner_v6(number: u32) -> IpAddr {
    Ipv6Addr::new(0xfd08, number as u16, 0, 0, 0, 0, 0, 1).into()
}

/// The peers and their keys, with the link up.
pub(crate) fn snapshot(remotes: &[&Remote]) -> Snapshot {
    let mut snapshot = Snapshot::empty(MTU, Device::wall_offset());
    snapshot.port = 51_820;
    let mut ranges = std::collections::BTreeMap::new();
    for remote in remotes {
        let id = remote.id();
        ranges.insert(Prefix::around(inner(id.0), 24).unwrap(), id.into());
        ranges.insert(Prefix::around(inner_v6(id.0), 32).unwrap(), id.into());
        snapshot
            .peers
            .insert(remote.peer.id, Arc::clone(&remote.peer));
        remote.set_keys();
        snapshot.keys.insert(Receiving {
            transport: Arc::clone(&remote.receiving),
            peer: Arc::clone(&remote.peer),
        });
    }
    snapshot.routes = AllowedIps::new(&ranges);
    snapshot
}

/// The peers, as they are while no handshake has completed.
pub(crate) fn snapshot_without_keys(remotes: &[&Remote]) -> Snapshot {
    let snapshot = snapshot(remotes);
    for remote in remotes {
        remote.peer.set_keys(None, None);
        snapshot.keys.remove(remote.receiving.local_index());
    }
    snapshot
}

/// The keys that a handshake brings, of who begins it and of who answers.
fn handshake(number: u32, local_begins: bool) -> [Arc<Transport>; 2] {
    let clock = Clock {
        now: START,
        wall: Tai64n::from_unix(1_800_000_000, 0),
    };
    let seed = 2 * number as u8 + 100 * u8::from(local_begins);
    let keys = [seed, seed + 1].map(|seed| PrivateKey::from_bytes([seed + 1; 32]));
    let publics = [keys[1].public_key(), keys[0].public_key()];
    let mut ends = [seed, seed + 1].map(|seed| Handshaker::new([seed; 32]));
    for ((end, key), public) in ends.iter_mut().zip(keys).zip(publics) {
        end.set_private_key(Some(key), clock);
        end.set_up(true, clock);
        end.add_peer(public).unwrap();
    }
    ends[0].handle_wanted(HANDSHAKE_PEER, clock);
    // The initiation, then the response.
    for from in [0, 1] {
        let outputs = std::iter::from_fn(|| ends[from].poll_output());
        let mut sent = outputs.filter_map(|output| match output {
            Output::Send { datagram, .. } => Some(datagram),
            _ => None,
        });
        let sent = sent.next().unwrap();
        let address = "192.0.2.99:1".parse().unwrap();
        ends[1 - from]
            .handle_datagram(&sent, address, false, clock)
            .unwrap();
    }
    ends.map(|end| end.receiving(HANDSHAKE_PEER).next().unwrap())
}
