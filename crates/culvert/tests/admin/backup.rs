//! A backup taken while the portal runs, and the portal that comes back from it.

use crate::scene::{CULVERT, Portal, Said, Shell, mode};
use std::os::unix::fs::PermissionsExt;
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
            // If a backup fails, the writer is to end all the same.
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
    // A restore writes none of these.
    for log in ["portal.db-wal", "portal.db-shm", "browsers.key"] {
        let _removed = std::fs::remove_file(state.join(log));
    }
    portal_command("restore", &state, &file).ok();
    assert!(whole.exists() && !begun.exists());
}

/// `age` and `age-keygen` of the distribution (scripts/setup.sh).
fn age(program: &str, arguments: &[&str], files: &[&Path]) -> Said {
    let mut command = Command::new(program);
    Said(command.args(arguments).args(files).output().unwrap())
}

/// A backup or a restore with options of its own.
fn with(command: &str, options: &[&str], state_dir: &Path, file: &Path) -> Said {
    let mut program = Command::new(CULVERT);
    program.args(["portal", command]).args(options);
    let program = program.arg("--state-dir").arg(state_dir).arg(file);
    Said(program.output().unwrap())
}

#[test]
fn age_decrypts_what_the_portal_encrypted_and_the_portal_what_age_did() {
    let (portal, _shell) = Portal::set_up();
    let state = portal.path("portal");
    let identity = portal.path("backup.key");
    age("age-keygen", &["-o"], &[&identity]).ok();
    let recipient = age("age-keygen", &["-y"], &[&identity]).ok();
    let recipient = recipient.trim();

    let sealed = portal.path("sealed");
    let said = with("backup", &["--recipient", recipient], &state, &sealed).ok();
    assert!(said.contains(recipient), "{said}");
    let plain = portal.path("plain");
    let key = identity.to_str().unwrap();
    let plain_name = plain.to_str().unwrap();
    age("age", &["-d", "-i", key, "-o", plain_name], &[&sealed]).ok();
    portal_command("restore", &portal.path("first"), &plain).ok();

    let recipients = portal.path("recipients");
    std::fs::write(&recipients, format!("# of the safe\n{recipient}\n")).unwrap();
    let by_age = portal.path("by-age");
    let options = ["-r", recipient, "-o", by_age.to_str().unwrap()];
    age("age", &options, &[&plain]).ok();
    with(
        "restore",
        &["--identity", key],
        &portal.path("second"),
        &by_age,
    )
    .ok();

    let by_file = portal.path("by-file");
    let options = ["--recipient-file", recipients.to_str().unwrap()];
    with("backup", &options, &state, &by_file).ok();
    with(
        "restore",
        &["--identity", key],
        &portal.path("third"),
        &by_file,
    )
    .ok();
    let certificate =
        |directory: &str| std::fs::read(portal.path(directory).join("certificate.pem")).unwrap();
    for restored in ["first", "second", "third"] {
        assert_eq!(certificate(restored), certificate("portal"), "{restored}");
    }
}

#[test]
fn an_encrypted_backup_wants_an_identity_that_is_right_and_that_nobody_else_reads() {
    let (portal, _shell) = Portal::set_up();
    let state = portal.path("portal");
    let [right, wrong] = ["right.key", "wrong.key"].map(|name| {
        let path = portal.path(name);
        age("age-keygen", &["-o"], &[&path]).ok();
        path
    });
    let recipient = age("age-keygen", &["-y"], &[&right]).ok();
    let sealed = portal.path("sealed");
    with(
        "backup",
        &["--recipient", recipient.trim()],
        &state,
        &sealed,
    )
    .ok();
    let other = portal.path("other");
    let restore = |options: &[&str], text: &str| {
        let error = with("restore", options, &other, &sealed).fails(1);
        assert!(error.contains(text), "{error}");
        assert!(!other.join("portal.db").exists(), "{error}");
    };

    restore(&[], "is encrypted: give the file of an identity");
    let wrong_name = wrong.to_str().unwrap();
    restore(&["--identity", wrong_name], "other recipients");
    std::fs::write(&wrong, "# empty\nAGE-SECRET-KEY-1QQQ\n").unwrap();
    restore(&["--identity", wrong_name], "line 2");
    let key = right.to_str().unwrap();
    let open_to_all = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&right, open_to_all).unwrap();
    restore(&["--identity", key], "chmod");
    let closed = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&right, closed).unwrap();
    with("restore", &["--identity", key], &other, &sealed).ok();

    let error = with(
        "backup",
        &["--recipient", "age1nobody"],
        &state,
        &portal.path("none"),
    );
    assert_eq!(error.0.status.code(), Some(2), "{error:?}");
    let text = String::from_utf8_lossy(&error.0.stderr);
    assert!(
        text.contains("--recipient") && text.contains("age1…"),
        "{text}"
    );
    assert!(!portal.path("none").exists());
}
