//! Rows that the mutations of a large write ask for, read ahead by few statements. A statement that asks for one row takes
//! as long as one that asks for a thousand.
//!
//! Everything here is as a statement would find it at that moment of the write. Rows that the write changes are forgotten
//! or noted. Everything else is asked of the database, as in a small write.

use culvert_ids::{ActorId, GroupId};
use culvert_store::rules::{self, lookup_keys, name_key};
use culvert_store::{Entity, EntityId, EntityKind, Membership};
use std::collections::{BTreeMap, BTreeSet};

/// The rows, names and references that were read ahead.
#[derive(Default)]
pub(super) struct Ahead {
    /// Rows that are to be changed or deleted. Each is given out once.
    pub(super) rows: BTreeMap<EntityId, Entity>,
    /// Rows by the keys of names that were asked for.
    pub(super) names: BTreeMap<(EntityKind, String), Vec<EntityId>>,
    /// Memberships by what they join, where that was asked for.
    pub(super) memberships: BTreeMap<(GroupId, ActorId), Option<EntityId>>,
    /// The users of rows that are to be deleted, as far as they are still there.
    pub(super) users: BTreeMap<EntityId, BTreeSet<EntityId>>,
}

impl Ahead {
    /// A row as it is, if it was read.
    pub(super) fn take_row(&mut self, id: EntityId) -> Option<Entity> {
        self.rows.remove(&id)
    }

    /// The row, other than `own`, that has the name. None if that is to be asked of the database.
    pub(super) fn named(
        &self,
        kind: EntityKind,
        name: &str,
        own: Option<EntityId>,
    ) -> Option<Option<EntityId>> {
        if self.names.is_empty() {
            return None;
        }
        let mut found = BTreeSet::new();
        for key in lookup_keys(name) {
            found.extend(self.names.get(&(kind, key))?);
        }
        found.retain(|id| Some(*id) != own);
        // The database says which of several is told.
        (found.len() <= 1).then(|| found.first().copied())
    }

    /// The membership of an actor in a group. None if that is to be asked of the database.
    pub(super) fn membership(&self, of: &Membership) -> Option<Option<EntityId>> {
        self.memberships.get(&(of.group, of.actor)).copied()
    }

    /// True if nothing refers to a row that is to be deleted.
    pub(super) fn is_unused(&self, id: EntityId) -> bool {
        self.users.get(&id).is_some_and(BTreeSet::is_empty)
    }

    /// Notes a row that the write has added.
    pub(super) fn note_added(&mut self, row: &Entity) {
        if let Some(name) = rules::name(row)
            && let Some(ids) = self.names.get_mut(&(row.kind(), name_key(name)))
        {
            ids.push(row.id());
        }
        if let Entity::Membership(new) = row
            && let Some(there) = self.memberships.get_mut(&(new.group, new.actor))
        {
            *there = Some(new.id.into());
        }
        self.note_references(row);
    }

    /// Notes that a row refers to others from now on.
    pub(super) fn note_references(&mut self, row: &Entity) {
        if self.users.is_empty() {
            return;
        }
        for id in rules::references(row) {
            if let Some(users) = self.users.get_mut(&id) {
                users.insert(row.id());
            }
        }
    }

    /// Forgets which row has the name of this one. A row that is renamed has taken it.
    pub(super) fn forget_name(&mut self, row: &Entity) {
        if !self.names.is_empty()
            && let Some(name) = rules::name(row)
        {
            for key in lookup_keys(name) {
                self.names.remove(&(row.kind(), key));
            }
        }
    }

    /// Forgets what a row was before a change.
    pub(super) fn forget(&mut self, row: &Entity) {
        self.rows.remove(&row.id());
        self.forget_name(row);
        if let Entity::Membership(gone) = row {
            self.memberships.remove(&(gone.group, gone.actor));
        }
        if self.users.is_empty() {
            return;
        }
        for id in rules::references(row) {
            if let Some(users) = self.users.get_mut(&id) {
                users.remove(&row.id());
            }
        }
    }
}
