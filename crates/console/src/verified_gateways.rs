//! The rule that gateways have to be verified, and the list of those that are not.

use super::asked::Asked;
use super::edit::{Edit, Now};
use super::fields::Fields;
use super::forms::Posted;
use super::gateways::{self, verify_action};
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::states;
use super::view::{Cell, Field, Form, Lines, Piece, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_portal_service::{Caller, ListRequest};
use culvert_store::EntityId;
use culvert_wire::api::{Account, AccountPatch, Gateway};

pub(super) const AT: &str = "/settings/verified-gateways";

/// In the list of pages.
const LIST: &str = "/settings";

const RULES: &[(&str, &str)] = &[
    (
        "no",
        "not required: every gateway with a good token gets access",
    ),
    (
        "yes",
        "required: a gateway waits until an administrator verifies it",
    ),
];

const CUT: &[(&str, &str)] = &[
    ("no", "leave everything as it is"),
    ("yes", "end all access through them at once"),
];

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let mut page = person.live_page("Verified gateways", LIST, AT, &console);
    let service = &console.service;
    let account = service.account(&person.caller).await?;
    let found = service
        .unverified_gateways(&person.caller, &asked.part())
        .await?;
    let sessions = service.sessions_of_gateways(&person.caller).await?;
    let mut rows = Vec::new();
    let ids = found.items.iter().flat_map(|gateway| {
        let token = gateway.enrolled_with.map(EntityId::from);
        token.into_iter().chain([gateway.site.into()])
    });
    let names = Names::of(&console, &person, ids).await?;
    for gateway in &found.items {
        let session = sessions.get(&gateway.id);
        let is_required = account.require_verified_gateways;
        rows.push(vec![
            named(gateway, &names),
            states::gateway(gateway, session, is_required),
            Cell::code(&gateway.fingerprint),
            gateways::enrolled_with(gateway, &names),
            person.buttons(verify_action(gateway)),
        ]);
    }
    page.sections.push(Section::Facts {
        title: "As it is".to_owned(),
        facts: facts(&account),
    });
    page.sections.push(Section::Table(Table {
        title: "Not verified".to_owned(),
        columns: vec![
            "Gateway",
            "State",
            "Fingerprint",
            "Enrolled with token",
            "Actions",
        ],
        rows,
        empty: "There is none. Compare fingerprints with “culvert gateway status” before you verify one.".into(),
        next: asked.next(AT, found.next_cursor.as_deref()),
        ..Table::default()
    }));
    let form = form(rule(account.require_verified_gateways), "no");
    page.sections
        .extend(person.forms([form.with_version(account.version)]));
    Ok(page.into_response())
}

/// Name, site and version in one column: the fingerprint needs the width.
fn named(gateway: &Gateway, names: &Names) -> Cell {
    let name = Piece {
        text: gateway.name.clone(),
        path: Some(format!("{}/{}", gateways::AT, gateway.id)),
    };
    let mut about = vec![Piece::text("at "), names.piece(gateway.site.into())];
    if let Some(version) = &gateway.software {
        about.push(Piece::text(format!(", version {version}")));
    }
    Cell::Lines(Lines {
        summary: None,
        lines: vec![vec![name], about],
    })
}

fn parse(rule: &str) -> Result<bool, Fault> {
    match rule {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(Fault::invalid(
            "require_verified_gateways",
            "expected `yes` or `no`",
        )),
    }
}

const fn rule(is_required: bool) -> &'static str {
    if is_required { "yes" } else { "no" }
}

fn facts(account: &Account) -> Vec<(&'static str, Cell)> {
    let is_required = account.require_verified_gateways;
    vec![(
        "Verified gateways",
        match is_required {
            true => Cell::good("required"),
            false => Cell::plain("not required"),
        },
    )]
}

fn form(required: &str, cut: &str) -> Form {
    let fields = vec![
        Field::choice("require_verified_gateways", "Verified gateways are", RULES).value(required),
        Field::choice("cut", "If some are not verified", CUT)
            .hint("Requiring it verifies none of those that are listed above.")
            .value(cut),
    ];
    Form::new("Change it", AT, "Set", fields)
}

pub(super) async fn change(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    // Before the text is looked at: people who may not change anything learn nothing from it.
    person.caller.may_change()?;
    let version = fields.version()?;
    let written = fields.text("require_verified_gateways");
    let service = &console.service;
    let changed = async {
        let is_required = parse(written)?;
        if is_required {
            agrees_to_cut(&console, &person.caller, &fields).await?;
        }
        let patch = AccountPatch {
            require_verified_gateways: Some(is_required),
            ..AccountPatch::default()
        };
        service.change_account(&person.caller, version, patch).await
    };
    let edit = Edit {
        person: &person,
        fields: &fields,
        at: LIST,
        form: form(written, fields.text("cut")),
        onward: (
            AT.to_owned(),
            "The rule for gateways is changed.".to_owned(),
        ),
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

/// Refuses where gateways would lose access, and the form does not say that they may.
async fn agrees_to_cut(console: &Console, caller: &Caller, fields: &Fields) -> Result<(), Fault> {
    let service = &console.service;
    if fields.text("cut") == "yes" || service.account(caller).await?.require_verified_gateways {
        return Ok(());
    }
    let found = service
        .unverified_gateways(caller, &ListRequest::default())
        .await?;
    if found.items.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = found.items.iter().map(|gateway| &*gateway.name).collect();
    let more = if found.next_cursor.is_some() {
        " and more"
    } else {
        ""
    };
    let problem = format!(
        "these would lose all access at once: {}{more}; verify them first, or choose that they do",
        names.join(", ")
    );
    Err(Fault::invalid("cut", problem))
}
