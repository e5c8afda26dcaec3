//! `[[policy]]` in `access.toml`: its own keys, and one for each field of a condition.

use super::one_or_more::OneOrMore;
use super::words::{CONDITION_FIELDS, ConditionField, ConditionTexts, Input, policy_name};
use culvert_base::quoted;
use culvert_wire::Timestamp;
use culvert_wire::api::DesiredPolicy;
use culvert_wire::model::Condition;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::LazyLock;

/// A policy as the file has it.
#[derive(Debug)]
pub(super) struct PolicyEntry {
    name: Option<String>,
    group: String,
    resource: String,
    disabled: bool,
    conditions: Option<Vec<Condition>>,
    texts: ConditionTexts,
    instants: Vec<(&'static ConditionField, Instant)>,
}

/// An instant, as TOML writes it or as a text.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected an instant such as 2027-01-31T18:00:00Z"
)]
enum Instant {
    Toml(toml::value::Datetime),
    Text(String),
}

impl PolicyEntry {
    pub(super) fn desired(self) -> Result<DesiredPolicy, String> {
        let name = self
            .name
            .unwrap_or_else(|| policy_name(&self.group, &self.resource));
        let of_policy = |error| format!("policy {}: {error}", quoted(&name));
        let mut texts = self.texts;
        for (field, instant) in self.instants {
            let instant = instant.read(field).map_err(of_policy)?;
            texts.set(field, vec![instant.to_string()]);
        }
        let conditions = match self.conditions {
            None => texts.conditions().map_err(of_policy)?,
            Some(conditions) if texts.is_empty() => conditions,
            Some(_) => {
                return Err(format!(
                    "policy {} has `conditions` beside others: keep them in one form",
                    quoted(&name)
                ));
            }
        };
        Ok(DesiredPolicy {
            name,
            group: self.group,
            resource: self.resource,
            disabled: self.disabled,
            conditions,
        })
    }
}

impl Instant {
    /// Always the same instant, however often the file is applied.
    fn read(self, field: &ConditionField) -> Result<Timestamp, String> {
        let text = match self {
            Self::Toml(datetime) => datetime.to_string(),
            Self::Text(text) => text,
        };
        text.parse().map_err(|_| {
            format!(
                "{} = {text}: it must be an instant with its zone, such as 2027-01-31T18:00:00Z",
                field.name
            )
        })
    }
}

/// A key of the table.
enum Key {
    Name,
    Group,
    Resource,
    Disabled,
    Conditions,
    Field(&'static ConditionField),
}

/// Keys that are no field of a condition.
const OWN_KEYS: [(&str, Key); 5] = [
    ("name", Key::Name),
    ("group", Key::Group),
    ("resource", Key::Resource),
    ("disabled", Key::Disabled),
    ("conditions", Key::Conditions),
];

static KEYS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let fields = CONDITION_FIELDS.iter().map(|field| field.name);
    let own = OWN_KEYS.into_iter().map(|(name, _)| name);
    own.chain(fields).collect()
});

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let own = OWN_KEYS.into_iter().find(|(name, _)| *name == text);
        let field = || CONDITION_FIELDS.iter().find(|field| field.name == text);
        let key = own.map(|(_, key)| key);
        key.or_else(|| field().map(Self::Field))
            .ok_or_else(|| Error::unknown_field(&text, &KEYS))
    }
}

impl<'de> Deserialize<'de> for PolicyEntry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_struct("PolicyEntry", &KEYS, Entry)
    }
}

struct Entry;

impl<'de> Visitor<'de> for Entry {
    type Value = PolicyEntry;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("struct PolicyEntry")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PolicyEntry, A::Error> {
        let (mut name, mut group, mut resource) = (None, None, None);
        let (mut disabled, mut conditions) = (false, None);
        let mut texts = ConditionTexts::default();
        let mut instants = Vec::new();
        // TOML has each key once.
        while let Some(key) = map.next_key()? {
            match key {
                Key::Name => name = map.next_value()?,
                Key::Group => group = Some(map.next_value()?),
                Key::Resource => resource = Some(map.next_value()?),
                Key::Disabled => disabled = map.next_value()?,
                Key::Conditions => conditions = map.next_value()?,
                Key::Field(field) => match field.input {
                    Input::Timestamp => instants.push((field, map.next_value()?)),
                    Input::Choice { .. } => {
                        let is_asked: bool = map.next_value()?;
                        let yes = is_asked.then(|| Input::YES.to_owned());
                        texts.set(field, Vec::from_iter(yes));
                    }
                    Input::Windows | Input::WordLines | Input::Words | Input::Countries => {
                        texts.set(field, map.next_value::<OneOrMore>()?.into_vec());
                    }
                },
            }
        }
        Ok(PolicyEntry {
            name,
            group: group.ok_or_else(|| Error::missing_field("group"))?,
            resource: resource.ok_or_else(|| Error::missing_field("resource"))?,
            disabled,
            conditions,
            texts,
            instants,
        })
    }
}
