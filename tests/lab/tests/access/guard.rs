//! The gateway's table in the kernel's packet filter, when another program takes it away.

use crate::common::{Bed, SOON, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::wait_until;

#[test]
fn a_gateway_whose_table_is_flushed_puts_it_back_and_names_who_did_it() {
    let mut product = Product::networks(1).unwrap();
    product.begin(&access()).unwrap();
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let gateway = &bed.product.gateways[0];
    let firewall = || gateway.status().unwrap()["firewall"].clone();
    // It looks every two seconds by itself, and may come first, once.
    for times in 1..=3_u64 {
        gateway.namespace.run("nft flush ruleset").unwrap();
        wait_until("the table", SOON, || {
            firewall()["restored"].as_u64() >= Some(times)
        })
        .unwrap();
        bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    }
    assert!(
        gateway.output().contains("another program (nft)"),
        "{}",
        gateway.output()
    );
    assert_eq!(firewall()["state"], "intact");

    let flushing = "while :; do nft flush ruleset; sleep 0.05; done";
    let mut flushing = gateway.namespace.spawn_script(flushing).unwrap();
    wait_until("the problem to be named", SOON, || {
        let problems = gateway.status().unwrap()["problems"].to_string();
        problems.contains("again and again")
    })
    .unwrap_or_else(|error| panic!("{error}: {}", gateway.output()));
    assert_eq!(firewall()["state"], "lost");
    assert!(
        !bed.reaches(PRIVATE_V4, WEB_PORT),
        "nothing passes unguarded"
    );
    flushing.kill().unwrap();
}
