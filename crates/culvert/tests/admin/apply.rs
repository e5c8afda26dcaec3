//! The configuration as code.

use crate::scene::{Portal, Shell};
use serde_json::Value;
use std::path::Path;

const DOCUMENT: &str = include_str!("../../../../docs/access-toml.md");

/// The examples of the document.
fn examples() -> Vec<&'static str> {
    let blocks = DOCUMENT.split("```toml\n").skip(1);
    let examples: Vec<_> = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    assert_eq!(examples.len(), 2);
    examples
}

#[track_caller]
fn apply(shell: &Shell, file: &Path, options: &[&str]) -> String {
    let mut words = vec!["apply", "-f", file.to_str().unwrap()];
    words.extend(options);
    shell.run(&words).ok()
}

fn names(shell: &Shell, kind: &str) -> Vec<String> {
    let list = shell.json(&[kind, "list"]);
    let items = list["items"].as_array().unwrap().iter();
    let mut names: Vec<String> = items
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_example_of_the_document_is_applied_and_a_second_time_there_is_nothing_to_change() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, examples()[0]).unwrap();

    let dry = apply(&shell, &file, &["--dry-run"]);
    assert!(dry.ends_with("\n13 to create, 1 to change\n"), "{dry}");
    assert!(
        dry.contains("+ policy \"developers may use intranet\"\n"),
        "{dry}"
    );
    assert!(dry.contains("    filters: tcp:80,443 icmp\n"), "{dry}");
    assert!(!dry.contains('\u{1b}'), "no colours but on a terminal");
    assert_eq!(names(&shell, "site"), [""; 0]);

    let done = apply(&shell, &file, &["--yes"]);
    assert!(done.ends_with("\n13 created, 1 changed\n"), "{done}");
    for options in [
        &["--yes"][..],
        &["--yes", "--prune"],
        &["--dry-run", "--prune"],
    ] {
        assert_eq!(
            apply(&shell, &file, options),
            "nothing to change\n",
            "{options:?}"
        );
    }
    let dns = shell.json(&["dns", "show"]);
    assert_eq!(dns["search"], serde_json::json!(["corp.example"]));
    let database = shell.json(&["resource", "show", "database"]);
    assert_eq!(database["kind"], "dns");
    let migration = shell.json(&["policy", "show", "migration"]);
    assert_eq!(
        migration["conditions"].as_array().unwrap().len(),
        3,
        "{migration}"
    );

    // The second example changes what the first one made.
    std::fs::write(&file, examples()[1]).unwrap();
    let done = apply(&shell, &file, &["--dry-run"]);
    assert!(done.contains("~ resource \"intranet\"\n"), "{done}");
}

#[test]
fn the_document_says_what_the_program_says() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, examples()[0]).unwrap();
    let dry = apply(&shell, &file, &["--dry-run"]);
    for (at, line) in dry.lines().take(4).enumerate() {
        assert!(
            DOCUMENT.contains(&format!("\n{line}\n")),
            "line {at}: {line}"
        );
    }
    let count = dry.lines().last().unwrap();
    assert!(
        DOCUMENT.contains(&format!("\n{count}. Go on? [y/N] y\n")),
        "{count}"
    );
}

#[test]
fn what_a_resource_may_begin_is_declared_and_set_and_taken_away() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    let text = "[[site]]\nname = 'a'\n[[resource]]\nname = 'r'\nsite = 'a'\naddress = '10.0.0.0/8'\n\
                allow = []\ninbound = ['tcp:9100', 'icmp']\n";
    std::fs::write(&file, text).unwrap();
    let applied = shell.run(&["apply", "--yes", "-f", file.to_str().unwrap()]);
    let said = String::from_utf8(applied.0.stdout.clone()).unwrap();
    assert!(
        applied.0.status.success() && said.contains("inbound: tcp:9100 icmp"),
        "{said}"
    );
    let inbound = || {
        shell
            .json(&["resource", "show", "r"])
            .get("inbound")
            .cloned()
    };
    let opened = serde_json::json!([{"protocol": "tcp", "ports": [9100]}, {"protocol": "icmp"}]);
    assert_eq!(inbound(), Some(opened));
    shell.line("resource set r --inbound udp:161").ok();
    let opened = serde_json::json!([{"protocol": "udp", "ports": [161]}]);
    assert_eq!(inbound(), Some(opened.clone()));
    shell.line("resource set r --allow any").ok();
    assert_eq!(inbound(), Some(opened));
    shell.line("resource set r --inbound none").ok();
    assert_eq!(inbound(), None);
    let named = shell
        .line("resource create s --site a --address s.corp.example --allow any --inbound tcp:22");
    let error = String::from_utf8(named.0.stderr).unwrap();
    assert!(error.contains("inbound"), "{error}");
}

#[test]
fn names_that_may_lead_anywhere_are_warned_of() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    let text = |within: &str| {
        format!(
            "[[site]]\nname = 'a'\n[[resource]]\nname = 'r'\nsite = 'a'\naddress = '*.corp.example'\n\
             allow = 'any'\n{within}"
        )
    };
    let warned = |text: String, options: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let words = ["apply", "-f", file.to_str().unwrap()];
        let said = shell.run(&[&words, options].concat());
        assert!(said.0.status.success(), "{said:?}");
        String::from_utf8(said.0.stderr).unwrap()
    };
    for within in ["", "within = 'anywhere'"] {
        for options in ["--dry-run", "--yes"] {
            let warning = warned(text(within), &[options]);
            let begin = "warning: resource \"r\": its names may lead to any host";
            assert!(warning.starts_with(begin), "{warning:?}");
            assert_eq!(warning.lines().count(), 1, "{warning:?}");
        }
    }
    for within in [
        "within = '10.0.0.0/8'",
        "within = ['10.0.0.0/8', 'fd00::/8']",
    ] {
        assert_eq!(warned(text(within), &["--yes"]), "");
    }
    let shown = shell.json(&["resource", "show", "r"]);
    let networks = serde_json::json!(["10.0.0.0/8", "fd00::/8"]);
    assert_eq!(shown["within"], networks);
    // The options do the same.
    shell
        .line("resource set r --within 10.1.0.0/16 --within fd00::/8")
        .ok();
    let networks = serde_json::json!(["10.1.0.0/16", "fd00::/8"]);
    assert_eq!(shell.json(&["resource", "show", "r"])["within"], networks);
    shell.line("resource set r --within anywhere").ok();
    assert_eq!(shell.json(&["resource", "show", "r"]).get("within"), None);
    let created = shell.line("resource create s --site a --address s.corp.example --allow any");
    let warning = String::from_utf8(created.0.stderr).unwrap();
    assert!(
        warning.starts_with("warning: its names may lead"),
        "{warning}"
    );
}

#[test]
fn prune_deletes_what_the_file_does_not_name_and_nothing_else_does() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'a'\n[[site]]\nname = 'b'\n").unwrap();
    apply(&shell, &file, &["--yes"]);
    std::fs::write(&file, "[[site]]\nname = 'b'\n").unwrap();
    assert_eq!(apply(&shell, &file, &["--yes"]), "nothing to change\n");
    let said = apply(&shell, &file, &["--yes", "--prune"]);
    assert_eq!(said, "- site \"a\"\n1 deleted\n");
    assert_eq!(names(&shell, "site"), ["b"]);
    assert_eq!(names(&shell, "actor"), ["ada"], "admins stay");
}

#[test]
fn one_wrong_line_changes_nothing_and_is_named() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    let path = file.to_str().unwrap();
    let head = "[[site]]\nname = 'a'\n\n";
    for (wrong, line, holds) in [
        ("[[site]]\nnmae = 'b'\n", 5, "nmae"),
        ("[[group]]\nname = 'g'\nmembers = ['nobody']\n", 4, "nobody"),
        (
            "[[resource]]\nname = 'r'\nsite = 'a'\naddress = '10.0.0.0/33'\nallow = 'any'\n",
            4,
            "address",
        ),
        ("[[site]]\nname = 'A'\n", 4, "named"),
    ] {
        std::fs::write(&file, format!("{head}{wrong}")).unwrap();
        let error = shell.run(&["apply", "-f", path, "--yes"]).fails(2);
        assert!(error.contains(&format!("{path}:{line}: ")), "{error}");
        assert!(error.contains(holds), "{error}");
        assert_eq!(names(&shell, "site"), [""; 0]);
    }
    shell
        .line("apply -f /nonexistent/access.toml --yes")
        .fails(1);
}

#[test]
fn an_unknown_key_in_any_table_is_refused_with_its_line() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    let path = file.to_str().unwrap();
    let resource = "[[resource]]\nname = 'r'\nsite = 's'\naddress = 'a.b'\n";
    let policy = "[[policy]]\ngroup = 'g'\nresource = 'r'\n";
    for (text, line, key) in [
        ("colour = 1\n".to_owned(), 1, "colour"),
        (
            "[[sites]]\nname = 'a'\n\n[settings]\nx = 1\n".to_owned(),
            4,
            "settings",
        ),
        (
            "[[site]]\nname = 'a'\n# more\nzone = 'x'\n".to_owned(),
            4,
            "zone",
        ),
        (
            "[[actor]]\nname = 'a'\nkind = 'user'\nenabled = true\n".to_owned(),
            4,
            "enabled",
        ),
        (
            "[[group]]\nname = 'a'\nmember = []\n".to_owned(),
            3,
            "member",
        ),
        (format!("{resource}allow = 'any'\nport = 80\n"), 6, "port"),
        (format!("{policy}adress = '10.0.0.0/8'\n"), 4, "adress"),
        (
            format!("{policy}conditions = [{{kind = 'expires', att = 1}}]\n"),
            4,
            "att",
        ),
        (
            format!(
                "{policy}conditions = [{{kind = 'client_os', systems = [{{id = 'a', max = 1}}]}}]\n"
            ),
            4,
            "max",
        ),
        (
            format!("{policy}conditions = [\n  {{kind = 'moonphase'}},\n]\n"),
            5,
            "moonphase",
        ),
        (
            format!("{resource}filters = [{{protocol = 'tcp', port = 80}}]\n"),
            5,
            "port",
        ),
        (
            "[[site]]\r\nname = 'a'\r\nzone = 1\r\n".to_owned(),
            3,
            "zone",
        ),
        (
            "[[site]]\nname = 'a'\nname = 'b'\n".to_owned(),
            3,
            "duplicate key",
        ),
    ] {
        std::fs::write(&file, &text).unwrap();
        // Nothing is asked of the portal for it.
        let words = [
            "apply",
            "-f",
            path,
            "--yes",
            "--portal",
            "https://127.0.0.1:1",
        ];
        let error = shell.run(&words).fails(2);
        assert!(
            error.contains(&format!("{path}:{line}: ")),
            "{text}\n{error}"
        );
        assert!(error.contains(key), "{text}\n{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_one_line() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    let path = file.to_str().unwrap();
    for (content, status, says) in [
        (&b"[[site]]\nname = 'a\xff'\n"[..], 2, "access.toml:2: "),
        (b"\0\0\0", 2, "access.toml:1: "),
        (b"[[site]\nname = 'a'\n", 2, "access.toml:1: "),
    ] {
        std::fs::write(&file, content).unwrap();
        let error = shell.run(&["apply", "-f", path, "--yes"]).fails(status);
        assert!(error.contains(says), "{error}");
    }
    std::fs::write(&file, "# nothing yet\n").unwrap();
    assert_eq!(apply(&shell, &file, &["--yes"]), "nothing to change\n");
    // As some editors write it.
    std::fs::write(&file, "\u{feff}[[site]]\nname = 'a'\n").unwrap();
    assert_eq!(
        apply(&shell, &file, &["--yes"]),
        "+ site \"a\"\n1 created\n"
    );
    let directory = portal.path("directory");
    std::fs::create_dir(&directory).unwrap();
    let words = ["apply", "-f", directory.to_str().unwrap(), "--yes"];
    let error = shell.run(&words).fails(1);
    assert!(error.contains("directory"), "{error}");
}

#[test]
fn what_the_portal_refuses_changes_nothing_and_what_is_mended_is_done() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    let path = file.to_str().unwrap();
    shell.line("actor create ci --kind user").ok();
    let text = "[[site]]\nname = 'a'\n\n[[actor]]\nname = 'ci'\nkind = 'service_account'\n";
    std::fs::write(&file, text).unwrap();
    let error = shell.run(&["apply", "-f", path, "--yes"]).fails(2);
    assert!(error.contains(&format!("{path}:4: ")), "{error}");
    assert_eq!(names(&shell, "site"), [""; 0]);
    std::fs::write(&file, text.replace("service_account", "user")).unwrap();
    assert_eq!(
        apply(&shell, &file, &["--yes"]),
        "+ site \"a\"\n1 created\n"
    );
    assert_eq!(apply(&shell, &file, &["--yes"]), "nothing to change\n");
}

#[test]
fn where_nobody_can_be_asked_nothing_is_done_without_yes() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'a'\n").unwrap();
    let path = file.to_str().unwrap();
    for words in [
        &["apply", "-f", path][..],
        &["apply", "-f", path, "-o", "json"],
        &["apply", "-f", "-"],
    ] {
        let error = shell.given(words, "").fails(2);
        assert!(error.contains("--yes"), "{error}");
    }
    assert_eq!(names(&shell, "site"), [""; 0]);
    let text = "[[site]]\nname = 'b'";
    let said = shell
        .given(&["apply", "-f", "-", "--yes", "-o", "json"], text)
        .ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["schema_version"], &said["applied"]),
        (&1.into(), &true.into())
    );
    assert_eq!(said["changes"][0]["name"], "b");
}

#[test]
fn an_auditor_sees_what_would_change_and_may_not_change_it() {
    let (portal, shell) = Portal::set_up();
    let token = portal.path("auditor.token");
    let create = "token create --kind api --actor ada --role auditor --out";
    let words: Vec<&str> = create.split(' ').chain([token.to_str().unwrap()]).collect();
    shell.run(&words).ok();
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'a'\n").unwrap();
    let auditor = ["--token-file", token.to_str().unwrap()];
    let dry = apply(&shell, &file, &["--dry-run", auditor[0], auditor[1]]);
    assert!(dry.contains("+ site \"a\""), "{dry}");
    let words = [
        "apply",
        "-f",
        file.to_str().unwrap(),
        "--yes",
        auditor[0],
        auditor[1],
    ];
    shell.run(&words).fails(5);
    assert_eq!(names(&shell, "site"), [""; 0]);
}
