//! A PostgreSQL server that is away for a while, or whose disk is full.

use crate::common::{Bed, SECOND, SOON, WEB_PORT, access, further_access};
use crate::disk::{FAILED, write_until_full};
use crate::disk_console::{Browser, let_the_owner_sign_in};
use culvert_lab::product::{Front, PRIVATE_V4, PRIVATE_V6, Portal, Product};
use culvert_lab::{Postgres, wait_until};
use std::time::{Duration, Instant};

/// The time for which the server is away: longer than "either side gives up a peer that has been silent for 12 s".
/// CULVERT_OUTAGE_S is another.
const OUTAGE: Duration = Duration::from_secs(15);

/// The size of the disk: two new databases of 8 MB, and room to fill.
const DISK_BYTES: u64 = 64 << 20;

/// Rows that take a page each, until there is no page left: PostgreSQL extends a file by several at a time.
const TABLE: &str =
    "CREATE TABLE filler (line text); ALTER TABLE filler ALTER line SET STORAGE PLAIN";
const FILL: &str =
    "DO $$ BEGIN LOOP INSERT INTO filler VALUES (repeat('x', 7000)); COMMIT; END LOOP; END $$";

/// A portal on the server's database, its machines, and an owner with a password.
fn bed(on_server: impl FnOnce(&mut Product) -> anyhow::Result<()>) -> Bed {
    let mut product = Product::networks(1).unwrap();
    on_server(&mut product).unwrap();
    product.begin(&access()).unwrap();
    let_the_owner_sign_in(&product.portal);
    Bed::around(product).unwrap()
}

/// Leaves no room for another page.
fn fill(server: &Postgres) {
    server.ask("filler", TABLE).unwrap();
    let full = server.ask("filler", FILL).unwrap_err();
    assert!(full.to_string().contains("No space left"), "{full}");
}

fn wait_for_readiness(portal: &Portal, is_wanted: bool, reason: &str) {
    wait_until(&format!("readiness to be {is_wanted}"), SOON, || {
        let answer = portal.readiness();
        answer.is_ok_and(|(is_ready, said)| is_ready == is_wanted && said.contains(reason))
    })
    .unwrap_or_else(|error| panic!("{error}: {:?}", portal.readiness()));
}

#[test]
fn while_the_database_server_is_away_access_goes_on_and_all_is_well_soon_after() {
    let mut bed = bed(|product| product.with_portals(1, Front::Urls));
    let mut server = bed.product.database.take().unwrap();
    let portal = &bed.product.portal;
    let download = bed.download().unwrap();
    let stream = bed.numbered_stream().unwrap();

    // A restart, which takes less than anybody gives up in.
    server.stop().unwrap();
    server.start_again().unwrap();
    wait_for_readiness(portal, true, "ready");
    portal.admin("group create after-the-restart").unwrap();

    server.stop().unwrap();
    wait_for_readiness(portal, false, "the database");
    let failed = portal.admin_outcome("group create during").unwrap();
    assert_eq!(failed.status.code(), Some(FAILED));
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(
        said.contains("database") && said.trim().lines().count() == 1,
        "{said}"
    );
    let (status, page) = Browser::new(&bed.product, "cookies").sign_in().unwrap();
    assert_eq!(status, "503", "{page}");
    assert!(page.contains("the database"), "{page}");
    let outage_s = std::env::var("CULVERT_OUTAGE_S").ok();
    let outage_s = outage_s.and_then(|text| text.parse().ok());
    std::thread::sleep(outage_s.map_or(OUTAGE, Duration::from_secs));
    download.goes_on(SECOND).unwrap();
    assert!(stream.longest_gap() < SECOND, "{:?}", stream.longest_gap());

    server.start_again().unwrap();
    let back = Instant::now();
    wait_for_readiness(portal, true, "ready");
    portal.apply(&further_access()).unwrap();
    bed.comes_to_reach(PRIVATE_V6, WEB_PORT).unwrap();
    println!(
        "new access {:.1} s after the database was back",
        back.elapsed().as_secs_f32()
    );
    let browser = Browser::new(&bed.product, "cookies");
    assert_eq!(browser.sign_in().unwrap().0, "303");
    download.goes_on(SECOND).unwrap();
    assert_eq!(stream.finish().missing, Vec::<u64>::new());
}

#[test]
fn on_a_full_disk_of_the_database_server_changes_are_refused_while_access_goes_on() {
    let mut bed = bed(|product| product.with_small_server(DISK_BYTES));
    let server = bed.product.database.take().unwrap();
    let portal = &bed.product.portal;
    let download = bed.download().unwrap();
    let sessions = || bed.product.client.status().unwrap()["portal"]["sessions"].clone();
    let sessions_before = sessions();

    fill(&server);
    write_until_full(portal);
    wait_for_readiness(portal, false, "the database is full");
    let (status, page) = Browser::new(&bed.product, "cookies").sign_in().unwrap();
    assert_eq!(status, "503", "{page}");
    assert!(page.contains("make room"), "{page}");
    std::thread::sleep(OUTAGE);
    assert_eq!(sessions(), sessions_before, "nobody was sent away");
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT), "new connections");
    download.goes_on(SECOND).unwrap();

    server.ask("filler", "DROP TABLE filler").unwrap();
    wait_for_readiness(portal, true, "ready");
    portal.apply(&further_access()).unwrap();
    bed.comes_to_reach(PRIVATE_V6, WEB_PORT).unwrap();
    let browser = Browser::new(&bed.product, "cookies");
    assert_eq!(browser.sign_in().unwrap().0, "303");
}
