//! Names of elsewhere on a machine that completes names with a resource's domain, whatever becomes of its site.

use crate::common::{SOON, access};
use crate::resolver_scene::{PUBLIC_DNS, Scene};
use culvert_lab::product::PRIVATE_NAME;
use culvert_lab::{peer_program, wait_until};
use std::net::IpAddr;
use std::ops::Range;

/// Names that are asked for, one after the other.
const COUNT: usize = 100;

/// The specification's bound for the 99th of a hundred.
const BOUND_MS: u64 = 200;

/// Address of all of them.
const OTHER_ADDRESS: &str = "203.0.113.99";

/// A machine on which each name of fewer than five dots is asked for below `corp.example` first, as in a container of
/// Kubernetes. Every name there is a resource's.
fn searching() -> Scene {
    let mut scene = Scene::new("--dns file");
    scene.write(&format!(
        "search corp.example\nnameserver {PUBLIC_DNS}\noptions ndots:5\n"
    ));
    let other: IpAddr = OTHER_ADDRESS.parse().unwrap();
    for (batch, number) in (0..CASES).flat_map(names) {
        scene.names[0].set(&host(batch, number), &[other]);
    }
    let access = access().replace(PRIVATE_NAME, "**.corp.example");
    scene.begin_with(&access);
    scene.comes_to_be_applied();
    // The site answers: what it says of a name counts.
    finds_the_site(&scene);
    scene
}

/// The things that become of the site, and that nothing does.
const CASES: usize = 13;

/// Times that a case may be tried: others use the machine too, and a processor that is taken away for a while makes names
/// late. Each try has a batch of names, of which none is asked for twice.
const TRIES: usize = 3;

fn host(batch: usize, number: usize) -> String {
    format!("h{number}.b{batch}.example.test")
}

/// The times in which the names of a batch are found, in milliseconds, the longest last.
fn times(scene: &Scene, batch: usize, program: &str) -> Vec<u64> {
    let script = format!(
        "for i in $(seq 0 {}); do s=$(date +%s%N); {program} h$i.b{batch}.example.test | \
         grep -q '^{OTHER_ADDRESS}' || echo not found: $i; e=$(date +%s%N); echo $(( (e - s) / 1000000 )); done",
        COUNT - 1
    );
    std::fs::write(scene.etc.join("ask-all"), script).unwrap();
    let said = scene.product.client.run("sh /etc/ask-all").unwrap();
    let mut times: Vec<u64> = said
        .lines()
        .map(|line| line.parse().unwrap_or_else(|_| panic!("{said}")))
        .collect();
    times.sort_unstable();
    times
}

#[expect(clippy::print_stdout, reason = "the figures are for who asks for them")]
fn are_found_in_time(scene: &Scene, case: usize, program: &str) {
    let in_time = batches(case).any(|batch| {
        let times = times(scene, batch, program);
        let p99 = times[COUNT * 99 / 100 - 1];
        println!(
            "{program}: p50 {} ms, p99 {p99} ms, longest {} ms",
            times[COUNT / 2],
            times[COUNT - 1]
        );
        p99 <= BOUND_MS
    });
    assert!(in_time, "case {case}: late each time");
}

/// The names of a case, by batch and number.
fn names(case: usize) -> impl Iterator<Item = (usize, usize)> {
    batches(case).flat_map(|batch| (0..COUNT).map(move |number| (batch, number)))
}

/// The batches of a case.
fn batches(case: usize) -> Range<usize> {
    case * TRIES..(case + 1) * TRIES
}

/// The resolver of a C library, as a program that prints the addresses of a name.
const GLIBC: &str = "getent ahosts";

/// A table in which a rule about the site's DNS is put.
fn with_rule(rule: &str) -> String {
    format!(
        "nft 'add table inet away; add chain inet away in {{ type filter hook input priority 0; }}; \
         add chain inet away out {{ type filter hook output priority 0; }}; add rule inet away {rule}'"
    )
}

/// Response codes (RFC 1035, section 4.1.1).
const SERVFAIL: u8 = 2;
const REFUSED: u8 = 5;

/// Every case with one resolver.
fn cases(program: &str) {
    let mut scene = searching();
    let mut cases = 0..CASES;
    let mut next = || cases.next().unwrap();
    are_found_in_time(&scene, next(), program);
    // The site's DNS says nothing, or its machine that nobody is there or may be asked; or the gateway can't get there.
    let site = scene.product.private.clone();
    let gateway = scene.product.gateways[0].namespace.clone();
    for (machine, rule) in [
        (&site, "in meta l4proto { tcp, udp } th dport 53 drop"),
        (&site, "in meta l4proto { tcp, udp } th dport 53 reject"),
        (
            &site,
            "in meta l4proto { tcp, udp } th dport 53 reject with icmpx admin-prohibited",
        ),
        (&site, "out meta l4proto { tcp, udp } th sport 53 drop"),
        (
            &gateway,
            "out meta l4proto { tcp, udp } th dport 53 reject with icmpx host-unreachable",
        ),
    ] {
        machine.shell(&with_rule(rule)).unwrap();
        are_found_in_time(&scene, next(), program);
        machine.run("nft delete table inet away").unwrap();
        finds_the_site(&scene);
    }
    // It answers that it does not answer.
    for code in [SERVFAIL, REFUSED] {
        let case = next();
        for (batch, number) in names(case) {
            let name = format!("{}.corp.example", host(batch, number));
            scene.product.names.set_fault(&name, code);
        }
        are_found_in_time(&scene, case, program);
    }
    // Nothing comes from the gateway any more, or it runs no more.
    gateway
        .shell(&with_rule("in meta l4proto udp th dport 51820 drop"))
        .unwrap();
    are_found_in_time(&scene, next(), program);
    gateway.run("nft delete table inet away").unwrap();
    finds_the_site(&scene);
    let process = scene.product.gateways[0].process().unwrap();
    process.pause().unwrap();
    are_found_in_time(&scene, next(), program);
    let process = scene.product.gateways[0].process().unwrap();
    process.resume().unwrap();
    scene.product.portal.process().unwrap().pause().unwrap();
    are_found_in_time(&scene, next(), program);
    scene.product.portal.process().unwrap().resume().unwrap();
    finds_the_site(&scene);
    scene.product.gateways[0].kill().unwrap();
    are_found_in_time(&scene, next(), program);
    scene.product.portal.kill().unwrap();
    are_found_in_time(&scene, next(), program);
}

/// Waits until names of the site are found again.
fn finds_the_site(scene: &Scene) {
    wait_until("the site's names to be found again", SOON, || {
        !scene.addresses("web").is_empty()
    })
    .unwrap();
}

#[test]
fn outside_names_are_found_at_once_whatever_the_site_does() {
    cases(GLIBC);
}

#[test]
fn outside_names_are_found_at_once_by_musl_too_whatever_the_site_does() {
    // Its search ends at the first name that is not said not to exist.
    cases(&format!(
        "{} ahosts",
        peer_program("getent-musl").unwrap().display()
    ));
}

#[test]
fn outside_names_are_found_at_once_where_the_first_resolver_is_dead() {
    let mut scene = Scene::new("--dns file");
    let other: IpAddr = OTHER_ADDRESS.parse().unwrap();
    for (batch, number) in names(0) {
        scene.names[0].set(&host(batch, number), &[other]);
    }
    scene.begin();
    scene.comes_to_be_applied();
    are_found_in_time(&scene, 0, GLIBC);
}
