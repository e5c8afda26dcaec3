//! The messages to the service manager.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use culvert_host::{notify_ready, notify_status, notify_stopping};

/// The variable by which a service manager says where it listens.
const SOCKET: &str = "NOTIFY_SOCKET";

#[test]
fn the_service_manager_is_told_and_one_that_is_not_there_is_not_missed() {
    if std::env::var_os(SOCKET).is_some() {
        return tell();
    }
    // Without a service manager nothing happens.
    tell();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    // The environment belongs to a whole process: this test again, in one of its own.
    let this = "notify::the_service_manager_is_told_and_one_that_is_not_there_is_not_missed";
    let run = |socket: &std::path::Path| {
        let program = std::env::current_exe().expect("a program");
        let output = Command::new(program)
            .args([this, "--exact"])
            .env(SOCKET, socket)
            .output();
        let output = output.expect("it runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    };
    run(&path);
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a deadline");
    let told = || {
        let mut buffer = [0; 1000];
        let length = socket.recv(&mut buffer).expect("it is told");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(told(), "READY=1\nSTATUS=3 resources\n");
    assert_eq!(told(), "STATUS=portal gone STOPPING=1\n");
    assert_eq!(told(), "STOPPING=1\nSTATUS=bye\n");
    run(&dir.path().join("nobody"));
}

fn tell() {
    notify_ready("3 resources");
    notify_status("portal gone\nSTOPPING=1");
    notify_stopping("bye");
}
