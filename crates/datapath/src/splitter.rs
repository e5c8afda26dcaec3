//! Packets that a narrow path has no room for, though their protocol promises it: they leave in fragments.

use crate::batch::Batch;
use crate::peer::{Peer, ip_and_udp_len};
use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_packet::Fragments;
use culvert_packet::ip::{IpVersion, IpView};
use culvert_packet::record::{PADDING, RecordShape};
use culvert_session::{DATA_HEADER_LEN, DATA_OVERHEAD};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// The least MTU that IPv6 promises to whoever sends it (RFC 8200 section 5).
const IPV6_MIN_MTU: u16 = 1280;

/// Splits packets of one worker.
pub(crate) struct Splitter {
    /// The packet that is being split. Empty until a narrow path needs it.
    segment: Vec<u8>,
    /// Of the last packet of IPv6 that was split. Fragments of different packets within a minute may not share one
    /// (RFC 8200 section 4.5).
    identification: u32,
}

impl Splitter {
    /// `identification` is random, so that workers and restarts hardly repeat each other's.
    pub(crate) fn new(identification: u32) -> Self {
        Self {
            segment: Vec::new(),
            identification,
        }
    }

    /// The longest packet like `packet` that leaves for `peer` in one piece, where longer ones may be split: those of
    /// IPv6 that their sender can't make shorter, and those of IPv4 whose sender allows it.
    pub(crate) fn limit(peer: &Peer, packet: &[u8]) -> Option<usize> {
        let fits = narrow_mtu(peer)?;
        let view = IpView::parse(packet).ok()?;
        let may_split = match view.version() {
            IpVersion::V4 => !view.dont_fragment(),
            IpVersion::V6 => fits < IPV6_MIN_MTU,
        };
        may_split.then_some(usize::from(fits))
    }

    /// Takes a packet of `len` bytes, which `write` writes.
    pub(crate) fn take(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        self.segment.resize(len, 0);
        write(&mut self.segment);
    }

    /// Adds the fragments of the packet to `batch`, which is empty. False where it is not split: it is too long for what
    /// IPv6 promises, so its sender was told, or has headers that can't be repeated.
    pub(crate) fn split(&mut self, longest: usize, shape: RecordShape, batch: &mut Batch) -> bool {
        let is_v6 = self.segment.first().is_some_and(|first| first >> 4 == 6);
        if is_v6 && self.segment.len() > usize::from(IPV6_MIN_MTU) {
            return false;
        }
        self.identification = self.identification.wrapping_add(1);
        let Some(plan) = Fragments::plan(&self.segment, longest, self.identification) else {
            return false;
        };
        let total: usize = (0..plan.count())
            .map(|index| plan.len(index) + DATA_OVERHEAD + PADDING)
            .sum();
        if plan.count() > MAX_SEGMENTS || total > MAX_GSO_BYTES {
            return false;
        }
        for index in 0..plan.count() {
            let len = plan.len(index);
            let Some(record) = batch.add(shape.record_len(len)) else {
                return index > 0;
            };
            let (inner, padding) = record[DATA_HEADER_LEN..].split_at_mut(len);
            plan.write(index, inner);
            padding.fill(0);
        }
        true
    }
}

/// The largest inner packet that passes the path to a peer unfragmented, where that is known to be narrow.
pub(crate) fn narrow_mtu(peer: &Peer) -> Option<u16> {
    let path_mtu = peer.path_mtu.load(Ordering::Relaxed);
    if path_mtu == 0 {
        return None;
    }
    Some(inner_mtu(path_mtu, &peer.endpoint()?.address))
}

/// The MTU that the sender of `packet` is told where `fits` bytes pass: IPv6 has no smaller one than its least.
pub(crate) fn told_mtu(fits: u16, packet: &[u8]) -> u16 {
    match packet.first().map(|first| first >> 4) {
        Some(6) => fits.max(IPV6_MIN_MTU),
        _ => fits,
    }
}

/// The largest inner packet whose record passes a path of `path_mtu` bytes unfragmented with its padding.
pub(crate) fn inner_mtu(path_mtu: u16, to: &SocketAddr) -> u16 {
    let overhead = ip_and_udp_len(to) + DATA_OVERHEAD;
    let room = usize::from(path_mtu).saturating_sub(overhead);
    let unpadded = room - room % PADDING;
    u16::try_from(unpadded).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_packet::ip::IPV6_HEADER_LEN;

    const SHAPE: RecordShape = RecordShape { mtu: 1420 };

    #[test]
    fn what_the_inside_is_told_to_send_fits_the_path_with_its_padding() {
        for to in ["192.0.2.1:1", "[2001:db8::1]:1"].map(|to| to.parse().unwrap()) {
            for path_mtu in 1280..1500 {
                let inner = usize::from(inner_mtu(path_mtu, &to));
                let on_the_wire = SHAPE.record_len(inner) + ip_and_udp_len(&to);
                assert!(on_the_wire <= usize::from(path_mtu), "{path_mtu}: {inner}");
                assert!(inner + PADDING > usize::from(path_mtu) - ip_and_udp_len(&to) - 32);
            }
        }
    }

    #[test]
    fn a_sender_of_ipv6_is_never_told_of_less_than_its_least_mtu() {
        assert_eq!(told_mtu(1200, &[0x60]), 1280);
        assert_eq!(told_mtu(1300, &[0x60]), 1300);
        assert_eq!(told_mtu(1200, &[0x45]), 1200);
    }

    fn packet_v6(len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x60;
        let payload_len = u16::try_from(len - IPV6_HEADER_LEN).unwrap();
        packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
        packet[6] = 6;
        packet
    }

    #[test]
    fn a_packet_of_the_least_mtu_of_ipv6_leaves_in_two_records_that_fit() {
        let mut splitter = Splitter::new(0);
        let mut batch = Batch::new();
        let packet = packet_v6(1280);
        splitter.take(packet.len(), |segment| segment.copy_from_slice(&packet));
        assert!(splitter.split(1200, SHAPE, &mut batch));
        assert_eq!(batch.records(), 2);
        assert!(batch.stride() <= 1200 + DATA_OVERHEAD);
    }

    #[test]
    fn a_longer_packet_of_ipv6_is_not_split_since_its_sender_was_told() {
        let mut splitter = Splitter::new(0);
        let mut batch = Batch::new();
        let packet = packet_v6(1281);
        splitter.take(packet.len(), |segment| segment.copy_from_slice(&packet));
        assert!(!splitter.split(1200, SHAPE, &mut batch));
        assert!(batch.is_empty());
    }

    #[test]
    fn each_packet_has_an_identification_of_its_own() {
        let mut splitter = Splitter::new(0);
        let packet = packet_v6(1280);
        let identifications = [(); 2].map(|()| {
            let mut batch = Batch::new();
            splitter.take(packet.len(), |segment| segment.copy_from_slice(&packet));
            assert!(splitter.split(1200, SHAPE, &mut batch));
            let fragment = &batch.bytes()[DATA_HEADER_LEN..];
            <[u8; 4]>::try_from(&fragment[IPV6_HEADER_LEN + 4..][..4]).unwrap()
        });
        assert_ne!(identifications[0], identifications[1]);
    }
}
