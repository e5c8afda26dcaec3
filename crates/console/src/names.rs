//! Names of what entries of a log refer to, and the pages of it. Each is looked up once for a page.

use super::Console;
use super::person::Person;
use super::view::Cell;
use culvert_portal_base::Fault;
use culvert_store::EntityId;
use culvert_wire::api::DEFAULT_PAGE_LEN;
use std::collections::{HashMap, HashSet};

/// Look-ups for a page: four things for each of its entries, as the access log has. What is beyond is shown by
/// its id.
const MAX_LOOK_UPS: usize = 4 * DEFAULT_PAGE_LEN as usize;

/// What things are called.
pub(super) struct Names<'a> {
    console: &'a Console,
    person: &'a Person,
    /// Without a name where there is no such row any more.
    known: HashMap<EntityId, Option<String>>,
    gone: HashSet<EntityId>,
    look_ups: usize,
}

impl<'a> Names<'a> {
    pub(super) fn new(console: &'a Console, person: &'a Person) -> Self {
        Self {
            console,
            person,
            known: HashMap::new(),
            gone: HashSet::new(),
            look_ups: 0,
        }
    }

    /// What a log says itself needs no look-up. Its newest entry comes first and is right.
    pub(super) fn note(&mut self, id: EntityId, name: &str) {
        self.known
            .entry(id)
            .or_insert_with(|| Some(name.to_owned()));
    }

    /// It has no page any more.
    pub(super) fn note_gone(&mut self, id: EntityId) {
        self.gone.insert(id);
    }

    pub(super) async fn find(&mut self, id: EntityId) -> Result<(), Fault> {
        if self.known.contains_key(&id) || self.look_ups == MAX_LOOK_UPS {
            return Ok(());
        }
        self.look_ups += 1;
        let service = &self.console.service;
        let name = service.name_of(&self.person.caller, id).await?;
        self.known.insert(id, name);
        Ok(())
    }

    /// The name, of what was found.
    pub(super) fn get(&self, id: EntityId) -> Option<&str> {
        self.known.get(&id)?.as_deref()
    }

    /// The name, which leads to the page of what has one; the id of what was not found.
    pub(super) fn shown(&self, id: EntityId) -> Cell {
        match self.get(id) {
            Some(name) => self.linked(id, name),
            None => Cell::code(id),
        }
    }

    /// A text that leads to a page.
    pub(super) fn linked(&self, id: EntityId, text: impl std::fmt::Display) -> Cell {
        match page_of(id) {
            Some(path) if !self.gone.contains(&id) => Cell::link(path, text),
            Some(_) | None => Cell::text(text),
        }
    }

    /// The same, looked up first.
    pub(super) async fn cell(&mut self, id: impl Into<EntityId>) -> Result<Cell, Fault> {
        let id = id.into();
        self.find(id).await?;
        Ok(self.shown(id))
    }

    /// The same of what an entry may not name.
    pub(super) async fn maybe(&mut self, id: Option<impl Into<EntityId>>) -> Result<Cell, Fault> {
        match id {
            Some(id) => self.cell(id).await,
            None => Ok(Cell::text("–")),
        }
    }
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
        EntityId::Provider(id) => format!("/settings/providers/{id}"),
        EntityId::Membership(_) | EntityId::Token(_) | EntityId::Identity(_) => return None,
    })
}
