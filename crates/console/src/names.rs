//! Names of what the rows of a list refer to, and their pages. One question to the service answers a whole page.

use super::paths;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Piece};
use culvert_portal_base::Fault;
use culvert_store::{EntityId, NamedRow};
use culvert_wire::api::DEFAULT_PAGE_LEN;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Look-ups for a page: four things for each of its entries, as the access log has. Further things
/// are shown by their ids.
const MAX_LOOK_UPS: usize = 4 * DEFAULT_PAGE_LEN as usize;

impl Console {
    /// The name of a row, as a notice says it; its id where it has none or is gone.
    pub(super) async fn name_of(
        &self,
        person: &Person,
        id: impl Into<EntityId>,
    ) -> Result<String, Fault> {
        let id = id.into();
        Ok(Names::of(self, person, [id]).await?.text(id))
    }
}

/// The names of rows. Those that have none, and those that are gone, are not here.
#[derive(Default)]
pub(super) struct Names {
    known: BTreeMap<EntityId, String>,
    gone: HashSet<EntityId>,
}

impl Names {
    /// The names of these rows, by one question.
    pub(super) async fn of(
        console: &Console,
        person: &Person,
        ids: impl IntoIterator<Item = EntityId>,
    ) -> Result<Self, Fault> {
        let mut names = Self::default();
        names.find(console, person, ids).await?;
        Ok(names)
    }

    /// A log has this name itself, so that it needs no look-up. Its newest entry comes first and is right.
    pub(super) fn note(&mut self, id: EntityId, name: &str) {
        let known = self.known.entry(id);
        known.or_insert_with(|| name.to_owned());
    }

    /// It has no page any more.
    pub(super) fn note_gone(&mut self, id: EntityId) {
        self.gone.insert(id);
    }

    /// Looks up the names of these rows, by one question.
    pub(super) async fn find(
        &mut self,
        console: &Console,
        person: &Person,
        ids: impl IntoIterator<Item = EntityId>,
    ) -> Result<(), Fault> {
        let mut wanted = BTreeSet::new();
        for id in ids {
            if wanted.len() < MAX_LOOK_UPS && !self.known.contains_key(&id) {
                wanted.insert(id);
            }
        }
        let found = console.service.names_of(&person.caller, wanted).await?;
        self.known.extend(found);
        Ok(())
    }

    /// The name, of what was found.
    pub(super) fn get(&self, id: EntityId) -> Option<&str> {
        self.known.get(&id).map(String::as_str)
    }

    /// The name; the id of what was not found.
    pub(super) fn text(&self, id: impl Into<EntityId>) -> String {
        let id = id.into();
        self.get(id).map_or_else(|| id.to_string(), str::to_owned)
    }

    /// The name, which leads to the page of what has one; the id of what was not found.
    pub(super) fn shown(&self, id: impl Into<EntityId>) -> Cell {
        let id = id.into();
        match self.get(id) {
            Some(name) => self.linked(id, name),
            None => Cell::code(id),
        }
    }

    /// The same as a part of a line.
    pub(super) fn piece(&self, id: EntityId) -> Piece {
        match self.shown(id) {
            Cell::Link { path, text } => Piece {
                text,
                path: Some(path),
            },
            _ => Piece::text(self.text(id)),
        }
    }

    /// A text that leads to a page.
    pub(super) fn linked(&self, id: EntityId, text: impl std::fmt::Display) -> Cell {
        match page_of(id) {
            Some(path) if !self.gone.contains(&id) => Cell::link(path, text),
            Some(_) | None => Cell::text(text),
        }
    }

    /// The same of what an entry may not name.
    pub(super) fn maybe(&self, id: Option<impl Into<EntityId>>) -> Cell {
        id.map_or_else(|| Cell::text("–"), |id| self.shown(id))
    }
}

/// The way to a row that uses another. A token has no page: an actor's page lists its tokens, sessions among them, and
/// those of a site are found in the list of all.
pub(super) fn user_of(used: EntityId, user: &NamedRow) -> Cell {
    let searched = || paths::asking("/settings/tokens", &[("search", &user.name)]);
    let path = match (user.id, used) {
        (EntityId::Token(_), EntityId::Actor(_)) => page_of(used),
        _ => page_of(user.id),
    };
    Cell::link(path.unwrap_or_else(searched), &user.name)
}

fn page_of(id: EntityId) -> Option<String> {
    Some(match id {
        EntityId::Account(_) => "/settings/account".to_owned(),
        EntityId::Actor(id) => format!("/people/{id}"),
        EntityId::Group(id) => format!("/groups/{id}"),
        EntityId::Site(id) => format!("/sites/{id}"),
        EntityId::Resource(id) => format!("/resources/{id}"),
        EntityId::Policy(id) => format!("/policies/{id}"),
        EntityId::Client(id) => format!("/clients/{id}"),
        EntityId::Gateway(id) => format!("/gateways/{id}"),
        EntityId::Relay(id) => format!("/relays/{id}"),
        EntityId::Provider(id) => format!("/settings/providers/{id}"),
        EntityId::Membership(_) | EntityId::Token(_) | EntityId::Identity(_) => return None,
    })
}
