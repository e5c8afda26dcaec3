//! Rows in the form in which they are wanted: by names, field by field.

use culvert_store as store;
use culvert_wire::api::FieldChange;
use culvert_wire::model::Applications;
use serde::Serialize;
use serde_json::{Map, Value};

/// The fields of a thing that people decide about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Form(Map<String, Value>);

impl Form {
    pub(super) fn named(name: &str) -> Self {
        Self::default().with("name", name)
    }

    pub(super) fn with(mut self, field: &str, value: impl Serialize) -> Self {
        // A value without a JSON form would be shown as null; these all have one.
        let value = serde_json::to_value(value).unwrap_or_default();
        self.0.insert(field.to_owned(), value);
        self
    }

    /// `relays` are the names of the only ones that it uses.
    pub(super) fn site(name: &str, relays: Option<&[String]>) -> Self {
        let form = Self::named(name);
        match relays {
            None => form,
            Some(relays) => form.with("relays", relays),
        }
    }

    pub(super) fn actor(name: &str, kind: store::ActorKind, disabled: bool) -> Self {
        Self::named(name)
            .with("kind", kind)
            .with("disabled", disabled)
    }

    pub(super) fn group(name: &str) -> Self {
        Self::named(name)
    }

    pub(super) fn resource(row: &store::Resource, site: &str) -> Self {
        let form = Self::named(&row.name)
            .with("site", site)
            .with("kind", row.target.kind)
            .with("address", &row.target.address)
            .with("filters", &row.filters);
        // The defaults of most resources need not be shown.
        let form = match &row.applications {
            Applications::Any => form,
            rule => form.with("applications", rule),
        };
        let form = match row.inbound.is_empty() {
            true => form,
            false => form.with("inbound", &row.inbound),
        };
        match &row.within {
            None => form,
            Some(networks) => form.with("within", networks),
        }
    }

    pub(super) fn dns(account: &str, dns: &culvert_wire::model::Dns) -> Self {
        Self::named(account)
            .with("dns.search", &dns.search)
            .with("dns.domains", &dns.domains)
    }

    pub(super) fn policy(
        name: &str,
        group: &str,
        resource: &str,
        disabled: bool,
        conditions: &[culvert_wire::model::Condition],
    ) -> Self {
        Self::named(name)
            .with("group", group)
            .with("resource", resource)
            .with("disabled", disabled)
            .with("conditions", conditions)
    }

    /// The thing's name.
    pub(super) fn name(&self) -> String {
        let name = self.0.get("name").and_then(Value::as_str);
        name.unwrap_or_default().to_owned()
    }

    /// All fields of a new thing.
    pub(super) fn as_new(&self) -> Vec<FieldChange> {
        Self::default().changes_to(self)
    }

    /// All fields of a thing that goes.
    pub(super) fn as_gone(&self) -> Vec<FieldChange> {
        self.changes_to(&Self::default())
    }

    /// The fields that differ.
    pub(super) fn changes_to(&self, next: &Self) -> Vec<FieldChange> {
        let gone = self.0.keys().filter(|field| !next.0.contains_key(*field));
        let fields = next.0.keys().chain(gone);
        fields
            .filter(|field| self.0.get(*field) != next.0.get(*field))
            .map(|field| FieldChange {
                field: field.clone(),
                before: self.0.get(field).cloned(),
                after: next.0.get(field).cloned(),
            })
            .collect()
    }
}
