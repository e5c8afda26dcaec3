//! Firewalls of other programs on the client's machine that change the marks of what it sends.

use crate::common::{Bed, SOON, WEB_PORT};
use crate::networks::{everything, keep_one_family};
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::{Family, MARKING_RULES, count_sent, sent, set_marks, wait_until};

/// The client's interface.
const TUNNEL: &str = "culvert0";

/// A bed whose client leads everything into its tunnel, which `family` carries.
fn with_everything(family: Family) -> Bed {
    let mut product = Product::networks(1).unwrap();
    keep_one_family(&mut product, family);
    product.begin(&everything(&[])).unwrap();
    Bed::around(product).unwrap()
}

#[test]
fn under_twenty_firewalls_that_set_marks_no_packet_of_the_tunnel_comes_back_into_it() {
    for family in [Family::V4, Family::V6] {
        let mut bed = with_everything(family);
        bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
        let machine = bed.product.client.namespace.clone();
        // Nothing else of this machine sends datagrams, nor TCP to the portal's port.
        count_sent(&machine, TUNNEL, "meta l4proto udp").unwrap();
        for (priority, rule) in MARKING_RULES {
            set_marks(&machine, priority, rule).unwrap();
            let ping = machine.run(&format!("ping -c 3 -i 0.05 -W 2 {PRIVATE_V4}"));
            assert!(ping.is_ok(), "{family:?} {priority} {rule}: {ping:?}");
            assert!(bed.reaches(PRIVATE_V4, WEB_PORT), "{family:?} {rule}");
            assert_eq!(sent(&machine).unwrap(), 0, "{family:?} {priority} {rule}");
        }
        // With a new connection to the portal, new handshakes, and what the one before left.
        set_marks(&machine, "mangle", "meta mark set 0x1").unwrap();
        bed.product.client.kill().unwrap();
        bed.product.client.start().unwrap();
        bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
        let text = bed.product.client.status_text().unwrap();
        assert!(!text.contains("came back"), "{text}");
    }
}

#[test]
fn datagrams_that_come_back_all_the_same_are_dropped_and_named_with_the_fix() {
    let bed = with_everything(Family::V4);
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let client = &bed.product.client;
    let machine = &client.namespace;
    // Another program that takes our rules away as well, again and again.
    let _other = machine
        .spawn_script("while true; do ip rule del pref 5009 2>/dev/null || sleep 0.01; done")
        .unwrap();
    set_marks(machine, "mangle", "meta mark set 0x1").unwrap();
    wait_until("the problem", SOON, || {
        let _lost = machine.run(&format!("ping -c 1 -W 0.2 {PRIVATE_V4}"));
        let text = client.status_text().unwrap();
        text.contains("PROBLEMS") && text.contains("changes their mark 0x43")
    })
    .unwrap();
    let status = client.status().unwrap();
    let drops = status["drops"].as_array().unwrap();
    let looped = drops.iter().find(|drop| drop["reason"] == "own_datagram");
    let count = looped.unwrap()["count"].as_u64().unwrap();
    // As many as were sent, and not as many as a processor makes of them.
    assert!((1..10_000).contains(&count), "{count}");
}
