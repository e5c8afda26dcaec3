//! The relays of a site: all of the account, or those that are chosen.

use super::edit::{Edit, Now};
use super::fields::Fields;
use super::forms::Posted;
use super::names::Names;
use super::paths::SITES;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, CheckBox, Field, Form, listed};
use axum::extract::State;
use axum::response::Response;
use culvert_ids::{RelayId, SiteId};
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{ANY_RELAY, ListRequest};
use culvert_wire::api::{MAX_PAGE_LEN, Site, SitePatch};

/// The field that says whether relays are chosen, and the boxes of those that are.
const USE: &str = "use";
const BOXES: &str = "relays";

/// The value of [`USE`] with which the boxes count.
const CHOSEN: &str = "chosen";

/// Characters of the names in a line.
const NAMES_CHARS: usize = 200;

/// The form, with the relays of the site or those that were sent. None where the account has no relay.
pub(super) async fn form(
    console: &Console,
    person: &Person,
    site: &Site,
    sent: Option<&Fields>,
) -> Result<Option<Form>, Fault> {
    let request = ListRequest {
        limit: Some(MAX_PAGE_LEN),
        ..ListRequest::default()
    };
    let relays = console.service.relays(&person.caller, &request).await?;
    if relays.items.is_empty() {
        return Ok(None);
    }
    let is_checked = |id: RelayId| match sent {
        Some(fields) => fields.checked(BOXES).any(|key| key == id.to_string()),
        None => site.relays.iter().flatten().any(|named| *named == id),
    };
    let mut relays = relays.items;
    relays.sort_by(|one, other| one.name.cmp(&other.name));
    let boxes = relays.iter().map(|relay| CheckBox {
        key: relay.id.to_string(),
        label: relay.name.clone(),
        is_checked: is_checked(relay.id),
    });
    let value = match (sent, &site.relays) {
        (Some(fields), _) => fields.text(USE),
        (None, Some(_)) => CHOSEN,
        (None, None) => ANY_RELAY,
    };
    let choices = [
        (ANY_RELAY, "All relays of the account"),
        (CHOSEN, "Only the checked ones"),
    ];
    let fields = vec![
        Field::choice(USE, "Its gateways use", &choices).value(value),
        Field::boxes(BOXES, "Relays", boxes.collect())
            .hint("With none checked, its gateways use no relay."),
    ];
    let action = format!("{}/{}/relays", SITES, site.id);
    let form = Form::new("Relays", action, "Save", fields);
    Ok(Some(form.with_version(site.version)))
}

/// The relays that the form chose, as the API has them.
fn chosen(fields: &Fields) -> Vec<String> {
    match fields.text(USE) {
        CHOSEN => fields.checked(BOXES).map(str::to_owned).collect(),
        _ => vec![ANY_RELAY.to_owned()],
    }
}

pub(super) async fn choose(
    State(console): State<Console>,
    Id(id): Id<SiteId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let patch = SitePatch {
        relays: Some(chosen(&fields)),
        ..SitePatch::default()
    };
    let service = &console.service;
    let changed = service.change_site(&person.caller, id, fields.version()?, patch);
    let changed = changed.await;
    let site = service.site(&person.caller, id).await?;
    let form = form(&console, &person, &site, Some(&fields)).await?;
    let path = format!("{}/{id}", SITES);
    let edit = Edit {
        person: &person,
        fields: &fields,
        at: SITES,
        form: form.ok_or_else(|| Fault::NotFound("there is no relay".to_owned()))?,
        onward: (path, format!("Relays of {} saved.", site.name)),
    };
    let now = async {
        let value = in_words(&console, &person, &site).await?;
        Ok(Now {
            facts: vec![("Relays", Cell::Text(value))],
            version: site.version,
        })
    };
    edit.finish(changed, now).await
}

/// The relays that a site uses, for people.
pub(super) async fn in_words(
    console: &Console,
    person: &Person,
    site: &Site,
) -> Result<String, Fault> {
    let Some(relays) = &site.relays else {
        return Ok("all of the account".to_owned());
    };
    if relays.is_empty() {
        return Ok("none".to_owned());
    }
    let names = Names::of(console, person, relays.iter().map(|id| (*id).into())).await?;
    let names: Vec<String> = relays.iter().map(|id| names.text(*id)).collect();
    Ok(listed(&names, NAMES_CHARS))
}
