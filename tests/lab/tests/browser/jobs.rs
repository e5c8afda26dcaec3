//! The jobs of an administrator, counted in clicks from the overview: by mouse, by keyboard alone and without scripts.

use crate::console::Console;
use crate::hand::{Hand, Worker};
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Clients of the account beside the one that runs.
const MANY_CLIENTS: u32 = 10_000;

/// A job: its description, the clicks that it may take, and its steps. The text names what is made by it.
type Job = (
    &'static str,
    u32,
    fn(&mut Worker<'_>, text: &str) -> Result<()>,
);

const JOBS: [Job; 6] = [
    ("a resource with a policy", 6, resource_with_policy),
    ("revoke one client of ten thousand", 4, revoke_client),
    ("the people who used a resource yesterday", 3, who_used),
    ("mend a denial", 3, mend_denial),
    ("invite a person", 3, invite),
    ("a site and a gateway", 4, site_and_gateway),
];

#[test]
fn the_jobs_of_an_administrator_take_few_clicks() {
    all_jobs(Hand::Mouse);
}

#[test]
fn the_jobs_of_an_administrator_are_done_by_keyboard_alone() {
    all_jobs(Hand::Keyboard);
}

#[test]
fn the_jobs_of_an_administrator_are_done_without_scripts() {
    all_jobs(Hand::WithoutScript);
}

fn all_jobs(hand: Hand) {
    let console = Console::with_everything().unwrap();
    prepare(&console).unwrap();
    hand.take(&console).unwrap();
    console.sign_in("olivia").unwrap();
    let mut problems = Vec::new();
    for (at, (job, allowed, run)) in JOBS.into_iter().enumerate() {
        let mut worker = Worker::begin(&console, hand).unwrap();
        let done = run(&mut worker, &format!("job {at}"));
        let clicks = worker.clicks;
        if let Err(problem) = done {
            problems.push(format!("{job}: after {clicks} clicks: {problem:#}"));
        }
        if clicks > allowed {
            problems.push(format!("{job}: {clicks} clicks of {allowed}"));
        }
    }
    assert!(problems.is_empty(), "{hand:?}: {problems:#?}");
}

/// Adds thousands of clients, and has yesterday's access log say what today's does. The denial of a client that is not
/// verified stays today's only one.
fn prepare(console: &Console) -> Result<()> {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    // Names such as `laptop-04711`. Ids keep the first half of the one that is there, which has its time.
    let change = format!(
        "UPDATE access_log SET at_ms = at_ms - {DAY_MS} 
         WHERE decision = 'granted' OR reason LIKE '%gateway%';
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY_CLIENTS})
         INSERT INTO client (account, id, version, created_ms, updated_ms, actor_id, machine, name, name_key,
             public_key, ipv4, ipv6)
         SELECT account, CAST(substr(id, 1, 8) || randomblob(8) AS BLOB), version, created_ms, updated_ms, actor_id,
             printf('machine-%05d', i), printf('laptop-%05d', i), printf('laptop-%05d', i), randomblob(32),
             CAST(substr(ipv4, 1, 1) || x'64' || randomblob(2) AS BLOB),
             CAST(substr(ipv6, 1, 8) || randomblob(8) AS BLOB)
         FROM (SELECT * FROM client LIMIT 1), n;
         SELECT count(*) FROM client;"
    );
    let sqlite = Command::new("sqlite3")
        .args(["-cmd", ".timeout 10000"])
        .arg(console.product.portal.state_dir().join("portal.db"))
        .arg(change)
        .output()
        .context("sqlite3 (package sqlite3): run scripts/setup.sh")?;
    let count = String::from_utf8_lossy(&sqlite.stdout);
    let error = String::from_utf8_lossy(&sqlite.stderr);
    let count = count.trim().parse::<u32>();
    ensure!(
        count.is_ok_and(|count| count > MANY_CLIENTS),
        "the clients: {error}"
    );
    Ok(())
}

fn resource_with_policy(worker: &mut Worker<'_>, name: &str) -> Result<()> {
    worker.open_list("/resources")?;
    worker.follow_link("New resource")?;
    worker.write("form.fields [name=name]", name)?;
    // The things that exist are chosen from lists.
    worker.choose("form.fields [name=site]", "office")?;
    worker.write("form.fields [name=address]", "10.1.2.3")?;
    worker.choose("form.fields [name='protocol.0']", "tcp")?;
    worker.write("form.fields [name='ports.0']", "443")?;
    worker.choose("form.fields [name=group]", "staff")?;
    worker.follow("form.fields button[type=submit]")?;
    worker.shows(&format!("staff may use {name}"))
}

fn revoke_client(worker: &mut Worker<'_>, _: &str) -> Result<()> {
    let name = "laptop-04711";
    worker.open_list("/clients")?;
    worker.write("input[type=search]", "04711")?;
    worker.send_by_enter()?;
    worker.press(&format!("button[aria-label='Actions for {name}']"))?;
    worker.press(&format!("summary[aria-label='Revoke {name}…']"))?;
    worker.follow(&format!("button[aria-label='Revoke {name}']"))?;
    worker.shows(&format!("Client {name} revoked."))
}

fn who_used(worker: &mut Worker<'_>, _: &str) -> Result<()> {
    worker.open_list("/log/access")?;
    worker.write("form.fields [name=search]", "intra")?;
    worker.send_by_enter()?;
    worker.follow_link("Yesterday")?;
    worker.shows("granted")?;
    worker.shows("ursula")
}

fn mend_denial(worker: &mut Worker<'_>, _: &str) -> Result<()> {
    worker.follow("main a[href^='/explain?']")?;
    worker.follow("button[aria-label^='Verify this client']")?;
    worker.shows("Would it be let in?")?;
    worker.has("main dl .badge.good")
}

fn invite(worker: &mut Worker<'_>, name: &str) -> Result<()> {
    worker.open_list("/people")?;
    worker.follow_link("Invite a person")?;
    worker.write("form.fields [name=name]", name)?;
    worker.follow("form.fields button[type=submit]")?;
    worker.shows("/invitation/")
}

fn site_and_gateway(worker: &mut Worker<'_>, name: &str) -> Result<()> {
    worker.open_list("/sites")?;
    worker.follow_link("New site")?;
    worker.write("form.fields [name=name]", name)?;
    worker.follow("form.fields button[type=submit]")?;
    worker.write("form[action$='/token'] [name=name]", name)?;
    worker.follow("form[action$='/token'] button[type=submit]")?;
    worker.shows("cv_gateway_")
}
