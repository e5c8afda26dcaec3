//! Names for which the field has a better word: they must not come back.

use crate::source;
use anyhow::{Context, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};
use std::fs;
use std::path::Path;

/// A name that was given up, and the term that an engineer looks for instead.
const GIVEN_UP: &[(&str, &str)] = &[
    ("QueueStands", "Codel (RFC 8289)"),
    ("queue_stands", "codel (RFC 8289)"),
    ("Backlogged", "SendLimit"),
    ("URGENT_QUEUE", "PRIORITY_QUEUE"),
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
    ("kept", "persisted, stored, retained, remaining"),
    ("KEPT", "MAX_STORED, LIFETIME: what it bounds"),
    ("carry_out", "execute"),
    ("note_carried", "record_traffic"),
    ("standing", "current_principal, rights: what it is"),
    ("Standing", "what it is the state of: ApplicationRule"),
    ("elsewhere", "other, foreign, outside"),
    ("ELSEWHERE", "OTHER_ADDRESS"),
    ("PATIENCE", "TIMEOUT, DEADLINE"),
    ("patience", "timeout"),
    ("alike", "equals, is_same_…"),
    ("doubt", "recheck, warning"),
    ("doubts", "rechecks, warnings"),
    ("is_doubtful", "needs_recheck"),
    ("settle", "finish, wait_until_idle"),
    ("departure", "exit"),
    ("Departure", "exit: LoopExit"),
    ("farewell", "goodbye message, by its name on the wire"),
    ("desk", "workstation, HubActor"),
    ("Backlog", "UnwrittenRecords, SendLimit"),
    ("is_urgent", "is_priority"),
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
        let found = given_up(&text).with_context(|| name.clone())?;
        let lines = found.into_iter();
        problems.extend(lines.map(|(line, old, new)| format!("{name}:{line}: {old}: write {new}")));
    }
    Ok(problems)
}

/// Lines, from 1, that have such a name outside of comments and texts.
fn given_up(text: &str) -> Result<Vec<(usize, &'static str, &'static str)>> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("no Rust: {error}"))?;
    let mut found = Vec::new();
    let mut ahead = vec![tokens];
    while let Some(tokens) = ahead.pop() {
        for token in tokens {
            match token {
                TokenTree::Group(group) => ahead.push(group.stream()),
                TokenTree::Ident(name) => {
                    let known = GIVEN_UP.iter().find(|(old, _)| name == old);
                    found.extend(known.map(|(old, new)| (name.span().start().line, *old, *new)));
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_in_code_are_found_and_words_of_comments_and_texts_are_not() {
        let text = "fn f() {\nlet keeper = Keeper::new();\n// A Keeper.\nlet it = Bookkeeper(\"kept\");\n\
                    if it { self.give_up(); }\n}\n";
        let found = given_up(text).unwrap();
        let found: Vec<_> = found.iter().map(|(line, old, _)| (*line, *old)).collect();
        assert_eq!(found, [(2, "Keeper"), (5, "give_up")]);
    }
}
