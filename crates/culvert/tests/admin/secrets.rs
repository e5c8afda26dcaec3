//! Secrets that are encrypted, by the program as people start it.

use crate::scene::{CULVERT, Portal, Said, mode};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `culvert portal secrets` with the options of a state directory and keys.
fn secrets(portal: &Portal, command: &str, options: &[(&str, &Path)]) -> Command {
    let mut program = Command::new(CULVERT);
    program
        .env_remove("CULVERT_PORTAL_SECRETS_KEY")
        .env_remove("CREDENTIALS_DIRECTORY");
    program.args(["portal", "secrets", command, "--state-dir"]);
    program.arg(portal.path("portal")).stdin(Stdio::null());
    for (option, path) in options {
        program.arg(option).arg(path);
    }
    program
}

fn say(portal: &Portal, command: &str, options: &[(&str, &Path)]) -> Said {
    Said(secrets(portal, command, options).output().unwrap())
}

fn new_key(portal: &Portal, name: &str) -> PathBuf {
    let path = portal.path(name);
    let mut program = Command::new(CULVERT);
    let program = program.args(["portal", "secrets", "new-key"]).arg(&path);
    let said = Said(program.output().unwrap()).ok();
    assert!(said.contains("holds key"), "{said}");
    assert_eq!(mode(&path), 0o600);
    path
}

fn start(portal: &Portal, options: &[(&str, &Path)]) -> Said {
    Said(starting(portal, options).output().unwrap())
}

fn starting(portal: &Portal, options: &[(&str, &Path)]) -> Command {
    let mut program = Command::new(CULVERT);
    program.args(["portal", "run", "--listen", "127.0.0.1:0", "--state-dir"]);
    program
        .arg(portal.path("portal"))
        .env("CULVERT_PORTAL_LOG_LEVEL", "off");
    program
        .env_remove("CULVERT_PORTAL_SECRETS_KEY")
        .env_remove("CREDENTIALS_DIRECTORY");
    for (option, path) in options {
        program.arg(option).arg(path);
    }
    program
}

#[test]
fn secrets_are_encrypted_rotated_and_decrypted_and_the_portal_goes_on() {
    let (mut portal, shell) = Portal::set_up();
    let (first, second) = (
        new_key(&portal, "first.key"),
        new_key(&portal, "second.key"),
    );
    let (first, second) = (first.as_path(), second.as_path());
    let error = say(&portal, "encrypt", &[("--secrets-key", first)]).fails(1);
    assert!(error.contains("in use"), "while the portal runs: {error}");
    let error = say(&portal, "encrypt", &[]).fails(2);
    assert!(error.contains("--secrets-key FILE"), "{error}");
    assert!(say(&portal, "status", &[]).ok().contains("not encrypted"));
    portal.kill();

    let error = start(&portal, &[("--secrets-key", first)]).fails(1);
    assert!(error.contains("culvert portal secrets encrypt"), "{error}");
    let said = say(&portal, "encrypt", &[("--secrets-key", first)]).ok();
    assert!(said.contains("are encrypted with key"), "{said}");
    let state = portal.path("portal");
    assert!(!state.join("certificate.pem").exists());

    for (options, part) in [
        (
            vec![],
            "no key was given: name the file of that key (--secrets-key FILE)",
        ),
        (
            vec![("--secrets-key", second)],
            "was given: give the file of key",
        ),
    ] {
        let error = start(&portal, &options).fails(1);
        assert!(
            error.contains(part) && error.contains("portal.db"),
            "{error}"
        );
    }
    portal.restart_with(Some(first));
    shell.at(&portal, "site create office").ok();
    let tested = say(&portal, "status", &[("--secrets-key", first)]).ok();
    assert!(tested.contains("all can be decrypted"), "{tested}");
    let error = say(&portal, "status", &[("--secrets-key", second)]).fails(1);
    assert!(error.contains("give the file of key"), "{error}");
    // Neither needs the key.
    let mut setup = Command::new(CULVERT);
    setup
        .args(["portal", "setup-token", "--state-dir"])
        .arg(&state);
    assert!(Said(setup.output().unwrap()).ok().contains("cv_setup_"));
    let backup = portal.path("backup");
    let mut program = Command::new(CULVERT);
    program
        .args(["portal", "backup", "--state-dir"])
        .arg(&state)
        .arg(&backup);
    let said = Said(program.output().unwrap()).ok();
    assert!(
        said.contains("is not in it: keep a copy elsewhere"),
        "{said}"
    );
    portal.kill();

    let rotate = [("--secrets-key", first), ("--new-key", second)];
    say(&portal, "rotate", &rotate).ok();
    portal.restart_with(Some(second));
    shell.at(&portal, "site create branch").ok();
    portal.kill();
    let error = say(&portal, "decrypt", &[("--secrets-key", first)]).fails(1);
    assert!(error.contains("give the file of key"), "{error}");
    say(&portal, "decrypt", &[("--secrets-key", second)]).ok();
    assert_eq!(mode(&state.join("certificate.pem")), 0o600);
    portal.restart_with(None);
    shell.at(&portal, "site create home").ok();
    portal.kill();

    // The backup of before needs the first key.
    std::fs::rename(&state, portal.path("lost")).unwrap();
    let mut program = Command::new(CULVERT);
    program
        .args(["portal", "restore", "--state-dir"])
        .arg(&state)
        .arg(&backup);
    let said = Said(program.output().unwrap()).ok();
    assert!(
        said.contains("start the portal with --secrets-key"),
        "{said}"
    );
    start(&portal, &[("--secrets-key", second)]).fails(1);
    portal.restart_with(Some(first));
    shell.at(&portal, "site create elsewhere").ok();
}

/// `culvert portal backup` or `restore` of that state directory.
fn copying(portal: &Portal, command: &str, options: &[&str], file: &Path) -> Said {
    let mut program = Command::new(CULVERT);
    program.args(["portal", command]).args(options);
    program.arg("--state-dir").arg(portal.path("portal"));
    Said(program.arg(file).output().unwrap())
}

/// A program of `age` (scripts/setup.sh).
fn age(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    output.stdout
}

/// True if there is a private key in clear in these bytes.
fn has_private_key(bytes: &[u8]) -> bool {
    let pem = b"PRIVATE KEY-----";
    bytes.windows(pem.len()).any(|window| window == pem)
}

#[test]
fn an_encrypted_backup_of_encrypted_secrets_needs_both_keys_on_another_machine() {
    let (mut portal, shell) = Portal::set_up();
    shell.line("site create office").ok();
    let identity = portal.path("identity");
    let identity = identity.to_str().unwrap();
    age("age-keygen", &["-o", identity]);
    let recipient = String::from_utf8(age("age-keygen", &["-y", identity])).unwrap();
    let back_up = |portal: &Portal, name: &str| {
        let file = portal.path(name);
        let said = copying(portal, "backup", &["--recipient", recipient.trim()], &file);
        (said.ok(), file)
    };
    let decrypted = |file: &Path| age("age", &["-d", "-i", identity, file.to_str().unwrap()]);
    let (_, before) = back_up(&portal, "before");
    assert!(has_private_key(&decrypted(&before)));
    portal.kill();
    let key = new_key(&portal, "key");
    let with_key = [("--secrets-key", key.as_path())];
    say(&portal, "encrypt", &with_key).ok();
    portal.restart_with(Some(&key));
    let (said, file) = back_up(&portal, "backup");
    assert!(
        said.contains(recipient.trim()) && said.contains("is not in it"),
        "{said}"
    );
    portal.kill();
    // The identity alone opens the file, and none of its secrets.
    assert!(!has_private_key(&decrypted(&file)));

    // The other machine has nothing but the backup.
    std::fs::rename(portal.path("portal"), portal.path("lost")).unwrap();
    let error = copying(&portal, "restore", &[], &file).fails(1);
    assert!(error.contains("give the file of an identity"), "{error}");
    let said = copying(&portal, "restore", &["--identity", identity], &file).ok();
    assert!(said.contains("with --secrets-key"), "{said}");

    // Without the key there are a status and other backups, and no portal.
    let status = say(&portal, "status", &[]).ok();
    let (_, id) = status.split_once("are encrypted with key ").unwrap();
    let (id, _) = id.split_once('.').unwrap();
    assert!(!id.is_empty() && said.contains(id), "{id}: {said}");
    back_up(&portal, "again");
    let error = start(&portal, &[]).fails(1);
    let missing = "no key was given: name the file of that key (--secrets-key FILE)";
    assert!(error.contains(missing) && error.contains(id), "{error}");
    let other = new_key(&portal, "other");
    let error = start(&portal, &[("--secrets-key", other.as_path())]).fails(1);
    assert!(
        error.contains(&format!("give the file of key {id}")),
        "{error}"
    );
    let error = say(&portal, "decrypt", &[("--secrets-key", other.as_path())]).fails(1);
    assert!(
        error.contains(&format!("give the file of key {id}")),
        "{error}"
    );

    // With it everything is as it was: the owner's token names the certificate.
    let tested = say(&portal, "status", &with_key).ok();
    assert!(tested.contains("all can be decrypted"), "{tested}");
    portal.restart_with(Some(&key));
    let sites = shell.at(&portal, "site list").ok();
    assert!(sites.contains("office"), "{sites}");
    shell.at(&portal, "site create branch").ok();
}

#[test]
fn the_service_managers_credential_is_the_key_of_a_portal_without_the_option() {
    let (mut portal, shell) = Portal::set_up();
    portal.kill();
    let (first, second) = (
        new_key(&portal, "first.key"),
        new_key(&portal, "second.key"),
    );
    let directory = portal.path("credentials");
    let credential = directory.join("secrets-key");
    std::fs::create_dir(&directory).unwrap();
    let hand_over = |content: &[u8], mode: u32| {
        let _absent = std::fs::remove_file(&credential);
        std::fs::write(&credential, content).unwrap();
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&credential, permissions).unwrap();
    };
    let said = |mut program: Command| {
        let program = program.env("CREDENTIALS_DIRECTORY", &directory);
        Said(program.output().unwrap())
    };
    hand_over(&std::fs::read(&first).unwrap(), 0o400);
    let done = said(secrets(&portal, "encrypt", &[])).ok();
    assert!(done.contains("are encrypted with key"), "{done}");
    let tested = said(secrets(&portal, "status", &[])).ok();
    assert!(tested.contains("all can be decrypted"), "{tested}");
    portal.restart_in(Some(("CREDENTIALS_DIRECTORY", &directory)));
    shell.at(&portal, "site create office").ok();
    portal.kill();

    // The option goes before it.
    let wrong = [("--secrets-key", second.as_path())];
    let error = said(starting(&portal, &wrong)).fails(1);
    assert!(error.contains("give the file of key"), "{error}");

    let right = std::fs::read(&first).unwrap();
    for (content, mode, part) in [
        (&b"another-secret\n"[..], 0o400, "no key of secrets"),
        (&right, 0o444, "LoadCredential=secrets-key:FILE"),
        // A unit's `SetCredential=secrets-key:`, for where there is no other.
        (&b""[..], 0o400, "no key was given"),
    ] {
        hand_over(content, mode);
        let error = said(starting(&portal, &[])).fails(1);
        assert!(error.contains(part), "{error}");
        assert!(!error.contains("another-secret"), "{error}");
        let is_named = error.contains(credential.to_str().unwrap());
        assert_eq!(is_named, !content.is_empty(), "{error}");
    }
    std::fs::remove_file(&credential).unwrap();
    let error = said(starting(&portal, &[])).fails(1);
    assert!(error.contains("no key was given"), "{error}");
}

/// The number of times that a command is killed at some instant.
const KILLED: u32 = 8;

#[test]
fn a_command_that_is_killed_leaves_secrets_as_they_were_or_as_they_are_to_be() {
    let (mut portal, shell) = Portal::set_up();
    let key = new_key(&portal, "key");
    portal.kill();
    let with_key = [("--secrets-key", key.as_path())];
    for round in 0..KILLED {
        for command in ["encrypt", "decrypt"] {
            // Later each time, by work that takes longer than a part of the command: where it is ended does not matter.
            let mut program = secrets(&portal, command, &with_key);
            let mut killed = program
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            for _ in 0..round {
                say(&portal, "status", &[]).ok();
            }
            killed.kill().unwrap();
            killed.wait().unwrap();
            let is_encrypted = !say(&portal, "status", &[]).ok().contains("not encrypted");
            if is_encrypted {
                say(&portal, "status", &with_key).ok();
            }
            // It can be repeated, or was done.
            match (command, is_encrypted) {
                ("encrypt", _) | ("decrypt", true) => {
                    say(&portal, command, &with_key).ok();
                }
                _ => {}
            }
        }
    }
    portal.restart_with(None);
    shell.at(&portal, "site create office").ok();
}
