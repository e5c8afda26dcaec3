//! The lab itself leaves nothing behind.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use culvert_lab::{Namespace, wait_until};

use crate::support::SOON;

/// The kernel kills at once.
const A_MOMENT: Duration = Duration::from_millis(500);

/// Remains of the process `id`: namespaces, interfaces' sockets, files, and the processes that have
/// their files or interfaces there.
fn left_behind(id: u32) -> String {
    let is_ours = |name: &str| {
        name == format!("cvl-{id}")
            || name.starts_with(&format!("cvl-{id}-"))
            || name.starts_with(&format!("cw{id}n"))
    };
    let mut found = processes(id);
    let files = std::env::temp_dir();
    for folder in [
        "/run/netns".as_ref(),
        "/var/run/wireguard".as_ref(),
        files.as_path(),
    ] {
        // A folder that nobody has made is empty; a file of others may be removed meanwhile.
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        found.extend(names.filter(|name| is_ours(name)));
    }
    found.join("\n")
}

/// The command lines of processes that name something of the process `id`.
fn processes(id: u32) -> Vec<String> {
    let marks = [
        format!("cvl-{id}/"),
        format!("cvl-{id}-"),
        format!("cw{id}n"),
    ];
    let entries = fs::read_dir("/proc").unwrap();
    // One may end meanwhile.
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| marks.iter().any(|mark| line.contains(mark)))
        .collect()
}

/// Kills the demonstration of one part of the program once `runs` holds, and waits until all is gone.
fn leaves_nothing(part: &str, runs: impl Fn(&str) -> bool) {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"))
        .arg(part)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = demo.id();
    let began = wait_until("the demonstration to run", SOON, || runs(&left_behind(id)));
    demo.kill().unwrap();
    demo.wait().unwrap();
    began.unwrap();
    wait_until("everything to be removed", SOON, || {
        left_behind(id).is_empty()
    })
    .unwrap();
}

#[test]
fn a_program_that_is_killed_leaves_nothing_behind() {
    leaves_nothing("tunnel", |names| {
        names.contains("n0.sock") && names.contains("n1.sock")
    });
}

#[test]
fn a_product_that_is_killed_leaves_nothing_behind() {
    leaves_nothing("access", |names| {
        names.contains("portal run") && names.contains("gateway run")
    });
}

#[test]
fn a_program_lives_on_when_the_thread_that_started_it_has_ended() {
    let namespace = Namespace::new().unwrap();
    let start = || {
        let program = namespace.spawn("sleep 600").unwrap();
        let name = format!("/proc/{}/comm", program.id());
        let is_there = || fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep");
        wait_until("the program", SOON, is_there).unwrap();
        program
    };
    let mut program = thread::scope(|scope| scope.spawn(start).join().unwrap());
    let ended = wait_until("it to end with the thread", A_MOMENT, || {
        !program.is_running().unwrap()
    });
    assert!(ended.is_err());
}
