//! A portal whose disk is full, as people see it in the console, and a backup for which there is no room.

use crate::common::{Bed, SOON, WEB_PORT, access};
use crate::disk::{FAILED, on_a_small_disk, write_until_full};
use anyhow::{Context, Result};
use culvert_lab::product::{PRIVATE_V4, Portal, Product};
use culvert_lab::{culvert_program, wait_until};
use serde_json::Value;
use std::fs;

/// The owner's password.
const PASSWORD: &str = "correct horse battery";

/// A browser of the owner, played by curl, on the portal's machine; its cookies are on another disk.
pub(crate) struct Browser<'a> {
    portal: &'a Portal,
    jar: String,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(product: &'a Product, name: &str) -> Self {
        Self {
            portal: &product.portal,
            jar: product.dir().join(name).display().to_string(),
        }
    }

    /// The status of the answer to a request with these further arguments, and its body.
    fn ask(&self, arguments: &str, path: &str) -> Result<(String, String)> {
        let (jar, url) = (&self.jar, self.portal.url());
        let answer = self.portal.namespace.shell(&format!(
            "curl -sk -m 20 -b {jar} -c {jar} -H 'Origin: {url}' -w '\\n%{{http_code}}' \
             {arguments} {url}{path}"
        ))?;
        let (body, status) = answer.rsplit_once('\n').context("no status")?;
        Ok((status.to_owned(), body.to_owned()))
    }

    pub(crate) fn sign_in(&self) -> Result<(String, String)> {
        let fields = format!("--data-urlencode name=owner --data-urlencode 'password={PASSWORD}'");
        self.ask(&fields, "/sign-in")
    }

    fn page(&self, path: &str) -> Result<String> {
        let (status, page) = self.ask("", path)?;
        assert_eq!(status, "200", "{path}: {page}");
        Ok(page)
    }

    fn make_group(&self, name: &str) -> Result<(String, String)> {
        let page = self.page("/groups")?;
        let (_, rest) = page
            .split_once("name=\"form_token\" value=\"")
            .context("the page has no form")?;
        let token = rest.split('"').next().unwrap_or_default();
        let fields = format!("--data-urlencode form_token={token} --data-urlencode 'name={name}'");
        self.ask(&fields, "/groups")
    }
}

pub(crate) fn let_the_owner_sign_in(portal: &Portal) {
    let owner = portal.admin("actor show owner --output json").unwrap();
    let owner: Value = serde_json::from_str(&owner).unwrap();
    let script = format!(
        "curl -fsSk -m 20 -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' \
         -d '{{\"role\":\"owner\",\"password\":\"{PASSWORD}\"}}' {}/api/v1/actors/{}/sign-in",
        portal.owner_token().unwrap(),
        portal.url(),
        owner["id"].as_str().unwrap(),
    );
    portal.namespace.shell(&script).unwrap();
}

fn status(portal: &Portal) -> Value {
    let status = portal.admin("status --output json").unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    status["portal"].clone()
}

/// The number of granted accesses in the log.
fn granted(portal: &Portal) -> usize {
    let log = portal.admin("log access --output json").unwrap();
    log.matches("\"granted\"").count()
}

#[test]
fn on_a_full_disk_the_console_reads_refuses_changes_in_one_line_and_loses_no_log() {
    let (mut product, disk) = on_a_small_disk(1);
    product.begin(&access()).unwrap();
    let bed = Bed::around(product).unwrap();
    let portal = &bed.product.portal;
    let_the_owner_sign_in(portal);
    let browser = Browser::new(&bed.product, "cookies");
    assert_eq!(browser.sign_in().unwrap().0, "303");
    let before = granted(portal);

    disk.fill(0).unwrap();
    write_until_full(portal);
    let (status_code, page) = browser.make_group("by the console").unwrap();
    assert_eq!(status_code, "503", "{page}");
    assert!(
        page.contains("full") && page.contains("make room"),
        "{page}"
    );
    let (status_code, page) = Browser::new(&bed.product, "other").sign_in().unwrap();
    assert_eq!(
        status_code, "503",
        "a session would have to be kept: {page}"
    );
    assert!(page.contains("make room"), "{page}");
    for path in ["/", "/policies", "/log/access", "/log/changes", "/settings"] {
        browser.page(path).unwrap();
    }
    // The gateway takes the grant; that it did waits to be written down.
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    wait_until("the log to wait", SOON, || {
        status(portal)["records_waiting"].as_u64() > Some(0)
    })
    .unwrap();
    assert_eq!(granted(portal), before);
    let overview = browser.page("/").unwrap();
    assert!(overview.contains("the database is full"), "{overview}");

    disk.make_room().unwrap();
    wait_until("what waited to be written", SOON, || {
        status(portal)["records_waiting"] == 0
    })
    .unwrap();
    assert_eq!(status(portal)["records_lost"], 0);
    wait_until("the grant in the log", SOON, || granted(portal) > before).unwrap();
    assert_eq!(browser.make_group("with room").unwrap().0, "303");
    let again = Browser::new(&bed.product, "other");
    assert_eq!(again.sign_in().unwrap().0, "303");
    let groups = browser.page("/groups").unwrap();
    assert!(groups.contains("with room") && !groups.contains("by the console"));
}

#[test]
fn a_backup_for_which_there_is_no_room_says_so_in_one_line_and_leaves_nothing() {
    let (mut product, disk) = on_a_small_disk(0);
    let portal = &mut product.portal;
    portal.start().unwrap();
    portal.set_up().unwrap();
    let names = || {
        let entries = fs::read_dir(disk.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let names = names.filter(|name| name != "filler");
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    let target = portal.state_dir().join("backup");
    let line = format!(
        "{} {} portal backup --state-dir {} {}",
        portal.wrapper,
        culvert_program().unwrap().display(),
        portal.state_dir().display(),
        target.display()
    );
    for room in [0, 4 << 10, 64 << 10] {
        disk.fill(room).unwrap();
        let failed = portal.namespace.outcome(&line).unwrap();
        let said = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(FAILED), "{room}: {said}");
        let path = target.display().to_string();
        assert!(
            said.contains(&path) && said.contains("make room"),
            "{room}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{room}: {said}");
        assert_eq!(names(), before, "{room}: nothing is left behind");
        disk.make_room().unwrap();
    }
    let made = portal.namespace.outcome(&line).unwrap();
    assert!(made.status.success(), "{made:?}");
    assert!(names().contains(std::ffi::OsStr::new("backup")));
}
