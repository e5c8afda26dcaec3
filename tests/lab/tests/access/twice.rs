//! Two programs with one state directory, and two tunnels on one host.

use crate::common::{Bed, SECOND, SOON, WEB_PORT, host};
use culvert_lab::product::PRIVATE_V4;
use culvert_lab::{Process, wait_until};

/// The exit status of "something failed" (docs/exit-status.md).
const FAILED: i32 = 1;

/// Checks that a program ends at once with one line that says whose the directory is.
fn is_refused(mut second: Process, state_dir: &std::path::Path) {
    let status = second.wait(SOON).unwrap();
    let said = second.output();
    assert_eq!(status.code(), Some(FAILED), "{said}");
    let [line] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("more than a line: {said}");
    };
    let of = format!("{} is in use by another process", state_dir.display());
    assert!(line.starts_with("culvert: "), "{line}");
    assert!(line.contains(&of), "{line}");
    assert!(line.contains("directory of its own"), "{line}");
}

#[test]
fn a_second_portal_with_one_state_directory_is_refused_and_harms_nothing() {
    let mut bed = Bed::new(1).unwrap();
    let download = bed.download().unwrap();
    let portal = &bed.product.portal;
    let sessions = bed.product.client.status().unwrap()["portal"]["sessions"].clone();
    let other = portal.command().unwrap();
    let other = other.replace(":8443", ":9443").replace(":9587", ":9588");
    for command in [portal.command().unwrap(), other] {
        let second = portal.namespace.spawn(&command).unwrap();
        is_refused(second, &portal.state_dir());
    }
    portal.admin("group create afterwards").unwrap();
    download.goes_on(SECOND).unwrap();
    let now = bed.product.client.status().unwrap()["portal"]["sessions"].clone();
    assert_eq!(now, sessions, "the client's session has not ended");
    // The first one has what it wrote, and another may follow once it is gone.
    bed.product.portal.kill().unwrap();
    bed.product.portal.start().unwrap();
    let groups = bed.product.portal.admin("group list").unwrap();
    assert!(groups.contains("afterwards"), "{groups}");
}

#[test]
fn a_second_gateway_with_one_state_directory_is_refused_and_harms_nothing() {
    let mut bed = Bed::new(1).unwrap();
    let download = bed.download().unwrap();
    let gateway = &bed.product.gateways[0];
    let before = host(&gateway.namespace);
    let other = format!(
        "{} --interface culvert-gw1 --listen-port 51821 --mark 0x44 --table 18000 \
         --status-socket {}",
        gateway.script().unwrap(),
        bed.product.dir().join("second.sock").display()
    );
    for script in [gateway.script().unwrap(), other] {
        let second = gateway.namespace.spawn_script(&script).unwrap();
        is_refused(second, &gateway.state_dir());
    }
    assert_eq!(host(&gateway.namespace), before);
    download.goes_on(SECOND).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    bed.product.gateways[0].kill().unwrap();
    bed.product.gateways[0].start().unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
}

#[test]
fn a_second_client_with_one_state_directory_is_refused_and_harms_nothing() {
    let mut bed = Bed::new(1).unwrap();
    let download = bed.download().unwrap();
    let client = &bed.product.client;
    let before = host(&client.namespace);
    let command = client.command().unwrap();
    let other = format!("{command} --interface culvert1 --mark 0x44 --table 18000",);
    for command in [command, other.replace("run/culvert.sock", "second.sock")] {
        let second = client.namespace.spawn(&command).unwrap();
        is_refused(second, &client.state_dir());
    }
    assert_eq!(host(&client.namespace), before);
    assert!(client.status().is_ok(), "its socket answers");
    download.goes_on(SECOND).unwrap();
    bed.product.client.kill().unwrap();
    bed.product.client.start().unwrap();
    wait_until("access after a crash", SOON, || {
        bed.reaches(PRIVATE_V4, WEB_PORT)
    })
    .unwrap();
}

#[test]
fn a_second_client_on_one_host_is_refused_unless_everything_of_it_is_its_own() {
    let bed = Bed::new(1).unwrap();
    let download = bed.download().unwrap();
    let client = &bed.product.client;
    let before = host(&client.namespace);
    let dir = bed.product.dir().join("beside");
    std::fs::create_dir(&dir).unwrap();
    let portal = &bed.product.portal;
    portal
        .token("client --actor laptop", &dir.join("token"))
        .unwrap();
    let command = client.command().unwrap();
    let here = client.token_file().parent().unwrap().display().to_string();
    let beside = command.replace(&here, &dir.display().to_string());
    for (arguments, expected) in [
        ("", "routing table 17238 is that of another tunnel"),
        (
            "--interface culvert1 --mark 0x44",
            "routing table 17238 is that of another tunnel",
        ),
        ("--table 18000 --mark 0x44", "culvert0 is in use"),
    ] {
        let line = format!("{beside} {arguments}");
        let mut second = client.namespace.spawn(&line).unwrap();
        let status = second.wait(SOON).unwrap();
        let said = second.output();
        assert_eq!(status.code(), Some(FAILED), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(host(&client.namespace), before);
    download.goes_on(SECOND).unwrap();
    let own = format!("{beside} --interface culvert1 --mark 0x44 --table 18000");
    let second = client.namespace.spawn(&own).unwrap();
    wait_until("the second one", SOON, || {
        second.output().contains("INFO connected to https:")
    })
    .unwrap();
    download.goes_on(SECOND).unwrap();
}
