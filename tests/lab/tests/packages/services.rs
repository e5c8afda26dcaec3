//! The services of the packages, from the installation to the purge.

use crate::scene::{SOON, Scene, Version, install};
use culvert_lab::product::PRIVATE_V4;
use culvert_lab::{Machine, Traces, wait_until, workspace_dir};

#[test]
fn services_are_installed_connect_are_upgraded_and_leave_nothing_when_they_are_purged() {
    let scene = Scene::boot();
    let before = scene
        .machines()
        .map(|(machine, _)| Traces::of(machine).unwrap());
    for (machine, role) in scene.machines() {
        install(machine, role, Version::Old);
        the_program_comes_with_its_documents(machine, role);
        the_unit_is_the_one_that_was_reviewed(machine, role);
        nothing_runs_before_it_can_work(machine, role);
        assert_eq!(machine.run("culvert --version").unwrap(), "culvert 0.1.0\n");
    }
    scene.begin();
    scene.comes_to_reach_everything();
    // It says so once all is told, which is a moment after the first names are found.
    let by_resolved = || scene.client_status()["dns"]["control"]["mode"] == "resolved";
    wait_until("systemd-resolved to ask the client", SOON, by_resolved).unwrap();
    for (machine, role) in scene.machines() {
        runs_as_its_own_user_with_no_more_than_it_needs(machine, role);
    }
    for (machine, role) in scene.machines().into_iter().skip(1) {
        its_filter_lets_a_worker_stay_on_a_processor_and_nothing_more(machine, role);
    }
    what_they_do_not_need_is_closed_to_them(&scene);
    the_journal_has_no_token(&scene);
    a_reload_reaches_the_portal(&scene.portal);
    a_member_of_the_group_may_ask_and_others_may_not(&scene.client);
    a_killed_client_lets_nothing_past_and_comes_back(&scene);
    a_restart_keeps_interfaces_and_a_stop_removes_them(&scene);

    for (machine, role) in scene.machines() {
        let pid = main_pid(machine, role);
        let interface = interface_of(machine, role);
        install(machine, role, Version::New);
        assert_eq!(interface, interface_of(machine, role), "{role}");
        assert_ne!(pid, main_pid(machine, role), "{role} runs the old program");
        let version = machine.run(&format!("dpkg-query -W -f ${{Version}} culvert-{role}"));
        assert_eq!(version.unwrap(), "0.1.0-1");
    }
    scene.is_connected();
    scene.comes_to_reach_everything();

    // The administrator's own.
    scene
        .portal
        .run("rm -r /root/.config /root/access.toml /root/gateway.token /root/client.token")
        .unwrap();
    for ((machine, role), before) in scene.machines().into_iter().zip(before) {
        machine
            .run(&format!("dpkg --purge culvert-{role} culvert"))
            .unwrap();
        before.is_gone(&Traces::of(machine).unwrap());
        assert_eq!(processes_of(machine, role), 0);
    }
}

/// The `resolv.conf` of a machine without systemd-resolved.
const RESOLV_CONF: &str = "nameserver 198.51.100.54\n";

#[test]
fn what_a_killed_service_left_goes_with_its_package_and_the_resolver_at_once() {
    let scene = Scene::boot();
    scene
        .client
        .shell("systemctl mask --now systemd-resolved; rm /etc/resolv.conf")
        .unwrap();
    scene
        .client
        .write("/etc/resolv.conf", "644", RESOLV_CONF)
        .unwrap();
    let machines = || scene.machines().into_iter().skip(1);
    let before: Vec<_> = machines()
        .map(|(machine, _)| Traces::of(machine).unwrap())
        .collect();
    for (machine, role) in scene.machines() {
        install(machine, role, Version::New);
    }
    // As docs/install.md says, but where it goes away with the rest.
    scene
        .client
        .run(
            "install -D -m 644 /usr/share/doc/culvert/examples/dns-file.conf \
             /run/systemd/system/culvert-client.service.d/dns-file.conf",
        )
        .unwrap();
    let resolv_conf = || scene.client.run("cat /etc/resolv.conf").unwrap();
    scene.begin();
    scene.comes_to_reach_everything();
    assert_ne!(resolv_conf(), RESOLV_CONF, "names are asked of the client");
    for ((machine, role), before) in machines().zip(before) {
        // Nobody starts it again.
        machine
            .shell(&format!(
                "mkdir -p /run/systemd/system/culvert-{role}.service.d
                 printf '[Service]\\nRestart=no\\n' >/run/systemd/system/culvert-{role}.service.d/no.conf
                 systemctl daemon-reload
                 systemctl kill -s KILL culvert-{role}"
            ))
            .unwrap();
        let is_dead = || {
            machine
                .run(&format!("systemctl is-active culvert-{role}"))
                .is_err()
        };
        wait_until("the service to be dead", SOON, is_dead).unwrap();
        wait_until("the resolver to be put back", SOON, || {
            resolv_conf() == RESOLV_CONF || role == "gateway"
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", machine.journal("culvert-client")));
        // Its tables are 17238 to 17241.
        assert!(machine.run("ip rule").unwrap().contains("lookup 172"));
        machine
            .shell(&format!(
                "rm -r /run/systemd/system/culvert-{role}.service.d; systemctl daemon-reload
                 dpkg --purge culvert-{role} culvert"
            ))
            .unwrap();
        before.is_gone(&Traces::of(machine).unwrap());
    }
}

#[test]
fn a_client_whose_token_file_is_missing_waits_to_be_signed_in() {
    let scene = Scene::boot();
    install(&scene.client, "client", Version::New);
    let client = &scene.client;
    client.run("systemctl start culvert-client").unwrap();
    let status = client.run("culvert status").unwrap();
    assert!(status.contains("signed out"), "{status}");
    // A member of the group may, and is told what is wrong with the token.
    let said = client
        .shell(
            "echo nonsense | runuser -u nobody -g culvert -- culvert sign-in --token-file - 2>&1 || \
             echo \"ended with $?\"",
        )
        .unwrap();
    assert!(said.ends_with("ended with 3\n"), "{said}");
    let shown = client
        .run("systemctl show -P NRestarts -P ActiveState culvert-client")
        .unwrap();
    assert_eq!(
        shown.split_whitespace().collect::<Vec<_>>(),
        ["0", "active"]
    );
}

fn the_program_comes_with_its_documents(machine: &Machine, role: &str) {
    for file in [
        "/usr/share/man/man1/culvert-client-run.1.gz",
        "/usr/share/bash-completion/completions/culvert",
        "/usr/share/zsh/vendor-completions/_culvert",
        "/usr/share/fish/vendor_completions.d/culvert.fish",
        "/usr/share/doc/culvert/licences.txt.gz",
        "/usr/share/doc/culvert/examples/client.toml",
        "/usr/share/doc/culvert/examples/application.conf",
        "/usr/share/doc/culvert/examples/client-applications.conf",
        "/usr/share/doc/culvert/examples/dns-file.conf",
    ] {
        machine.run(&format!("test -s {file}")).unwrap();
    }
    let unit = format!("systemd-analyze verify --man=no culvert-{role}.service");
    let said = machine.outcome(&unit).unwrap();
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(!said.contains("culvert"), "{said}");
}

/// The file of the repository is the golden one: nothing that makes packages changes it, and nothing that
/// is installed beside it.
fn the_unit_is_the_one_that_was_reviewed(machine: &Machine, role: &str) {
    let name = format!("culvert-{role}.service");
    let reviewed = std::fs::read_to_string(workspace_dir().join("packaging/systemd").join(&name));
    let path = machine.run(&format!("systemctl show -P FragmentPath {name}"));
    let installed = machine.run(&format!("cat {}", path.unwrap().trim()));
    assert_eq!(installed.unwrap(), reviewed.unwrap());
    let drop_ins = machine.run(&format!("systemctl show -P DropInPaths {name}"));
    assert_eq!(drop_ins.unwrap().trim(), "");
}

/// Enabled services would fail at each boot.
fn nothing_runs_before_it_can_work(machine: &Machine, role: &str) {
    let state = |command: &str| {
        let line = format!("systemctl {command} culvert-{role}");
        let outcome = machine.outcome(&line).unwrap();
        String::from_utf8(outcome.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(state("is-active"), "inactive");
    assert_eq!(state("is-enabled"), "disabled");
    assert_eq!(state("is-failed"), "inactive");
}

fn runs_as_its_own_user_with_no_more_than_it_needs(machine: &Machine, role: &str) {
    let pid = main_pid(machine, role);
    let status = machine.run(&format!("cat /proc/{pid}/status")).unwrap();
    let uid = machine.run(&format!("id -u culvert-{role}")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    };
    let uids = field("Uid:");
    assert!(uids.split_whitespace().all(|id| id == uid.trim()), "{uids}");
    // CAP_NET_BIND_SERVICE is 10, CAP_NET_ADMIN 12, CAP_BPF 39.
    const BPF: u64 = 1 << 39;
    let capabilities = match role {
        "client" => 1 << 10 | 1 << 12 | BPF,
        "gateway" => 1 << 12 | BPF,
        _ => 0,
    };
    let set = |name: &str| u64::from_str_radix(&field(name), 16).unwrap();
    assert_eq!(set("CapBnd:"), capabilities, "{role}");
    for name in ["CapPrm:", "CapEff:"] {
        assert_eq!(set(name), capabilities, "{role}: {name}");
    }
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2");
}

/// Also with the unit's own filter of system calls around it.
/// Programs under the filter of the unit: one that chooses its processor, and one that wants to be scheduled otherwise.
fn its_filter_lets_a_worker_stay_on_a_processor_and_nothing_more(machine: &Machine, role: &str) {
    let unit = workspace_dir().join(format!("packaging/systemd/culvert-{role}.service"));
    let unit = std::fs::read_to_string(unit).unwrap();
    let filter: Vec<_> = unit
        .lines()
        .filter(|line| line.starts_with("SystemCall"))
        .map(|line| format!("-p '{line}'"))
        .collect();
    let under_it = |program: &str| {
        machine.shell(&format!(
            "systemd-run --quiet --wait --pipe {} {program}",
            filter.join(" ")
        ))
    };
    under_it("taskset 1 true").unwrap();
    let refused = under_it("chrt --batch 0 true").unwrap_err().to_string();
    assert!(refused.contains("not permitted"), "{refused}");
}

fn what_they_do_not_need_is_closed_to_them(scene: &Scene) {
    for (machine, command) in [
        (&scene.client, "culvert status --json"),
        (&scene.gateway, "culvert gateway status --json"),
    ] {
        let status: serde_json::Value =
            serde_json::from_str(&machine.run(command).unwrap()).unwrap();
        for barrier in ["files", "system_calls"] {
            assert_eq!(status["sandbox"][barrier]["state"], "closed", "{status}");
        }
    }
    let socket = "/var/lib/culvert/portal/relay/relay.sock";
    let command = format!("culvert relay status --json --socket {socket}");
    let mut status = serde_json::Value::Null;
    wait_until("the relay beside the portal to be connected", SOON, || {
        let told = scene.portal.run(&command).unwrap_or_default();
        status = serde_json::from_str(&told).unwrap_or_default();
        status["portal"]["state"] == "connected"
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", scene.portal.journal("culvert-portal")));
    for barrier in ["files", "system_calls"] {
        assert_eq!(status["sandbox"][barrier]["state"], "closed", "{status}");
    }
}

fn the_journal_has_no_token(scene: &Scene) {
    for (machine, role) in scene.machines() {
        let journal = machine.journal(&format!("culvert-{role}"));
        assert!(!journal.contains("cv_"), "{journal}");
        assert!(!journal.is_empty(), "{role} logs nothing");
    }
}

fn a_reload_reaches_the_portal(portal: &Machine) {
    let before = main_pid(portal, "portal");
    portal.run("systemctl reload culvert-portal").unwrap();
    let has_read = || {
        portal
            .journal("culvert-portal")
            .contains("read its files again")
    };
    wait_until("the portal to read its files", SOON, has_read).unwrap();
    assert_eq!(before, main_pid(portal, "portal"));
}

fn a_member_of_the_group_may_ask_and_others_may_not(client: &Machine) {
    client
        .shell("useradd --groups culvert member; useradd stranger")
        .unwrap();
    client
        .run("runuser -u member -- culvert status --check")
        .unwrap();
    let denied = client
        .outcome("runuser -u stranger -- culvert status")
        .unwrap();
    assert!(!denied.status.success());
    // The socket's place can be taken by nobody but the services.
    client
        .run("runuser -u member -- touch /run/culvert/gateway.sock")
        .unwrap_err();
    client.shell("userdel member; userdel stranger").unwrap();
}

/// The number of the tunnel's interface: one that was made anew has another one.
fn interface_of(machine: &Machine, role: &str) -> Option<String> {
    let name = match role {
        "client" => "culvert0",
        "gateway" => "culvert-gw0",
        _ => return None,
    };
    let link = machine.outcome(&format!("ip -o link show {name}")).unwrap();
    let link = String::from_utf8(link.stdout).unwrap();
    let (index, _) = link.split_once(':')?;
    Some(index.to_owned())
}

fn a_restart_keeps_interfaces_and_a_stop_removes_them(scene: &Scene) {
    for (machine, role) in [(&scene.client, "client"), (&scene.gateway, "gateway")] {
        let (pid, interface) = (main_pid(machine, role), interface_of(machine, role));
        assert!(interface.is_some());
        machine
            .run(&format!("systemctl restart culvert-{role}"))
            .unwrap();
        assert_ne!(pid, main_pid(machine, role));
        assert_eq!(interface, interface_of(machine, role), "{role}");
        scene.is_connected();
        scene.comes_to_reach_everything();

        machine
            .run(&format!("systemctl stop culvert-{role}"))
            .unwrap();
        assert_eq!(interface_of(machine, role), None, "{role}");
        machine
            .run(&format!("systemctl start culvert-{role}"))
            .unwrap();
        assert_ne!(interface, interface_of(machine, role), "{role}");
        scene.is_connected();
        scene.comes_to_reach_everything();
    }
}

fn a_killed_client_lets_nothing_past_and_comes_back(scene: &Scene) {
    let client = &scene.client;
    let before = main_pid(client, "client");
    // It stays away until it is looked at.
    client
        .shell(
            "mkdir /run/systemd/system/culvert-client.service.d
             printf '[Service]\\nRestartSec=1h\\n' >/run/systemd/system/culvert-client.service.d/late.conf
             systemctl daemon-reload; systemctl kill -s KILL culvert-client",
        )
        .unwrap();
    wait_until("the client to be dead", SOON, || {
        main_pid(client, "client") == "0"
    })
    .unwrap();
    let way = client.run(&format!("ip route get {PRIVATE_V4}")).unwrap();
    assert!(way.contains("dev culvert0"), "{way}");
    assert!(!scene.reaches(PRIVATE_V4));
    let interface = interface_of(client, "client");
    client
        .shell(
            "rm -r /run/systemd/system/culvert-client.service.d; systemctl daemon-reload
             systemctl start culvert-client",
        )
        .unwrap();
    assert_ne!(before, main_pid(client, "client"));
    assert_eq!(interface, interface_of(client, "client"));
    scene.is_connected();
    scene.comes_to_reach_everything();
}

fn main_pid(machine: &Machine, role: &str) -> String {
    let line = format!("systemctl show -P MainPID culvert-{role}");
    machine.run(&line).unwrap().trim().to_owned()
}

fn processes_of(machine: &Machine, role: &str) -> usize {
    let owners = machine
        .shell("for process in /proc/[0-9]*; do stat -c %U $process || true; done 2>/dev/null")
        .unwrap();
    let user = format!("culvert-{role}");
    owners.lines().filter(|owner| **owner == user).count()
}
