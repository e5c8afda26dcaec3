//! One token for one machine, and two machines that come with it at once.

use crate::common::{SOON, access};
use anyhow::Result;
use culvert_lab::product::{Portal, Product};
use culvert_lab::{Process, wait_until};
use std::path::Path;

/// The exit status of who is not enrolled (docs/exit-status.md).
const NOT_ENROLLED: i32 = 3;

/// The first of two is a matter of chance.
const ROUNDS: usize = 3;

/// Lets the portal hear two machines at one moment: they connect while it is held up.
fn at_once(portal: &mut Portal, launch: impl FnOnce() -> Result<()>) -> Result<()> {
    portal.process()?.pause()?;
    let launched = launch();
    let connected = "ss -Htn state established sport = :8443";
    let both = wait_until("both to be connected", SOON, || {
        let connected = portal.namespace.run(connected);
        connected.is_ok_and(|connected| connected.lines().count() == 2)
    });
    portal.process()?.resume()?;
    launched.and(both)
}

/// Waits until one of two has ended, and checks how. The index of the one that has not is returned.
fn one_is_refused(mut machines: [&mut Process; 2], error: &str) -> usize {
    let mut ended = [false; 2];
    wait_until("one of them to be refused", SOON, || {
        for (ended, machine) in ended.iter_mut().zip(&mut machines) {
            *ended = !machine.is_running().unwrap();
        }
        ended != [false; 2]
    })
    .unwrap();
    let [refused, enrolled] = match ended {
        [true, false] => [0, 1],
        [false, true] => [1, 0],
        _ => panic!("both were refused: {}", machines[0].output()),
    };
    let said = machines[refused].output();
    let status = machines[refused].wait(SOON).unwrap();
    assert_eq!(status.code(), Some(NOT_ENROLLED), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last, format!("culvert: {error}"), "{said}");
    enrolled
}

/// The number of machines of a kind that the portal knows.
fn known(portal: &Portal, kind: &str) -> usize {
    let list = portal.admin(&format!("{kind} list --output json")).unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    list["items"].as_array().unwrap().len()
}

fn forget(files: [&Path; 2]) {
    for file in files {
        // There is nothing to forget before the first round.
        let _missing = std::fs::remove_dir_all(file);
    }
}

#[test]
fn of_two_clients_that_come_with_a_one_time_token_at_once_one_is_enrolled() {
    let mut product = Product::networks(0).unwrap();
    product.declare(&access()).unwrap();
    let other = product.other_client().unwrap();
    let Product { portal, client, .. } = &mut product;
    let mut clients = [client, &mut { other }];
    for round in 0..ROUNDS {
        let [first, second] = &mut clients;
        forget([&first.state_dir(), &second.state_dir()]);
        let token = first.token_file();
        let _of_the_round_before = std::fs::remove_file(&token);
        let of = "client --actor laptop --one-time";
        portal.token(of, &token).unwrap();
        std::fs::copy(&token, second.token_file()).unwrap();
        at_once(portal, || first.launch().and_then(|()| second.launch())).unwrap();
        let error = "not enrolled: the token is not accepted; have an administrator make a new token \
                     for this client";
        let machines = [first.process().unwrap(), second.process().unwrap()];
        let enrolled = one_is_refused(machines, error);
        clients[enrolled].is_welcomed_within(SOON).unwrap();
        assert_eq!(known(portal, "client"), round + 1);
        // The token is its own from here on, whoever else had it.
        clients[enrolled].stop().unwrap();
        clients[enrolled].start().unwrap();
        clients[enrolled].stop().unwrap();
        assert_eq!(known(portal, "client"), round + 1);
    }
}

#[test]
fn of_two_gateways_that_come_with_a_one_time_token_at_once_one_is_enrolled() {
    let mut product = Product::networks(2).unwrap();
    product.declare(&access()).unwrap();
    let Product {
        portal, gateways, ..
    } = &mut product;
    for round in 0..ROUNDS {
        let [first, second] = gateways.as_mut_slice() else {
            panic!("two gateways");
        };
        forget([&first.state_dir(), &second.state_dir()]);
        let token = first.token_file();
        let _of_the_round_before = std::fs::remove_file(&token);
        let of = "gateway --site lab --one-time";
        portal.token(of, &token).unwrap();
        std::fs::copy(&token, second.token_file()).unwrap();
        at_once(portal, || first.launch().and_then(|()| second.launch())).unwrap();
        let error = "the portal refuses this gateway: the token is not accepted; make a new token for \
                     its site";
        let machines = [first.process().unwrap(), second.process().unwrap()];
        let enrolled = one_is_refused(machines, error);
        gateways[enrolled].is_welcomed_within(SOON).unwrap();
        assert_eq!(known(portal, "gateway"), round + 1);
        gateways[enrolled].stop().unwrap();
        gateways[enrolled].start().unwrap();
        gateways[enrolled].stop().unwrap();
        assert_eq!(known(portal, "gateway"), round + 1);
    }
}
