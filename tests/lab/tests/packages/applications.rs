//! Rules about applications on machines with systemd, on a cgroup2 hierarchy alone: services that join by
//! their slice, and programs of people.

use crate::scene::{SOON, Scene, Version, access, install};
use culvert_lab::product::PRIVATE_V4;
use culvert_lab::wait_until;

/// The application of [`EXAMPLE`].
const APPLICATION: &str = "backup";

/// The drop-in that the package brings, which names [`APPLICATION`].
const EXAMPLE: &str = "/usr/share/doc/culvert/examples/application.conf";

/// Gets the page once a second, and notes how that ended in its runtime directory.
const SERVICE: &str = "\
[Service]
ExecStart=/bin/sh -c 'while :; do curl -fsS -o /dev/null -m 2 http://ADDRESS/ \\
    && echo reached >/run/SERVICE.state || echo refused >/run/SERVICE.state; sleep 0.1; done'
ExecStartPre=/bin/rm -f /run/SERVICE.state
";

impl Scene {
    /// A client that makes cgroups, a service in the application, and one that is in none.
    fn with_services() -> Self {
        let scene = Self::boot();
        for (machine, role) in scene.machines() {
            install(machine, role, Version::New);
        }
        let client = &scene.client;
        client
            .shell(&format!(
                "install -D /usr/share/doc/culvert/examples/client-applications.conf \
                 /etc/systemd/system/culvert-client.service.d/applications.conf
                 install -D {EXAMPLE} /etc/systemd/system/member.service.d/culvert.conf"
            ))
            .unwrap();
        for service in ["member", "stranger"] {
            let unit = SERVICE
                .replace("ADDRESS", PRIVATE_V4)
                .replace("SERVICE", service);
            client
                .write(
                    &format!("/etc/systemd/system/{service}.service"),
                    "644",
                    &unit,
                )
                .unwrap();
        }
        client.run("systemctl daemon-reload").unwrap();
        scene.begin();
        scene
    }

    /// Has the portal rule who may reach the web server.
    fn rule(&self, rule: &str) {
        let head = "name = \"web\"\n";
        let ruled = format!("{head}applications = {{ {rule} = [\"{APPLICATION}\"] }}\n");
        let access = access().replacen(head, &ruled, 1);
        self.portal
            .write("/root/access.toml", "600", &access)
            .unwrap();
        self.portal
            .run("culvert admin apply --yes -f /root/access.toml")
            .unwrap();
    }

    /// Waits until a service has noted this state last.
    fn comes_to_be(&self, service: &str, state: &str) {
        let path = format!("/run/{service}.state");
        wait_until(&format!("{service} to be {state}"), SOON, || {
            let noted = self.client.run(&format!("cat {path}"));
            noted.is_ok_and(|noted| noted.trim() == state)
        })
        .unwrap_or_else(|error| {
            let [status, tree] = ["culvert status", "systemd-cgls --no-pager"]
                .map(|line| self.client.run(line).unwrap_or_default());
            panic!(
                "{error}\n{status}\n{tree}\n{}",
                self.client.journal("culvert-client")
            )
        });
    }

    /// It stops, and starts again in a slice that is made for it.
    fn restarts_as(&self, service: &str, state: &str) {
        self.client
            .run(&format!("systemctl stop {service}"))
            .unwrap();
        self.client
            .run(&format!("systemctl start {service}"))
            .unwrap();
        self.comes_to_be(service, state);
    }
}

#[test]
fn services_and_programs_reach_what_their_application_may_also_after_their_slice_came_anew() {
    let scene = Scene::with_services();
    let client = &scene.client;
    // Pure cgroup2, as the machine has it.
    let mounted = client.run("stat -f -c %T /sys/fs/cgroup").unwrap();
    assert_eq!(mounted.trim(), "cgroup2fs");
    scene.rule("only");
    client.run("systemctl start member stranger").unwrap();
    scene.comes_to_be("member", "reached");
    scene.comes_to_be("stranger", "refused");
    let cgroup = client.run("systemctl show -P ControlGroup member").unwrap();
    assert_eq!(
        cgroup.trim(),
        format!("/culvert.slice/culvert-{APPLICATION}.slice/member.service")
    );

    // With its last service systemd removes the slice, and makes it anew for the next.
    for _ in 0..3 {
        scene.restarts_as("member", "reached");
        scene.comes_to_be("stranger", "refused");
    }

    // A member of the group, in a session: a scope of systemd's, which its process leaves.
    client
        .shell("useradd --create-home --groups culvert member")
        .unwrap();
    let session = format!(
        "systemd-run --quiet --pipe --wait --uid=member --slice=user.slice \
         culvert run --app {APPLICATION} -- curl -fsS -m 4 http://{PRIVATE_V4}/"
    );
    let page = client.run(&session).unwrap();
    assert!(page.contains("you come from"), "{page}");
    let outside = format!(
        "systemd-run --quiet --pipe --wait --uid=member --slice=user.slice \
         curl -fsS -m 4 http://{PRIVATE_V4}/"
    );
    assert!(!client.outcome(&outside).unwrap().status.success());
    assert!(
        client
            .run("culvert status")
            .unwrap()
            .contains("(no application)")
    );

    // An excluded application is named, and stays excluded when its slice is made anew.
    scene.rule("except");
    scene.comes_to_be("member", "refused");
    scene.comes_to_be("stranger", "reached");
    for _ in 0..3 {
        scene.restarts_as("member", "refused");
        scene.comes_to_be("stranger", "reached");
    }
    let status = client.run("culvert status").unwrap();
    let named = status
        .lines()
        .skip_while(|line| *line != "REFUSED APPLICATIONS");
    let named: Vec<&str> = named.collect();
    assert!(
        named
            .iter()
            .any(|line| line.trim().starts_with(APPLICATION)),
        "{status}"
    );
}
