//! Readers that go away, disks that are full, names that would control the terminal, and fingers on
//! Ctrl-C.

use crate::scene::{CULVERT, Portal, Shell, mode};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Far more than anything here takes: a condition is waited for, not this time.
const TIMEOUT: Duration = Duration::from_secs(60);

fn count(shell: &Shell, kind: &str) -> usize {
    let list = shell.json(&[kind, "list"]);
    list["items"].as_array().unwrap().len()
}

/// Runs a command whose standard output nobody reads.
fn unread(shell: &Shell, words: &[&str]) -> (Option<i32>, String) {
    let mut command = shell.command(words);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).stderr(Stdio::piped());
    let output = output.spawn().unwrap().wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), error)
}

/// Runs a command whose standard output is a full disk.
fn on_full_disk(shell: &Shell, words: &[&str]) -> (Option<i32>, String) {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = shell.command(words);
    let output = command.stdout(full.unwrap()).stderr(Stdio::piped());
    let output = output.spawn().unwrap().wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), error)
}

#[test]
fn a_reader_that_goes_away_keeps_nothing_from_being_done() {
    let (portal, shell) = Portal::set_up();
    let quiet = (Some(0), String::new());
    assert_eq!(unread(&shell, &["actor", "list"]), quiet);
    let file = portal.path("access.toml");
    let sites = (0..2_000).map(|number| format!("[[site]]\nname = 'site {number}'\n"));
    std::fs::write(&file, sites.collect::<String>()).unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(unread(&shell, &["apply", "-f", path, "--yes"]), quiet);
    assert_eq!(count(&shell, "site"), 2_000);

    shell.line("actor create ci --kind service-account").ok();
    let group = ["group", "create", "g", "--member", "ci", "--member", "ada"];
    assert_eq!(unread(&shell, &group), quiet);
    let group = shell.json(&["group", "show", "g"]);
    assert_eq!(group["members"].as_array().unwrap().len(), 2);
    let remove = ["group", "remove-member", "g", "ci", "ada"];
    assert_eq!(unread(&shell, &remove), quiet);
    let group = shell.json(&["group", "show", "g"]);
    assert_eq!(group["members"].as_array().unwrap().len(), 0);
}

#[test]
fn a_token_that_nobody_gets_to_see_is_revoked_again() {
    let (_portal, shell) = Portal::set_up();
    let create = ["token", "create", "--kind", "client", "--actor", "ada"];
    for format in ["table", "json"] {
        let words = [&create[..], &["--name", format, "--output", format]].concat();
        let (status, error) = on_full_disk(&shell, &words);
        assert_eq!((status, error.lines().count()), (Some(1), 1), "{error}");
        assert!(error.contains("No space left"), "{error}");
        assert!(error.contains("revoked again"), "{error}");
        let (status, error) = unread(&shell, &words);
        assert_eq!(status, Some(1), "{error}");
        assert!(error.contains("revoked again"), "{error}");
        let tokens = shell.json(&["token", "list", "--search", format]);
        let tokens = tokens["items"].as_array().unwrap();
        assert_eq!(tokens.len(), 2, "{tokens:?}");
        assert!(tokens.iter().all(|token| token["revoked"].is_string()));
    }
}

#[test]
fn a_disk_that_is_full_leaves_neither_a_cut_file_nor_a_token() {
    let (portal, shell) = Portal::set_up();
    let disk = portal.path("disk");
    std::fs::create_dir(&disk).unwrap();
    // A mount namespace of its own: the disk is gone with the process.
    let script = "mount -t tmpfs -o size=4k none \"$1\" && head -c 4096 /dev/zero > \"$1/filler\" && \
                  { \"$2\" admin token create --kind client --actor ada --name t --out \"$1/t.token\"; \
                  status=$?; ls \"$1\"; exit $status; }";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(&disk).arg(CULVERT).env("HOME", &shell.home);
    command.env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("t.token: No space left"), "{error}");
    assert!(error.contains("revoked again"), "{error}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "filler\n");
    let token = shell.json(&["token", "show", "t"]);
    assert!(token["revoked"].is_string(), "{token}");
}

#[test]
fn no_umask_opens_or_closes_the_file_of_a_token() {
    let (portal, shell) = Portal::set_up();
    for umask in ["000", "777"] {
        let file = portal.path(umask);
        let script = format!(
            "umask {umask}; exec {CULVERT} admin token create --kind client --actor ada --out {}",
            file.display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("HOME", &shell.home);
        command.env_remove("XDG_CONFIG_HOME");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(mode(&file), 0o600, "{umask}");
    }
}

#[test]
fn what_is_already_there_is_not_written_through() {
    let (portal, shell) = Portal::set_up();
    let target = portal.path("target");
    let link = portal.path("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let directory = portal.path("directory");
    std::fs::create_dir(&directory).unwrap();
    let before = count(&shell, "token");
    for path in [
        link.as_path(),
        &directory,
        Path::new("/dev/null"),
        &portal.path("no/such/dir/t"),
    ] {
        let path = path.to_str().unwrap();
        let create = [
            "token", "create", "--kind", "client", "--actor", "ada", "--out", path,
        ];
        let error = shell.run(&create).fails(1);
        assert!(error.contains(path), "{error}");
    }
    assert!(!target.exists());
    assert_eq!(count(&shell, "token"), before);
}

#[test]
fn names_with_control_characters_are_refused_and_those_that_look_like_others_are_shown_as_they_are()
{
    let (portal, shell) = Portal::set_up();
    for name in [
        "a\u{1b}[2Jb",
        "a\nb",
        "a\u{9b}b",
        "",
        " a",
        &"x".repeat(10_000),
    ] {
        let said = shell.run(&["site", "create", name]);
        let error = said.fails(1);
        assert!(!error.contains(['\u{1b}', '\u{9b}']), "{error:?}");
    }
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = \"a\\u001b[2Jb\"\n").unwrap();
    let error = shell.run(&["apply", "-f", file.to_str().unwrap(), "--yes"]);
    let error = error.fails(2);
    assert!(
        error.contains("access.toml:1: ") && !error.contains('\u{1b}'),
        "{error:?}"
    );
    // A wrong key is named, but not as the terminal would take it.
    std::fs::write(&file, "[[site]]\n\"k\\u001b[2J\" = 1\n").unwrap();
    let error = shell.run(&["apply", "-f", file.to_str().unwrap(), "--yes"]);
    let error = error.fails(2);
    assert!(
        error.contains("access.toml:2: ") && !error.contains('\u{1b}'),
        "{error:?}"
    );

    for mark in ['\u{202e}', '\u{200f}', '\u{200b}', '\u{ad}'] {
        let error = shell
            .run(&["site", "create", &format!("office{mark}x")])
            .fails(1);
        assert!(!error.contains(mark), "{error:?}");
        let code = format!("U+{:04X}", u32::from(mark));
        assert!(error.contains(&code), "{error}");
    }
    // Letters of other scripts are letters, whatever they look like.
    let cyrillic = "\u{43e}ffice";
    shell.run(&["site", "create", cyrillic]).ok();
    assert!(shell.run(&["site", "list"]).ok().contains(cyrillic));
    assert_eq!(shell.json(&["site", "show", cyrillic])["name"], cyrillic);
    let error = shell.run(&["site", "show", "\u{1b}[2J"]).fails(1);
    assert!(!error.contains('\u{1b}'), "{error:?}");
}

#[test]
fn the_longest_names_are_taken_and_shown() {
    let (_portal, shell) = Portal::set_up();
    for name in ["x".repeat(100), "東".repeat(100)] {
        shell.run(&["site", "create", &name]).ok();
        assert_eq!(shell.json(&["site", "show", &name])["name"], *name);
        let list = shell.line("site list").ok();
        let shown: String = list.split_whitespace().collect();
        let first = name.chars().next().unwrap();
        let letters = shown.chars().filter(|letter| *letter == first).count();
        assert!(letters >= 100, "{list}");
    }
}

#[test]
fn ctrl_c_while_the_portal_does_not_answer_leaves_no_empty_file() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("t.token");
    let (url, withheld) = withhold_once_there(&portal, &file);
    let words = [
        "token", "create", "--kind", "client", "--actor", "ada", "--out",
    ];
    let words = [&words[..], &[file.to_str().unwrap(), "--portal", &url]].concat();
    let mut command = shell.command(&words);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    withheld.recv_timeout(TIMEOUT).unwrap();
    assert!(file.exists());
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let status = child.wait().unwrap();
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert_eq!(status.code(), Some(1), "{error}");
    assert!(
        error.contains("interrupted") && error.contains("token list"),
        "{error}"
    );
    assert!(!file.exists());
}

/// A way to the portal that passes on what the shell says until the file is there, and then says that
/// it does no longer.
fn withhold_once_there(portal: &Portal, file: &Path) -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let beyond = portal.url.trim_start_matches("https://").to_owned();
    let file = file.to_owned();
    let (withhold, withheld) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(beyond).unwrap();
        let (mut back, mut out) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut out));
        let mut buffer = [0; 16_384];
        while let Ok(count @ 1..) = near.read(&mut buffer) {
            if file.exists() {
                withhold.send(()).unwrap();
                break;
            }
            far.write_all(&buffer[..count]).unwrap();
        }
        // The connection stays open until the shell ends it.
        let _ended = near.read(&mut buffer);
    });
    (url, withheld)
}

#[test]
fn what_comes_in_through_standard_input_may_end_at_any_place() {
    let (portal, shell) = Portal::set_up();
    let nobody = portal.shell("nobody");
    let good = std::fs::read_to_string(shell.saved_token()).unwrap();
    let list = ["site", "list", "--token-file", "-"];
    nobody.given(&list, &format!("{}\r", good.trim())).ok();
    for text in ["", " ", "\u{0}", "cv_api_", &"x".repeat(100_000)] {
        let error = nobody.given(&list, text).fails(3);
        assert!(!error.contains("xxx"), "{error}");
    }
    let mut closed = Command::new("sh");
    closed.args([
        "-c",
        &format!("exec {CULVERT} admin site list --token-file - <&-"),
    ]);
    let output = closed.env("HOME", &nobody.home).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let mut lines = BufReader::new(&*output.stderr).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("culvert: "));
}
