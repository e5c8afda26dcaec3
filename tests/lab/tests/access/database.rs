//! A portal whose database can't be used says why and how to mend it, and loses nothing.

use crate::common::{SOON, access};
use culvert_lab::product::{Portal, Product};
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The exit status of "something failed" (docs/exit-status.md).
const FAILED: i32 = 1;

/// The place of the schema's version in an SQLite file, in four bytes of the first page.
const USER_VERSION: std::ops::Range<usize> = 60..64;

/// Bytes of a page.
const PAGE_LEN: usize = 4096;

/// A portal that has run, what it held, and the file with that.
struct Rested {
    product: Product,
    held: String,
    database: PathBuf,
}

impl Rested {
    fn new() -> Self {
        let mut product = Product::networks(0).unwrap();
        product.declare(&access()).unwrap();
        let held = held(&product.portal);
        product.portal.stop().unwrap();
        let database = product.portal.state_dir().join("portal.db");
        assert!(database.is_file());
        Self {
            product,
            held,
            database,
        }
    }

    /// Checks that the portal ends at once, and returns the line that it says.
    fn fails(&mut self) -> String {
        let portal = &mut self.product.portal;
        portal.launch().unwrap();
        let process = portal.process().unwrap();
        let status = process.wait(SOON).unwrap();
        let said = process.output();
        assert_eq!(status.code(), Some(FAILED), "{said}");
        let path = self.database.display().to_string();
        // A library may have complained of how long it had to wait.
        let line = said.lines().last().unwrap_or_default();
        assert!(
            line.starts_with(&format!("culvert: database {path}: ")),
            "{line}"
        );
        line.to_owned()
    }

    /// Checks that the portal starts, and has all that it had.
    fn is_whole(&mut self) {
        self.product.portal.start().unwrap();
        assert_eq!(held(&self.product.portal), self.held);
        let written = "group create afterwards";
        self.product.portal.admin(written).unwrap();
    }

    fn overwrite(&self, bytes: &[u8]) {
        // The file keeps its mode, if it is there.
        fs::write(&self.database, bytes).unwrap();
        fs::set_permissions(&self.database, Permissions::from_mode(0o600)).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.database).unwrap()
    }
}

/// Everything that was declared.
fn held(portal: &Portal) -> String {
    let kinds = ["site", "actor", "group", "resource", "policy"];
    let lists = kinds.map(|kind| portal.admin(&format!("{kind} list --output json")).unwrap());
    lists.concat()
}

#[test]
fn a_database_that_another_process_has_locked_is_named_and_left_alone() {
    let mut rested = Rested::new();
    let other = File::options()
        .read(true)
        .write(true)
        .open(&rested.database)
        .unwrap();
    // The whole file, and with it the bytes by which SQLite's users lock each other out.
    fcntl_lock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let line = rested.fails();
    assert!(line.contains("is locked"), "{line}");
    assert!(line.contains("another process has it open"), "{line}");
    drop(other);
    rested.is_whole();
}

#[test]
fn a_database_of_a_newer_version_is_refused_and_not_touched() {
    let mut rested = Rested::new();
    let before = rested.bytes();
    let mut newer = before.clone();
    newer[USER_VERSION].copy_from_slice(&99_u32.to_be_bytes());
    rested.overwrite(&newer);
    let line = rested.fails();
    assert!(line.contains("schema version 99"), "{line}");
    assert!(
        line.contains("run a later version, or restore the backup"),
        "{line}"
    );
    assert_eq!(rested.bytes(), newer);
    rested.overwrite(&before);
    rested.is_whole();
}

#[test]
fn a_damaged_database_is_refused_and_not_touched() {
    type Damage = fn(&mut Vec<u8>);
    const DAMAGES: [(&str, Damage); 5] = [
        ("pages", |bytes| {
            for page in bytes.chunks_mut(PAGE_LEN).skip(1) {
                page[..64].fill(0xa5);
            }
        }),
        ("the first page", |bytes| bytes[..PAGE_LEN].fill(0xa5)),
        ("the schema", |bytes| bytes[100..PAGE_LEN].fill(0)),
        ("the end", |bytes| bytes.truncate(bytes.len() / 2)),
        ("everything", Vec::clear),
    ];
    let mut rested = Rested::new();
    let before = rested.bytes();
    for (what, damage) in DAMAGES {
        let mut damaged = before.clone();
        damage(&mut damaged);
        rested.overwrite(&damaged);
        let line = rested.fails();
        assert!(line.contains("the database is damaged"), "{what}: {line}");
        assert!(line.contains("restore the last backup"), "{what}: {line}");
        assert!(rested.bytes() == damaged, "{what}: something was written");
    }
    fs::remove_file(&rested.database).unwrap();
    assert!(rested.fails().contains("gone"));
    rested.overwrite(&before);
    rested.is_whole();
}
