//! Fields in which a thing is chosen by its name: a list to open where there are few, otherwise a line that takes a part of
//! the name.

use super::asked::Asked;
use super::person::Person;
use super::state::Console;
use super::view::{Form, Kind};
use axum::Json;
use axum::extract::State;
use culvert_portal_base::Fault;
use culvert_portal_service::MAX_CHOICES;
use culvert_store::EntityKind;

/// The kinds of things that people choose in forms.
const CHOSEN: [EntityKind; 6] = [
    EntityKind::Actor,
    EntityKind::Client,
    EntityKind::Gateway,
    EntityKind::Group,
    EntityKind::Resource,
    EntityKind::Site,
];

/// The names that have a text in them, for the script of a page: `/choices?kind=group&text=dev`.
pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    Asked(asked): Asked,
) -> Result<Json<Vec<String>>, Fault> {
    let kind = CHOSEN
        .into_iter()
        .find(|kind| kind.as_str() == asked.text("kind"));
    let Some(kind) = kind else {
        person.caller.may_read()?;
        return Ok(Json(Vec::new()));
    };
    let found = console
        .service
        .choices(&person.caller, kind, asked.text("text"))
        .await?;
    Ok(Json(found.names))
}

impl Console {
    /// The form with the things that there are, in each field that takes the name of one.
    pub(super) async fn with_choices(
        &self,
        person: &Person,
        mut form: Form,
    ) -> Result<Form, Fault> {
        // A question that leaves a field empty asks about all things of the kind.
        let is_filter = form.method == "get";
        for field in &mut form.fields {
            let kind = match &field.kind {
                Kind::Suggested {
                    things: Some(kind),
                    suggestions,
                    ..
                } if suggestions.is_empty() => *kind,
                _ => continue,
            };
            let offered = self.offered(person, kind, &field.value).await?;
            // The only thing there is needs no choice.
            let only = match &*offered.choices {
                [only] if field.is_required && field.value.is_empty() => Some(only.clone()),
                _ => None,
            };
            field.value = offered.value;
            field.is_required = field.is_required && offered.others.is_none();
            field.kind = match (offered.is_list, offered.others) {
                (false, _) => Kind::Suggested {
                    things: Some(kind),
                    suggestions: offered.choices,
                    is_list: false,
                },
                (true, others) => {
                    let first = match offered.choices.is_empty() {
                        _ if is_filter && !field.is_required => "all".to_owned(),
                        true => "There is none yet: create one first".to_owned(),
                        false => format!("Choose {} {kind}", kind.article()),
                    };
                    let choices = offered.choices.into_iter();
                    let named = choices.map(|name| (name.clone(), name));
                    let others = others.map(|others| (String::new(), others));
                    let first = (String::new(), first);
                    Kind::Choice(std::iter::once(first).chain(named).chain(others).collect())
                }
            };
            if let Some(only) = only {
                field.value = only;
            }
        }
        Ok(form)
    }

    /// The things that a field offers in place of this text.
    async fn offered(
        &self,
        person: &Person,
        kind: EntityKind,
        text: &str,
    ) -> Result<Offered, Fault> {
        let (service, caller) = (&self.service, &person.caller);
        let all = service.choices(caller, kind, "").await?;
        let is_few = all.total <= MAX_CHOICES;
        let text = text.trim();
        if text.is_empty() {
            return Ok(Offered::new(String::new(), all.names, is_few));
        }
        if let Some(name) = service.choice_named(caller, kind, text).await? {
            return Ok(Offered::new(name, all.names, is_few));
        }
        let mut fitting = service.choices(caller, kind, text).await?;
        Ok(match (fitting.total, fitting.names.pop()) {
            (1, Some(only)) => Offered::new(only, all.names, is_few),
            (0, _) | (_, None) => Offered::new(text.to_owned(), all.names, false),
            (total, Some(last)) => {
                fitting.names.push(last);
                let rest = total.saturating_sub(MAX_CHOICES);
                let others = match rest {
                    0 => "None of these: write another name".to_owned(),
                    rest => format!("None of these, of {rest} more: write more of the name"),
                };
                Offered {
                    others: Some(others),
                    ..Offered::new(String::new(), fitting.names, true)
                }
            }
        })
    }
}

/// The content of a field in which a thing is chosen.
struct Offered {
    value: String,
    choices: Vec<String>,
    /// The choices are all that the field takes.
    is_list: bool,
    /// The last entry of a list that has only a part of all things.
    others: Option<String>,
}

impl Offered {
    fn new(value: String, choices: Vec<String>, is_list: bool) -> Self {
        Self {
            value,
            choices,
            is_list,
            others: None,
        }
    }
}
