//! Gateways that get other addresses under load.

use crate::common::Bed;
use culvert_lab::{Family, wait_until};
use std::time::Duration;

/// The address that the client sends to.
fn endpoint(bed: &Bed) -> String {
    let status = bed.product.client.status().unwrap();
    let endpoint = status["gateways"][0]["endpoint"].as_str();
    endpoint.unwrap().to_owned()
}

/// Its family: that of the address that answers first, which may be either.
fn family_in_use(bed: &Bed) -> Family {
    match endpoint(bed).starts_with('[') {
        true => Family::V6,
        false => Family::V4,
    }
}

/// Moves the one gateway while a download and numbered datagrams go through it. Checks that the
/// datagrams continue after at most `limit`, and the download as soon as its sender tries again.
fn goes_on_after(moving: impl FnOnce(&Bed) -> Vec<Family>, limit: Duration) {
    let bed = Bed::new(1).unwrap();
    let stream = bed.numbered_stream().unwrap();
    let download = bed.download().unwrap();
    // A handshake that has just been made is not made again at once.
    std::thread::sleep(Duration::from_secs(3));
    let before = endpoint(&bed);
    for family in moving(&bed) {
        bed.product.gateways[0].move_away(family).unwrap();
    }
    wait_until("another endpoint", limit, || endpoint(&bed) != before)
        .unwrap_or_else(|error| panic!("{error}: {before}"));
    stream.goes_on(2 * limit).unwrap();
    let gap = stream.longest_gap();
    assert!(gap <= limit, "no datagram came back for {gap:?}");
    // TCP waits twice as long before each further attempt.
    let bytes = download.bytes();
    wait_until("the download to go on", 3 * limit, || {
        download.bytes() > bytes
    })
    .unwrap();
}

#[test]
fn a_gateway_of_which_one_address_changes_under_load_is_reached_at_another_within_five_seconds() {
    goes_on_after(|bed| vec![family_in_use(bed)], Duration::from_secs(5));
}

#[test]
fn a_gateway_of_which_all_addresses_change_under_load_is_reached_again_within_ten_seconds() {
    let both = |_: &Bed| vec![Family::V4, Family::V6];
    goes_on_after(both, Duration::from_secs(10));
}
