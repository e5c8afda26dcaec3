//! Starting, ending, and what prevents either.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use culvert_lab::{
    Implementation, Namespace, TunnelPlan, WireGuardEnd, culvert_program, wait_until,
};

use crate::support::SOON;

/// The kernel allows a TUN 256 queues: two are priority queues, and a worker takes eight.
const WORKERS_MAX: usize = 31;

fn started() -> WireGuardEnd {
    let namespace = Namespace::new().unwrap();
    WireGuardEnd::start(&Implementation::culvert(), &namespace).unwrap()
}

fn program() -> String {
    culvert_program().unwrap().display().to_string()
}

fn has_interface(namespace: &Namespace, interface: &str) -> bool {
    namespace.run(&format!("ip link show {interface}")).is_ok()
}

/// Runs a command that has to fail with exactly one line, and returns the line.
fn one_line_of_failure(namespace: &Namespace, script: &str) -> String {
    let line = format!("timeout 10 {script}");
    let output = namespace.outcome(&line).unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!output.status.success(), "it did not fail: {text}");
    assert_ne!(output.status.code(), Some(124), "it did not end: {text}");
    assert_eq!(text.trim_end().lines().count(), 1, "one line, not: {text}");
    text
}

#[test]
fn sigterm_ends_the_process_and_removes_interface_and_socket() {
    let mut end = started();
    assert!(has_interface(&end.namespace, &end.interface));
    end.process.terminate().unwrap();
    assert!(
        end.process.wait(SOON).unwrap().success(),
        "{}",
        end.process.output()
    );
    assert!(!has_interface(&end.namespace, &end.interface));
    assert!(!WireGuardEnd::socket_path(&end.interface).exists());
}

#[test]
fn deleting_the_interface_ends_the_process_and_removes_the_socket() {
    let mut end = started();
    end.namespace
        .run(&format!("ip link del {}", end.interface))
        .unwrap();
    assert!(
        end.process.wait(SOON).unwrap().success(),
        "{}",
        end.process.output()
    );
    assert!(!WireGuardEnd::socket_path(&end.interface).exists());
}

#[test]
fn without_foreground_it_detaches_once_the_socket_answers() {
    let namespace = Namespace::new().unwrap();
    let interface = WireGuardEnd::unique_name();
    namespace
        .run(&format!("{} wg {interface}", program()))
        .unwrap();
    // No waiting: that it returned means that it is ready.
    let socket_path: PathBuf = WireGuardEnd::socket_path(&interface);
    UnixStream::connect(&socket_path).unwrap();
    assert!(has_interface(&namespace, &interface));
    namespace.run(&format!("wg show {interface}")).unwrap();
    // It is found under its own name.
    let id = culvert_lab::run(&format!("ip netns pids {}", namespace.name())).unwrap();
    let name = std::fs::read_to_string(format!("/proc/{}/comm", id.trim())).unwrap();
    assert_eq!(name, "culvert\n");

    namespace.run(&format!("ip link del {interface}")).unwrap();
    wait_until("the socket to be removed", SOON, || !socket_path.exists()).unwrap();
}

#[test]
fn a_second_process_on_the_same_interface_is_refused() {
    let mut end = started();
    for background in ["", "-f "] {
        let line = format!("{} wg {background}{}", program(), end.interface);
        let said = one_line_of_failure(&end.namespace, &line);
        assert!(
            said.contains(&format!("{} is in use", end.interface)),
            "{said}"
        );
    }
    assert!(end.process.is_running().unwrap());
    end.show("public-key").unwrap();
}

#[test]
fn a_process_that_was_killed_leaves_nothing_that_prevents_the_next() {
    let mut end = started();
    end.process.kill().unwrap();
    assert!(WireGuardEnd::socket_path(&end.interface).exists());
    let again =
        WireGuardEnd::start_named(&end.implementation, &end.namespace, &end.interface).unwrap();
    again.show("public-key").unwrap();
}

#[test]
fn without_the_capability_it_says_so_and_fails() {
    let namespace = Namespace::new().unwrap();
    let line = format!(
        "setpriv --inh-caps -net_admin --bounding-set -net_admin {} wg -f {}",
        program(),
        WireGuardEnd::unique_name()
    );
    let said = one_line_of_failure(&namespace, &line);
    assert!(said.contains("CAP_NET_ADMIN"), "{said}");
}

#[test]
fn without_a_tun_device_it_says_so_and_fails() {
    let namespace = Namespace::new().unwrap();
    // The mount is seen by this command only.
    let output = namespace.shell(&format!(
        "mount -t tmpfs none /dev/net; timeout 10 {} wg -f {} 2>&1 && exit 1; true",
        program(),
        WireGuardEnd::unique_name()
    ));
    let said = output.unwrap();
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.contains("/dev/net/tun"), "{said}");
}

#[test]
fn a_metrics_port_that_is_taken_is_refused() {
    let namespace = Namespace::new().unwrap();
    let taken = namespace
        .inside(|| Ok(std::net::TcpListener::bind("127.0.0.1:9586")?))
        .unwrap();
    let interface = WireGuardEnd::unique_name();
    let line = format!("{} wg -f --metrics 127.0.0.1:9586 {interface}", program());
    let said = one_line_of_failure(&namespace, &line);
    assert!(said.contains("127.0.0.1:9586"), "{said}");
    assert!(!has_interface(&namespace, &interface));
    drop(taken);
}

#[test]
fn as_many_workers_as_the_kernel_has_queues_for_start_and_one_more_is_refused() {
    let most = Implementation::culvert_with(&format!("--workers {WORKERS_MAX}"));
    let tunnel = TunnelPlan::between(&most, &most).build().unwrap();
    tunnel.wait_until_up().unwrap();
    let status = tunnel.left.culvert_json().unwrap();
    assert_eq!(status["workers"].as_array().unwrap().len(), WORKERS_MAX);

    let interface = WireGuardEnd::unique_name();
    let too_many = WORKERS_MAX + 1;
    let line = format!("{} wg -f --workers {too_many} {interface}", program());
    let output = tunnel
        .left
        .namespace
        .outcome(&format!("timeout 10 {line}"))
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "a wrong command line");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("from 1 to {WORKERS_MAX}")), "{said}");
}

#[test]
fn an_interface_name_that_cannot_be_is_refused() {
    let namespace = Namespace::new().unwrap();
    for name in ["sixteen-bytes-xx", "a/b", ".."] {
        let output = namespace
            .outcome(&format!("timeout 10 {} wg -f {name}", program()))
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
}
