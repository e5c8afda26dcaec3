//! A way between client and gateway that is narrower than the tunnel's packets and says nothing of it.

use crate::common::{Bed, SOON, WEB_PORT};
use culvert_lab::product::PRIVATE_V4;
use culvert_lab::{Transfer, narrow_in_silence, wait_until};
use std::net::SocketAddr;

/// A phone network's: less than the 1,480 bytes of a full packet.
const MTU_BYTES: u16 = 1300;

/// A port of the resource where files are received.
const FILE_PORT: u16 = 5201;

/// Enough for several round trips of full packets.
const BULK_BYTES: u64 = 1 << 20;

#[test]
fn files_pass_a_narrow_way_that_says_nothing_up_and_down() {
    let bed = Bed::new(1).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let product = &bed.product;
    let ends = [&product.client.namespace, &product.gateways[0].namespace];
    narrow_in_silence(&product.internet, ends, MTU_BYTES).unwrap();

    let target = SocketAddr::new(PRIVATE_V4.parse().unwrap(), FILE_PORT);
    let client = &product.client;
    Transfer::run(&client.namespace, &product.private, target, BULK_BYTES).unwrap();
    let download = bed.download().unwrap();
    wait_until("a megabyte to come", SOON, || download.bytes() > BULK_BYTES).unwrap();

    let found = || client.status().unwrap()["gateways"][0]["path_mtu_bytes"].as_u64();
    wait_until("the path to be measured", SOON, || found().is_some()).unwrap();
    let found = found().unwrap();
    let fits = u64::from(MTU_BYTES);
    assert!(found <= fits && found + 16 > fits, "{found}");
    let netcheck = client.tell("netcheck").unwrap();
    let said = String::from_utf8_lossy(&netcheck.stdout).into_owned();
    assert!(
        said.contains(&format!("up to {found} bytes pass to")),
        "{said}"
    );
}
