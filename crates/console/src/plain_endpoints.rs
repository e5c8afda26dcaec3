//! The places where gateways hear a plain WireGuard device.

use super::view::{Cell, Section, Table};
use culvert_wire::api::{PlainClientEndpoint, PlainClientFile};

/// The gateways of the device's file that have heard it; nothing where none has.
pub(super) fn section(
    file: &PlainClientFile,
    endpoints: &[PlainClientEndpoint],
) -> Option<Section> {
    if endpoints.is_empty() {
        return None;
    }
    let rows = endpoints.iter().map(|endpoint| {
        let mut peers = file.peers.iter();
        let peer = peers.find(|peer| peer.gateway == endpoint.gateway);
        let name = peer.map_or("–", |peer| &peer.gateway_name);
        vec![
            Cell::text(name),
            match endpoint.address {
                Some(address) => Cell::code(address),
                None => Cell::warn("changes too often"),
            },
            Cell::time(Some(endpoint.last_handshake)),
            match endpoint.counts {
                true => Cell::good("counts for conditions"),
                false => Cell::plain("too old for conditions"),
            },
        ]
    });
    Some(Section::Table(Table {
        title: "Heard by gateways".to_owned(),
        columns: vec!["Gateway", "From", "Last handshake", "Address"],
        rows: rows.collect(),
        ..Table::default()
    }))
}
