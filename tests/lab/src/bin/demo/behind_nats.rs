//! A client and a gateway, each behind a router with NAT: by the relay beside the portal at first, then directly.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use culvert_lab::nat::NatKind;
use culvert_lab::product::BehindNats;
use culvert_lab::wait_until;

use crate::access::{DEADLINE, step};

/// The resource behind the gateway.
const WEB: &str = "10.50.0.100";

/// The access file of the demonstration's administrator.
const ACCESS: &str = include_str!("behind_nats.toml");

/// For how long the transfer runs in each state, so that it is seen to go on.
const WATCHED: Duration = Duration::from_secs(2);

/// A transfer may stand still for so long while its path changes, on a busy machine.
const GAP: Duration = Duration::from_secs(5);

/// Shows the paths between two machines that nobody reaches from outside.
pub(crate) fn demonstrate() -> Result<()> {
    println!("\n== A client and a gateway, both behind NAT\n");
    println!(
        "Namespaces stand for machines again. Client and gateway are each behind a router of its own, as in most\n\
         homes: it drops what nobody inside asked for. Nothing forwards a port. The portal alone has a public\n\
         address, and runs a relay beside itself.\n"
    );
    let home = NatKind::PortDependent;
    let mut scene = BehindNats::new(0, &[home], &[home])?;
    set_up(&mut scene)?;
    first_packet(&scene)?;
    cut(&scene)?;
    println!("\nWhat `culvert status` says on the client:\n");
    for line in scene.clients[0].status_text()?.lines() {
        println!("    {line}");
    }
    Ok(())
}

/// The three commands of the README.
fn set_up(scene: &mut BehindNats) -> Result<()> {
    step(
        "on the portal",
        "culvert portal run --relay --set-up access.toml",
    );
    "--relay".clone_into(&mut scene.portal.arguments);
    scene.portal.start_set_up(ACCESS)?;
    wait_until("the relay", DEADLINE, || {
        let relays = scene.portal.admin("status").unwrap_or_default();
        relays.contains("1 relays")
    })?;
    let home = scene.portal.home();
    let (gateway, client) = (&mut scene.gateways[0], &mut scene.clients[0]);
    let token = "gateway-office.token";
    step(
        "on the gateway",
        &format!("culvert gateway run --token-file {token}"),
    );
    fs::rename(home.join(token), gateway.token_file())?;
    gateway.start()?;
    let token = "client-laptop.token";
    step(
        "on the client",
        &format!("culvert client run --token-file {token}"),
    );
    fs::rename(home.join(token), client.token_file())?;
    client.start()
}

fn first_packet(scene: &BehindNats) -> Result<()> {
    println!(
        "\nThe first packet asks for access. The handshake goes through the relay and to all addresses of the gateway at\n\
         once. Probes of both ends open their routers, and the first direct path that is proven is used:\n"
    );
    let before = relayed(scene)?;
    let began = Instant::now();
    let client = &scene.clients[0].namespace;
    let answer = client.run(&format!("curl -fsS -m 10 http://{WEB}/"))?;
    let took = began.elapsed();
    at(took, &format!("http://{WEB} \"{}\"", answer.trim()));
    let direct = comes(scene, "direct", began)?;
    at(direct, "the path is direct");
    let records = relayed_since(scene, before)?;
    println!("\nThe relay carried {records} records meanwhile.");
    Ok(())
}

/// Cuts the direct path under a transfer, and heals it.
fn cut(scene: &BehindNats) -> Result<()> {
    println!("\nA transfer of 3 MB/s runs over the direct path, which is cut:\n");
    let download = scene.download(0, 0)?;
    std::thread::sleep(WATCHED);
    let before = relayed(scene)?;
    let (began, bytes) = (Instant::now(), download.bytes());
    scene.cut(0, 0)?;
    at(
        began.elapsed(),
        "no packet passes between the two routers any more",
    );
    let took = comes(scene, "relayed", began)?;
    at(took, "the path is the relay");
    std::thread::sleep(WATCHED);
    download.goes_on(GAP)?;
    let records = relayed_since(scene, before)?;
    let gap = download.longest_gap().as_millis();
    at(
        began.elapsed(),
        &format!(
            "the transfer goes on: {} kB meanwhile, at most {gap} ms without a byte; the relay carried {records} records",
            (download.bytes() - bytes) / 1_000
        ),
    );
    println!("\nThe direct path heals:\n");
    let began = Instant::now();
    scene.heal()?;
    let took = comes(scene, "direct", began)?;
    at(took, "the path is direct again");
    download.goes_on(GAP)?;
    println!(
        "\nIt was one connection from beginning to end: {} MB, at most {} ms without a byte.",
        download.bytes() / 1_000_000,
        download.longest_gap().as_millis()
    );
    Ok(())
}

/// The time since `began` after which the client's path is of that kind.
fn comes(scene: &BehindNats, path: &str, began: Instant) -> Result<Duration> {
    wait_until(&format!("a {path} path"), DEADLINE, || {
        scene.path(0, 0) == path
    })?;
    Ok(began.elapsed())
}

/// The records that the relay has forwarded since it had forwarded `before`. It counts them once in a while.
fn relayed_since(scene: &BehindNats, before: u64) -> Result<u64> {
    let mut records = before;
    wait_until("the relay to have been used", DEADLINE, || {
        records = relayed(scene).unwrap_or(before);
        records > before
    })?;
    Ok(records - before)
}

/// Records that the relay has forwarded so far.
fn relayed(scene: &BehindNats) -> Result<u64> {
    let status = scene.portal.relay_status()?;
    let mut counters = status["counters"].as_array().into_iter().flatten();
    let records = counters.find(|it| it["name"] == "records_forwarded");
    records
        .and_then(|it| it["count"].as_u64())
        .context("the relay does not tell how much it has forwarded")
}

fn at(after: Duration, what: &str) {
    println!("    {:6.3} s  {what}", after.as_secs_f64());
}
