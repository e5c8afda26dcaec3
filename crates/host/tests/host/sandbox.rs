//! The parts of the machine that a service closes to itself. It binds a thread and what that
//! starts, so each test enters it on one of its own, and the same is tried outside, where it works.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use culvert_host::{
    Barrier, Firewall, GatewayRules, HostAccess, ResolverChoice, ResolverMode, Sandbox,
    SandboxNeeds, SourceAddress,
};

use culvert_tun::{BoundState, Device, Options, Steering, SteeringState};

use crate::support::{inside, namespace, nft};

/// A command that only root may run.
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

/// True if a program can be run, and ends well.
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
        // Its own process, and the switches that it turns.
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
            dns_port: 20_053,
            inbound: Vec::new(),
            plain_dns_port: 53,
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

/// A file of another service, as long as the test runs.
struct Planted(std::path::PathBuf);

impl Planted {
    fn new(directory: &str, name: &str) -> Self {
        fs::create_dir_all(directory).expect("root makes directories");
        let path = Path::new(directory).join(format!("{name}-{}", std::process::id()));
        fs::write(&path, "of another").expect("root writes files");
        Self(path)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.0);
    }
}

#[test]
fn secrets_of_the_system_and_of_other_services_are_closed_to_root_too() {
    let dir = tempfile::tempdir().unwrap();
    let (state, socket) = (dir.path().join("state"), dir.path().join("run/socket"));
    let planted = [
        ("/etc/ssh", "ssh_host_culvert_test_key"),
        ("/etc/ssl/private", "culvert-test"),
        ("/etc/culvert", "culvert-test-token"),
        ("/etc/sudoers.d", "culvert-test"),
        ("/run/credentials/culvert-test.service", "secret"),
        ("/run/culvert-test-other", "secret"),
    ];
    let planted = planted.map(|(directory, name)| Planted::new(directory, name));
    let mut stranger = Command::new("sleep").arg("60").spawn().unwrap();
    let of_stranger =
        ["environ", "cmdline", "stat"].map(|file| format!("/proc/{}/{file}", stranger.id()));
    let mut paths: Vec<&Path> = planted.iter().map(|it| it.0.as_path()).collect();
    paths.extend(of_stranger.iter().map(Path::new));
    let of_system = [
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/passwd",
        "/proc/kallsyms",
    ];
    paths.extend(of_system.map(Path::new));
    for resolver in [None, Some(ResolverMode::File), Some(ResolverMode::Resolved)] {
        let mut needs = needs(&state, &socket);
        needs.resolver = resolver.map(ResolverChoice::Mode);
        needs.has_cgroups = true;
        for path in &paths {
            assert!(fs::read(path).is_ok(), "as root it can outside: {path:?}");
        }
        in_sandbox(&needs, || {
            for path in &paths {
                assert!(is_denied(fs::read(path)), "{path:?} with {resolver:?}");
            }
            // A container may close it to its root too.
            assert!(is_denied(fs::read("/proc/1/environ")));
            for directory in ["/", "/etc", "/run", "/proc", "/root", "/etc/ssh"] {
                assert!(is_denied(fs::read_dir(directory)), "{directory}");
            }
        });
    }
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn what_a_service_reads_of_the_system_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let (state, socket) = (dir.path().join("state"), dir.path().join("run/socket"));
    let mut needs = needs(&state, &socket);
    needs.has_cgroups = true;
    let authorities = "/etc/ssl/certs";
    fs::create_dir_all(authorities).unwrap();
    in_sandbox(&needs, || {
        for path in [
            "/proc/self/mountinfo",
            "/proc/self/cgroup",
            "/proc/thread-self/schedstat",
            "/proc/thread-self/net/ipv6_route",
            "/proc/sys/kernel/osrelease",
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/stat",
        ] {
            fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        fs::read_link("/proc/self/ns/cgroup").unwrap();
        fs::read_dir(authorities).unwrap();
        assert!(std::thread::available_parallelism().is_ok());
    });
    // A bundle that an upgrade puts in the place of another.
    let bundle = Planted::new(authorities, "culvert-test.pem");
    in_sandbox(&needs, || {
        assert_eq!(fs::read_to_string(&bundle.0).unwrap(), "of another");
    });
}

/// Tells this program that `/proc` is its own.
const HAS_OWN_PROC: &str = "CULVERT_TEST_HAS_OWN_PROC";

/// Runs one test of this program anew, with a `/proc` that nobody else uses.
fn with_own_proc(test: &str) -> std::io::Result<Output> {
    let script = "mount -t proc proc /proc && exec \"$0\" --exact \"$1\"";
    let mut again = Command::new("unshare");
    again.args(["--mount", "sh", "-c", script]);
    again.arg(std::env::current_exe()?).arg(test);
    again.env(HAS_OWN_PROC, "1").output()
}

#[test]
fn switches_stay_open_after_the_kernel_forgot_their_entries() {
    if std::env::var_os(HAS_OWN_PROC).is_none() {
        let test = "sandbox::switches_stay_open_after_the_kernel_forgot_their_entries";
        let outcome = with_own_proc(test).unwrap();
        let said = String::from_utf8_lossy(&outcome.stdout);
        assert!(said.contains("1 passed"), "{outcome:?}");
        return;
    }
    let number_of = |path| fs::metadata(path).unwrap().ino();
    // A switch that no rule names: nothing keeps its inode.
    let other = "/proc/sys/vm/swappiness";
    let dir = tempfile::tempdir().unwrap();
    let (state, socket) = (dir.path().join("state"), dir.path().join("run/socket"));
    let entered = std::sync::Barrier::new(2);
    let forgotten = std::sync::Barrier::new(2);
    let needs = needs(&state, &socket);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            entered.wait();
            let before = number_of(other);
            // The kernel forgets the entries of a file system that is mounted anew, and inodes that nobody uses.
            let is_done = runs(&["mount", "-o", "remount", "/proc"]);
            forgotten.wait();
            assert!(is_done && number_of(other) != before);
        });
        in_sandbox(&needs, || {
            entered.wait();
            forgotten.wait();
            let switch = "/proc/sys/net/ipv4/ip_forward";
            fs::write(switch, fs::read(switch).unwrap()).unwrap();
            fs::read("/proc/self/stat").unwrap();
            fs::read("/proc/thread-self/stat").unwrap();
        });
    });
}

#[test]
fn etc_is_written_by_no_service_however_names_are_asked() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("run/socket");
    for mode in [
        ResolverMode::File,
        ResolverMode::Resolved,
        ResolverMode::Off,
    ] {
        let state = dir.path().join(mode.to_string());
        let mut of_mode = needs(&state, &socket);
        of_mode.resolver = Some(ResolverChoice::Mode(mode));
        let probe = format!("/etc/.culvert-sandbox-test-{}", std::process::id());
        let written = in_sandbox(&of_mode, || fs::write(&probe, ""));
        let _removed = fs::remove_file(&probe);
        assert!(is_denied(written), "{mode}");
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
}
