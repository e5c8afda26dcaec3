//! Plain WireGuard devices: a phone with the official app, a router, a server. The pages on which somebody adds one, sees
//! its file, and gives it another key.

use super::asked::Asked;
use super::fields::Fields;
use super::forms::{Posted, taken};
use super::paths::{NEW_WIREGUARD, file_of};
use super::person::Person;
use super::state::Console;
use super::view::{DeviceFile, Field, Form, Page, Section};
use super::wireguard_form::{self as form, Chosen};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::ClientId;
use culvert_portal_base::{Fault, Id, Problems};
use culvert_portal_service::DeviceGateway;
use culvert_store::{self as store, EntityKind, Role};
use culvert_wire::PublicKey;
use culvert_wire::api::{NewPlainClient, PlainClientFile, PlainClientRekey};

/// In the list of pages.
const LIST: &str = "/clients";

const TITLE: &str = "Add a WireGuard device";

/// The way to the form, with the text for those who do not know such devices.
pub(super) fn way() -> [Section; 2] {
    [
        Section::Prose {
            title: "A phone, a tablet or a router".to_owned(),
            text: "Devices on which Culvert does not run use the WireGuard app, or the WireGuard that they have.".to_owned(),
        },
        Section::Ways(vec![(NEW_WIREGUARD.to_owned(), TITLE.to_owned())]),
    ]
}

/// The sentences about all that a device can't do.
pub(super) fn limits(file: &PlainClientFile) -> Section {
    Section::List {
        title: "Limits of this device".to_owned(),
        items: file.limits.clone(),
    }
}

/// The form with these texts. `sent` is a form that was filled in: a link to the page names a device and its owner at most.
async fn new_form(
    console: &Console,
    person: &Person,
    known: &[DeviceGateway],
    texts: &Fields,
    sent: Option<&Fields>,
) -> Result<Form, Fault> {
    let mut fields = vec![
        Field::line("name", "Name")
            .hint("For you to know it by, such as “Ada's phone”.")
            .value(texts.text("name")),
    ];
    if person.may_change() {
        fields.push(
            Field::thing("actor", "Owner", EntityKind::Actor)
                .hint("The device may use all that policies permit to this person or service account.")
                .value(texts.text("actor")),
        );
    }
    fields.push(form::gateways_field(
        known,
        sent,
        &form::first_choice(known),
    ));
    fields.push(form::key_field(sent));
    let form = Form::new(TITLE, NEW_WIREGUARD, "Add the device", fields);
    console.with_choices(person, form).await
}

fn new_page(person: &Person, form: Form) -> Page {
    let mut page = person.page(TITLE, LIST);
    page.sections = vec![
        Section::Note(
            "For a phone, a tablet, a router or a server without Culvert. It gets a file, or a picture to scan, for the \
             official WireGuard app."
                .to_owned(),
        ),
        Section::Form(form),
    ];
    page
}

pub(super) async fn ask(
    State(console): State<Console>,
    person: Person,
    Asked(asked): Asked,
) -> Result<Response, Fault> {
    let known = console.service.device_gateways(&person.caller).await?;
    if known.is_empty() {
        return Ok(without_gateway(&person).into_response());
    }
    let form = new_form(&console, &person, &known, &asked, None).await?;
    Ok(new_page(&person, form).into_response())
}

fn without_gateway(person: &Person) -> Page {
    let mut page = person.page(TITLE, LIST);
    let text = "There is no gateway yet, and a device needs one to connect to.";
    page.sections.push(Section::Alert(text.to_owned()));
    if person.may_change() {
        let way = ("/gateways/new".to_owned(), "New gateway".to_owned());
        page.sections.push(Section::Ways(vec![way]));
    }
    page
}

pub(super) async fn add(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let service = &console.service;
    let known = service.device_gateways(&person.caller).await?;
    let added = async {
        let new = wanted(&console, &person, &known, &fields).await?;
        let added = service.add_plain_client(&person.caller, new).await;
        added.map_err(|fault| form::in_form(&known, fault))
    };
    let added = added.await;
    let again = new_form(&console, &person, &known, &fields, Some(&fields)).await?;
    let onward = |file: PlainClientFile| {
        let notice = format!("WireGuard device {} added.", file.client.name);
        once(&person, &file, form::seal(&fields), notice).into_response()
    };
    let page = async |form| Ok(new_page(&person, form));
    taken(added, || again, onward, page).await
}

/// The device that the form asks for. All wrong fields are named at once.
async fn wanted(
    console: &Console,
    person: &Person,
    known: &[DeviceGateway],
    fields: &Fields,
) -> Result<NewPlainClient, Fault> {
    let mut problems = Problems::default();
    if fields.text("name").is_empty() {
        problems.take::<()>(Err(Fault::invalid("name", "give it a name")))?;
    }
    let actor = match person.caller.role() {
        // Their own.
        Role::User => None,
        Role::Auditor | Role::Admin | Role::Owner => {
            let (service, name) = (&console.service, fields.text("actor"));
            let actor = service.chosen::<store::Actor>(&person.caller, name).await;
            problems.take(actor.map_err(|fault| fault.at_field("actor")))?
        }
    };
    let (key, chosen) = read(known, fields, &mut problems)?;
    let (gateways, endpoints) = chosen.unwrap_or_default();
    let public_key = problems.finish_with(key)?;
    Ok(NewPlainClient {
        name: fields.text("name").to_owned(),
        public_key,
        actor: actor.map(|actor| actor.id),
        gateways,
        endpoints,
    })
}

fn read(
    known: &[DeviceGateway],
    fields: &Fields,
    problems: &mut Problems,
) -> Result<(Option<PublicKey>, Option<Chosen>), Fault> {
    let chosen = problems.take(form::chosen(known, fields))?;
    let key = problems.take(form::public_key(fields))?;
    Ok((key, chosen))
}

/// The page with a new file. The browser fills in the private key that it made, this once.
fn once(person: &Person, file: &PlainClientFile, seal: Option<&str>, notice: String) -> Page {
    let mut page = file_page(person, file, seal);
    page.done = Some(notice);
    page
}

fn file_page(person: &Person, file: &PlainClientFile, seal: Option<&str>) -> Page {
    let client = &file.client;
    let mut page = person.page(format!("WireGuard device {}", client.name), LIST);
    let of_device = format!("{LIST}/{}", client.id);
    page.sections = vec![
        Section::DeviceFile(DeviceFile::new(file, seal)),
        limits(file),
        Section::Ways(vec![(of_device, format!("The page of {}", client.name))]),
    ];
    page
}

fn key_form(file: &PlainClientFile, known: &[DeviceGateway], written: Option<&Fields>) -> Form {
    let client = &file.client;
    let path = format!("{}/key", file_of(client.id));
    let fields = vec![
        form::gateways_field(known, written, &client.gateways),
        form::key_field(written),
    ];
    Form::new("New key", path, "Replace the key", fields).with_version(client.version)
}

async fn page(
    console: &Console,
    person: &Person,
    file: &PlainClientFile,
    key_form: Option<Form>,
) -> Result<Page, Fault> {
    let mut page = file_page(person, file, None);
    let form = match key_form {
        Some(form) => Some(form),
        None => first_key_form(console, person, file).await?,
    };
    if let Some(form) = form {
        page.sections.push(Section::Note(
            "Was the private key lost, or seen by somebody? Give the device a new key. The earlier key and all of its \
             files stop working at once."
                .to_owned(),
        ));
        page.sections.push(Section::Form(form));
    }
    Ok(page)
}

/// None for those who may not give the device another key.
async fn first_key_form(
    console: &Console,
    person: &Person,
    file: &PlainClientFile,
) -> Result<Option<Form>, Fault> {
    let (service, client) = (&console.service, &file.client);
    let may_change = service.may_have_device_of(&person.caller, Some(client.actor));
    if client.revoked.is_some() || !may_change.await? {
        return Ok(None);
    }
    let known = service.device_gateways(&person.caller).await?;
    Ok(Some(key_form(file, &known, None)))
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Id(id): Id<ClientId>,
) -> Result<Response, Fault> {
    let file = console
        .service
        .plain_client_file(&person.caller, id)
        .await?;
    let page = page(&console, &person, &file, None).await?;
    Ok(page.into_response())
}

pub(super) async fn rekey(
    State(console): State<Console>,
    Id(id): Id<ClientId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    let before = service.plain_client_file(caller, id).await?;
    let known = service.device_gateways(caller).await?;
    let version = fields.version()?;
    let changed = async {
        let mut problems = Problems::default();
        let (key, chosen) = read(&known, &fields, &mut problems)?;
        let (gateways, endpoints) = chosen.unwrap_or_default();
        let rekey = PlainClientRekey {
            public_key: problems.finish_with(key)?,
            gateways,
            endpoints,
        };
        let changed = service.rekey_plain_client(caller, id, version, rekey).await;
        changed.map_err(|fault| form::in_form(&known, fault))
    };
    let onward = |file: PlainClientFile| {
        let name = &file.client.name;
        let notice = format!("WireGuard device {name} has a new key.");
        once(&person, &file, form::seal(&fields), notice).into_response()
    };
    let again = || key_form(&before, &known, Some(&fields));
    let page = async |form| page(&console, &person, &before, Some(form)).await;
    taken(changed.await, again, onward, page).await
}
