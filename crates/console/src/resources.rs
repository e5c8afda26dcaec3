//! Resources.

use super::allowed::Allowed;
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
use super::selected::{Act, Selection};
use super::state::Console;
use super::view::{Buttons, Cell, Create, Field, Form, Page, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::ResourceId;
use culvert_portal_base::{Fault, Id, Problems};
use culvert_portal_service::{Caller, ListRequest};
use culvert_store::{self as store, EntityKind, OrderBy};
use culvert_wire::api::{NewPolicy, NewResource, PolicyPatch, Resource, ResourcePatch};
use culvert_wire::model::{Applications, Filter, TargetKind};
use culvert_wire::words;

const AT: &str = "/resources";

/// The place of the group among the fields of a new resource: below what it allows.
const AFTER_ALLOWED: usize = 4;

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

const SELECTION: Selection = Selection {
    at: AT,
    kind: EntityKind::Resource,
    one: "resource",
    many: "resources",
    acts: &[(
        Act::Delete,
        "Access to them ends at once, and their policies go with them.",
    )],
};

pub(super) async fn change_selected(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    SELECTION.send(&console, posted).await
}

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
    page.create = person.may_change().then_some(Create {
        path: "/resources/new".to_owned(),
        name: "New resource",
    });
    let mut table = LISTING.table(&asked, found.total, rows.collect());
    let shown = found
        .items
        .iter()
        .map(|resource| (resource.id, resource.version, resource.name.as_str()));
    SELECTION.offer(&person, &mut table, shown);
    page.sections.push(Section::Table(table));
    Ok(page.into_response())
}

/// The values in the form.
struct Written {
    name: String,
    site: String,
    address: String,
    allowed: Allowed,
    within: String,
    applications: String,
    inbound: String,
}

impl Written {
    fn of(fields: &Fields) -> Self {
        Self {
            name: fields.text("name").to_owned(),
            site: fields.text("site").to_owned(),
            address: fields.text("address").to_owned(),
            allowed: Allowed::sent(fields),
            within: fields.text("within").to_owned(),
            applications: fields.text("applications").to_owned(),
            inbound: fields.text("inbound").to_owned(),
        }
    }

    fn as_is(resource: &Resource, site: String) -> Self {
        Self {
            name: resource.name.clone(),
            site,
            address: resource.address.clone(),
            allowed: Allowed::of(&resource.filters),
            within: match resource.kind {
                TargetKind::Dns => words::within(resource.within.as_deref()).replace(' ', "\n"),
                TargetKind::Cidr | TargetKind::Address => String::new(),
            },
            applications: words::applications(&resource.applications),
            inbound: match resource.inbound.is_empty() {
                true => String::new(),
                false => words::filters(&resource.inbound).replace(' ', "\n"),
            },
        }
    }

    fn form(&self, title: &str, action: String, submit: &'static str) -> Form {
        let fields = vec![
            Field::line("name", "Name").value(&self.name),
            Field::thing("site", "Site", EntityKind::Site)
                .hint("The site whose gateways lead there.")
                .value(&self.site),
            Field::line("address", "Address")
                .hint("10.0.0.0/8, 10.1.2.3, db.corp.example or *.corp.example")
                .value(&self.address),
            self.allowed.field(),
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
            Field::lines("inbound", "Open at clients")
                .optional()
                .hint(
                    "Only of addresses: the services of a client's own host that they may use while it has access, one a \
                     line: tcp:22, udp:161, icmp. Empty: nothing begins a connection to a client.",
                )
                .value(&self.inbound),
        ];
        Form::new(title, action, submit, fields)
    }

    fn programs(&self) -> Result<Applications, Fault> {
        match self.applications.as_str() {
            "" => Ok(Applications::Any),
            text => words::parse_applications(text)
                .map_err(|error| Fault::invalid("applications", error)),
        }
    }

    /// The services of clients' hosts that it may use.
    fn opened(&self) -> Result<Vec<Filter>, Fault> {
        words::parse_all_allowed(&self.inbound)
            .and_then(|each| words::allowed(&each))
            .map_err(|error| Fault::invalid("inbound", error))
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
        let site = service.chosen::<store::Site>(caller, &self.site).await;
        let site = problems.take(site.map_err(|fault| fault.at_field("site")))?;
        let patch = ResourcePatch {
            site: site.map(|site| site.id),
            name: Some(self.name.clone()),
            kind: Some(words::target_kind(&self.address)),
            address: Some(self.address.clone()),
            filters: problems.take(self.allowed.filters())?,
            applications: problems.take(self.programs())?,
            within: Some(self.networks()),
            inbound: problems.take(self.opened())?,
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

pub(super) async fn ask(
    State(console): State<Console>,
    person: Person,
    Asked(asked): Asked,
) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let written = Written {
        name: String::new(),
        site: asked.text("site").to_owned(),
        address: String::new(),
        allowed: Allowed::of(&[]),
        within: String::new(),
        applications: "any".to_owned(),
        inbound: String::new(),
    };
    let form = console.with_choices(&person, new_form(&written, asked.text("group")));
    let form = form.await?;
    Ok(one_page(&person, "New resource", vec![Section::Form(form)]).into_response())
}

/// The form of a new resource, which may come with its first policy.
fn new_form(written: &Written, group: &str) -> Form {
    let mut form = written.form("Resource", "/resources/new".to_owned(), "Create");
    let group = Field::thing("group", "Group that may use it", EntityKind::Group)
        .optional()
        .hint("It gets a policy without conditions. Empty: nobody may use the resource yet.")
        .value(group);
    form.fields.insert(AFTER_ALLOWED, group);
    form
}

/// A new resource, and the policy that lets a group use it.
async fn created(
    console: &Console,
    caller: &Caller,
    written: &Written,
    group: Option<&str>,
) -> Result<(Resource, Option<String>), Fault> {
    let service = &console.service;
    let mut problems = Problems::default();
    let group = match group {
        Some(text) => {
            let group = service.chosen::<store::Group>(caller, text).await;
            problems.take(group.map_err(|fault| fault.at_field("group")))?
        }
        None => None,
    };
    let wanted = problems.take(written.wanted(console, caller, None).await)?;
    let policy = match &group {
        Some(group) => {
            let name = words::policy_name(&group.name, &written.name);
            let patch = PolicyPatch {
                name: Some(name.clone()),
                ..PolicyPatch::default()
            };
            // Of a name that is too long for both together. A wrong name of the resource is told at its own field.
            if wanted.is_some() && service.check_policy(caller, None, &patch).await.is_err() {
                let detail = "with this group the name of the policy would be too long: create it afterwards";
                problems.take(Err::<(), _>(Fault::invalid("group", detail)))?;
            }
            Some((name, group.id))
        }
        None => None,
    };
    let wanted = problems.finish_with(wanted)?;
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
        inbound: wanted.inbound.unwrap_or_default(),
    };
    let resource = service.create_resource(caller, new).await?;
    let Some((name, group)) = policy else {
        return Ok((resource, None));
    };
    let policy = NewPolicy {
        name,
        group,
        resource: resource.id,
        disabled: false,
        conditions: Vec::new(),
    };
    // The resource is there: its page offers a policy again.
    let text = match service.create_policy(caller, policy).await {
        Ok(policy) => format!("Policy {} created.", policy.name),
        Err(_) => "Its policy could not be created.".to_owned(),
    };
    Ok((resource, Some(text)))
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let written = Written::of(&fields);
    let made = created(&console, &person.caller, &written, fields.filled("group"));
    let form = || new_form(&written, fields.text("group"));
    let page = async |form| {
        let form = console.with_choices(&person, form).await?;
        Ok(one_page(&person, "New resource", vec![Section::Form(form)]))
    };
    let onward = |(resource, policy): (Resource, Option<String>)| {
        let path = format!("{AT}/{}", resource.id);
        let created = format!("Resource {} created.", resource.name);
        let sentences: Vec<String> = std::iter::once(created).chain(policy).collect();
        done(&path, &sentences.join(" "))
    };
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
    if resource.filters.is_empty() {
        let text = "It allows no protocol, so nobody can use it, whatever policies say.";
        page.sections.push(Section::Alert(text.to_owned()));
    }
    if person.may_change() {
        page.sections
            .extend(unused(&console, &person, &resource).await?);
    }
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
    let form = written.form("Resource", format!("{AT}/{id}"), "Change");
    let form = console.with_choices(&person, form).await?;
    let form = with_way_back(form.with_version(resource.version), &asked.0);
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
    sections.push(explain::panel(console, person, &Preset::Resource(&resource.name)).await?);
    Ok(sections)
}

/// Says that no policy is about the resource, and leads to a new one that is.
async fn unused(
    console: &Console,
    person: &Person,
    resource: &Resource,
) -> Result<Vec<Section>, Fault> {
    let request = ListRequest {
        limit: Some(1),
        ..ListRequest::default()
    };
    let request = request.referring_to(Some(resource.id));
    let policies = console.service.policies(&person.caller, &request).await?;
    if !policies.items.is_empty() {
        return Ok(Vec::new());
    }
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("resource", &resource.name)
        .finish();
    Ok(vec![
        Section::Alert("Nobody may use it yet: no policy lets a group use it.".to_owned()),
        Section::Ways(vec![(
            format!("/policies/new?{query}"),
            "Create a policy for it".to_owned(),
        )]),
    ])
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
        ("Allowed", Cell::code(written.allowed.text())),
        ("Networks of its names", Cell::code(&written.within)),
        ("Programs of the client", Cell::code(&written.applications)),
        ("Open at clients", Cell::code(&written.inbound)),
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
        form: console
            .with_choices(
                &person,
                written.form("Change a resource", format!("{AT}/{id}"), "Change"),
            )
            .await?,
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
