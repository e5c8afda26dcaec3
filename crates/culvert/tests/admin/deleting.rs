//! Deleting asks first, and a file that is cut short deletes nothing.

use crate::scene::{Portal, Shell};
use crate::terminal::on_terminal;
use std::path::Path;

/// One of every kind that can be deleted, and the command that does it.
fn filled() -> (Portal, Shell) {
    let (portal, shell) = Portal::with_office();
    for line in [
        "policy create p --group build --resource db",
        "token create --kind client --actor ci --name t",
        "sink create archive --file archive.jsonl",
    ] {
        shell.line(line).ok();
    }
    (portal, shell)
}

/// In an order in which each of them could be done.
const DELETING: &[&str] = &[
    "policy delete p",
    "resource delete db",
    "group delete build",
    "token delete t",
    "sink delete archive",
    "actor delete ci",
    "actor delete ci --cascade",
    "site delete office --cascade",
];

fn log_len(shell: &Shell) -> usize {
    let log = shell.json(&["log", "changes", "--limit", "1000"]);
    log["items"].as_array().unwrap().len()
}

#[test]
fn every_delete_without_a_terminal_is_refused_unless_yes_is_said() {
    let (_portal, shell) = filled();
    let before = log_len(&shell);
    for line in DELETING {
        let error = shell.line(line).fails(2);
        assert!(error.contains("--yes"), "{line}: {error}");
        let error = shell.line(&format!("{line} --output json")).fails(2);
        assert!(error.contains("--yes"), "{line}: {error}");
    }
    assert_eq!(log_len(&shell), before);
    for line in ["group delete build --yes", "sink delete archive -y"] {
        shell.line(line).ok();
    }
}

#[test]
fn every_delete_on_a_terminal_names_the_thing_and_asks() {
    let (_portal, shell) = filled();
    let before = log_len(&shell);
    for line in DELETING {
        let words: Vec<_> = line.split(' ').collect();
        let (shown, status) = on_terminal(shell.command(&words), "n\n");
        assert_eq!(status, Some(1), "{line}: {shown}");
        let question = format!("delete {} \"{}\"", words[0], words[2]);
        assert!(shown.contains(&question), "{line}: {shown}");
        assert!(shown.contains("Go on? [y/N]"), "{line}: {shown}");
        assert!(shown.contains("nothing was changed"), "{line}: {shown}");
        let everything = shown.contains("everything that belongs to it");
        assert_eq!(everything, line.contains("--cascade"), "{line}: {shown}");
    }
    assert_eq!(log_len(&shell), before);
    let group = ["group", "delete", "build"];
    let (shown, status) = on_terminal(shell.command(&group), "y\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("deleted"), "{shown}");
}

/// Applies a text to the present configuration.
fn pruned(shell: &Shell, file: &Path, text: &str, options: &[&str]) -> crate::scene::Said {
    std::fs::write(file, text).unwrap();
    let mut words = vec!["apply", "-f", file.to_str().unwrap()];
    words.extend(options);
    shell.run(&words)
}

#[test]
fn a_file_that_would_delete_all_of_a_kind_is_refused_unless_prune_all_is_said() {
    let (portal, shell) = filled();
    let file = portal.path("access.toml");
    let before = log_len(&shell);
    let site = "[[site]]\nname = 'office'\n";
    let another = "[[site]]\nname = 'elsewhere'\n";
    let actor = "[[actor]]\nname = 'ci'\nkind = 'service_account'\n";
    for (text, lost) in [
        (
            String::new(),
            &[
                "the only site",
                "the only actor",
                "the only group",
                "the only resource",
                "the only policy",
            ][..],
        ),
        ("# Cut short\n".to_owned(), &["the only site"]),
        // Blank, with rules about names alone, cut off behind a table, or with others of the same kinds in their place.
        (
            "\n \t\r\n\n".to_owned(),
            &["the only site", "the only policy"],
        ),
        (
            "[dns]\nsearch = ['corp.example']\n".to_owned(),
            &["the only site"],
        ),
        (actor.to_owned(), &["the only site", "the only resource"]),
        (site.to_owned(), &["the only actor", "the only group"]),
        (
            format!("{site}{actor}[[group]]\nname = 'others'\n"),
            &["the only group", "the only policy"],
        ),
        (format!("{site}{actor}"), &["the only group"]),
        (format!("{another}{actor}"), &["the only site"]),
    ] {
        let refused = pruned(&shell, &file, &text, &["--prune", "--yes"]).fails(2);
        for part in lost.iter().chain(&["--prune-all"]) {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        let dry = pruned(&shell, &file, &text, &["--prune", "--dry-run"]);
        let warning = String::from_utf8(dry.0.stderr.clone()).unwrap();
        assert!(warning.starts_with("warning: "), "{warning}");
        assert!(warning.contains("--prune-all"), "{warning}");
        assert!(dry.ok().contains("to delete"));
    }
    assert_eq!(log_len(&shell), before);

    pruned(&shell, &file, "", &["--prune-all", "--yes"]).ok();
    let sites = shell.json(&["site", "list"]);
    assert_eq!(sites["items"], serde_json::json!([]));
    // Nothing is left to delete, so there is nothing to refuse.
    let again = pruned(&shell, &file, "", &["--prune", "--yes"]).ok();
    assert_eq!(again, "nothing to change\n");
}
