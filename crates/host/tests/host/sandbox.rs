//! What a service closes to itself. It binds a thread and what that starts, so each test enters it on one
//! of its own, and the same is tried outside, where it works.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use culvert_host::{
    Barrier, Firewall, GatewayRules, HostAccess, ResolverChoice, ResolverMode, Sandbox,
    SandboxNeeds, SourceAddress,
};

use culvert_tun::{BoundState, Device, Options, Steering, SteeringState};

use crate::support::{inside, namespace, nft};

/// What root may.
const MAKES_A_NAMESPACE: [&str; 3] = ["unshare", "--net", "true"];

fn needs<'a>(dir: &'a Path, socket: &'a Path) -> SandboxNeeds<'a> {
    SandboxNeeds {
        state_dir: dir,
        log_dir: None,
        socket,
        resolver: None,
        has_cgroups: false,
    }
}

/// Does `work` on a thread that is in the sandbox.
fn in_sandbox<T: Send>(needs: &SandboxNeeds<'_>, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let sandbox = Sandbox::enter(needs);
            assert_eq!(sandbox.files, Barrier::Closed);
            assert_eq!(sandbox.system_calls, Barrier::Closed);
            work()
        });
        thread.join().expect("what is asserted there holds")
    })
}

/// Whether a program can be run, and ends well.
fn runs(words: &[&str]) -> bool {
    let outcome = Command::new(words[0]).args(&words[1..]).output();
    outcome.is_ok_and(|outcome| outcome.status.success())
}

fn is_denied<T>(result: std::io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn its_own_files_are_open_and_those_of_others_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (state, other) = (dir.path().join("state"), dir.path().join("other"));
    let socket = dir.path().join("run/socket");
    fs::create_dir(&other).unwrap();
    let secret = other.join("secret");
    fs::write(&secret, "of another").unwrap();
    in_sandbox(&needs(&state, &socket), || {
        fs::write(state.join("new"), "mine").unwrap();
        fs::rename(state.join("new"), state.join("key")).unwrap();
        assert_eq!(fs::read_to_string(state.join("key")).unwrap(), "mine");
        fs::remove_file(state.join("key")).unwrap();
        drop(UnixListener::bind(&socket).unwrap());
        fs::remove_file(&socket).unwrap();
        // What it looks up, and the switches that it turns.
        fs::read_to_string("/etc/passwd").unwrap();
        fs::read_to_string("/proc/self/stat").unwrap();
        let switch = "/proc/sys/net/ipv4/ip_forward";
        fs::write(switch, fs::read(switch).unwrap()).unwrap();

        assert!(is_denied(fs::read_to_string(&secret)));
        assert!(is_denied(fs::write(&secret, "")));
        assert!(is_denied(fs::write(other.join("new"), "")));
        assert!(is_denied(fs::write("/etc/culvert-sandbox-test", "")));
        assert!(is_denied(fs::write("/proc/sys/kernel/core_pattern", "")));
        assert!(is_denied(fs::create_dir(
            "/sys/fs/cgroup/culvert-sandbox-test"
        )));
        assert!(is_denied(fs::read_dir("/root")), "nor what people have");
    });
    assert_eq!(fs::read_to_string(&secret).unwrap(), "of another");
}

#[test]
fn programs_of_the_system_can_be_run_and_none_that_it_could_have_written() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let socket = dir.path().join("run/socket");
    in_sandbox(&needs(&state, &socket), || {
        let copy = state.join("program");
        fs::copy("/usr/bin/env", &copy).unwrap();
        assert!(runs(&["/usr/bin/env", "true"]));
        let started = Command::new(&copy).arg("true").output();
        assert!(is_denied(started));
    });
    assert!(runs(&[state.join("program").to_str().unwrap(), "true"]));
}

#[test]
fn neither_namespaces_nor_other_processes_can_be_had_by_it_or_what_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let socket = dir.path().join("run/socket");
    assert!(runs(&MAKES_A_NAMESPACE), "as root it can outside");
    let stranger = Command::new("sleep").arg("60").spawn();
    let mut stranger = stranger.unwrap();
    let memory = format!("/proc/{}/mem", stranger.id());
    assert!(fs::File::open(&memory).is_ok(), "as root it can outside");
    let pid = stranger.id().to_string();
    in_sandbox(&needs(&state, &socket), || {
        assert!(!runs(&MAKES_A_NAMESPACE));
        assert!(is_denied(fs::File::open(&memory)));
        assert!(!runs(&["kill", &pid]), "nor be told to end");
    });
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn the_firewall_is_set_up_and_removed_from_within() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let socket = dir.path().join("run/socket");
    let namespace = namespace();
    inside(&namespace, async || {
        let sandbox = Sandbox::enter(&needs(&state, &socket));
        assert!(sandbox.is_closed(), "{sandbox}");
        let rules = GatewayRules {
            interface: "cv0".parse()?,
            addresses: vec!["100.64.0.1".parse()?],
            client_ranges: Vec::new(),
            source: SourceAddress::Masquerade,
            host_access: HostAccess::Deny,
        };
        let firewall = Firewall::install(rules).await?;
        assert!(nft("list ruleset")?.contains("culvert_cv0"));
        firewall.remove().await?;
        assert_eq!(nft("list ruleset")?, "");
        Ok(())
    });
}

#[test]
fn a_tunnel_with_its_programs_in_the_kernel_is_made_within() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let socket = dir.path().join("run/socket");
    let steering = Steering {
        priority_queues: true,
        bulk_queues: 2,
    };
    let namespace = namespace();
    inside(&namespace, async || {
        let sandbox = Sandbox::enter(&needs(&state, &socket));
        assert!(sandbox.is_closed(), "{sandbox}");
        let device = Device::create(&Options {
            name: "cv0".to_owned(),
            mtu: 1420,
            offload: true,
            steering: Some(steering),
            bound: true,
        })?;
        assert_eq!(device.steering(), SteeringState::On(steering));
        assert_eq!(device.bound(), BoundState::On);
        Ok(())
    });
}

#[test]
fn programs_in_the_kernel_that_others_left_there_are_out_of_reach() {
    /// `BPF_OBJ_GET`, by a program that has it: what the kernel answers.
    fn asked() -> String {
        let of_others =
            "filter add dev lo ingress bpf direct-action object-pinned /sys/fs/bpf/nothing";
        let outcome = Command::new("tc").args(of_others.split(' ')).output();
        String::from_utf8(outcome.unwrap().stderr).unwrap()
    }
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let socket = dir.path().join("run/socket");
    let outside = asked();
    assert!(outside.contains("No such file or directory"), "{outside}");
    let within = in_sandbox(&needs(&state, &socket), asked);
    assert!(within.contains("Operation not permitted"), "{within}");
}

#[test]
fn etc_may_be_written_where_the_file_is_how_names_are_asked_and_not_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("run/socket");
    for (mode, is_open) in [
        (ResolverMode::File, true),
        (ResolverMode::Resolved, false),
        (ResolverMode::Off, false),
    ] {
        let state = dir.path().join(mode.to_string());
        let mut of_mode = needs(&state, &socket);
        of_mode.resolver = Some(ResolverChoice::Mode(mode));
        let probe = format!("/etc/.culvert-sandbox-test-{}", std::process::id());
        let written = in_sandbox(&of_mode, || fs::write(&probe, ""));
        let _removed = fs::remove_file(&probe);
        assert_eq!(written.is_ok(), is_open, "{mode}: {written:?}");
    }
    // That program, and those that it runs, write anywhere.
    let state = dir.path().join("resolvconf");
    let mut of_resolvconf = needs(&state, &socket);
    of_resolvconf.resolver = Some(ResolverChoice::Mode(ResolverMode::Resolvconf));
    let sandbox = std::thread::scope(|scope| {
        let thread = scope.spawn(|| Sandbox::enter(&of_resolvconf));
        thread.join().expect("what is asserted there holds")
    });
    assert!(matches!(sandbox.files, Barrier::Open(_)), "{sandbox}");
    assert_eq!(sandbox.system_calls, Barrier::Closed);
    // What an earlier client left there is undone, whatever way is taken now.
    let state = dir.path().join("left");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("resolv.conf.before"), "").unwrap();
    let mut needs = needs(&state, &socket);
    needs.resolver = Some(ResolverChoice::Mode(ResolverMode::Off));
    let probe = format!("/etc/.culvert-sandbox-left-{}", std::process::id());
    in_sandbox(&needs, || fs::write(&probe, "")).unwrap();
    fs::remove_file(&probe).unwrap();
}
