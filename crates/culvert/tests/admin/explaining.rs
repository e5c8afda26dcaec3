//! `culvert admin explain`: which policy decides, and by which condition.

use crate::scene::{Portal, Shell, enrol_client, enrol_client_with};
use culvert_policy::conditions::OperatingSystem;
use serde_json::Value;

/// A client `laptop` of `ci`, in the group `build`, and a resource `db` that no policy names.
fn enrolled() -> (Portal, Shell) {
    let (portal, shell) = Portal::with_office();
    shell.line("group create others").ok();
    let token = shell.line("token create --kind client --actor ci").ok();
    enrol_client(&token, "laptop");
    (portal, shell)
}

fn explain(shell: &Shell) -> (i32, String) {
    explain_of(shell, "laptop")
}

fn explain_of(shell: &Shell, client: &str) -> (i32, String) {
    let said = shell.line(&format!("explain --client {client} --resource db"));
    assert!(said.0.stderr.is_empty(), "{said:?}");
    let text = String::from_utf8(said.0.stdout).unwrap();
    (said.0.status.code().unwrap(), text)
}

/// The explanation if a policy `p` with that condition would allow it.
fn explain_with(shell: &Shell, condition: &[&str]) -> (i32, String) {
    let create = "policy create p --group build --resource db".split(' ');
    let create: Vec<&str> = create.chain(condition.iter().copied()).collect();
    shell.run(&create).ok();
    explain(shell)
}

/// The days of the week that are neither today nor next to it, wherever the test runs.
fn far_days() -> String {
    let now = std::time::SystemTime::now();
    let days = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 86_400;
    // The first day of 1970 was a Thursday.
    let week = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"];
    let at = |ahead: u64| week[usize::try_from((days + ahead) % 7).unwrap()];
    format!("{},{}", at(3), at(4))
}

#[test]
fn each_condition_that_does_not_hold_is_named_with_its_policy() {
    let (_portal, shell) = enrolled();
    let window = format!("{} 08:00-18:00 UTC", far_days());
    for (condition, says) in [
        (&["--time", &window][..], "08:00"),
        (
            &["--from-address", "203.0.113.0/24"],
            "127.0.0.1 is in none",
        ),
        (&["--country", "DE"], "country"),
        (&["--verified"], "verified"),
        (&["--expires", "2020-01-01T00:00:00Z"], "2020-01-01"),
        (&["--disabled"], "disabled"),
    ] {
        let (status, text) = explain_with(&shell, condition);
        assert_eq!(status, 5, "{condition:?}: {text}");
        assert!(text.starts_with("laptop may not use db"), "{text}");
        let line = text.lines().nth(1).unwrap();
        assert!(
            line.starts_with("policy \"p\" for group \"build\": "),
            "{text}"
        );
        assert!(line.contains(says), "{condition:?}: {text}");
        shell.line("policy delete p --yes").ok();
    }
}

#[test]
fn a_policy_for_an_operating_system_admits_one_client_and_says_why_not_another() {
    let (portal, shell) = enrolled();
    let token = shell.line("token create --kind client --actor ci").ok();
    for (name, version) in [("new", "12"), ("old", "11")] {
        let os = OperatingSystem {
            id: Some("debian".to_owned()),
            version: Some(version.to_owned()),
            ..OperatingSystem::linux()
        };
        enrol_client_with(&token, name, Some(os));
    }
    let line = "policy create p --group build --resource db --client-os fedora:40,debian:12";
    shell.line(line).ok();
    let shown = shell.line("policy show p").ok();
    assert!(shown.contains("on fedora 40+ or debian 12+"), "{shown}");
    for (name, status, says) in [
        ("new", 0, "allows"),
        (
            "old",
            5,
            "the client says that it runs debian 11; the policy asks for fedora 40 or later, or debian 12 or later",
        ),
        ("laptop", 5, "the client has not told its operating system"),
    ] {
        let (told, text) = explain_of(&shell, name);
        assert_eq!(told, status, "{text}");
        assert!(text.contains(says), "{text}");
    }
    // The file has the same short form.
    let file = portal.path("access.toml");
    let text =
        "[[policy]]\nname = 'p'\ngroup = 'build'\nresource = 'db'\nclient_os = 'debian:11'\n";
    std::fs::write(&file, text).unwrap();
    shell
        .run(&["apply", "-f", file.to_str().unwrap(), "--yes"])
        .ok();
    let (status, text) = explain_of(&shell, "old");
    assert_eq!(status, 0, "{text}");
    // Only the condition that is named goes.
    shell
        .line("policy set p --verified --without client-os")
        .ok();
    let shown = shell.line("policy show p").ok();
    assert!(
        !shown.contains("debian") && shown.contains("verified"),
        "{shown}"
    );
    let refused = shell.line("policy create q --group build --resource db --client-os linux:6");
    assert_ne!(refused.0.status.code(), Some(0));
}

#[test]
fn each_condition_that_holds_allows() {
    let (_portal, shell) = enrolled();
    shell.line("client verify laptop").ok();
    for condition in [
        &[][..],
        &["--time", "daily 00:00-24:00 UTC"],
        &["--from-address", "127.0.0.0/8,::1"],
        &["--verified"],
        &["--expires", "2099-01-31T18:00:00Z"],
    ] {
        let (status, text) = explain_with(&shell, condition);
        assert_eq!(status, 0, "{condition:?}: {text}");
        assert!(text.starts_with("laptop may use db"), "{text}");
        assert!(
            text.contains("policy \"p\" for group \"build\": allows"),
            "{text}"
        );
        if condition.contains(&"--expires") {
            assert!(text.contains("until 2099-01-31T18:00:00Z"), "{text}");
        }
        shell.line("policy delete p --yes").ok();
    }
}

#[test]
fn of_several_policies_each_is_told_and_one_that_allows_is_enough() {
    let (_portal, shell) = enrolled();
    let (status, text) = explain(&shell);
    assert_eq!(status, 5);
    assert!(
        text.contains("no policy joins a group of its actor with it"),
        "{text}"
    );

    for line in [
        "policy create theirs --group others --resource db",
        "policy create checked --group build --resource db --verified --country DE",
    ] {
        shell.line(line).ok();
    }
    let (status, text) = explain(&shell);
    assert_eq!(status, 5);
    assert_eq!(
        text.lines().count(),
        3,
        "others' policies do not concern it: {text}"
    );
    assert!(
        text.contains("verified") && text.contains("country"),
        "{text}"
    );

    shell
        .line("policy create open --group build --resource db")
        .ok();
    let (status, text) = explain(&shell);
    assert_eq!((status, text.lines().count()), (0, 4), "{text}");
    assert!(
        text.contains("policy \"open\" for group \"build\": allows"),
        "{text}"
    );
    let said = shell.json(&["explain", "--client", "laptop", "--resource", "db"]);
    let verdict = |name: &str| {
        let policies = said["policies"].as_array().unwrap().iter();
        let mut found = policies.filter(|policy| policy["name"] == name);
        found.next().map(|policy| policy["verdict"].clone())
    };
    assert_eq!(verdict("open"), Some(Value::from("allow")));
    assert_eq!(verdict("checked"), Some(Value::from("deny")));
    assert_eq!(verdict("theirs"), None);
}

#[test]
fn who_is_barred_is_told_before_any_policy() {
    let (_portal, shell) = enrolled();
    shell
        .line("policy create open --group build --resource db")
        .ok();
    shell.line("actor set ci --disable").ok();
    let (status, text) = explain(&shell);
    assert_eq!(status, 5, "{text}");
    assert!(text.lines().next().unwrap().contains("disabled"), "{text}");
    shell.line("actor set ci --enable").ok();
    assert_eq!(explain(&shell).0, 0);
    shell.line("client revoke laptop").ok();
    let (status, text) = explain(&shell);
    assert_eq!(status, 5, "{text}");
    assert!(text.lines().next().unwrap().contains("revoked"), "{text}");
}

#[test]
fn the_rule_about_applications_is_told_and_a_client_that_cannot_keep_it_is_barred() {
    let (_portal, shell) = enrolled();
    shell
        .line("policy create open --group build --resource db")
        .ok();
    shell
        .line("resource set db --applications only:backup")
        .ok();
    shell.line("account set --applications except:browser").ok();
    let (status, text) = explain(&shell);
    assert_eq!(status, 5, "{text}");
    let first = text.lines().next().unwrap();
    assert!(first.contains("update it"), "{text}");
    let last = text.lines().last().unwrap();
    assert_eq!(last, "on the client: only programs of backup may reach it");
    let shown = shell.json(&["resource", "show", "db"]);
    assert_eq!(
        shown["applications"],
        serde_json::json!({"only": ["backup"]})
    );
    // The account's is left.
    shell.line("resource set db --applications any").ok();
    let (_, text) = explain(&shell);
    assert!(
        text.ends_with("on the client: every program but those of browser may reach it\n"),
        "{text}"
    );
}
