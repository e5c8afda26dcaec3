//! Names for which the field has a better word: they must not come back.

use crate::source;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// A name that was given up, and the term that an engineer looks for instead.
const GIVEN_UP: &[(&str, &str)] = &[
    ("QueueStands", "Codel (RFC 8289)"),
    ("queue_stands", "codel (RFC 8289)"),
    ("Backlogged", "SendLimit"),
    ("URGENT_QUEUE", "PRIORITY_QUEUE"),
    ("is_urgent", "is_priority"),
    ("only_urgent", "only_priority"),
    ("has_express", "has_priority"),
    ("Keeper", "the job: HubHandle, GrantJournal, FirewallHandle"),
    ("GrantKeeper", "GrantJournal"),
    ("Desk", "the job: HubActor"),
    ("Letter", "Outgoing"),
    ("Book", "QueueState"),
    ("SocketPair", "WorkerSockets"),
    ("TunAccount", "TunQueueCredit"),
    ("QueueAccount", "QueueCredit"),
    (
        "Refusal",
        "a name that says of what: RouteRefusal, HostRefusal",
    ),
    ("Kept", "PersistedGrants, StoredDescriptors"),
    ("handle_kept", "handle_persisted"),
    ("handle_doubt", "handle_recheck"),
    ("Patience", "SiteHealth"),
    ("give_up", "what it does: time_out_names, fail_ask"),
];

/// The only file that may have them.
const OWN_FILE: &str = "xtask/src/vocabulary.rs";

/// Lists the given-up names in Rust code, with line and remedy.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in source::files(root, "rs")? {
        let name = path.strip_prefix(root)?.display().to_string();
        if name == OWN_FILE {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| name.clone())?;
        let found = given_up(&text);
        problems.extend(found.map(|(line, old, new)| format!("{name}:{line}: {old}: write {new}")));
    }
    Ok(problems)
}

/// Lines, from 1, that have such a name outside of comments.
fn given_up(text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let lines = text.lines().enumerate();
    lines.flat_map(|(index, line)| {
        let code = line.split("//").next().unwrap_or_default();
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let names: Vec<&str> = code.split(|it| !is_name(it)).collect();
        let found = GIVEN_UP.iter().filter(move |(old, _)| names.contains(old));
        found.map(move |(old, new)| (index + 1, *old, *new))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_in_code_are_found_and_words_of_comments_are_not() {
        let text =
            "let keeper = Keeper::new();\n// A Keeper.\nlet it = Bookkeeper;\nself.give_up();\n";
        let found: Vec<_> = given_up(text).map(|(line, old, _)| (line, old)).collect();
        assert_eq!(found, [(1, "Keeper"), (4, "give_up")]);
    }
}
