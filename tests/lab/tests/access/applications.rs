//! The resources that programs of a client's machine may reach.

use crate::common::{Bed, ECHO_PORT, SOON, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4, PRIVATE_V6, Product};
use culvert_lab::{
    Family, Link, LinkShape, Namespace, Subnet, application_name, culvert_program, wait_until,
};
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

/// The files of a machine where cgroup2 is all there is. Its tree is that of the machine that runs
/// the tests, whatever that one looks like.
const PURE: &str = "mount -t cgroup2 none /sys/fs/cgroup";

/// Those of a machine where cgroup2 stands beside the older hierarchies.
const HYBRID: &str = "mount -t tmpfs none /sys/fs/cgroup; mkdir /sys/fs/cgroup/unified; \
                      mount -t cgroup2 none /sys/fs/cgroup/unified";

/// One without the program `nft`.
const NO_NFT: &str = "mount -t cgroup2 none /sys/fs/cgroup; mount --bind /dev/null /usr/sbin/nft";

/// Half of the time after which the client looks without having heard anything.
const AT_ONCE: Duration = Duration::from_secs(5);

/// curl's "couldn't connect": at once, where a timeout would be 28.
const REFUSED: i32 = 7;

/// A client whose web server has a rule about applications. The address has one by its resource, the
/// name too if `names` are ruled.
struct Scene {
    bed: Bed,
    /// The application that the rule names: another one in each test, as cgroups are shared by all.
    application: String,
}

impl Scene {
    /// `rule` is `only` or `except`.
    fn new(machine: &str, rule: &str, resources: &[&str]) -> Self {
        let application = application_name();
        let mut access = access();
        for name in resources {
            let head = format!("name = \"{name}\"\n");
            let ruled = format!("{head}applications = {{ {rule} = [\"{application}\"] }}\n");
            assert!(access.contains(&head));
            access = access.replace(&head, &ruled);
        }
        let mut product = Product::networks(1).unwrap();
        machine.clone_into(&mut product.client.machine);
        product.begin(&access).unwrap();
        let bed = Bed::around(product).unwrap();
        Self { bed, application }
    }

    /// The output of a shell command in the application.
    fn inside(&self, script: &str) -> Output {
        let culvert = culvert_program().unwrap();
        let socket = self.bed.product.client.socket();
        let line = format!(
            "{} run --app {} --socket {} -- {script}",
            culvert.display(),
            self.application,
            socket.display()
        );
        self.outside(&line)
    }

    /// The output of a shell command in no application.
    fn outside(&self, script: &str) -> Output {
        let client = &self.bed.product.client;
        client
            .namespace
            .outcome_of_script(&format!("{}\n{script}", client.machine))
            .unwrap()
    }

    fn status(&self) -> Value {
        self.bed.product.client.status().unwrap()
    }

    /// The cgroup, as this process sees it.
    fn cgroup(&self, of_machine: bool) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let here = here.and_then(|line| line.split(' ').nth(4)).unwrap();
        let root = match of_machine {
            true if self.bed.product.client.machine == HYBRID => "/sys/fs/cgroup/unified",
            true => "/sys/fs/cgroup",
            false => here,
        };
        format!("{root}/culvert.slice/culvert-{}.slice", self.application)
    }

    /// Waits until the application reaches the web server: the client asks for access first.
    fn comes_to_reach(&self, line: &str) {
        wait_until("an answer for the application", SOON, || {
            self.inside(line).status.success()
        })
        .unwrap();
    }
}

fn curl(host: &str) -> String {
    format!("curl -gsS -m 10 http://{host}:{WEB_PORT}/")
}

fn is_refused(outcome: &Output) -> bool {
    outcome.status.code() == Some(REFUSED)
}

fn text(outcome: &Output) -> String {
    String::from_utf8_lossy(&outcome.stdout).into_owned()
        + &String::from_utf8_lossy(&outcome.stderr)
}

#[test]
fn only_the_named_application_and_what_it_starts_reach_a_resource() {
    let scene = Scene::new(HYBRID, "only", &["web", "web by name"]);
    scene.comes_to_reach(&curl(PRIVATE_V4));
    let child = scene.inside(&format!("sh -c '{}; true'", curl(PRIVATE_V4)));
    assert!(text(&child).contains("you come from"), "{}", text(&child));
    let refused = scene.outside(&curl(PRIVATE_V4));
    assert!(is_refused(&refused), "{refused:?}");

    let status = scene.status();
    let others = status["applications"]["refused_others"].as_u64();
    assert!(others > Some(0), "{status}");
    let shown = scene.bed.product.client.status_text().unwrap();
    let rule = format!("for only programs of {}", scene.application);
    assert!(
        shown.contains(&rule) && shown.contains("(no application)"),
        "{shown}"
    );

    // By name, of both families.
    let culvert = culvert_program().unwrap();
    let client = &scene.bed.product.client;
    let by_name = format!("curl -fsS -m 10 http://{PRIVATE_NAME}/");
    let inside = format!(
        "{} run --app {} --socket {} -- {by_name}",
        culvert.display(),
        scene.application,
        client.socket().display()
    );
    wait_until("an answer by name", SOON, || {
        client.run_with_dns(&inside).is_ok()
    })
    .unwrap();
    for family in ["-4", "-6"] {
        let line = by_name.replace("curl", &format!("curl {family}"));
        assert!(client.run_with_dns(&line).is_err(), "{family}");
        let inside = inside.replace("curl", &format!("curl {family}"));
        client.run_with_dns(&inside).unwrap();
    }

    // The cgroup of a process when it makes a socket counts, not a later one.
    let procs = format!("{}/cgroup.procs", scene.cgroup(true));
    let root = procs.split("/culvert.slice").next().unwrap().to_owned();
    let moved = |to: &str| {
        format!(
            "bash -c 'exec 3<>/dev/udp/{PRIVATE_V4}/{ECHO_PORT}; echo $$ > {to}; \
             echo x >&3 && echo old passes; \
             exec 4<>/dev/udp/{PRIVATE_V4}/{ECHO_PORT}; echo x >&4 && echo new passes; true' 2>&1"
        )
    };
    let into = text(&scene.outside(&moved(&procs)));
    assert!(
        !into.contains("old passes") && into.contains("new passes"),
        "{into}"
    );
    let out_of = text(&scene.inside(&moved(&format!("{root}/cgroup.procs"))));
    assert!(
        out_of.contains("old passes") && !out_of.contains("new passes"),
        "{out_of}"
    );

    // A packet that the machine forwards for others belongs to no program.
    let container = Namespace::new().unwrap();
    let net = Subnet(77);
    let machine = &scene.bed.product.client.namespace;
    Link::new(machine, &container, net, LinkShape::default()).unwrap();
    machine.run("sysctl -q -w net.ipv4.ip_forward=1").unwrap();
    let router = net.host(Family::V4, 1);
    container
        .run(&format!("ip route add default via {router}"))
        .unwrap();
    let forwarded = container.outcome_of_script(&curl(PRIVATE_V4)).unwrap();
    assert!(is_refused(&forwarded), "{}", text(&forwarded));

    let unknown = scene.inside("true").status;
    assert!(unknown.success());
    let missing = scene.inside("/nonexistent/program").status;
    assert_eq!(missing.code(), Some(127));
    let barred = scene.inside("/").status;
    assert_eq!(barred.code(), Some(126));
    let other = scene.outside(&format!(
        "{} run --app nobody_knows --socket {} true",
        culvert.display(),
        client.socket().display()
    ));
    assert_eq!(other.status.code(), Some(125));
    assert!(
        text(&other).contains("no rule of the portal names"),
        "{}",
        text(&other)
    );
}

#[test]
fn all_but_the_named_application_reach_a_resource_over_a_kill_and_until_a_clean_end() {
    let mut scene = Scene::new(PURE, "except", &["web"]);
    scene.bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let refused = scene.inside(&curl(PRIVATE_V4));
    assert!(is_refused(&refused), "{refused:?}");
    let status = scene.status();
    let named = &status["applications"]["refused"][0];
    assert_eq!(named["application"], scene.application.as_str(), "{status}");
    assert!(named["packets"].as_u64() > Some(0), "{status}");
    let shown = scene.bed.product.client.status_text().unwrap();
    assert!(shown.contains("REFUSED APPLICATIONS"), "{shown}");

    // The resource gets another rule, live.
    let only = access().replace(
        "name = \"web\"\n",
        &format!(
            "name = \"web\"\napplications = {{ only = [\"{}\"] }}\n",
            scene.application
        ),
    );
    scene.bed.product.portal.apply(&only).unwrap();
    scene.comes_to_reach(&curl(PRIVATE_V4));
    assert!(is_refused(&scene.outside(&curl(PRIVATE_V4))));

    scene.bed.product.client.kill().unwrap();
    scene.bed.product.client.start().unwrap();
    scene.comes_to_reach(&curl(PRIVATE_V4));
    assert!(is_refused(&scene.outside(&curl(PRIVATE_V4))));

    let cgroup = scene.cgroup(false);
    assert!(Path::new(&cgroup).is_dir());
    scene.bed.product.client.stop().unwrap();
    assert!(!Path::new(&cgroup).exists(), "a clean end leaves no cgroup");
    let tables = scene
        .bed
        .product
        .client
        .namespace
        .run("nft list tables")
        .unwrap();
    assert_eq!(tables, "", "nor a table");
}

#[test]
fn without_nft_a_resource_with_a_rule_is_denied_to_all_and_others_are_not() {
    let scene = Scene::new(NO_NFT, "except", &["web"]);
    let client = &scene.bed.product.client;
    let by_name = format!("curl -fsS -m 10 http://{PRIVATE_NAME}/");
    wait_until("an answer by name", SOON, || {
        client.run_with_dns(&by_name).is_ok()
    })
    .unwrap();
    for outcome in [
        scene.outside(&curl(PRIVATE_V4)),
        scene.inside(&curl(PRIVATE_V4)),
    ] {
        assert!(is_refused(&outcome), "{outcome:?}");
    }
    assert!(
        !scene.bed.reaches(PRIVATE_V6, WEB_PORT),
        "it is no resource"
    );
    let problems = scene.status()["problems"].to_string();
    assert!(
        problems.contains("install the package nftables"),
        "{problems}"
    );
}

#[test]
fn rules_that_another_program_flushes_are_put_back_at_once_and_not_without_end() {
    let scene = Scene::new(HYBRID, "only", &["web"]);
    scene.comes_to_reach(&curl(PRIVATE_V4));
    let client = &scene.bed.product.client;
    let stands = || client.namespace.run("nft list tables").unwrap() != "";
    for _ in 0..2 {
        assert!(stands());
        client.namespace.run("nft flush ruleset").unwrap();
        // It looks every ten seconds by itself.
        wait_until("the rules", AT_ONCE, stands).unwrap();
        scene.comes_to_reach(&curl(PRIVATE_V4));
        assert!(is_refused(&scene.outside(&curl(PRIVATE_V4))));
    }
    assert!(client.output().contains("another program (nft)"));

    // Repeated flushes close the resource, to all.
    let flushing = "while :; do nft flush ruleset; sleep 0.05; done";
    let mut flushing = client.namespace.spawn_script(flushing).unwrap();
    wait_until("the problem to be named", SOON, || {
        let problems = scene.status()["problems"].to_string();
        problems.contains("another program") && problems.contains("again and again")
    })
    .unwrap_or_else(|error| panic!("{error}: {}", client.output()));
    flushing.kill().unwrap();
    for outcome in [
        scene.outside(&curl(PRIVATE_V4)),
        scene.inside(&curl(PRIVATE_V4)),
    ] {
        assert!(is_refused(&outcome), "{outcome:?}");
    }
}
