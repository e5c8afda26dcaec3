//! The MSS option of TCP, lowered to what a path takes (RFC 9293 §3.7.1, RFC 6691).
//!
//! A sender of IPv6 believes in no path of less than 1,280 bytes, however often it is told. The MSS is the one word that
//! makes its segments shorter.

use crate::ip::{IPV4_HEADER_LEN, IPV6_HEADER_LEN, IpVersion, IpView, Protocol};
use crate::{checksum, tcp};

/// End of the options, and a byte between them (RFC 9293 §3.2).
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
/// The maximum segment size, with its length.
const MSS: u8 = 2;
const MSS_LEN: usize = 4;

/// Lowers the MSS that a SYN offers to segments whose packets have at most `mtu` bytes. True where it offered more. A packet
/// that is no SYN, or has no such option, stays as it is.
pub fn clamp_mss(packet: &mut [u8], mtu: u16) -> bool {
    let Some(found) = find(packet) else {
        return false;
    };
    let most = mtu.saturating_sub(found.headers_len);
    if found.offered <= most {
        return false;
    }
    // The sum is over words from the header's start on, and the option may begin at any byte.
    let words = found.at & !1..(found.at + 3) & !1;
    let transport = &mut packet[found.transport..];
    let word = |transport: &[u8], at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    let before = words.clone().step_by(2).map(|at| word(transport, at));
    let before: [u16; 2] = array(before);
    transport[found.at..found.at + 2].copy_from_slice(&most.to_be_bytes());
    let after: [u16; 2] = array(words.step_by(2).map(|at| word(transport, at)));
    let mut sum = word(transport, tcp::CHECKSUM);
    for (old, new) in before.into_iter().zip(after) {
        sum = checksum::update(sum, old, new);
    }
    transport[tcp::CHECKSUM..tcp::CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// An option that says an MSS.
struct Found {
    /// Offset of the TCP header in the packet.
    transport: usize,
    /// Offset of the value in the TCP header.
    at: usize,
    offered: u16,
    /// Bytes of the headers of IP and TCP without options, which an MSS leaves out (RFC 6691).
    headers_len: u16,
}

fn find(packet: &[u8]) -> Option<Found> {
    let view = IpView::parse(packet).ok()?;
    let segment = view.transport();
    if view.protocol() != Protocol::TCP
        || view.is_fragment()
        || segment.get(tcp::FLAGS)? & tcp::SYN == 0
    {
        return None;
    }
    let header = &segment[..tcp::header_len(segment)?];
    let mut at = tcp::HEADER_LEN;
    loop {
        match *header.get(at)? {
            END => return None,
            NO_OPERATION => at += 1,
            kind => {
                let len = usize::from(*header.get(at + 1)?);
                if kind == MSS && len == MSS_LEN {
                    let value = header.get(at + 2..at + MSS_LEN)?;
                    return Some(Found {
                        transport: view.header_len(),
                        at: at + 2,
                        offered: u16::from_be_bytes([value[0], value[1]]),
                        headers_len: headers_len(view.version()),
                    });
                }
                // One of less than its own two bytes would be read for ever.
                at += Some(len).filter(|len| *len >= 2)?;
            }
        }
    }
}

const fn headers_len(version: IpVersion) -> u16 {
    let ip = match version {
        IpVersion::V4 => IPV4_HEADER_LEN,
        IpVersion::V6 => IPV6_HEADER_LEN,
    };
    (ip + tcp::HEADER_LEN) as u16
}

/// The one or two words that hold a value: the second is zero before and after where there is one alone.
fn array(mut words: impl Iterator<Item = u16>) -> [u16; 2] {
    [(); 2].map(|()| words.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{ChecksumState, verify_transport};
    use proptest::prelude::*;

    /// A segment with a right checksum.
    fn segment(is_v6: bool, flags: u8, options: &[u8]) -> Vec<u8> {
        let header_len = tcp::HEADER_LEN + options.len().next_multiple_of(4);
        let ip_len = if is_v6 {
            IPV6_HEADER_LEN
        } else {
            IPV4_HEADER_LEN
        };
        let mut packet = vec![0; ip_len + header_len];
        if is_v6 {
            packet[0] = 0x60;
            packet[4..6].copy_from_slice(&(header_len as u16).to_be_bytes());
            packet[6] = 6;
            packet[8..40].copy_from_slice(&[7; 32]);
        } else {
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&((ip_len + header_len) as u16).to_be_bytes());
            packet[9] = 6;
            packet[12..20].copy_from_slice(&[10; 8]);
        }
        let transport = &mut packet[ip_len..];
        transport[tcp::DATA_OFFSET] = (header_len as u8 / 4) << 4;
        transport[tcp::FLAGS] = flags;
        transport[tcp::HEADER_LEN..tcp::HEADER_LEN + options.len()].copy_from_slice(options);
        let view = IpView::parse(&packet).unwrap();
        let sum = view
            .pseudo_header(header_len)
            .plus(checksum::Sum::of(view.transport()));
        let sum = sum.checksum().to_be_bytes();
        packet[ip_len + tcp::CHECKSUM..][..2].copy_from_slice(&sum);
        packet
    }

    fn offered(packet: &[u8]) -> Option<u16> {
        find(packet).map(|found| found.offered)
    }

    fn is_right(packet: &[u8]) -> bool {
        verify_transport(&IpView::parse(packet).unwrap()) == ChecksumState::Right
    }

    const SYN_ACK: u8 = tcp::SYN | tcp::ACK;

    #[test]
    fn a_syn_offers_no_more_than_fits_the_path_and_its_checksum_stays_right() {
        for (is_v6, mtu, most) in [(false, 1200, 1160), (true, 1200, 1140)] {
            for flags in [tcp::SYN, SYN_ACK] {
                for ahead in [
                    &[][..],
                    &[1],
                    &[4, 2],
                    &[8, 10, 9, 9, 9, 9, 8, 8, 8, 8],
                    &[1, 1, 1],
                ] {
                    let options = [ahead, &[MSS, 4, 0x05, 0xA0], &[3, 3, 7]].concat();
                    let mut packet = segment(is_v6, flags, &options);
                    assert!(clamp_mss(&mut packet, mtu));
                    assert_eq!(offered(&packet), Some(most));
                    assert!(is_right(&packet), "{ahead:?}");
                    assert!(!clamp_mss(&mut packet, mtu), "it fits now");
                }
            }
        }
    }

    #[test]
    fn what_fits_and_what_is_no_syn_stays_as_it_is() {
        let option = [MSS, 4, 0x04, 0x00];
        for (flags, options) in [
            (tcp::SYN, &option[..]),
            (tcp::ACK, &[MSS, 4, 0xFF, 0xFF]),
            (tcp::SYN, &[END, MSS, 4, 0xFF, 0xFF]),
            (tcp::SYN, &[MSS, 3, 0xFF, 0xFF]),
            (tcp::SYN, &[9, 0, MSS, 4, 0xFF, 0xFF]),
            (tcp::SYN, &[1, MSS, 4, 0xFF]),
            (tcp::SYN, &[]),
        ] {
            let before = segment(true, flags, options);
            let mut packet = before.clone();
            assert!(!clamp_mss(&mut packet, 1200), "{options:?}");
            assert_eq!(packet, before);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_nothing_but_a_larger_offer_is_changed(
            mut packet in proptest::collection::vec(any::<u8>(), 0..120),
            is_v6: bool,
            mtu: u16,
        ) {
            if let Some(first) = packet.first_mut() {
                *first = if is_v6 { 0x60 } else { 0x45 };
            }
            let before = packet.clone();
            if clamp_mss(&mut packet, mtu) {
                prop_assert!(offered(&packet) < offered(&before));
            } else {
                prop_assert_eq!(packet, before);
            }
        }

        #[test]
        fn options_in_any_order_leave_the_checksum_right(
            options in proptest::collection::vec(any::<u8>(), 0..40),
            mtu: u16,
        ) {
            let mut packet = segment(true, tcp::SYN, &options);
            clamp_mss(&mut packet, mtu);
            prop_assert!(is_right(&packet));
        }
    }
}
