//! README's first chapter, followed word by word by somebody who knows nothing else, on three fresh machines.

use crate::scene::SOON;
use culvert_lab::nat::NatKind;
use culvert_lab::product::{BehindNats, PRIVATE_V4, Server};
use culvert_lab::{Machine, culvert_program, wait_until, workspace_dir};
use std::fs;
use std::io::Write as _;
use std::time::Instant;

/// The chapter that leads to the first page.
const CHAPTER: &str = "## From nothing to the first protected connection\n";

const README_PORT: u16 = 80;

/// A block of code, its language and its text.
fn blocks(chapter: &str) -> Vec<(&str, &str)> {
    let parts = chapter.split("```").skip(1).step_by(2);
    parts.filter_map(|part| part.split_once('\n')).collect()
}

/// The commands of a block, for a root that has no `sudo`.
fn commands(block: &str) -> Vec<&str> {
    let prompts = block.lines().filter_map(|line| line.strip_prefix("$ "));
    prompts
        .map(|line| line.strip_prefix("sudo ").unwrap_or(line))
        .collect()
}

/// Starts a command that runs until it is ended, in root's home.
fn start(machine: &Machine, command: &str) {
    machine
        .shell(&format!(
            "cd /root; nohup {command} >/root/said 2>&1 </dev/null &"
        ))
        .unwrap();
}

/// Takes a file from one machine to the other, as a careful person does.
fn take(file: &str, from: &Machine, to: &Machine) {
    let mut text = None;
    wait_until(&format!("{file} to be written"), SOON, || {
        text = from.run(&format!("cat /root/{file}")).ok();
        text.as_ref().is_some_and(|text| !text.is_empty())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", said(from)));
    to.write(&format!("/root/{file}"), "600", &text.unwrap())
        .unwrap();
}

fn said(machine: &Machine) -> String {
    machine.run("cat /root/said").unwrap_or_default()
}

#[test]
fn three_commands_of_the_readme_lead_to_the_first_page_on_fresh_machines() {
    let readme = fs::read_to_string(workspace_dir().join("README.md")).unwrap();
    let (_, chapter) = readme.split_once(CHAPTER).unwrap();
    let chapter = chapter.split("\n## ").next().unwrap();
    let blocks = blocks(chapter);
    let [
        ("toml", access),
        ("console", portal),
        ("console", gateway),
        ("console", client),
        ("console", later),
    ] = blocks[..]
    else {
        panic!("the chapter has other blocks: {blocks:?}");
    };
    let ([portal], [gateway], [client, page]) = (
        &commands(portal)[..],
        &commands(gateway)[..],
        &commands(client)[..],
    ) else {
        panic!("the chapter has other commands: {blocks:?}");
    };

    // Client and gateway are both at homes: nobody reaches them from outside.
    let home = NatKind::PortDependent;
    let product = BehindNats::new(0, &[home], &[home]).unwrap();
    let address = format!("ip address add {PRIVATE_V4} dev lo");
    product.private.run(&address).unwrap();
    let _server =
        Server::start(&product.private, PRIVATE_V4.parse().unwrap(), README_PORT).unwrap();
    let program = culvert_program().unwrap();
    let boot = |namespace, name| {
        let machine = Machine::boot(namespace, name, program.parent().unwrap()).unwrap();
        machine
            .run("install /packages/culvert /usr/local/bin/culvert")
            .unwrap();
        machine
    };
    let at_portal = boot(&product.portal.namespace, "portal");
    let at_gateway = boot(&product.gateways[0].namespace, "gateway");
    let at_client = boot(&product.clients[0].namespace, "laptop");

    let began = Instant::now();
    at_portal.write("/root/access.toml", "644", access).unwrap();
    start(&at_portal, portal);
    take("gateway-office.token", &at_portal, &at_gateway);
    start(&at_gateway, gateway);
    take("client-laptop.token", &at_portal, &at_client);
    start(&at_client, client);
    wait_until("the first page", SOON, || {
        let outcome = at_client.outcome(&format!("{page} -fsS -m 4"));
        outcome.is_ok_and(|outcome| outcome.status.success())
    })
    .unwrap_or_else(|error| {
        let machines = [&at_portal, &at_gateway, &at_client];
        panic!("{error}\n{}", machines.map(said).join("\n"))
    });
    let took = began.elapsed().as_secs_f64();
    // Past what holds back the output of tests that pass.
    let _told = writeln!(
        std::io::stderr(),
        "README: {took:.1} s from the first command to the first page"
    );

    // The portal prints the same two commands to go on with.
    let printed = said(&at_portal);
    for command in [gateway, client] {
        assert!(printed.contains(command), "{command}: {printed}");
    }
    let other_port = page.replace(PRIVATE_V4, &format!("{PRIVATE_V4}:81"));
    let refused = at_client.outcome(&format!("{other_port} -fsS -m 4"));
    assert!(!refused.unwrap().status.success());
    for command in commands(later) {
        // On a terminal, where a person sits.
        at_portal
            .shell(&format!("cd /root; script -qec '{command}' /dev/null"))
            .unwrap_or_else(|error| panic!("{command}: {error:#}"));
    }
}
