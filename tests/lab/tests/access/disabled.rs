//! A client whose owner is disabled loses access at once, waits, and comes back when the owner is enabled again.

use crate::common::{Bed, SECOND, SOON, WEB_PORT, access};
use culvert_lab::product::{Client, PRIVATE_NAME, PRIVATE_V4, Product};
use culvert_lab::wait_until;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A client has access again this soon after its owner is enabled (docs/client.md).
const RETURN: Duration = Duration::from_secs(30);

/// Exit statuses (docs/exit-status.md).
const FAILED: i32 = 1;
const NOT_ENROLLED: i32 = 3;
/// The client is revoked, or access is denied to it.
const DENIED: i32 = 5;

/// A sentence that a person reads at each place where the wait is told.
const REASON: &str = "the owner of this client is disabled";

/// The files of a state directory, and what is in them.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// Waits until the client tells in its status that its owner is disabled.
fn says_why(client: &Client) {
    wait_until("the client to say why it waits", SOON, || {
        client.status_text().is_ok_and(|text| text.contains(REASON))
    })
    .unwrap_or_else(|error| panic!("{error}: {}", client.output()));
}

/// True if the client gets an answer from the web server by its name.
fn reaches_by_name(bed: &Bed) -> bool {
    let line = format!("curl -fsS -m 4 http://{PRIVATE_NAME}/");
    bed.product.client.run_with_dns(&line).is_ok()
}

/// Waits until the client reaches the web server by address and by name, which has to be within [`RETURN`] of
/// the start.
fn is_back(bed: &Bed) {
    let enabled = Instant::now();
    let (mut by_address, mut by_name) = (false, false);
    wait_until("access again", RETURN, || {
        by_address = by_address || bed.reaches(PRIVATE_V4, WEB_PORT);
        by_name = by_name || reaches_by_name(bed);
        by_address && by_name
    })
    .unwrap_or_else(|error| {
        let output = bed.product.client.output();
        panic!("{error} (by address: {by_address}, by name: {by_name}): {output}")
    });
    assert!(enabled.elapsed() <= RETURN, "after {:?}", enabled.elapsed());
}

/// The access of [`Bed`], whose client belongs to an actor of the kind.
fn access_of(kind: &str) -> String {
    access().replace("service_account", kind)
}

/// Disables the owner of a client that is in use, and enables them again.
fn waits_and_returns(kind: &str) {
    let mut bed = Bed::with_access(1, &access_of(kind)).unwrap();
    let state_dir = bed.product.client.state_dir();
    wait_until("the destinations to be stored", SOON, || {
        state_dir.join("destinations.json").exists()
    })
    .unwrap();
    let before = files(&state_dir);
    let address = bed.product.client.address().unwrap();
    let identity = bed.product.client.status().unwrap()["client"].clone();
    assert!(reaches_by_name(&bed));
    let download = bed.download().unwrap();

    bed.product
        .portal
        .admin("actor set laptop --disable")
        .unwrap();
    let cut = download.cut_after(Instant::now()).unwrap();
    assert!(cut <= SECOND, "bytes came for another {cut:?}");
    says_why(&bed.product.client);
    // Long enough for the attempts at a session to have become rare.
    let end = Instant::now() + Duration::from_secs(40);
    while Instant::now() < end {
        assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "access without a right");
        assert!(!reaches_by_name(&bed), "access by name without a right");
        std::thread::sleep(Duration::from_secs(1));
    }
    let client = &mut bed.product.client;
    assert!(client.process().unwrap().is_running().unwrap());
    let output = client.output();
    let said = output.matches("no access until the owner of this client is enabled again");
    assert_eq!(said.count(), 1, "{output}");
    assert_eq!(client.status().unwrap()["client"], identity);

    bed.product
        .portal
        .admin("actor set laptop --enable")
        .unwrap();
    is_back(&bed);
    let client = &bed.product.client;
    assert_eq!(client.address().unwrap(), address);
    assert_eq!(client.status().unwrap()["client"], identity);
    assert_eq!(files(&client.state_dir()), before, "the state is another");
}

#[test]
fn a_person_s_client_waits_while_they_are_disabled_and_comes_back_by_itself() {
    waits_and_returns("user");
}

#[test]
fn a_service_account_s_client_waits_while_it_is_disabled_and_comes_back_by_itself() {
    waits_and_returns("service_account");
}

/// A product whose client has a token, is not started, and belongs to a disabled person.
fn disabled_before_the_first_start() -> Product {
    let mut product = Product::networks(1).unwrap();
    product.declare(&access_of("user")).unwrap();
    let gateway = &mut product.gateways[0];
    let token = gateway.token_file();
    product.portal.token("gateway --site lab", &token).unwrap();
    gateway.start().unwrap();
    let token = product.client.token_file();
    let of = "client --actor laptop --one-time";
    product.portal.token(of, &token).unwrap();
    product.portal.admin("actor set laptop --disable").unwrap();
    product
}

#[test]
fn a_client_that_waits_for_its_owner_outlasts_a_restart_of_the_portal_with_exit_when_unreachable() {
    let mut product = disabled_before_the_first_start();
    "--exit-when-unreachable".clone_into(&mut product.client.arguments);
    product.client.launch().unwrap();
    says_why(&product.client);
    let outcome = product.client.tell("ping web").unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status.code(), Some(DENIED), "{said}");
    assert!(said.contains(REASON), "{said}");

    product.portal.stop().unwrap();
    let unreachable = || {
        let output = product.client.output();
        output.contains("the portal can't be reached")
    };
    wait_until("an attempt to fail", RETURN, unreachable).unwrap();
    product.portal.start().unwrap();
    let client = product.client.process().unwrap();
    assert!(client.is_running().unwrap(), "{}", product.client.output());

    product.portal.admin("actor set laptop --enable").unwrap();
    let bed = Bed::around(product).unwrap();
    is_back(&bed);
}

#[test]
fn a_client_that_is_told_to_sign_in_hears_that_its_owner_is_disabled_and_enrols_later() {
    let mut product = disabled_before_the_first_start();
    let token = product.client.token_file();
    product.client.takes_commands = true;
    product.client.launch().unwrap();
    let line = format!("sign-in --timeout 8 --token-file {}", token.display());
    wait_until("the client to take commands", SOON, || {
        product.client.status().is_ok()
    })
    .unwrap();
    let outcome = product.client.tell(&line).unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status.code(), Some(FAILED), "{said}");
    assert!(said.contains(REASON), "{said}");

    product.portal.admin("actor set laptop --enable").unwrap();
    let bed = Bed::around(product).unwrap();
    is_back(&bed);
}

/// Waits until the client has ended by itself, and checks its status.
fn ends(bed: &mut Bed, status: i32) {
    let process = bed.product.client.process().unwrap();
    let ended = process.wait(RETURN).unwrap();
    assert_eq!(
        ended.code(),
        Some(status),
        "{}",
        bed.product.client.output()
    );
}

#[test]
fn a_client_that_is_revoked_while_its_owner_is_disabled_stays_out() {
    let mut bed = Bed::with_access(1, &access_of("user")).unwrap();
    let admin = |line| bed.product.portal.admin(line).unwrap();
    admin("actor set laptop --disable");
    says_why(&bed.product.client);
    admin("client revoke laptop");
    admin("actor set laptop --enable");
    ends(&mut bed, DENIED);
}

#[test]
fn a_client_whose_disabled_owner_is_deleted_stays_out() {
    let mut bed = Bed::with_access(1, &access_of("user")).unwrap();
    let admin = |line| bed.product.portal.admin(line).unwrap();
    admin("actor set laptop --disable");
    says_why(&bed.product.client);
    admin("actor delete laptop --yes --cascade");
    ends(&mut bed, NOT_ENROLLED);
}
