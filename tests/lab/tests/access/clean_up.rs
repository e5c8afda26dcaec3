//! `culvert client cleanup` and `culvert gateway cleanup`: what a kill leaves, and how it goes.

use crate::common::{SOON, access};
use anyhow::Result;
use culvert_lab::product::{Client, Gateway, PRIVATE_V4, Product};
use culvert_lab::{culvert_program, wait_until};
use std::fs;

/// Names a resolver that is not there.
const BEFORE: &str = "# by hand\nnameserver 198.51.100.54\n";

/// Shows what Culvert may change, without the kernel's own routes of a link that has just come up.
const NETWORK: &str = "ip -4 rule; ip -6 rule; nft list ruleset; ip -4 route show table all
                       ip -6 route show table all | grep -v fe80:";

#[test]
fn a_killed_client_is_undone_in_two_parts_and_the_resolver_alone_opens_nothing() {
    let mut product = Product::networks(1).unwrap();
    // A directory /etc of its own.
    let etc = product.dir().join("etc");
    culvert_lab::run(&format!("cp -a /etc {}", etc.display())).unwrap();
    let resolv_conf = etc.join("resolv.conf");
    // The machine's may be a link.
    let _link = fs::remove_file(&resolv_conf);
    fs::write(&resolv_conf, BEFORE).unwrap();
    let now = || fs::read_to_string(&resolv_conf).unwrap();
    let client = &mut product.client;
    client.machine = format!("mount --bind {} /etc", etc.display());
    "--dns file".clone_into(&mut client.arguments);
    let network_before = client.namespace.shell(NETWORK).unwrap();
    product.begin(&access()).unwrap();
    wait_until("names to be asked of the client", SOON, || now() != BEFORE).unwrap();

    let refused = clean_up(&product.client, "").unwrap_err().to_string();
    assert!(
        refused.contains("a client runs and answers at"),
        "{refused}"
    );

    product.client.kill().unwrap();
    let client = &product.client;
    assert!(now().contains("100."), "the client's own: {}", now());
    assert_eq!(clean_up(client, "--only resolver").unwrap(), "");
    assert_eq!(now(), BEFORE);
    let way = client
        .namespace
        .outcome(&format!("ip route get {PRIVATE_V4}"));
    assert!(!way.unwrap().status.success(), "it is still unreachable");

    let removed = clean_up(client, "").unwrap();
    assert!(removed.contains("rule"), "{removed}");
    assert_eq!(client.namespace.shell(NETWORK).unwrap(), network_before);
    assert_eq!(
        clean_up(client, "").unwrap(),
        "",
        "there is nothing left to undo"
    );
    assert_eq!(now(), BEFORE);
}

#[test]
fn a_killed_gateway_is_undone_with_its_table_and_its_routes() {
    let mut product = Product::networks(1).unwrap();
    let before = product.gateways[0].namespace.shell(NETWORK).unwrap();
    product.begin(&access()).unwrap();
    let gateway = &mut product.gateways[0];
    let is_guarded = |gateway: &Gateway| {
        let rules = gateway.namespace.run("nft list ruleset");
        rules.unwrap().contains("table inet culvert_")
    };
    wait_until("the guard", SOON, || is_guarded(gateway)).unwrap();
    gateway.kill().unwrap();
    assert!(is_guarded(gateway), "it outlives the gateway");
    let clean_up = || {
        let line = format!(
            "{} gateway cleanup --status-socket {}",
            culvert_program().unwrap().display(),
            gateway.socket().display()
        );
        gateway.namespace.run(&line).unwrap()
    };
    assert!(clean_up().contains("rule"));
    assert_eq!(gateway.namespace.shell(NETWORK).unwrap(), before);
    assert_eq!(clean_up(), "", "there is nothing left to undo");
}

fn clean_up(client: &Client, options: &str) -> Result<String> {
    client.run(&format!(
        "{} client cleanup --state-dir {} --status-socket {} {options}",
        culvert_program()?.display(),
        client.state_dir().display(),
        client.socket().display()
    ))
}
