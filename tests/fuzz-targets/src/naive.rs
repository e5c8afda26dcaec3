//! The checksums of IP packets, straight from the specifications and slow: the oracle.

/// RFC 1071: the ones' complement sum of 16-bit words, an odd last byte followed by a zero.
#[must_use]
pub fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// True if the header checksum is right, and for IPv6, which has none. `packet` is an IP packet.
#[must_use]
pub fn is_header_checksum_right(packet: &[u8]) -> bool {
    packet[0] >> 4 == 6 || sum(&packet[..v4_header_len(packet)]) == 0xFFFF
}

/// True if the checksum of the transport header that begins at `start` is right. The checksum
/// covers everything up to the end of `packet`, an IP packet with one address pair.
#[must_use]
pub fn is_transport_checksum_right(packet: &[u8], start: usize, protocol: u8) -> bool {
    let mut covered = pseudo_header(packet, packet.len() - start, protocol);
    covered.extend(&packet[start..]);
    sum(&covered) == 0xFFFF
}

/// The pseudo-header of RFC 9293 §3.1 and RFC 8200 §8.1; the latter's order gives the same sum.
#[must_use]
pub fn pseudo_header(packet: &[u8], transport_len: usize, protocol: u8) -> Vec<u8> {
    let addresses = match packet[0] >> 4 {
        4 => 12..20,
        _ => 8..40,
    };
    let mut pseudo = packet[addresses].to_vec();
    pseudo.extend((transport_len as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    pseudo
}

/// Writes the checksums of `packet`, a TCP segment (`protocol` 6) or UDP datagram (17) in an IP
/// packet whose headers together are `start` bytes long.
pub fn write_checksums(packet: &mut [u8], start: usize, protocol: u8) {
    let field = start + if protocol == 6 { 16 } else { 6 };
    if field + 2 <= packet.len() {
        packet[field..field + 2].fill(0);
        let mut covered = pseudo_header(packet, packet.len() - start, protocol);
        covered.extend(&packet[start..]);
        let checksum = match !sum(&covered) {
            // RFC 768: zero would mean that there is none.
            0 if protocol == 17 => 0xFFFF,
            checksum => checksum,
        };
        packet[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    if packet[0] >> 4 == 4 {
        packet[10..12].fill(0);
        let checksum = !sum(&packet[..v4_header_len(packet)]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The header length that an IPv4 header tells, at least that of one without options.
#[must_use]
pub fn v4_header_len(packet: &[u8]) -> usize {
    (usize::from(packet[0] & 0xF) * 4).max(20).min(packet.len())
}
