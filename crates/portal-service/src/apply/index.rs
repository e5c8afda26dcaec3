//! Things by their names, those that are there and those that are wanted.

use culvert_base::quoted;
use culvert_policy::composed;
use culvert_portal_base::Fault;
use culvert_store::rules::{lookup_keys, name_key};
use std::collections::HashMap;

/// Things of one kind, by names that differ in more than the case of their letters.
#[derive(Debug)]
pub(super) struct Index<I> {
    /// `site`, `actor`…
    kind: &'static str,
    by_name: HashMap<String, Known<I>>,
}

#[derive(Clone, Copy, Debug)]
struct Known<I> {
    id: I,
    /// It is wanted; otherwise `prune` deletes it.
    is_wanted: bool,
}

impl<I: Copy> Index<I> {
    /// An index of the rows that exist.
    pub(super) fn new<'a>(kind: &'static str, rows: impl Iterator<Item = (&'a str, I)>) -> Self {
        let known = |(name, id)| {
            let is_wanted = false;
            (name_key(name), Known { id, is_wanted })
        };
        Self {
            kind,
            by_name: rows.map(known).collect(),
        }
    }

    /// The key of that name: of the thing that has it, in whatever form it is kept, or of a new one.
    fn key(&self, name: &str) -> String {
        let keys = lookup_keys(name);
        let known = keys.iter().find(|key| self.by_name.contains_key(*key));
        known.cloned().unwrap_or_else(|| name_key(&composed(name)))
    }

    /// The id of the row by that name.
    pub(super) fn find(&self, name: &str) -> Option<I> {
        self.by_name.get(&self.key(name)).map(|known| known.id)
    }

    /// Notes that a thing is wanted; refuses a name that is wanted twice.
    pub(super) fn want(&mut self, field: &str, name: &str, id: I) -> Result<(), Fault> {
        let is_wanted = true;
        let key = self.key(name);
        let before = self.by_name.insert(key, Known { id, is_wanted });
        match before {
            Some(Known {
                is_wanted: true, ..
            }) => Err(Fault::invalid(
                field,
                format_args!("another {} is named {} too", self.kind, quoted(name)),
            )),
            _ => Ok(()),
        }
    }

    /// Spares a thing from `prune`.
    pub(super) fn spare(&mut self, name: &str) {
        let key = self.key(name);
        if let Some(known) = self.by_name.get_mut(&key) {
            known.is_wanted = true;
        }
    }

    /// True if `prune` spares it.
    pub(super) fn is_wanted(&self, name: &str) -> bool {
        self.by_name
            .get(&self.key(name))
            .is_some_and(|known| known.is_wanted)
    }

    /// The id that a field refers to: a row that exists and stays, or one that is wanted.
    pub(super) fn refer(&self, field: &str, name: &str, prune: bool) -> Result<I, Fault> {
        let kind = self.kind;
        let Some(known) = self.by_name.get(&self.key(name)) else {
            let name = quoted(name);
            let detail = format!("there is no {kind} named {name}: declare it, or mend the name");
            return Err(Fault::invalid(field, detail));
        };
        if prune && !known.is_wanted {
            let name = quoted(name);
            let detail = format!(
                "the {kind} {name} is not declared, so that `prune` would delete it: declare it"
            );
            return Err(Fault::invalid(field, detail));
        }
        Ok(known.id)
    }
}
