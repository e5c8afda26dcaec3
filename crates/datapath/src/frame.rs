//! Frames of the TUN.

use culvert_packet::{Cut, VNET_HEADER_LEN, VnetHeader};

/// The packets in a frame; one if it can't be cut.
pub(crate) fn packets_in(frame: &[u8]) -> u64 {
    let cut = frame.split_first_chunk::<VNET_HEADER_LEN>();
    let cut = cut.and_then(|(vnet, packet)| {
        let vnet = VnetHeader::parse(vnet).ok()?;
        Cut::plan(&vnet, packet).ok()
    });
    cut.map_or(1, |cut| cut.segments() as u64)
}
