//! The lab itself leaves nothing behind.

use std::process::{Command, Stdio};

use culvert_lab::wait_until;

use crate::support::SOON;

/// What belongs to the process `id`: namespaces, interfaces' sockets, files.
fn left_behind(id: u32) -> String {
    culvert_lab::run(&format!(
        "find /run/netns /var/run/wireguard /tmp -maxdepth 1 ( -name cvl-{id}-* -o -name cvl-{id} -o -name cw{id}n* )"
    ))
    .unwrap()
}

#[test]
fn a_program_that_is_killed_leaves_nothing_behind() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = demo.id();
    wait_until("two ends to run", SOON, || {
        let names = left_behind(id);
        names.contains("n0.sock") && names.contains("n1.sock")
    })
    .unwrap();
    demo.kill().unwrap();
    demo.wait().unwrap();
    wait_until("everything to be removed", SOON, || {
        left_behind(id).is_empty()
    })
    .unwrap();
}
