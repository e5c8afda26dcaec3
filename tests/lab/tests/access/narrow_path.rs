//! A way between client and gateway that is narrower than the tunnel's packets and says nothing of it.

use crate::common::{Bed, SOON, WEB_PORT};
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::{Transfer, wait_until};
use std::net::SocketAddr;

/// A phone network's: less than the 1,480 bytes of a full packet.
const MTU_BYTES: u16 = 1300;

/// A port of the resource where files are received.
const FILE_PORT: u16 = 5201;

/// Enough for several round trips of full packets.
const BULK_BYTES: u64 = 1 << 20;

/// From now on the way loses what exceeds [`MTU_BYTES`], in both directions and without a word.
fn narrow_in_silence(product: &Product) {
    product
        .internet
        .shell(&format!(
            "for link in /sys/class/net/*; do
                 link=${{link##*/}}
                 [ $link = lo ] || ip link set dev $link mtu {MTU_BYTES}
             done
             nft -f - <<'RULES'
             table inet narrow {{
                 chain output {{
                     type filter hook output priority 0
                     icmp type destination-unreachable drop
                     icmpv6 type packet-too-big drop
                 }}
                 chain postrouting {{
                     type filter hook postrouting priority 0
                     ip frag-off & 0x3fff != 0 drop
                     exthdr frag exists drop
                 }}
             }}
RULES"
        ))
        .unwrap();
}

#[test]
fn files_pass_a_narrow_way_that_says_nothing_up_and_down() {
    let bed = Bed::new(1).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let product = &bed.product;
    narrow_in_silence(product);

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
