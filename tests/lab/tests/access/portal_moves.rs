//! The portal's address and its certificate change, and no machine needs another token.

use crate::common::{Bed, SOON, WEB_PORT};
use culvert_lab::product::{PRIVATE_V4, Portal};
use culvert_lab::{culvert_program, wait_until};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

/// The portal notes once a minute that a connected machine is still there. A busy machine may take longer.
const NOTED: Duration = Duration::from_secs(120);

/// The address that the portal moves to.
const NEW_ADDRESS: &str = "198.51.100.77";

/// `culvert portal certificate`, on the portal's machine.
fn certificate(portal: &Portal, arguments: &str) -> Output {
    let line = format!(
        "{} portal certificate {arguments} --json --state-dir {}",
        culvert_program().unwrap().display(),
        portal.state_dir().display()
    );
    portal.namespace.outcome(&line).unwrap()
}

#[track_caller]
fn told(portal: &Portal, arguments: &str) -> Value {
    let output = certificate(portal, arguments);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The files in which the client and the gateways keep the portal's addresses.
fn address_files(bed: &Bed) -> Vec<PathBuf> {
    let gateways = bed.product.gateways.iter();
    let directories = gateways.map(culvert_lab::product::Gateway::state_dir);
    let directories = directories.chain([bed.product.client.state_dir()]);
    directories.map(|it| it.join("portals.json")).collect()
}

/// Waits until all machines keep this text of the portal.
#[track_caller]
fn all_keep(bed: &Bed, text: &str) {
    wait_until("all machines to keep it", SOON, || {
        let keeps = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|it| it.contains(text));
        address_files(bed).iter().all(keeps)
    })
    .unwrap_or_else(|error| panic!("{error}: {}", bed.product.client.output()));
}

/// The client is connected, and new access is given.
#[track_caller]
fn all_is_well(bed: &mut Bed) {
    bed.product.client.stop().unwrap();
    bed.product.client.start().unwrap();
    // The gateway comes back at a time of its own.
    let reaches = || bed.reaches(PRIVATE_V4, WEB_PORT);
    wait_until("access through the gateway", SOON, reaches).unwrap();
}

#[test]
fn the_certificate_is_exchanged_under_machines_that_are_connected_without_new_tokens() {
    let mut bed = Bed::new(1).unwrap();
    let download = bed.download().unwrap();
    let portal = &bed.product.portal;
    let prepared = told(portal, "rotate");
    let next = prepared["next_pin"].as_str().unwrap().to_owned();
    assert_eq!(
        told(portal, "rotate")["next_pin"],
        next.as_str(),
        "made once"
    );
    let early = certificate(portal, "rotate --finish");
    assert_eq!(early.status.code(), Some(1), "{early:?}");

    all_keep(&bed, &next);
    let portal = &bed.product.portal;
    wait_until("the portal to note it", NOTED, || {
        let told = told(portal, "");
        told["machines"] == 2 && told["unaware"].as_array().is_some_and(Vec::is_empty)
    })
    .unwrap();
    let finished = told(portal, "rotate --finish");
    assert_eq!(finished["pin"], next.as_str(), "{finished}");
    let switched = || portal.output().contains("the next certificate is in use");
    wait_until("the portal to show it", SOON, switched).unwrap();

    // The next session of each is one with the new certificate.
    bed.product.portal.stop().unwrap();
    bed.product.portal.start().unwrap();
    wait_until("the client to come back", SOON, || {
        let status = bed.product.client.status();
        let is_back =
            |it: Value| it["portal"]["state"] == "connected" && it["portal_pin"] == next.as_str();
        status.is_ok_and(is_back)
    })
    .unwrap();
    download.goes_on(Duration::from_secs(1)).unwrap();
    all_is_well(&mut bed);
    let admin = &bed.product.portal;
    assert!(!admin.admin_outcome("site list").unwrap().status.success());
    admin
        .admin(&format!("site list --certificate {next}"))
        .unwrap();
}

#[test]
fn a_machine_that_was_away_comes_back_by_its_token_until_the_exchange_and_is_told_what_to_do_after_it()
 {
    let mut bed = Bed::new(1).unwrap();
    bed.product.client.stop().unwrap();
    told(&bed.product.portal, "rotate");
    let is_told = || told(&bed.product.portal, "")["told_since"].is_string();
    wait_until("the portal to tell of it", SOON, is_told).unwrap();
    bed.product.client.start().unwrap();
    bed.product.client.stop().unwrap();
    fs::remove_file(bed.product.client.state_dir().join("portals.json")).unwrap();

    let portal = &bed.product.portal;
    told(portal, "rotate --finish --force");
    let switched = || portal.output().contains("the next certificate is in use");
    wait_until("the portal to show it", SOON, switched).unwrap();
    bed.product.client.launch().unwrap();
    let client = &bed.product.client;
    wait_until("the client to say so", SOON, || {
        let output = client.output();
        output.contains("another certificate") && output.contains("a new token is needed")
    })
    .unwrap_or_else(|error| panic!("{error}: {}", client.output()));
}

#[test]
fn the_portal_moves_to_another_address_and_its_machines_find_it_there_with_their_tokens() {
    let mut bed = Bed::new(1).unwrap();
    let old = bed.product.portal.url();
    let new = format!("https://{NEW_ADDRESS}:8443");
    let old_address = old
        .trim_start_matches("https://")
        .trim_end_matches(":8443")
        .to_owned();
    let namespace = &bed.product.portal.namespace;
    namespace
        .run(&format!("ip address add {NEW_ADDRESS}/32 dev lo"))
        .unwrap();
    let route = format!("ip route add {NEW_ADDRESS}/32 via {old_address}");
    bed.product.internet.run(&route).unwrap();

    // Both addresses lead to it.
    bed.product.portal.stop().unwrap();
    bed.product.portal.arguments = format!("--also-url {new}");
    bed.product.portal.start().unwrap();
    all_keep(&bed, NEW_ADDRESS);

    // The former one leads nowhere, not even to an error.
    bed.product.portal.stop().unwrap();
    let gone = format!("ip route add blackhole {old_address}/32");
    bed.product.internet.run(&gone).unwrap();
    bed.product.portal.front = Some(new.clone());
    bed.product.portal.arguments = format!("--also-url {old}");
    bed.product.portal.start().unwrap();
    let client = &bed.product.client;
    wait_until("the client to find it", SOON, || {
        let status = client.status();
        status.is_ok_and(|it| {
            it["portal"]["state"] == "connected" && it["portal_url"] == new.as_str()
        })
    })
    .unwrap_or_else(|error| panic!("{error}: {}", client.output()));
    all_is_well(&mut bed);
}
