//! Two portals on one database: the one that leads is killed.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use culvert_lab::product::{
    Download, Echo, FirstUse, FirstUses, Front, LeaderKilled, NumberedStream, PRIVATE_V4, Product,
    Server,
};
use culvert_lab::wait_until;

use crate::access::{ACCESS, DEADLINE, WEB_PORT, step};

/// The port that sends datagrams back, which the policy permits as well.
const ECHO_PORT: u16 = 7;

/// "new access is there within 5 s" (docs/portal.md).
const NEW_ACCESS: Duration = Duration::from_secs(5);

/// A flow that needs no portal may wait as long as this for a busy machine.
const GAP: Duration = Duration::from_secs(1);

/// New accesses before the first portal is killed, and between two: what is ordinary is to be seen.
const ORDINARY_USES: usize = 8;

/// The number of kills: one of each portal.
const KILLS: usize = 2;

/// The traffic while portals are killed.
struct Load {
    download: Download,
    stream: NumberedStream,
    uses: FirstUses,
}

/// Shows what a client notices of the end of a portal.
pub(crate) fn demonstrate() -> Result<()> {
    println!("\n== Two portals, and the one that leads is killed\n");
    println!(
        "Namespaces stand for machines: a PostgreSQL server; two portals on it; HAProxy before them, which\n\
         passes TLS through; a gateway before a private network; a client behind a router with NAT.\n"
    );
    let start = Instant::now();
    let mut product = Product::networks(1)?;
    let _web = Server::start(&product.private, PRIVATE_V4.parse()?, WEB_PORT)?;
    let _echo = Echo::start(&product.private, PRIVATE_V4.parse()?, ECHO_PORT)?;
    let _unused = FirstUses::serve(&product)?;
    set_up(&mut product)?;
    println!("\nAll of it took {:.1} s.", start.elapsed().as_secs_f64());
    list(&product)?;

    let load = Load::start(&product)?;
    let mut kills = Vec::new();
    for _ in 0..KILLS {
        load.is_ordinary()?;
        kills.push(kill(&mut product, &load)?);
    }
    load.is_ordinary()?;
    list(&product)?;
    summary(load, &kills)
}

fn set_up(product: &mut Product) -> Result<()> {
    product.with_portals(2, Front::Balancer)?;
    let database = product.database.as_ref();
    let version = database
        .context("it was just started")?
        .query("SHOW server_version")?;
    let version = version.split(' ').next().unwrap_or_default().to_owned();
    step("on the database", &format!("PostgreSQL {version}"));
    step(
        "before the portals",
        "haproxy -f haproxy.cfg        (as docs/portal.md prints it)",
    );
    let run = "culvert portal run --database-file database-url";
    step("on portal 1", &format!("{run} --set-up access.toml"));
    let without = product.portal.arguments.clone();
    product.portal.start_set_up(&access())?;
    product.portal.arguments = without;
    step("on portal 2", run);
    product.portal_mut(1)?.start()?;
    product.is_reached_within(DEADLINE)?;
    let home = product.portal.home();
    for (at, command, token, to) in [
        (
            "on the gateway",
            "gateway",
            "gateway-lab.token",
            product.gateways[0].token_file(),
        ),
        (
            "on the client",
            "client",
            "client-laptop.token",
            product.client.token_file(),
        ),
    ] {
        step(at, &format!("culvert {command} run --token-file {token}"));
        fs::rename(home.join(token), to)?;
    }
    product.gateways[0].start()?;
    product.client.start()
}

/// The access of the other parts, datagrams to the web server, and addresses that are used one after the other.
fn access() -> String {
    let web = "filters = [{ protocol = \"tcp\" }, { protocol = \"icmp\" }]";
    let with_echo = format!(
        "filters = [{{ protocol = \"tcp\" }}, {{ protocol = \"udp\", ports = [{ECHO_PORT}] }}]"
    );
    format!(
        "{}\n{}",
        ACCESS.replace(web, &with_echo),
        FirstUses::access()
    )
}

fn list(product: &Product) -> Result<()> {
    println!("\n`culvert admin portal list`, by whichever portal HAProxy chooses:\n");
    for line in product.portal.admin("portal list")?.lines() {
        println!("    {line}");
    }
    Ok(())
}

impl Load {
    fn start(product: &Product) -> Result<Self> {
        println!(
            "\nA download runs through the tunnel, and 50 numbered datagrams a second there and back. Four times\n\
             a second the client uses an address for the first time, which needs new access each time."
        );
        let client = &product.client.namespace;
        let address = PRIVATE_V4.parse()?;
        Ok(Self {
            download: Download::start(client, address, WEB_PORT)?,
            stream: NumberedStream::start(client, address, ECHO_PORT)?,
            uses: FirstUses::start(client),
        })
    }

    /// Waits for some new accesses, and tells the time of them.
    fn is_ordinary(&self) -> Result<()> {
        let before = self.answered().len();
        wait_until("new accesses", DEADLINE, || {
            self.answered().len() >= before + ORDINARY_USES
        })?;
        let mut took = self.answered()[before..].to_vec();
        took.sort_unstable();
        let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
        println!(
            "\nNew access takes {} ms ({} of them, {} ms at most).",
            median.as_millis(),
            took.len(),
            longest.as_millis()
        );
        Ok(())
    }

    /// The times of all new accesses so far.
    fn answered(&self) -> Vec<Duration> {
        let uses = self.uses.so_far();
        let answered = uses.iter().filter(|it| it.answered.is_some());
        answered.map(FirstUse::took).collect()
    }
}

/// Kills the portal that leads, tells the course of it, and starts it again.
fn kill(product: &mut Product, load: &Load) -> Result<LeaderKilled> {
    let before = load.download.bytes();
    let killed = product.kill_leader_under_a_request(&load.uses, NEW_ACCESS)?;
    let bytes = load.download.bytes() - before;
    load.download.goes_on(GAP)?;
    let (leader, next) = (killed.leader + 1, killed.next + 1);
    println!(
        "Portal {leader} leads. It is killed (-9) under the download and under a request for access:\n"
    );
    let address = killed.request.address;
    let asked = killed.at.saturating_duration_since(killed.request.began);
    at(
        "-",
        asked,
        &format!("the client asks for access to {address}, and waits for portal {leader}"),
    );
    at(" ", Duration::ZERO, &format!("portal {leader} is killed"));
    at(" ", killed.led_after, &format!("portal {next} leads"));
    let answered = format!("{address} answers: new access");
    at(" ", killed.answered_after, &answered);
    let gap = load.download.longest_gap().as_millis();
    let megabytes = bytes / 1_000_000;
    let went_on =
        format!("the download went on: {megabytes} MB meanwhile, at most {gap} ms without a byte");
    at(" ", killed.at.elapsed(), &went_on);
    product.portal_mut(killed.leader)?.start()?;
    ensure!(
        product.leader()? == Some(killed.next),
        "the leader has changed once more"
    );
    at(
        " ",
        killed.at.elapsed(),
        &format!("portal {leader} is started again, and follows"),
    );
    Ok(killed)
}

fn at(sign: &str, after: Duration, what: &str) {
    println!("    {sign}{:.1} s  {what}", after.as_secs_f64());
}

/// Says what was lost, which must be nothing.
fn summary(load: Load, kills: &[LeaderKilled]) -> Result<()> {
    let Load {
        download,
        stream,
        uses,
    } = load;
    download.goes_on(GAP)?;
    let (gap, megabytes) = (download.longest_gap(), download.bytes() / 1_000_000);
    let took = uses
        .so_far()
        .iter()
        .filter(|it| it.answered.is_some())
        .count();
    drop(uses);
    let datagram_gap = stream.longest_gap();
    let tally = stream.finish();
    let list = |of: fn(&LeaderKilled) -> Duration| {
        let times: Vec<_> = kills
            .iter()
            .map(|it| format!("{:.1} s", of(it).as_secs_f64()))
            .collect();
        times.join(", ")
    };
    println!(
        "\nIn short, of {} kills of the portal that leads:\n",
        kills.len()
    );
    for (name, what) in [
        ("the next portal leads after", list(|it| it.led_after)),
        ("new access after", list(|it| it.answered_after)),
        ("accesses", format!("{took} new ones, each of which came")),
        (
            "the download",
            format!(
                "{megabytes} MB, at most {} ms without a byte",
                gap.as_millis()
            ),
        ),
        (
            "datagrams",
            format!(
                "{} sent, {} lost, at most {} ms between two answers",
                tally.sent,
                tally.missing.len(),
                datagram_gap.as_millis()
            ),
        ),
    ] {
        println!("    {name:28} {what}");
    }
    ensure!(
        tally.missing.is_empty(),
        "datagrams were lost: {:?}",
        tally.missing
    );
    ensure!(gap < GAP, "nothing of the download came for {gap:?}");
    Ok(())
}
