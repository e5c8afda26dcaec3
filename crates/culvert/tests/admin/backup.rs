//! A backup taken while the portal runs, and the portal that comes back from it.

use crate::scene::{CULVERT, Portal, Said, Shell, mode};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

fn portal_command(command: &str, state_dir: &Path, file: &Path) -> Said {
    let mut program = Command::new(CULVERT);
    program.args(["portal", command, "--state-dir"]);
    Said(program.arg(state_dir).arg(file).output().unwrap())
}

fn sites(shell: &Shell, portal: &Portal) -> Vec<String> {
    let mut command = shell.command(&["site", "list", "--output", "json"]);
    let said = Said(
        command
            .env("CULVERT_ADMIN_PORTAL", &portal.url)
            .output()
            .unwrap(),
    );
    let json: serde_json::Value = serde_json::from_str(&said.ok()).unwrap();
    let names = json["items"].as_array().unwrap().iter();
    let mut names: Vec<_> = names
        .map(|site| site["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// More than three backups take time for.
const MAX_SITES: usize = 1_000;

#[test]
fn a_backup_under_writes_comes_back_as_the_portal_that_it_was() {
    let (mut portal, shell) = Portal::set_up();
    let state = portal.path("portal");
    let is_enough = AtomicBool::new(false);
    let (tell, told) = mpsc::channel();
    let (mut known, mut all) = (0, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            // Where a backup fails, the writer is to end all the same.
            while !is_enough.load(Ordering::Relaxed) && number < MAX_SITES {
                shell.line(&format!("site create s{number:04}")).ok();
                number += 1;
                tell.send(number).unwrap();
            }
            number
        });
        for number in 0..3 {
            // Each has something to copy that the one before had not.
            known = told.recv().unwrap();
            let file = portal.path(&format!("backup-{number}"));
            portal_command("backup", &state, &file).ok();
            assert_eq!(mode(&file), 0o600);
        }
        is_enough.store(true, Ordering::Relaxed);
        all = writer.join().unwrap();
    });
    portal.kill();
    std::fs::rename(&state, portal.path("lost")).unwrap();

    let said = portal_command("restore", &state, &portal.path("backup-2")).ok();
    assert!(said.contains(&portal.url), "{said}");
    assert_eq!(mode(&state), 0o700);
    for file in ["portal.db", "certificate.pem", "portal.json"] {
        assert_eq!(mode(&state.join(file)), 0o600, "{file}");
    }
    portal.restart();
    // The owner's token names the certificate: it is the one that it was.
    let sites = sites(&shell, &portal);
    let expected: Vec<_> = (0..sites.len()).map(|at| format!("s{at:04}")).collect();
    assert_eq!(sites, expected, "without a gap");
    assert!((known..=all).contains(&sites.len()), "{known} {all}");
}

#[test]
fn a_backup_is_restored_into_an_empty_directory_alone() {
    let (mut portal, _shell) = Portal::set_up();
    let state = portal.path("portal");
    let file = portal.path("backup");
    portal_command("backup", &state, &file).ok();
    let error = portal_command("backup", &state, &file).fails(1);
    assert!(error.contains("choose another name"), "{error}");

    let error = portal_command("restore", &state, &file).fails(1);
    assert!(error.contains("in use"), "{error}");
    portal.kill();
    let before = std::fs::read(state.join("certificate.pem")).unwrap();
    let error = portal_command("restore", &state, &file).fails(1);
    assert!(error.contains("is not empty"), "{error}");
    assert_eq!(
        std::fs::read(state.join("certificate.pem")).unwrap(),
        before
    );

    let other = portal.path("other");
    let error = portal_command("restore", &other, &portal.path("missing")).fails(1);
    assert!(error.contains("missing"), "{error}");
    let error = portal_command("restore", &other, &state.join("portal.db")).fails(1);
    assert!(error.contains("is no backup"), "{error}");
    // Neither left anything behind that would keep the right one out.
    portal_command("restore", &other, &file).ok();
    let error = portal_command("backup", &portal.path("nowhere"), &file).fails(1);
    assert!(error.contains("culvert portal run"), "{error}");
}

#[test]
fn no_portal_starts_on_what_a_restore_left_that_was_ended_and_it_can_be_done_again() {
    let (mut portal, _shell) = Portal::set_up();
    let state = portal.path("portal");
    let file = portal.path("backup");
    portal_command("backup", &state, &file).ok();
    portal.kill();
    // As a restore that is killed leaves it: the database under its first name.
    let (whole, begun) = (state.join("portal.db"), state.join("portal.db.restoring"));
    std::fs::rename(&whole, &begun).unwrap();
    let mut run = Command::new(CULVERT);
    run.args(["portal", "run", "--listen", "127.0.0.1:0", "--state-dir"]);
    let run = run.arg(&state).env("CULVERT_PORTAL_LOG_LEVEL", "off");
    let error = Said(run.output().unwrap()).fails(1);
    assert!(error.contains("culvert portal restore"), "{error}");
    assert!(!whole.exists());
    for log in ["portal.db-wal", "portal.db-shm"] {
        let _removed = std::fs::remove_file(state.join(log));
    }
    portal_command("restore", &state, &file).ok();
    assert!(whole.exists() && !begun.exists());
}
