//! The header that a TUN device with `IFF_VNET_HDR` carries ahead of every frame.

use crate::PacketError;

/// Length of the header in bytes: `struct virtio_net_hdr` without the buffer count.
pub const VNET_HEADER_LEN: usize = 10;

/// The work that a frame leaves to be done: for us when it is read from the TUN, for the kernel
/// when it is written to it. It is `struct virtio_net_hdr` of the virtio specification §5.1.6, in
/// the byte order of the machine, as a TUN device has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// The transport checksum field holds only the pseudo-header's sum and must be finished.
    pub needs_checksum: bool,
    /// The way to cut the frame into packets.
    pub gso: Gso,
    /// A TCP superframe that carries CWR (`VIRTIO_NET_HDR_GSO_ECN`): only its first segment may.
    pub ecn: bool,
    /// Bytes of headers, a hint: on forwarded packets the kernel puts the length of its linear
    /// buffer here. Written, never read.
    pub header_len: u16,
    /// Transport payload bytes of each segment, headers not counted.
    pub gso_size: u16,
    /// The start of the sum of the transport checksum, in bytes from the IP header.
    pub checksum_start: u16,
    /// The place of the checksum field, in bytes from `checksum_start`.
    pub checksum_offset: u16,
}

/// The way to cut a superframe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gso {
    /// Not a superframe.
    #[default]
    None,
    /// TCP over IPv4 (`VIRTIO_NET_HDR_GSO_TCPV4`).
    Tcp4,
    /// TCP over IPv6 (`VIRTIO_NET_HDR_GSO_TCPV6`).
    Tcp6,
    /// UDP into datagrams, over either IP version (`VIRTIO_NET_HDR_GSO_UDP_L4`, called USO).
    Udp,
}

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`. The other flag, `DATA_VALID`, asks nothing of us.
const FLAG_NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN_BIT: u8 = 0x80;

impl VnetHeader {
    /// Reads the header ahead of a frame.
    ///
    /// # Errors
    /// [`PacketError::GsoType`] for a type never offered to the kernel, such as UFO.
    pub fn parse(bytes: &[u8; VNET_HEADER_LEN]) -> Result<Self, PacketError> {
        let [flags, gso_type, rest @ ..] = *bytes;
        let field = |index: usize| u16::from_ne_bytes([rest[2 * index], rest[2 * index + 1]]);
        let gso = match gso_type & !GSO_ECN_BIT {
            GSO_NONE => Gso::None,
            GSO_TCP4 => Gso::Tcp4,
            GSO_TCP6 => Gso::Tcp6,
            GSO_UDP => Gso::Udp,
            _ => return Err(PacketError::GsoType(gso_type)),
        };
        Ok(Self {
            needs_checksum: flags & FLAG_NEEDS_CHECKSUM != 0,
            gso,
            ecn: gso_type & GSO_ECN_BIT != 0,
            header_len: field(0),
            gso_size: field(1),
            checksum_start: field(2),
            checksum_offset: field(3),
        })
    }

    /// Writes the header; `parse` reads back what was written.
    pub fn write(&self, bytes: &mut [u8; VNET_HEADER_LEN]) {
        let gso_type = match self.gso {
            Gso::None => GSO_NONE,
            Gso::Tcp4 => GSO_TCP4,
            Gso::Tcp6 => GSO_TCP6,
            Gso::Udp => GSO_UDP,
        };
        bytes[0] = if self.needs_checksum {
            FLAG_NEEDS_CHECKSUM
        } else {
            0
        };
        bytes[1] = gso_type | if self.ecn { GSO_ECN_BIT } else { 0 };
        bytes[2..4].copy_from_slice(&self.header_len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.gso_size.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.checksum_start.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.checksum_offset.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_virtio_specification_puts_them() {
        let header = VnetHeader {
            needs_checksum: true,
            gso: Gso::Tcp6,
            ecn: true,
            header_len: 0x0102,
            gso_size: 0x0304,
            checksum_start: 0x0506,
            checksum_offset: 0x0708,
        };
        let mut bytes = [0; VNET_HEADER_LEN];
        header.write(&mut bytes);
        let mut expected = vec![1, 0x84];
        for field in [0x0102_u16, 0x0304, 0x0506, 0x0708] {
            expected.extend(field.to_ne_bytes());
        }
        assert_eq!(bytes.as_slice(), expected);
        assert_eq!(VnetHeader::parse(&bytes), Ok(header));
    }

    #[test]
    fn a_header_of_zeros_asks_for_nothing() {
        assert_eq!(VnetHeader::parse(&[0; 10]), Ok(VnetHeader::default()));
    }

    #[test]
    fn a_type_never_offered_is_refused() {
        let mut ufo = [0; 10];
        ufo[1] = 3;
        assert_eq!(VnetHeader::parse(&ufo), Err(PacketError::GsoType(3)));
    }

    #[test]
    fn a_frame_known_to_be_valid_needs_no_checksum() {
        let mut bytes = [0; 10];
        bytes[0] = 2;
        assert_eq!(VnetHeader::parse(&bytes), Ok(VnetHeader::default()));
    }
}
