//! Resources.

use super::answers::{self, PoliciesOf, UseOf};
use super::asked::Asked;
use super::edit::{Edit, Now};
use super::explain::{self, Preset};
use super::fields::Fields;
use super::forms::{Posted, taken, with_way_back};
use super::listing::Listing;
use super::names::Names;
use super::notice::done;
use super::person::Person;
use super::state::Console;
use super::view::{Buttons, Cell, Field, Form, Link, Page, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::ResourceId;
use culvert_portal_base::{Fault, Id, Problems};
use culvert_portal_service::Caller;
use culvert_store::OrderBy;
use culvert_wire::api::{NewResource, Resource, ResourcePatch};
use culvert_wire::model::{Applications, Filter, TargetKind};
use culvert_wire::words;

const AT: &str = "/resources";

const LISTING: Listing = Listing {
    at: AT,
    title: "Resources",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("Address", None),
        ("Allowed", None),
        ("Site", Some(OrderBy::Holder)),
    ],
    states: &[],
    hint: "Name, address or site",
    empty: "There is none. A resource is a network, an address or a name behind a gateway.",
};

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let found = console
        .service
        .resources(&person.caller, &LISTING.request(&asked))
        .await?;
    let sites = found.items.iter().map(|resource| resource.site.into());
    let names = Names::of(&console, &person, sites).await?;
    let rows = found.items.iter().map(|resource| {
        vec![
            Cell::link(format!("{AT}/{}", resource.id), &resource.name),
            Cell::code(&resource.address),
            Cell::code(words::filters(&resource.filters)),
            names.shown(resource.site),
        ]
    });
    let mut page = person.page("Resources", AT);
    page.create = person.may_change().then_some(Link {
        path: "/resources/new",
        name: "New resource",
    });
    let table = LISTING.table(&asked, found.total, rows.collect());
    page.sections.push(Section::Table(table));
    Ok(page.into_response())
}

/// The values in the form.
struct Written {
    name: String,
    site: String,
    address: String,
    allowed: String,
    within: String,
    applications: String,
}

impl Written {
    fn of(fields: &Fields) -> Self {
        Self {
            name: fields.text("name").to_owned(),
            site: fields.text("site").to_owned(),
            address: fields.text("address").to_owned(),
            allowed: fields.text("filters").to_owned(),
            within: fields.text("within").to_owned(),
            applications: fields.text("applications").to_owned(),
        }
    }

    fn as_is(resource: &Resource, site: String) -> Self {
        Self {
            name: resource.name.clone(),
            site,
            address: resource.address.clone(),
            allowed: words::filters(&resource.filters).replace(' ', "\n"),
            within: match resource.kind {
                TargetKind::Dns => words::within(resource.within.as_deref()).replace(' ', "\n"),
                TargetKind::Cidr | TargetKind::Address => String::new(),
            },
            applications: words::applications(&resource.applications),
        }
    }

    fn form(&self, title: &str, action: String, submit: &'static str) -> Form {
        let fields = vec![
            Field::line("name", "Name").value(&self.name),
            Field::line("site", "Site")
                .hint("The name of the site whose gateways lead there.")
                .value(&self.site),
            Field::line("address", "Address")
                .hint("10.0.0.0/8, 10.1.2.3, db.corp.example or *.corp.example")
                .value(&self.address),
            Field::lines("filters", "Allowed")
                .hint("One a line: tcp:80,443, udp:53, icmp, any. Empty allows nothing.")
                .value(&self.allowed),
            Field::lines("within", "Networks of its names")
                .optional()
                .hint(
                    "Only of names: the networks that their addresses must be in, one a line. Empty or \
                     anywhere lets them lead to any host that the site's gateways reach.",
                )
                .value(&self.within),
            Field::line("applications", "Programs of the client")
                .optional()
                .hint("any, only:backup,sync or except:browser")
                .value(&self.applications),
        ];
        Form::new(title, action, submit, fields)
    }

    fn filters(&self) -> Result<Vec<Filter>, Fault> {
        let each = self.allowed.lines().flat_map(str::split_whitespace);
        let each: Result<Vec<_>, String> = each.map(words::parse_allowed).collect();
        each.and_then(|each| words::allowed(&each))
            .map_err(|error| Fault::invalid("filters", error))
    }

    fn programs(&self) -> Result<Applications, Fault> {
        match self.applications.as_str() {
            "" => Ok(Applications::Any),
            text => words::parse_applications(text)
                .map_err(|error| Fault::invalid("applications", error)),
        }
    }

    /// As the API takes it; an empty field asks for nothing.
    fn networks(&self) -> Vec<String> {
        let each = self.within.split_whitespace().map(str::to_owned);
        let networks: Vec<String> = each.collect();
        match networks.is_empty() {
            true => vec![words::ANYWHERE.to_owned()],
            false => networks,
        }
    }

    /// The resource that the form asks for. All wrong fields are named at once.
    async fn wanted(
        &self,
        console: &Console,
        caller: &Caller,
        id: Option<ResourceId>,
    ) -> Result<ResourcePatch, Fault> {
        let service = &console.service;
        caller.may_change()?;
        let mut problems = Problems::default();
        let site = problems.take(service.site_named(caller, &self.site).await)?;
        let patch = ResourcePatch {
            site: site.map(|site| site.id),
            name: Some(self.name.clone()),
            kind: Some(words::target_kind(&self.address)),
            address: Some(self.address.clone()),
            filters: problems.take(self.filters())?,
            applications: problems.take(self.programs())?,
            within: Some(self.networks()),
        };
        problems.take(service.check_resource(caller, id, &patch).await)?;
        problems.finish()?;
        Ok(patch)
    }
}

fn one_page(person: &Person, title: &str, sections: Vec<Section>) -> Page {
    let mut page = person.page(title, AT);
    page.sections = sections;
    page
}

pub(super) async fn ask(person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let written = Written {
        name: String::new(),
        site: String::new(),
        address: String::new(),
        allowed: String::new(),
        within: String::new(),
        applications: "any".to_owned(),
    };
    let form = written.form("Resource", "/resources/new".to_owned(), "Create");
    Ok(one_page(&person, "New resource", vec![Section::Form(form)]).into_response())
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let written = Written::of(&fields);
    let made = async {
        let wanted = written.wanted(&console, &person.caller, None).await?;
        let (Some(site), Some(applications)) = (wanted.site, wanted.applications) else {
            return Err(Fault::internal("a resource without a site or programs"));
        };
        let new = NewResource {
            site,
            name: written.name.clone(),
            kind: words::target_kind(&written.address),
            address: written.address.clone(),
            filters: wanted.filters.unwrap_or_default(),
            applications,
            within: wanted.within,
        };
        console.service.create_resource(&person.caller, new).await
    };
    let form = || written.form("Resource", "/resources/new".to_owned(), "Create");
    let person = &person;
    let page =
        |form| async move { Ok(one_page(person, "New resource", vec![Section::Form(form)])) };
    let onward = |resource: Resource| done(AT, &format!("Resource {} created.", resource.name));
    taken(made.await, form, onward, page).await
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
    Id(id): Id<ResourceId>,
) -> Result<Response, Fault> {
    let resource = console.service.resource(&person.caller, id).await?;
    let site = console.service.site(&person.caller, resource.site).await?;
    let site_link = Cell::link(format!("/sites/{}", site.id), &site.name);
    let written = Written::as_is(&resource, site.name);
    let mut page = person.page(&resource.name, AT);
    let warnings = resource.warnings.iter().cloned();
    page.sections
        .extend(warnings.map(|warning| Section::Alert(sentence(&warning))));
    let mut about = facts(&written);
    about.retain(|(name, cell)| {
        let is_empty = matches!(cell, Cell::Code(text) if text.is_empty());
        *name != "Name" && *name != "Site" && !is_empty
    });
    about.insert(0, ("Site", site_link));
    page.sections.push(Section::Facts {
        title: "About".to_owned(),
        facts: about,
    });
    page.sections
        .extend(answers_about(&console, &person, &resource).await?);
    if !person.may_change() {
        return Ok(page.into_response());
    }
    let form = written
        .form("Resource", format!("{AT}/{id}"), "Change")
        .with_version(resource.version);
    let form = with_way_back(form, &asked.0);
    let delete = Buttons {
        path: format!("{AT}/{id}"),
        what: &resource.name,
        version: resource.version,
    };
    let delete = delete.for_good(
        "Delete",
        "delete",
        "Its policies go with it: nobody reaches it any more.",
    );
    page.sections.push(Section::Form(form));
    page.sections.push(Section::Facts {
        title: "Delete".to_owned(),
        facts: vec![("Its policies go with it", Cell::Actions(vec![delete]))],
    });
    Ok(page.into_response())
}

/// Those who may use it, how much it was used, the gateways that lead there, and the question why somebody may not.
async fn answers_about(
    console: &Console,
    person: &Person,
    resource: &Resource,
) -> Result<Vec<Section>, Fault> {
    let of = PoliciesOf::Resource(resource.id, &resource.name);
    let mut sections = answers::policies(console, person, of).await?;
    let of = UseOf {
        id: resource.id.into(),
        field: "resource",
        name: &resource.name,
    };
    sections.extend(answers::recent_use(console, person, of).await?);
    sections.extend(answers::gateways_of(console, person, resource.site).await?);
    sections.push(explain::panel(&Preset::Resource(&resource.name)));
    Ok(sections)
}

/// A warning of the API as a sentence of its own.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

fn facts(written: &Written) -> Vec<(&'static str, Cell)> {
    vec![
        ("Name", Cell::text(&written.name)),
        ("Site", Cell::text(&written.site)),
        ("Address", Cell::code(&written.address)),
        ("Allowed", Cell::code(&written.allowed)),
        ("Networks of its names", Cell::code(&written.within)),
        ("Programs of the client", Cell::code(&written.applications)),
    ]
}

pub(super) async fn change(
    State(console): State<Console>,
    Id(id): Id<ResourceId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let written = Written::of(&fields);
    let version = fields.version()?;
    let changed = async {
        let patch = written.wanted(&console, &person.caller, Some(id)).await?;
        let service = &console.service;
        service
            .change_resource(&person.caller, id, version, patch)
            .await
    };
    let edit = Edit {
        person: &person,
        fields: &fields,
        at: AT,
        form: written.form("Change a resource", format!("{AT}/{id}"), "Change"),
        onward: (AT.to_owned(), format!("Resource {} changed.", written.name)),
    };
    let now = async {
        let now = console.service.resource(&person.caller, id).await?;
        let site = console.service.site(&person.caller, now.site).await?;
        Ok(Now {
            facts: facts(&Written::as_is(&now, site.name)),
            version: now.version,
        })
    };
    edit.finish(changed.await, now).await
}

pub(super) async fn delete(
    State(console): State<Console>,
    Id(id): Id<ResourceId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = console.name_of(&person, id).await?;
    console
        .service
        .delete_resource(&person.caller, id, version)
        .await?;
    Ok(done(AT, &format!("Resource {name} deleted.")))
}
