//! The output of commands.

use crate::scene::Portal;
use crate::terminal::on_terminal;

#[test]
fn in_a_pipe_every_row_of_a_table_is_one_line_with_whole_ids_and_names() {
    let (portal, shell) = Portal::set_up();
    let long = "the very long name of something that many people talk about";
    let (site, resource) = (format!("site, {long}"), format!("resource, {long}"));
    let group = format!("group, {long}");
    shell.run(&["site", "create", &site]).ok();
    let address = "*.a.rather.deep.domain.of.the.company.example";
    let create = [
        "resource",
        "create",
        &resource,
        "--site",
        &site,
        "--address",
        address,
    ];
    let allow = [
        "--allow",
        "tcp:80,443,8000-8100,9000-9999",
        "--allow",
        "udp:53",
    ];
    shell.run(&[&create[..], &allow].concat()).ok();
    shell
        .run(&["group", "create", &group, "--member", "ada"])
        .ok();
    let time = "mon-fri 08:00-18:00 America/Argentina/Buenos_Aires";
    let policy = [
        "policy",
        "create",
        long,
        "--group",
        &group,
        "--resource",
        &resource,
    ];
    shell
        .run(&[&policy[..], &["--time", time, "--verified"]].concat())
        .ok();
    shell.line("token create --kind client --actor ada").ok();
    for (line, shows_id) in [
        ("site list", "site_"),
        ("actor list", "act_"),
        ("group list", "grp_"),
        ("resource list", "res_"),
        ("policy list", "pol_"),
        ("token list", "tok_"),
        ("log changes", "202"),
        ("log access", ""),
        ("client list", ""),
        ("gateway list", ""),
        ("status", ""),
    ] {
        let text = shell.line(line).ok();
        for wrapped in [long, &site, &resource, &group, address] {
            let start: String = wrapped.chars().take(12).collect();
            let whole = text.matches(wrapped).count();
            assert_eq!(text.matches(&start).count(), whole, "{line}:\n{text}");
        }
        let first = text.lines().nth(1).unwrap_or(&text);
        assert!(first.starts_with(shows_id), "{line}:\n{text}");
        if shows_id.ends_with('_') {
            let id = first.split_whitespace().next().unwrap();
            assert_eq!(id.len(), shows_id.len() + 26, "{line}:\n{text}");
            let words: Vec<_> = line.split(' ').collect();
            let items = shell.json(&words)["items"].as_array().unwrap().len();
            assert_eq!(text.lines().count(), items + 1, "{line}:\n{text}");
        }
    }
    // On a terminal, cells go below the others and are whole all the same.
    let (shown, _) = on_terminal(shell.command(&["policy", "list"]), "");
    for whole in [long, &resource, &group] {
        assert!(shown.contains(whole), "{shown}");
    }
    let shown = shell.run(&["policy", "show", long]).ok();
    assert!(shown.contains(time), "{shown}");
    drop(portal);
}

#[test]
fn lists_are_narrowed_and_go_over_many_pages() {
    let (portal, shell) = Portal::set_up();
    let sites = (0..450).map(|number| format!("[[site]]\nname = 'site {number}'\n"));
    let file = portal.path("access.toml");
    std::fs::write(&file, sites.collect::<String>()).unwrap();
    shell
        .run(&["apply", "-f", file.to_str().unwrap(), "--yes"])
        .ok();
    let count = |words: &[&str]| shell.json(words)["items"].as_array().unwrap().len();
    assert_eq!(count(&["site", "list"]), 450);
    assert_eq!(count(&["site", "list", "--search", "site 44"]), 11);
    assert_eq!(
        count(&["log", "changes", "--limit", "300", "--entity", "site"]),
        300
    );
    shell
        .run(&[
            "resource",
            "create",
            "r",
            "--site",
            "site 7",
            "--address",
            "a.b",
            "--allow",
            "any",
        ])
        .ok();
    assert_eq!(count(&["resource", "list", "--site", "site 7"]), 1);
    assert_eq!(count(&["resource", "list", "--site", "site 8"]), 0);
}

#[test]
fn names_with_any_letters_are_found() {
    let (_portal, shell) = Portal::set_up();
    for name in ["Büro & Lager", "100 % = all?", "a+b#c/d", "東京"] {
        shell.run(&["site", "create", name]).ok();
        assert_eq!(shell.json(&["site", "show", name])["name"], name);
    }
}

#[test]
fn json_is_spelt_alike_everywhere_and_the_earlier_spelling_goes_on() {
    let (_portal, shell) = Portal::with_office();
    for line in [
        "account show",
        "actor list",
        "dns show",
        "group show build",
        "retention show",
        "site list",
        "sink list",
        "status",
        "token list",
    ] {
        let json = shell.line(&format!("{line} --json")).ok();
        assert!(
            json.starts_with(r#"{"schema_version":1,"#),
            "{line}: {json}"
        );
        let before = shell.line(&format!("--json {line}")).ok();
        let earlier = shell.line(&format!("{line} -o json")).ok();
        // The portal's counters may have moved on.
        if line != "status" && line != "token list" {
            assert_eq!((&before, &earlier), (&json, &json), "{line}");
        }
        let help = shell.line(&format!("{line} --help")).ok();
        assert!(
            help.contains("--json") && !help.contains("--output"),
            "{help}"
        );
    }
    // Of a log it is an entry a line, before and after the command.
    let lines = shell.line("log changes --json").ok();
    assert_eq!(shell.line("--json log changes").ok(), lines);
    assert!(lines.lines().count() > 3, "{lines}");
}

#[test]
fn help_teaches_with_examples_and_exit_statuses() {
    let (_portal, shell) = Portal::set_up();
    let help = shell.line("--help").ok();
    for part in [
        "culvert admin setup --token-file -",
        "culvert admin apply -f access.toml",
        "CULVERT_ADMIN_TOKEN",
        "CULVERT_ADMIN_TOKEN_FILE",
        "CULVERT_ADMIN_PORTAL",
        "Exit status:",
        "5  denied",
    ] {
        assert!(help.contains(part), "{part:?} is missing:\n{help}");
    }
    for line in [
        "setup", "login", "actor", "group", "site", "resource", "policy", "token", "client",
        "gateway", "apply", "explain", "log", "password",
    ] {
        let help = shell.line(&format!("{line} --help")).ok();
        assert!(
            help.contains("Examples:\n  culvert admin"),
            "{line}:\n{help}"
        );
    }
}
