//! Things that people choose in forms, by their names or by parts of them.

use super::{Caller, Service};
use culvert_base::quoted;
use culvert_portal_base::Fault;
use culvert_store::{Entity, EntityKind, Found, Kind, ListFilter, PageLimit, Position};

/// Things that a form offers at once: a list that people still read, of some 3 kB.
pub const MAX_CHOICES: u64 = 50;

/// Bytes of a text that is looked for: no name is longer.
const MAX_TEXT_LEN: usize = 256;

/// The things that have a text in their names.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// The names of the first of them, in order.
    pub names: Vec<String>,
    /// The number of all.
    pub total: u64,
}

impl Service {
    /// The things of a kind with this text in their names; all things for an empty text.
    pub async fn choices(
        &self,
        caller: &Caller,
        kind: EntityKind,
        text: &str,
    ) -> Result<Choices, Fault> {
        let found = self.found(caller, kind, text, is_part).await?;
        let named = found.items.iter().filter_map(|row| row.name());
        let mut names: Vec<String> = named.map(str::to_owned).collect();
        // Revoked machines leave their names to others.
        names.dedup();
        Ok(Choices {
            names,
            total: found.total,
        })
    }

    /// The name of the thing that has this name, whatever the case of its letters.
    pub async fn choice_named(
        &self,
        caller: &Caller,
        kind: EntityKind,
        name: &str,
    ) -> Result<Option<String>, Fault> {
        let found = self.found(caller, kind, name, is_whole).await?;
        let last = found.items.last();
        Ok(last.and_then(Entity::name).map(str::to_owned))
    }

    /// The thing that a text means: the one of this name, or the only one with the text in its name.
    ///
    /// # Errors
    /// [`Fault::NotFound`], which says what has the text in its name.
    pub async fn chosen<T: Kind>(&self, caller: &Caller, text: &str) -> Result<T, Fault> {
        let (text, kind) = (text.trim(), T::KIND);
        if text.is_empty() {
            let detail = format!("choose {} {kind}", kind.article());
            return Err(Fault::NotFound(detail));
        }
        let mut named = self.found(caller, kind, text, is_whole).await?;
        if let Some(row) = named.items.pop().and_then(T::from_entity) {
            return Ok(row);
        }
        let mut fitting = self.found(caller, kind, text, is_part).await?;
        let first = fitting.items.pop().and_then(T::from_entity);
        match (fitting.total, first) {
            (1, Some(only)) => Ok(only),
            (_, None) => Err(self.nothing_named::<T>(caller, text).await?),
            (total, Some(_)) => {
                let text = quoted(text);
                let detail = format!("{total} have {text} in their names: choose one of them");
                Err(Fault::NotFound(detail))
            }
        }
    }

    async fn found(
        &self,
        caller: &Caller,
        kind: EntityKind,
        text: &str,
        filter: fn(String) -> ListFilter,
    ) -> Result<Found<Entity>, Fault> {
        caller.may_read()?;
        let text = text.trim();
        if text.len() > MAX_TEXT_LEN {
            return Ok(Found {
                items: Vec::new(),
                total: 0,
            });
        }
        let filter = match text {
            "" => ListFilter::default(),
            text => filter(text.to_owned()),
        };
        let (store, limit) = (&self.database.store, PageLimit::new(MAX_CHOICES));
        let by_name = Position::default();
        let list = store.list_ordered(caller.account(), kind, &filter, by_name, limit);
        Ok(self.database.ask("list_ordered", list).await?)
    }
}

fn is_part(text: String) -> ListFilter {
    ListFilter {
        name_contains: Some(text),
        ..ListFilter::default()
    }
}

fn is_whole(name: String) -> ListFilter {
    ListFilter {
        name: Some(name),
        ..ListFilter::default()
    }
}
