//! A portal whose disk is full.

use crate::common::{Bed, SECOND, SOON, WEB_PORT, access, further_access};
use culvert_lab::product::{PRIVATE_V4, PRIVATE_V6, Portal, Product, SmallDisk};
use culvert_lab::wait_until;
use std::time::Duration;

/// Far more than a portal with a few rows needs.
const DISK_BYTES: u64 = 16 << 20;

/// The exit status of "something failed" (docs/exit-status.md).
pub(crate) const FAILED: i32 = 1;

/// "Either side […] gives up a peer that has been silent for 12 s": by then it would have.
const FULL: Duration = Duration::from_secs(15);

/// Writes that still fit into what the write-ahead log has already: it begins anew every thousand
/// pages, and a write takes some.
const MAX_WRITES: u32 = 500;

/// A product whose portal has its state on a small disk, nothing running yet.
pub(crate) fn on_a_small_disk(gateways: u8) -> (Product, SmallDisk) {
    let mut product = Product::networks(gateways).unwrap();
    let portal = &mut product.portal;
    let disk = SmallDisk::mount(&portal.namespace, &portal.state_dir(), DISK_BYTES).unwrap();
    portal.wrapper = disk.entrance();
    (product, disk)
}

/// The names of all groups, in order.
fn groups(portal: &Portal) -> Vec<String> {
    let list = portal.admin("group list --output json").unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let groups = list["items"].as_array().unwrap().iter();
    let mut names: Vec<String> = groups
        .map(|group| group["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort_unstable();
    names
}

/// The answer of the API to a group that is to be made: its status, media type, and body.
fn create_group(portal: &Portal, name: &str) -> (String, String, serde_json::Value) {
    let answer = portal
        .namespace
        .shell(&format!(
            "curl -sk -m 20 -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' \
             -d '{{\"name\":\"{name}\"}}' -w '\\n%{{http_code}}\\n%{{content_type}}' \
             {}/api/v1/groups",
            portal.owner_token().unwrap(),
            portal.url()
        ))
        .unwrap();
    let mut lines = answer.rsplitn(3, '\n').map(str::to_owned);
    let mut next = || lines.next().unwrap_or_default();
    let (media_type, status) = (next(), next());
    let body = serde_json::from_str(&next()).unwrap();
    (status, media_type, body)
}

/// Makes groups until one is refused, and checks how. Their names are returned.
pub(crate) fn write_until_full(portal: &Portal) -> Vec<String> {
    let mut made = Vec::new();
    for number in 0..MAX_WRITES {
        let name = format!("written-{number:03}");
        let (status, media_type, body) = create_group(portal, &name);
        if status == "201" {
            made.push(name);
            continue;
        }
        assert_eq!(status, "503", "{body}");
        assert_eq!(media_type, "application/problem+json");
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains("full"), "{body}");
        assert!(detail.contains("make room"), "{body}");
        return made;
    }
    panic!("{MAX_WRITES} writes fit on a full disk");
}

#[test]
fn on_a_full_disk_writing_is_refused_while_reading_and_access_go_on_until_there_is_room() {
    let (mut product, disk) = on_a_small_disk(1);
    product.begin(&access()).unwrap();
    let mut bed = Bed::around(product).unwrap();
    let download = bed.download().unwrap();
    let sessions = |bed: &Bed| bed.product.client.status().unwrap()["portal"]["sessions"].clone();
    let sessions_before = sessions(&bed);
    let portal = &bed.product.portal;
    let before = groups(portal);

    disk.fill(0).unwrap();
    let made = write_until_full(portal);
    let failed = portal.admin_outcome("group create by-the-shell").unwrap();
    assert_eq!(failed.status.code(), Some(FAILED));
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(said.contains("full"), "{said}");
    wait_until("the portal to say that it is not ready", SOON, || {
        portal.readiness().is_ok_and(|(is_ready, said)| {
            !is_ready && said.contains("the database is full: make room on its file system")
        })
    })
    .unwrap();

    let expected = [before, made].concat();
    assert_eq!(groups(portal), expected, "what was refused is not there");
    portal
        .admin("explain --client laptop --resource web")
        .unwrap();
    std::thread::sleep(FULL);
    assert_eq!(sessions(&bed), sessions_before, "nobody was sent away");
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT), "new connections");
    download.goes_on(SECOND).unwrap();

    disk.make_room().unwrap();
    portal.admin("group create with-room").unwrap();
    let (is_ready, said) = portal.readiness().unwrap();
    assert!(is_ready, "{said}");
    // The change that is declared now reaches everybody.
    portal.apply(&further_access()).unwrap();
    bed.comes_to_reach(PRIVATE_V6, WEB_PORT).unwrap();

    let expected = groups(portal);
    bed.product.portal.stop().unwrap();
    bed.product.portal.start().unwrap();
    assert_eq!(groups(&bed.product.portal), expected);
}

#[test]
fn however_little_room_there_is_a_portal_starts_or_says_that_the_disk_is_full() {
    let (mut product, disk) = on_a_small_disk(0);
    let portal = &mut product.portal;
    disk.fill(0).unwrap();
    let mut failures = 0;
    let mut try_with = |portal: &mut Portal, room: u64| {
        disk.fill(room).unwrap();
        portal.launch().unwrap();
        let mut started = false;
        let process_ended = |portal: &mut Portal| !portal.process().unwrap().is_running().unwrap();
        wait_until("it to start or to end", SOON, || {
            started = portal.output().contains("ready");
            started || process_ended(portal)
        })
        .unwrap();
        if started {
            portal.stop().unwrap();
        } else {
            failures += 1;
            let status = portal.process().unwrap().wait(SOON).unwrap();
            let said = portal.output();
            assert_eq!(status.code(), Some(FAILED), "{said}");
            let last = said.lines().last().unwrap_or_default();
            assert!(last.starts_with("culvert: "), "{room}: {said}");
            let is_told = last.contains("make room") || last.contains("No space left");
            assert!(is_told, "{room}: {said}");
        }
        disk.make_room().unwrap();
    };
    const ROOMS: [u64; 5] = [0, 4 << 10, 32 << 10, 40 << 10, 128 << 10];
    for room in ROOMS {
        try_with(portal, room);
    }
    portal.start().unwrap();
    portal.set_up().unwrap();
    portal.apply(&access()).unwrap();
    let before = groups(portal);
    portal.stop().unwrap();
    for room in ROOMS {
        try_with(portal, room);
    }
    assert!(failures >= 4, "with no room it can't start");
    portal.start().unwrap();
    assert_eq!(groups(portal), before);
}
