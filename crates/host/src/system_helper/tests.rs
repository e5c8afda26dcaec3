use super::access::SystemAccess;
use super::message::SystemFile;
use super::*;
use crate::{PeerCredentials, Sandbox};
use std::fs;
use std::path::Path;

/// A helper on a thread of its own, and the way to it.
fn helper(dir: &Path, may_write: bool) -> SystemAccess {
    let operations = Operations {
        resolv_conf: dir.join("resolv.conf"),
        hosts: dir.join("hosts"),
        nsswitch: dir.join("nsswitch.conf"),
        may_write,
    };
    let (ours, theirs) = message::pair().unwrap();
    std::thread::spawn(move || serve(&theirs, &Arc::new(operations)).unwrap());
    SystemAccess::Helper(Arc::new(ours))
}

/// Does `work` on a thread that is in the sandbox.
fn in_sandbox<T: Send>(dir: &Path, work: impl FnOnce() -> T + Send) -> T {
    let (state, socket) = (dir.join("state"), dir.join("run/socket"));
    let needs = SandboxNeeds {
        state_dir: &state,
        log_dir: None,
        socket: &socket,
        resolver: None,
        has_cgroups: false,
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let sandbox = Sandbox::enter(&needs);
            assert!(sandbox.is_closed(), "{sandbox}");
            work()
        });
        thread.join().expect("the work's assertions hold")
    })
}

fn errno<T>(outcome: io::Result<T>) -> Option<Errno> {
    outcome.err().and_then(|error| Errno::from_io_error(&error))
}

#[test]
fn a_file_that_takes_the_place_of_another_is_read_from_within_the_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resolv.conf");
    fs::write(&path, "nameserver 192.0.2.1\n").unwrap();
    let access = helper(dir.path(), false);
    in_sandbox(dir.path(), || {
        assert_eq!(errno(fs::read(&path)), Some(Errno::ACCESS));
        let before = access.text(SystemFile::ResolvConf);
        assert_eq!(before, "nameserver 192.0.2.1\n");
        assert_eq!(errno(access.open(SystemFile::Hosts)), Some(Errno::NOENT));
    });
    fs::write(dir.path().join("new"), "nameserver 192.0.2.2\n").unwrap();
    fs::rename(dir.path().join("new"), &path).unwrap();
    in_sandbox(dir.path(), || {
        let after = access.text(SystemFile::ResolvConf);
        assert_eq!(after, "nameserver 192.0.2.2\n");
    });
}

#[test]
fn resolv_conf_is_exchanged_overwritten_and_removed_from_within_the_sandbox() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resolv.conf");
    fs::write(&path, "before").unwrap();
    let access = helper(dir.path(), true);
    in_sandbox(dir.path(), || {
        access.exchange_resolv_conf(b"exchanged \xff").unwrap();
        let mut file = access.open_resolv_conf().unwrap();
        file.write_all(b"E").unwrap();
        file.set_len(2).unwrap();
    });
    assert_eq!(fs::read(&path).unwrap(), b"Ex");
    in_sandbox(dir.path(), || access.remove_resolv_conf().unwrap());
    assert!(!path.exists());
}

#[test]
fn a_helper_of_a_service_that_changes_no_resolver_changes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("resolv.conf"), "before").unwrap();
    let access = helper(dir.path(), false);
    let denied = Some(Errno::ACCESS);
    assert_eq!(errno(access.exchange_resolv_conf(b"x")), denied);
    assert_eq!(errno(access.open_resolv_conf()), denied);
    assert_eq!(errno(access.remove_resolv_conf()), denied);
    assert_eq!(errno(access.remove_unfinished()), denied);
    let text = access.text(SystemFile::ResolvConf);
    assert_eq!(text, "before");
}

#[test]
fn names_accounts_and_start_times_are_found_through_the_helper() {
    let dir = tempfile::tempdir().unwrap();
    let access = helper(dir.path(), false);
    let own = std::process::id();
    let started = crate::start_time::start_time(own).unwrap();
    in_sandbox(dir.path(), || {
        let found = access.look_up("localhost".to_owned(), 443).unwrap();
        assert!(
            found
                .iter()
                .all(|it| it.ip().is_loopback() && it.port() == 443)
        );
        assert!(!found.is_empty());
        assert!(access.look_up("no-such.invalid".to_owned(), 443).is_err());
        assert_eq!(access.start_time(own).unwrap(), started);
        let root = PeerCredentials {
            pid: own,
            uid: 0,
            gid: 0,
        };
        assert_eq!(access.admit(root).unwrap(), Ok(()));
        let stranger = PeerCredentials {
            pid: own,
            uid: 4_000_000_000,
            gid: 4_000_000_000,
        };
        assert!(access.admit(stranger).unwrap().is_err());
    });
}

#[test]
fn the_end_of_the_helper_is_an_error_that_says_what_to_do() {
    let (ours, theirs) = message::pair().unwrap();
    drop(theirs);
    let access = SystemAccess::Helper(Arc::new(ours));
    let error = access.open(SystemFile::Hosts).unwrap_err();
    assert!(error.to_string().contains("restart the service"), "{error}");
}

#[test]
fn a_request_that_nobody_understands_is_refused_and_the_helper_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("hosts"), "127.0.0.1 localhost").unwrap();
    let access = helper(dir.path(), false);
    let SystemAccess::Helper(socket) = &access else {
        unreachable!("it is the helper's");
    };
    // Without a socket for the answer, and with one.
    message::send(socket, &"Open", None).unwrap();
    let (ours, theirs) = message::pair().unwrap();
    message::send(socket, &"/etc/shadow", Some(theirs.as_fd())).unwrap();
    drop(theirs);
    let (bytes, descriptor) = message::receive(&ours).unwrap().unwrap();
    assert!(descriptor.is_none());
    let outcome: Result<Answer, Failed> = message::decode(&bytes).unwrap();
    assert!(outcome.is_err());
    let text = access.text(SystemFile::Hosts);
    assert_eq!(text, "127.0.0.1 localhost");
}

#[tokio::test]
async fn the_end_of_the_helper_is_noticed() {
    let (ours, theirs) = message::pair().unwrap();
    let helper = SystemHelper(Arc::new(ours));
    let ended = tokio::spawn(async move { helper.ended().await });
    assert!(!ended.is_finished());
    drop(theirs);
    ended.await.unwrap().unwrap();
}
