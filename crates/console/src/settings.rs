//! The settings of the whole account, section by section.

use super::edit::{Edit, Now};
use super::fields::Fields;
use super::forms::Posted;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::{Fault, Problems};
use culvert_store::GRANT_LIFETIME_S;
use culvert_wire::api::{Account, AccountPatch, EndedAccess, PathRule};
use culvert_wire::words;

const AT: &str = "/settings";
const ACCOUNT: &str = "/settings/account";

/// The sections: where each is, what it is called, and what it is for.
const SECTIONS: &[(&str, &str, &str)] = &[
    (
        ACCOUNT,
        "Account",
        "Its name, how long grants last, the networks inside the tunnel, and which programs may use it",
    ),
    (
        "/settings/tokens",
        "Tokens",
        "For the API and for machines: kind, end, last use",
    ),
    (
        "/settings/providers",
        "Identity providers",
        "Identity providers by which people sign in",
    ),
    (
        super::verified_gateways::AT,
        "Verified gateways",
        "Whether an administrator verifies each gateway, and those that are not verified",
    ),
    (
        "/settings/retention",
        "Retention",
        "How long logs are kept, and whether there is a flow log",
    ),
    (
        "/settings/sinks",
        "Log sinks",
        "Files and endpoints that get the logs besides",
    ),
    ("/dns", "DNS", "Search domains, and DNS servers for domains"),
    (
        super::portals::AT,
        "Portals",
        "The portals of the database, which of them leads, and how the database is",
    ),
];

pub(super) async fn list(person: Person) -> Result<Response, Fault> {
    person.caller.may_read()?;
    let rows = SECTIONS
        .iter()
        .map(|(path, name, what)| vec![Cell::link(*path, name), Cell::text(what)]);
    let mut page = person.page("Settings", AT);
    page.sections.push(Section::Table(Table {
        title: "Sections".to_owned(),
        columns: vec!["Section", "What is there"],
        rows: rows.collect(),
        ..Table::default()
    }));
    Ok(page.into_response())
}

/// The rules about paths, each by its word and its text.
const PATHS: &[(&str, &str)] = &[
    ("any", "direct paths and relays"),
    ("direct", "direct paths alone, no relays"),
    (
        "relayed",
        "relays alone: neither end is told the other's addresses",
    ),
];

const fn path_word(rule: PathRule) -> &'static str {
    match rule {
        PathRule::Any => "any",
        PathRule::Direct => "direct",
        PathRule::Relayed => "relayed",
    }
}

fn path_text(rule: PathRule) -> &'static str {
    let word = path_word(rule);
    let found = PATHS.iter().find(|(of, _)| *of == word);
    found.map_or(word, |(_, text)| text)
}

/// The rules about access that ended, each by its word and its text.
const ENDED_ACCESS: &[(&str, &str)] = &[
    ("refuse", "clients refuse its traffic"),
    (
        "release",
        "its traffic leaves clients outside of the tunnel, unencrypted",
    ),
];

const fn ended_access_word(rule: EndedAccess) -> &'static str {
    match rule {
        EndedAccess::Refuse => "refuse",
        EndedAccess::Release => "release",
    }
}

fn ended_access_text(rule: EndedAccess) -> &'static str {
    let word = ended_access_word(rule);
    let found = ENDED_ACCESS.iter().find(|(of, _)| *of == word);
    found.map_or(word, |(_, text)| text)
}

/// The rules about plain WireGuard devices, each by its word and its text.
const OWN_DEVICES: &[(&str, &str)] = &[
    ("no", "administrators alone add them"),
    ("yes", "people add their own as well"),
];

const fn own_devices(is_allowed: bool) -> (&'static str, &'static str) {
    OWN_DEVICES[is_allowed as usize]
}

/// None for a form from before the field was there.
fn parse_own_devices(word: &str) -> Result<Option<bool>, Fault> {
    match word {
        "" => Ok(None),
        "no" => Ok(Some(false)),
        "yes" => Ok(Some(true)),
        _ => Err(Fault::invalid(
            "own_devices",
            "choose one of those in the list",
        )),
    }
}

/// The values in the form.
struct Written {
    name: String,
    grant_lifetime_s: String,
    range4: String,
    range6: String,
    applications: String,
    paths: String,
    ended_access: String,
    own_devices: String,
}

impl Written {
    fn of(fields: &Fields) -> Self {
        let text = |name| fields.text(name).to_owned();
        Self {
            name: text("name"),
            grant_lifetime_s: text("grant_lifetime_s"),
            range4: text("range4"),
            range6: text("range6"),
            applications: text("applications"),
            paths: text("paths"),
            ended_access: text("ended_access"),
            own_devices: text("own_devices"),
        }
    }

    fn as_is(account: &Account) -> Self {
        Self {
            name: account.name.clone(),
            grant_lifetime_s: account.grant_lifetime_s.to_string(),
            range4: String::new(),
            range6: String::new(),
            applications: words::applications(&account.applications),
            paths: path_word(account.paths).to_owned(),
            ended_access: ended_access_word(account.ended_access).to_owned(),
            own_devices: own_devices(account.own_devices).0.to_owned(),
        }
    }

    fn form(&self) -> Form {
        let fields = vec![
            Field::line("name", "Name").value(&self.name),
            Field::line("grant_lifetime_s", "Seconds that a grant lasts")
                .hint("60 to 86400; it is renewed while it is used.")
                .value(&self.grant_lifetime_s),
            Field::line("range4", "Another IPv4 network inside the tunnel")
                .optional()
                .hint(
                    "Such as 10.20.0.0/16; empty leaves it. All clients and gateways connect anew.",
                )
                .value(&self.range4),
            Field::line("range6", "Another IPv6 network inside the tunnel")
                .optional()
                .hint("Such as fd12:3456:789a::/48; empty leaves it.")
                .value(&self.range6),
            Field::line("applications", "Programs that may use the tunnel")
                .optional()
                .hint("any, only:backup,sync or except:browser")
                .value(&self.applications),
            Field::choice("paths", "Paths between clients and gateways", PATHS).value(&self.paths),
            Field::choice("ended_access", "When access ends", ENDED_ACCESS)
                .hint(
                    "A resource was deleted, or no policy gives it to a person any more. Clients refuse its traffic until \
                     they go down.",
                )
                .value(&self.ended_access),
            Field::choice("own_devices", "WireGuard devices without Culvert", OWN_DEVICES)
                .hint(
                    "Phones, routers and servers with a file for WireGuard. They report nothing about themselves, and a file \
                     can be copied.",
                )
                .value(&self.own_devices),
        ];
        Form::new("Change it", ACCOUNT, "Change", fields)
    }

    /// The change that the form asks for, as far as its fields can be read.
    fn patch(&self, fields: &Fields, problems: &mut Problems) -> Result<AccountPatch, Fault> {
        let filled = |name| fields.filled(name).map(str::to_owned);
        let applications = match &*self.applications {
            "" => "any",
            text => text,
        };
        let applications = words::parse_applications(applications)
            .map_err(|error| Fault::invalid("applications", error));
        let paths = match &*self.paths {
            // A form from before the field was there.
            "" => None,
            _ => problems.take(fields.word("paths"))?,
        };
        let ended_access = match &*self.ended_access {
            "" => None,
            _ => problems.take(fields.word("ended_access"))?,
        };
        let own_devices = problems.take(parse_own_devices(&self.own_devices))?;
        let lifetime_s = fields.number("grant_lifetime_s", &GRANT_LIFETIME_S);
        Ok(AccountPatch {
            name: Some(self.name.clone()),
            grant_lifetime_s: problems.take(lifetime_s)?,
            range4: filled("range4"),
            range6: filled("range6"),
            applications: problems.take(applications)?,
            paths,
            ended_access,
            own_devices: own_devices.flatten(),
            ..AccountPatch::default()
        })
    }
}

fn facts(account: &Account) -> Vec<(&'static str, Cell)> {
    let ranges = &account.ranges;
    let both = |ipv4: &str, ipv6: &str| Cell::code(format_args!("{ipv4} {ipv6}"));
    vec![
        ("Name", Cell::text(&account.name)),
        (
            "Seconds that a grant lasts",
            Cell::text(account.grant_lifetime_s),
        ),
        (
            "Machines have",
            both(&ranges.machines_ipv4, &ranges.machines_ipv6),
        ),
        (
            "Names of resources have",
            both(&ranges.names_ipv4, &ranges.names_ipv6),
        ),
        (
            "Programs that may use the tunnel",
            Cell::code(words::applications(&account.applications)),
        ),
        (
            "Paths between clients and gateways",
            Cell::text(path_text(account.paths)),
        ),
        (
            "When access ends",
            Cell::text(ended_access_text(account.ended_access)),
        ),
        (
            "WireGuard devices without Culvert",
            Cell::text(own_devices(account.own_devices).1),
        ),
    ]
}

pub(super) async fn account(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let account = console.service.account(&person.caller).await?;
    let written = Written::as_is(&account);
    let mut page = person.page("Account", AT);
    page.sections.push(Section::Facts {
        title: "As it is".to_owned(),
        facts: facts(&account),
    });
    let form = written.form().with_version(account.version);
    page.sections.extend(person.forms([form]));
    Ok(page.into_response())
}

pub(super) async fn change_account(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let written = Written::of(&fields);
    let service = &console.service;
    let changed = async {
        person.caller.may_change()?;
        let mut problems = Problems::default();
        let patch = written.patch(&fields, &mut problems)?;
        problems.take(service.check_account(&person.caller, &patch).await)?;
        problems.finish()?;
        service.change_account(&person.caller, version, patch).await
    };
    let edit = Edit {
        person: &person,
        fields: &fields,
        at: AT,
        form: written.form(),
        onward: (ACCOUNT.to_owned(), "The account is changed.".to_owned()),
    };
    let now = async {
        let account = service.account(&person.caller).await?;
        Ok(Now {
            facts: facts(&account),
            version: account.version,
        })
    };
    edit.finish(changed.await, now).await
}
