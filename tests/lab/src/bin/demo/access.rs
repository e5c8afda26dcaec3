//! The whole product.

use std::fs;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use culvert_lab::measure::{IperfServer, TcpLoad};
use culvert_lab::product::{
    Download, PRIVATE_NAME, PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6, Product, Server,
};

/// The web server's port, and the database's.
pub(crate) const WEB_PORT: u16 = 80;
const DATABASE_PORT: u16 = 5432;

/// The length of each measurement.
const MEASURED_S: u32 = 5;

/// The limit for finding a new path; a longer search is a fault.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The access file of the demonstration's administrator.
pub(crate) const ACCESS: &str = include_str!("access.toml");

/// Shows who gets where, and who does not.
pub(crate) fn demonstrate() -> Result<()> {
    println!("\n== The whole product\n");
    println!(
        "Namespaces stand for machines: a portal; two gateways, before a private network with a web\n\
         server and a database; a client behind a router with NAT, without a way to {PRIVATE_V4}.\n"
    );
    let start = Instant::now();
    let mut product = Product::networks(2)?;
    let servers = [
        (PRIVATE_V4, WEB_PORT),
        (PRIVATE_V6, WEB_PORT),
        (PRIVATE_OTHER_V4, DATABASE_PORT),
    ];
    let _servers: Vec<Server> = servers
        .into_iter()
        .map(|(address, port)| Server::start(&product.private, address.parse()?, port))
        .collect::<Result<_>>()?;
    set_up(&mut product)?;
    println!("\nAll of it took {:.1} s.", start.elapsed().as_secs_f64());

    reach(&product)?;
    deny(&product)?;
    revoke(&product)?;
    fail_over(&mut product)?;
    measure(&product)?;
    println!("\nWhat `culvert status` says on the client:\n");
    for line in product.client.status_text()?.lines() {
        println!("    {line}");
    }
    Ok(())
}

/// The three commands of the README, and one more for the second gateway.
fn set_up(product: &mut Product) -> Result<()> {
    step("on the portal", "culvert portal run --set-up access.toml");
    product.portal.start_set_up(ACCESS)?;
    let said = product.portal.output();
    // Its log is on the same terminal.
    for line in said.lines().filter(|line| !line.contains(" INFO ")) {
        println!("{}", format!("        {line}").trim_end());
    }
    println!();
    let home = product.portal.home();
    let second = "gateway-2.token";
    let create = "token create --kind gateway --site lab --one-time --out";
    step(
        "for the other gateway",
        &format!("culvert admin {create} {second}"),
    );
    let out = home.join(second);
    product
        .portal
        .admin(&format!("{create} {}", out.display()))?;

    for (gateway, token) in product
        .gateways
        .iter_mut()
        .zip(["gateway-lab.token", second])
    {
        let at = format!("on {}", gateway.name);
        step(&at, &format!("culvert gateway run --token-file {token}"));
        fs::rename(home.join(token), gateway.token_file())?;
        gateway.start()?;
    }
    let token = "client-laptop.token";
    step(
        "on the client",
        &format!("culvert client run --token-file {token}"),
    );
    fs::rename(home.join(token), product.client.token_file())?;
    product.client.start()
}

pub(crate) fn step(place: &str, command: &str) {
    println!("    {place:24} {command}");
}

fn reach(product: &Product) -> Result<()> {
    println!("\nThe first packet, or the first question for a name, asks for access:");
    let client = &product.client;
    let start = Instant::now();
    let line = format!("curl -fsS -m 10 http://{PRIVATE_V4}/");
    let answer = client.namespace.run(&line)?;
    tell("http://10.50.0.10", &answer, start);
    for (family, name) in [("-4", "IPv4"), ("-6", "IPv6")] {
        let start = Instant::now();
        let line = format!("curl {family} -fsS -m 10 http://{PRIVATE_NAME}/");
        let answer = client.run_with_dns(&line)?;
        tell(
            &format!("http://{PRIVATE_NAME} over {name}"),
            &answer,
            start,
        );
    }
    Ok(())
}

fn tell(what: &str, answer: &str, start: Instant) {
    let took_ms = start.elapsed().as_millis();
    println!("    {what:38} \"{}\" after {took_ms} ms", answer.trim());
}

fn deny(product: &Product) -> Result<()> {
    println!("\nThe database is for another group:");
    let line = format!("curl -sS -m 3 http://{PRIVATE_OTHER_V4}:{DATABASE_PORT}/");
    let outcome = product.client.namespace.outcome(&line)?;
    println!("    {}", String::from_utf8_lossy(&outcome.stderr).trim());
    println!("`culvert admin explain --client laptop --resource database` says why:");
    let explained = product
        .portal
        .admin_outcome("explain --client laptop --resource database")?;
    for line in String::from_utf8_lossy(&explained.stdout).lines() {
        println!("    {line}");
    }
    Ok(())
}

fn revoke(product: &Product) -> Result<()> {
    let download = Download::start(&product.client.namespace, PRIVATE_V4.parse()?, WEB_PORT)?;
    let start = Instant::now();
    product.portal.admin("policy set staff-web --disable")?;
    let cut = download.cut_after(start)?;
    println!(
        "\n`culvert admin policy set staff-web --disable` while a download runs: its last byte came \
         {} ms after\nthe command was started.",
        cut.as_millis()
    );
    product.portal.admin("policy set staff-web --enable")?;
    Ok(())
}

fn fail_over(product: &mut Product) -> Result<()> {
    let client = product.client.namespace.clone();
    let line = format!("curl -fsS -m 2 http://{PRIVATE_V4}/");
    let start = Instant::now();
    while client.run(&line).is_err() {
        ensure!(start.elapsed() < DEADLINE, "access did not come back");
    }
    let _load = Download::start(&client, PRIVATE_V4.parse()?, WEB_PORT)?;
    let status = product.client.status()?;
    let name = status["gateways"][0]["name"].as_str();
    let name = name.context("the client uses no gateway")?.to_owned();
    let mut gateways = product.gateways.iter_mut();
    let serving = gateways.find(|gateway| gateway.name == name);
    serving.context("no gateway has that name")?.kill()?;
    let start = Instant::now();
    while client.run(&line).is_err() {
        ensure!(start.elapsed() < DEADLINE, "no gateway took over");
    }
    println!(
        "{name} is killed under load: through the other one an answer comes after {} ms.",
        start.elapsed().as_millis()
    );
    Ok(())
}

fn measure(product: &Product) -> Result<()> {
    let address: IpAddr = PRIVATE_V4.parse()?;
    let server = IperfServer::start(&product.private, address)?;
    println!(
        "\nAs much as possible for {MEASURED_S} s each, from the client to a server behind the gateway:"
    );
    for (name, reverse) in [("there", false), ("and back", true)] {
        let load = TcpLoad {
            reverse,
            ..TcpLoad::forward(MEASURED_S)
        };
        let report = server.tcp(&product.client.namespace, &load)?;
        println!("    {name:10}{:6.2} Gbit/s", report.bits_per_second / 1e9);
    }
    Ok(())
}
