//! Failures between a shell and a portal.

use crate::scene::{Portal, write_secret};
use culvert_wire::token::Token;
use std::net::{Ipv4Addr, TcpListener};

#[test]
fn nobody_overwrites_what_they_have_not_seen() {
    let (_portal, shell) = Portal::set_up();
    shell.line("site create office").ok();
    let seen = shell.json(&["site", "show", "office"])["version"].to_string();
    shell.line("site set office --name hq").ok();
    for words in [
        &[
            "site",
            "set",
            "hq",
            "--name",
            "elsewhere",
            "--if-version",
            &seen,
        ][..],
        &["site", "delete", "hq", "--yes", "--if-version", &seen],
    ] {
        let error = shell.run(words).fails(1);
        assert!(
            error.contains("changed in the meantime by \"ada\" at 2"),
            "{error}"
        );
        assert!(error.contains("version 2 now"), "{error}");
        assert!(error.contains("culvert admin site show site_"), "{error}");
    }
    shell
        .line("site set hq --name elsewhere --if-version 2")
        .ok();
}

#[test]
fn a_name_that_is_taken_is_one_line() {
    let (_portal, shell) = Portal::set_up();
    shell.line("site create office").ok();
    let error = shell.line("site create OFFICE").fails(1);
    assert!(error.contains("OFFICE"), "{error}");
}

#[test]
fn aportal_with_another_certificate_gets_no_token() {
    let (portal, shell) = Portal::set_up();
    let other = Portal::start();
    let error = shell
        .run(&["site", "list", "--portal", &other.url])
        .fails(4);
    assert!(error.contains("another certificate"), "{error}");

    // The set-up token of a portal whose certificate is not the one that it names is not sent, and
    // stays good.
    let token: Token = other.setup_token.parse().unwrap();
    let other_portal = ["setup", "--token-file", "-", "--portal"];
    let other_portal: Vec<&str> = other_portal
        .into_iter()
        .chain([portal.url.as_str()])
        .collect();
    let fresh = other.shell("fresh");
    let error = fresh.given(&other_portal, &token.expose()).fails(4);
    assert!(error.contains("another certificate"), "{error}");
    assert!(!fresh.saved_token().exists());
    fresh
        .given(&["setup", "--token-file", "-"], &token.expose())
        .ok();
}

#[test]
fn a_portal_that_is_not_there_is_status_4() {
    let (mut portal, shell) = Portal::set_up();
    portal.kill();
    let error = shell.line("site list").fails(4);
    assert!(error.contains("does not answer"), "{error}");
}

#[test]
fn what_is_no_portal_is_status_4() {
    let (_portal, shell) = Portal::set_up();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let ends_at_once = std::thread::spawn(move || drop(listener.accept()));
    shell.run(&["site", "list", "--portal", &url]).fails(4);
    ends_at_once.join().unwrap();
    let error = shell
        .run(&["site", "list", "--portal", "http://127.0.0.1"])
        .fails(2);
    assert!(error.contains("https://HOST"), "{error}");
}

#[test]
fn a_set_up_token_is_good_once() {
    let (portal, _shell) = Portal::set_up();
    let second = portal.shell("second");
    let setup = ["setup", "--token-file", "-"];
    let error = second.given(&setup, &portal.setup_token).fails(3);
    assert!(error.contains("culvert portal setup-token"), "{error}");
    assert!(!second.saved_token().exists());
}

#[test]
fn a_saved_token_is_not_lost_to_another_one() {
    let (portal, shell) = Portal::set_up();
    let before = std::fs::read(shell.saved_token()).unwrap();
    let other = Portal::start();
    let setup = ["setup", "--token-file", "-"];
    let error = shell.given(&setup, &other.setup_token).fails(1);
    assert!(error.contains("--replace"), "{error}");
    assert_eq!(std::fs::read(shell.saved_token()).unwrap(), before);
    // It was not used up by that.
    let file = portal.path("other.token");
    let out = [
        "setup",
        "--token-file",
        "-",
        "--out",
        file.to_str().unwrap(),
    ];
    shell.given(&out, &other.setup_token).ok();
    assert_eq!(std::fs::read(shell.saved_token()).unwrap(), before);
    let sites = ["site", "list", "--token-file", file.to_str().unwrap()];
    shell.run(&sites).ok();
}

#[test]
fn commands_that_cannot_be_are_status_2() {
    let (portal, shell) = Portal::set_up();
    let dir = portal.path("access.toml");
    write_secret(&dir, "");
    for words in [
        &["site"][..],
        &["site", "make", "x"],
        &["site", "set", "x"],
        &[
            "resource",
            "create",
            "x",
            "--site",
            "s",
            "--address",
            "10.0.0.0/8",
        ],
        &[
            "resource",
            "create",
            "x",
            "--site",
            "s",
            "--address",
            "a",
            "--allow",
            "sctp:80",
        ],
        &["policy", "create", "--group", "g"],
        &[
            "policy",
            "create",
            "--group",
            "g",
            "--resource",
            "r",
            "--expires",
            "soon",
        ],
        &[
            "policy",
            "create",
            "--group",
            "g",
            "--resource",
            "r",
            "--country",
            "Atlantis",
        ],
        &[
            "policy",
            "create",
            "--group",
            "g",
            "--resource",
            "r",
            "--time",
            "mon 08:00-18:00",
        ],
        &["policy", "set", "p"],
        &["actor", "set", "ada"],
        &["actor", "set", "ada", "--enable", "--disable"],
        &["token", "create", "--kind", "setup"],
        &["token", "create", "--kind", "gateway", "--actor", "ada"],
        &["token", "create", "--kind", "client", "--site", "s"],
        &["token", "create", "--kind", "api", "--actor", "ada"],
        &[
            "token", "create", "--kind", "client", "--actor", "ada", "--role", "owner",
        ],
        &["log", "changes", "--entity", "weather"],
        &["log", "changes", "--limit", "0"],
        &["apply"],
        &["apply", "-f", "x", "--yes", "--dry-run"],
        &["explain", "--client", "x"],
        &["setup"],
        &["login"],
        &["site", "list", "--output", "yaml"],
    ] {
        let said = shell.run(words);
        assert_eq!(said.0.status.code(), Some(2), "{words:?}: {said:?}");
        assert!(
            !said.0.stderr.is_empty() && said.0.stdout.is_empty(),
            "{words:?}: {said:?}"
        );
    }
}
