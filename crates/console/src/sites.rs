//! Sites, and the gateways that lead there.

use super::asked::Asked;
use super::edit::{
    delete_form, delete_question, deleted, is_cascade, names_on, rename_form, renamed,
};
use super::forms::{Posted, taken};
use super::gateways;
use super::listing::Listing;
use super::names::Names;
use super::new_gateway;
use super::notice::done;
use super::paths;
use super::person::Person;
use super::site_relays;
use super::state::Console;
use super::states;
use super::tokens::{self, Machine, MachineOwner};
use super::view::{Cell, Field, Form, Link, Page, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::SiteId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{Caller, ListRequest};
use culvert_store::{EntityKind, OrderBy};
use culvert_wire::api::{NewSite, Site, SitePatch};

const AT: &str = paths::SITES;

/// The things that are deleted with a site.
const ALL: &str = "with its gateways, resources, their policies, and tokens";

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked).await?;
    Ok(page.into_response())
}

fn new_form(name: &str) -> Form {
    let name = Field::line("name", "Name").value(name);
    Form::new("New site", AT, "Create", vec![name])
}

pub(super) async fn ask(person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    Ok(person
        .form_page("New site", AT, new_form(""))
        .into_response())
}

const LISTING: Listing = Listing {
    at: AT,
    title: "Sites",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("Gateways connected", None),
        ("Resources", None),
        ("Created", Some(OrderBy::Created)),
    ],
    states: &[],
    hint: "Name",
    empty: "There is none. A site is a place with gateways and the resources behind them.",
};

async fn list_page(console: &Console, person: &Person, asked: &Asked) -> Result<Page, Fault> {
    let request = LISTING.request(asked);
    let found = console.service.sites(&person.caller, &request).await?;
    let ids = || found.items.iter().map(|site| site.id);
    let (service, caller) = (&console.service, &person.caller);
    let gateways = service.gateways_of_sites(caller, ids()).await?;
    let resources = service
        .reference_counts(caller, EntityKind::Resource, ids())
        .await?;
    let row = |site: &Site| {
        let id = site.id.into();
        vec![
            Cell::link(format!("{AT}/{}", site.id), &site.name),
            match gateways.get(&id) {
                None => Cell::plain("none yet"),
                Some((0, all)) => Cell::warn(format_args!("0 of {all}")),
                Some((connected, all)) => Cell::good(format_args!("{connected} of {all}")),
            },
            Cell::text(resources.get(&id).copied().unwrap_or(0)),
            Cell::time(Some(site.created)),
        ]
    };
    let list = LISTING.table(asked, found.total, found.items.iter().map(row).collect());
    Ok(person.searched_page(
        AT,
        list,
        Some(Link {
            path: "/sites/new",
            name: "New site",
        }),
    ))
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let name = fields.text("name").to_owned();
    let new = NewSite { name: name.clone() };
    let made = console.service.create_site(&person.caller, new).await;
    let onward = |site: Site| {
        done(
            &format!("{AT}/{}", site.id),
            &format!("Site {} created.", site.name),
        )
    };
    let page = async |form| Ok(person.form_page("New site", AT, form));
    taken(made, || new_form(&name), onward, page).await
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
    Id(id): Id<SiteId>,
) -> Result<Response, Fault> {
    let at = format!("{AT}/{id}");
    let form = tokens::machine_form(&at, Machine::Gateway, None);
    let page = site_page(&console, &person, &asked, id, form).await?;
    Ok(page.into_response())
}

async fn site_page(
    console: &Console,
    person: &Person,
    asked: &Asked,
    id: SiteId,
    form: Form,
) -> Result<Page, Fault> {
    let mut page = person.live_page("", AT, format!("{AT}/{id}"), console);
    let site = console.service.site(&person.caller, id).await?;
    let request = asked.part();
    let found = console
        .service
        .gateways_of_site(&person.caller, id, request)
        .await?;
    let sessions = console.service.sessions_of_gateways(&person.caller).await?;
    let account = console.service.account(&person.caller).await?;
    let rows = found.items.iter().map(|gateway| {
        let session = sessions.get(&gateway.id);
        vec![
            Cell::link(format!("{}/{}", gateways::AT, gateway.id), &gateway.name),
            states::gateway(gateway, session, account.require_verified_gateways),
            Cell::text(session.map_or("–".to_owned(), states::load)),
            Cell::code(gateway.ipv4),
            Cell::time(gateway.last_seen),
            Cell::text(gateway.software.as_deref().unwrap_or("–")),
            person.menu(gateways::actions(gateway)),
        ]
    });
    let at = format!("{AT}/{id}");
    page.title.clone_from(&site.name);
    page.create = person
        .may_change()
        .then(|| new_gateway::create(Some(&site.name)));
    page.sections.push(Section::Table(Table {
        title: "Gateways".to_owned(),
        columns: vec![
            "Name",
            "State",
            "Load",
            "Address",
            "Last seen",
            "Software",
            "Actions",
        ],
        rows: rows.collect(),
        empty: "There is none. Create a token, and run “culvert gateway run” with it on a machine there.".into(),
        next: asked.next(&at, found.next_cursor.as_deref()),
        ..Table::default()
    }));
    page.sections
        .extend(relays_of(console, person, &site).await?);
    let rename = rename_form(&at, &site.name).with_version(site.version);
    let delete = delete_form(&at, ALL).with_version(site.version);
    let relays = site_relays::form(console, person, &site, None).await?;
    let forms = [Some(form), relays, Some(rename), Some(delete)];
    page.sections
        .extend(person.forms(forms.into_iter().flatten()));
    Ok(page)
}

/// The relays that its gateways use alone; nothing where they use all of the account.
async fn relays_of(
    console: &Console,
    person: &Person,
    site: &Site,
) -> Result<Option<Section>, Fault> {
    let Some(relays) = &site.relays else {
        return Ok(None);
    };
    let names = Names::of(console, person, relays.iter().map(|id| (*id).into())).await?;
    let rows = relays.iter().map(|id| vec![names.shown(*id)]);
    Ok(Some(Section::Table(Table {
        title: "Relays".to_owned(),
        columns: vec!["Its gateways use these alone"],
        rows: rows.collect(),
        empty: "Its gateways use no relay.".into(),
        ..Table::default()
    })))
}

pub(super) async fn make_token(
    State(console): State<Console>,
    asked: Asked,
    Id(id): Id<SiteId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let at = format!("{AT}/{id}");
    let owner = Ok(MachineOwner::Site(id));
    let made = tokens::create_machine_token(&console, &person, &fields, Machine::Gateway, owner);
    let onward = IntoResponse::into_response;
    let form = || tokens::machine_form(&at, Machine::Gateway, Some(&fields));
    let page = |form| site_page(&console, &person, &asked, id, form);
    taken(made.await, form, onward, page).await
}

async fn now(console: &Console, caller: &Caller, id: SiteId) -> Result<(String, u64), Fault> {
    let site = console.service.site(caller, id).await?;
    Ok((site.name, site.version))
}

pub(super) async fn rename(
    State(console): State<Console>,
    Id(id): Id<SiteId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = Some(fields.text("name").to_owned());
    let service = &console.service;
    let changed = service
        .change_site(
            &person.caller,
            id,
            version,
            SitePatch {
                name,
                ..SitePatch::default()
            },
        )
        .await;
    let at = (AT, format!("{AT}/{id}"));
    renamed(
        &person,
        at,
        &fields,
        changed,
        now(&console, &person.caller, id),
    )
    .await
}

/// The things that are deleted with a site.
async fn goes_with(
    console: &Console,
    caller: &Caller,
    id: SiteId,
) -> Result<Vec<(&'static str, Cell)>, Fault> {
    let of_site = ListRequest::default().referring_to(Some(id));
    let gateways = console.service.gateways(caller, &of_site).await?;
    let resources = console.service.resources(caller, &of_site).await?;
    let tokens = console.service.made_tokens(caller, &of_site).await?;
    Ok(vec![
        ("Gateways", names_on(&gateways, |gateway| &gateway.name)),
        (
            "Resources, with their policies",
            names_on(&resources, |resource| &resource.name),
        ),
        ("Tokens", names_on(&tokens, |token| &token.name)),
    ])
}

pub(super) async fn delete(
    State(console): State<Console>,
    Id(id): Id<SiteId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let service = &console.service;
    let name = console.name_of(&person, id).await?;
    person.caller.may_change()?;
    let goes = goes_with(&console, &person.caller, id).await?;
    let path = format!("{AT}/{id}");
    if let Some(page) = delete_question(&person, (AT, &path), &fields, &name, goes) {
        return Ok(page.into_response());
    }
    let gone = service
        .delete_site(&person.caller, id, version, is_cascade(&fields))
        .await;
    let at = (AT, format!("{AT}/{id}"));
    deleted(
        &person,
        at,
        (&fields, ALL),
        &format!("Site {name}"),
        gone,
        now(&console, &person.caller, id),
    )
    .await
}
