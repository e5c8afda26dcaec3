//! Forms that bring people into groups, several at once: from the page of a group, and from the page of a person.

use super::fields::Fields;
use super::forms::with_way_back;
use super::person::Person;
use super::state::Console;
use super::view::{CheckBox, Field, Form};
use culvert_ids::{ActorId, GroupId};
use culvert_portal_base::{Fault, Problems};
use culvert_portal_service::{ListRequest, MAX_CHOICES};
use culvert_store::{EntityKind, Kind};
use std::collections::BTreeSet;

/// Names that are taken at once: each is a change of its own.
const MAX_AT_ONCE: usize = 200;

/// The boxes of the form.
const BOXES: &str = "chosen";

/// The form of one of the two pages.
pub(super) struct Adding {
    title: &'static str,
    action: String,
    /// The kind of things that are added.
    kind: EntityKind,
    /// Names of the fields for one thing and for several.
    fields: (&'static str, &'static str),
    labels: (&'static str, &'static str, &'static str),
    /// The names of those that are there already.
    there: BTreeSet<String>,
}

impl Adding {
    pub(super) async fn to_group(
        console: &Console,
        person: &Person,
        id: GroupId,
    ) -> Result<Self, Fault> {
        let request = ListRequest::default();
        let members = console
            .service
            .members(&person.caller, id, &request)
            .await?;
        let there = members.items.into_iter().map(|member| member.actor_name);
        Ok(Self {
            title: "Add members",
            action: format!("/groups/{id}"),
            kind: EntityKind::Actor,
            fields: ("actor", "actors"),
            labels: (
                "Person or machine",
                "Several, a name on each line",
                "People and machines",
            ),
            there: there.collect(),
        })
    }

    pub(super) async fn of_actor(
        console: &Console,
        person: &Person,
        id: ActorId,
    ) -> Result<Self, Fault> {
        let service = &console.service;
        Ok(Self {
            title: "Add to groups",
            action: format!("/people/{id}/groups"),
            kind: EntityKind::Group,
            fields: ("group", "groups"),
            labels: ("Group", "Several, a name on each line", "Groups"),
            there: service.group_names_of(&person.caller, id).await?,
        })
    }

    /// Boxes where there are few things, otherwise fields for names. With the values that were sent, if there are some.
    pub(super) async fn form(
        &self,
        console: &Console,
        person: &Person,
        sent: Option<&Fields>,
    ) -> Result<Form, Fault> {
        let (one, several) = self.fields;
        let all = console.service.choices(&person.caller, self.kind, "");
        let all = all.await?;
        let text = |name| sent.map_or("", |fields| fields.text(name));
        let is_few = all.total <= MAX_CHOICES;
        let (names, suggestions) = match is_few {
            true => (all.names, Vec::new()),
            false => (
                self.fitting(console, person, text(several)).await?,
                all.names,
            ),
        };
        let boxes = names.into_iter().filter(|name| !self.there.contains(name));
        let is_boxed = boxes.clone().any(|name| name == text(one));
        let is_checked = |name: &String| {
            let is_sent = |fields: &Fields| fields.checked(BOXES).any(|key| key == name);
            sent.is_some_and(is_sent) || name == text(one)
        };
        let boxes = boxes.map(|name| CheckBox {
            is_checked: is_checked(&name),
            label: name.clone(),
            key: name,
        });
        let boxes: Vec<CheckBox> = boxes.collect();
        let mut fields = Vec::new();
        if !boxes.is_empty() {
            fields.push(Field::boxes(BOXES, self.labels.2, boxes));
        }
        // Names that were written stay, also where boxes would do.
        if !is_few || !(text(one).is_empty() || is_boxed) {
            let mut thing = Field::thing(one, self.labels.0, self.kind).optional();
            // A text that was refused is looked at anew.
            if text(one).is_empty() {
                thing = thing.suggesting(suggestions);
            }
            fields.push(thing.value(text(one)));
        }
        if !is_few || !text(several).is_empty() {
            let lines = Field::lines(several, self.labels.1);
            fields.push(lines.value(text(several)));
        }
        let form = Form::new(self.title, self.action.clone(), "Add", fields);
        let form = match sent {
            Some(sent) => with_way_back(form, sent),
            None => form,
        };
        console.with_choices(person, form).await
    }

    /// The names that fit lines which fit several.
    async fn fitting(
        &self,
        console: &Console,
        person: &Person,
        lines: &str,
    ) -> Result<Vec<String>, Fault> {
        let (service, caller) = (&console.service, &person.caller);
        let mut names = BTreeSet::new();
        for line in lines.lines().map(str::trim).take(MAX_AT_ONCE) {
            if line.is_empty() || names.len() as u64 >= MAX_CHOICES {
                continue;
            }
            if service
                .choice_named(caller, self.kind, line)
                .await?
                .is_none()
            {
                let found = service.choices(caller, self.kind, line).await?;
                names.extend(found.names.into_iter().filter(|_| found.total > 1));
            }
        }
        let names = names
            .into_iter()
            .take(usize::try_from(MAX_CHOICES).unwrap_or(usize::MAX));
        Ok(names.collect())
    }

    /// The things that a form names. All names that mean none are told at once.
    pub(super) async fn wanted<T: Kind>(
        &self,
        console: &Console,
        person: &Person,
        fields: &Fields,
    ) -> Result<Vec<T>, Fault> {
        person.caller.may_change()?;
        let (one, several) = self.fields;
        let lines = fields.lines(several);
        if lines.len() > MAX_AT_ONCE {
            let detail = format!("write at most {MAX_AT_ONCE} names at once");
            return Err(Fault::invalid(several, detail));
        }
        let boxes = fields.checked(BOXES).map(|key| (BOXES.to_owned(), key));
        let line = fields.filled(one).map(|text| (one.to_owned(), text));
        let lines = lines.iter().enumerate();
        let lines = lines.map(|(at, line)| (format!("{several}[{at}]"), &**line));
        let mut problems = Problems::default();
        let mut wanted = Vec::new();
        for (field, text) in boxes.chain(line).chain(lines) {
            let found = console.service.chosen::<T>(&person.caller, text).await;
            let found = found.map_err(|fault| fault.at_field(&field));
            wanted.extend(problems.take(found)?);
        }
        problems.finish()?;
        match wanted.is_empty() {
            true => Err(Fault::invalid("", "Choose at least one.")),
            false => Ok(wanted),
        }
    }
}

/// The form of a group's page, with what the address has for its fields.
pub(super) async fn to_group(
    console: &Console,
    person: &Person,
    id: GroupId,
    asked: &Fields,
) -> Result<Form, Fault> {
    let adding = Adding::to_group(console, person, id).await?;
    adding.form(console, person, Some(asked)).await
}

/// The form of a person's page.
pub(super) async fn of_actor(
    console: &Console,
    person: &Person,
    id: ActorId,
) -> Result<Form, Fault> {
    let adding = Adding::of_actor(console, person, id).await?;
    adding.form(console, person, None).await
}
