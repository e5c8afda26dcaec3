//! The retention of logs, and their sinks.

use super::fields::Fields;
use super::forms::Posted;
use super::notice::done;
use super::person::Person;
use super::state::Console;
use super::view::{Action, Cell, Field, Form, Link, Page, Section, Table};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::{Fault, Problems};
use culvert_store::Role;
use culvert_wire::api::{NewSink, Retention, RetentionPatch, SinkPatch, SinkView};
use culvert_wire::model::{
    FILE_MIB, FILES_RETAINED, Keep, Log, MAX_LOG_DAYS, MAX_LOG_ENTRIES, MIN_LOG_ENTRIES, Sink,
    SinkTarget,
};
use std::ops::RangeInclusive;

const RETENTION: &str = "/settings/retention";
/// Numbers that the fields take; `change_days` also takes 0, which keeps the change log for good.
const LOG_DAYS: RangeInclusive<u32> = 1..=MAX_LOG_DAYS;
const CHANGE_DAYS: RangeInclusive<u32> = 0..=MAX_LOG_DAYS;
const LOG_ENTRIES: RangeInclusive<u64> = MIN_LOG_ENTRIES..=MAX_LOG_ENTRIES;

const SINKS: &str = "/settings/sinks";

/// The page that creates a sink.
const NEW_SINK: Link = Link {
    path: "/settings/sinks/new",
    name: "New log sink",
};

pub(super) async fn show_retention(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let retention = console.service.retention(&person.caller).await?;
    let mut page = retention_page(&person, &retention);
    if person.may_change() {
        let form = retention_form(&person, &retention);
        page.sections.push(Section::Form(form));
    }
    Ok(page.into_response())
}

fn retention_page(person: &Person, retention: &Retention) -> Page {
    let stored =
        |keep: Keep| Cell::text(format_args!("{} days, {} entries", keep.days, keep.entries));
    let mut page = person.page("How long logs are kept", RETENTION);
    page.sections.push(Section::Facts {
        title: "Logs".to_owned(),
        facts: vec![
            (
                "Flow log",
                match retention.flow_log {
                    true => Cell::good("on"),
                    false => Cell::plain("off"),
                },
            ),
            ("Access log", stored(retention.access)),
            ("Flows", stored(retention.flows)),
            (
                "Change log",
                match retention.change_days {
                    0 => Cell::text("for good"),
                    days => Cell::text(format_args!("{days} days")),
                },
            ),
            ("Flows that no log has", Cell::text(retention.flows_lost)),
        ],
    });
    page
}

fn retention_form(person: &Person, retention: &Retention) -> Form {
    let number = |name, label, value: u64| Field::line(name, label).value(value.to_string());
    let choices = [("no", "off"), ("yes", "on")];
    let flow_log = match retention.flow_log {
        true => "yes",
        false => "no",
    };
    let mut fields = vec![
        Field::choice("flow_log", "Flow log", &choices)
            .value(flow_log)
            .hint("It says what each person did and when: tell those whom it is about."),
        number(
            "access_days",
            "Access log, days",
            retention.access.days.into(),
        ),
        number(
            "access_entries",
            "Access log, entries at most",
            retention.access.entries,
        ),
        number("flows_days", "Flow log, days", retention.flows.days.into()),
        number(
            "flows_entries",
            "Flow log, entries at most",
            retention.flows.entries,
        ),
    ];
    if person.caller.role() == Role::Owner {
        let days = number(
            "change_days",
            "Change log, days",
            retention.change_days.into(),
        );
        fields.push(days.hint("At least 90; 0 keeps it for good."));
    }
    Form::new("Keep", RETENTION, "Save", fields).with_version(retention.version)
}

/// True if entries that a log holds now would go.
fn shrinks(now: &Retention, wanted: &RetentionPatch) -> bool {
    let less = |now: &Keep, wanted: &Option<Keep>| {
        wanted
            .as_ref()
            .is_some_and(|wanted| wanted.days < now.days || wanted.entries < now.entries)
    };
    // No days keep changes for good.
    let changes = wanted
        .change_days
        .is_some_and(|days| days > 0 && (now.change_days == 0 || days < now.change_days));
    less(&now.access, &wanted.access) || less(&now.flows, &wanted.flows) || changes
}

/// Asks whether entries are to go for good, before they do.
fn retention_question(person: &Person, fields: &Fields) -> Page {
    let title = "Delete the entries beyond these limits?";
    let mut form = Form::new(title, RETENTION, "Delete them", Vec::new()).grave();
    for (name, value) in fields.iter().filter(|(name, _)| name != "form_token") {
        form.hide(name.clone(), value.to_string());
    }
    form.hide("sure", "yes".to_owned());
    let mut page = person.page(title, RETENTION);
    page.sections = vec![
        Section::Alert(
            "The new limits are lower. Entries beyond them are deleted for good.".to_owned(),
        ),
        Section::Form(form),
        Section::Ways(vec![(RETENTION.to_owned(), "Keep them".to_owned())]),
    ];
    page
}

/// The change that the form asks for. All wrong fields are named at once.
fn wanted_retention(fields: &Fields) -> Result<RetentionPatch, Fault> {
    let mut problems = Problems::default();
    let mut keep = |days, entries| {
        let days = problems.take(fields.number(days, &LOG_DAYS))?;
        let entries = problems.take(fields.number(entries, &LOG_ENTRIES))?;
        let both = days.zip(entries);
        Ok::<_, Fault>(both.map(|(days, entries)| Keep { days, entries }))
    };
    let patch = RetentionPatch {
        flow_log: Some(fields.text("flow_log") == "yes"),
        access: keep("access_days", "access_entries")?,
        flows: keep("flows_days", "flows_entries")?,
        change_days: match fields.filled("change_days") {
            Some(_) => problems.take(fields.number("change_days", &CHANGE_DAYS))?,
            None => None,
        },
    };
    problems.finish()?;
    Ok(patch)
}

pub(super) async fn change_retention(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    let Posted { person, fields } = posted;
    // Before the text is looked at: people who may not change anything learn nothing from it.
    person.caller.may_change()?;
    let version = fields.version()?;
    let now = console.service.retention(&person.caller).await?;
    let is_current = version.is_none_or(|version| version == now.version);
    let changed = match wanted_retention(&fields) {
        // A refusal because others changed it meanwhile comes first.
        _ if !is_current => Err(Fault::VersionConflict {
            current: now.version,
        }),
        Ok(patch) => {
            if fields.text("sure") != "yes" && shrinks(&now, &patch) {
                return Ok(retention_question(&person, &fields).into_response());
            }
            let change = console
                .service
                .change_retention(&person.caller, version, patch);
            change.await.map(drop)
        }
        Err(fault) => Err(fault),
    };
    let fault = match changed {
        Ok(()) => return Ok(done(RETENTION, "Retention of the logs changed.")),
        Err(Fault::Invalid(mut problems)) => {
            // The API has them in parts; the form has a field for each.
            for problem in &mut problems {
                problem.field = problem.field.replace('.', "_");
            }
            Fault::Invalid(problems)
        }
        Err(Fault::VersionConflict { .. }) => Fault::Conflict(
            "Somebody else changed the account meanwhile; above is how it is now. Send the form \
             again to have it as below."
                .to_owned(),
        ),
        Err(fault) => return Err(fault),
    };
    let retention = console.service.retention(&person.caller).await?;
    let mut form = retention_form(&person, &retention);
    for field in &mut form.fields {
        field.value = fields.text(field.name).to_owned();
    }
    let (form, status) = form.refused(fault)?;
    let mut page = retention_page(&person, &retention);
    page.sections.push(Section::Form(form));
    Ok(page.with_status(status))
}

pub(super) async fn show_sinks(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let mut page = sinks_page(&console, &person).await?;
    page.create = person.may_change().then(|| NEW_SINK.into());
    Ok(page.into_response())
}

pub(super) async fn ask_sink(person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let page = person.form_page(NEW_SINK.name, SINKS, sink_form());
    Ok(page.into_response())
}

async fn sinks_page(console: &Console, person: &Person) -> Result<Page, Fault> {
    let sinks = console.service.sinks(&person.caller).await?;
    let mut page = person.page("Log sinks", SINKS);
    let may_change = person.may_change();
    let rows = sinks.items.iter().map(|view| sink_row(view, may_change));
    page.sections.push(Section::Table(Table {
        title: "Log sinks".to_owned(),
        columns: vec![
            "Name",
            "Logs",
            "Where",
            "State",
            "Pending",
            "Delivered",
            "Actions",
        ],
        rows: rows.collect(),
        empty:
            "There is none. A sink gets each entry of the logs that it is for, beside the database."
                .into(),
        ..Table::default()
    }));
    Ok(page)
}

fn sink_row(view: &SinkView, may_change: bool) -> Vec<Cell> {
    let sink = &view.sink;
    let lag: u64 = view.lag.values().sum();
    let logs: Vec<_> = sink.logs.iter().map(|log| log.as_str()).collect();
    let place = match &sink.target {
        SinkTarget::File {
            file,
            max_mib,
            keep,
        } => format!("file {file}, {max_mib} MiB, {keep} older ones"),
        SinkTarget::Http { url } if view.has_token => format!("{url}, with a token"),
        SinkTarget::Http { url } => url.clone(),
    };
    let state = match &view.error {
        _ if sink.paused => Cell::plain("paused"),
        Some(error) => Cell::bad(format_args!("failing: {error}")),
        None => Cell::good("delivering"),
    };
    let action = |name, verb| Action {
        name,
        what: sink.name.clone(),
        path: format!("{SINKS}/{}/{verb}", sink.name),
        version: None,
        is_grave: false,
        loss: None,
    };
    let switch = match sink.paused {
        true => action("Resume", "resume"),
        false => action("Pause", "pause"),
    };
    let actions = match may_change {
        true => vec![
            action("Test", "test"),
            switch,
            Action {
                is_grave: true,
                loss: Some("It gets nothing any more. What it has stays there."),
                ..action("Delete", "delete")
            },
        ],
        false => Vec::new(),
    };
    vec![
        Cell::text(&sink.name),
        Cell::text(logs.join(", ")),
        Cell::code(place),
        state,
        Cell::text(format_args!("{lag} entries")),
        Cell::text(format_args!("{}, {} missed", view.delivered, view.missed)),
        Cell::Menu(actions),
    ]
}

fn sink_form() -> Form {
    let optional = |name, label| Field::line(name, label).optional();
    let logs = [
        ("access,changes,flows", "all logs"),
        ("access", "access log"),
        ("changes", "change log"),
        ("flows", "flow log"),
        ("access,changes", "access log and change log"),
        ("access,flows", "access log and flow log"),
    ];
    let kinds = [("file", "a file"), ("http", "an endpoint")];
    let fields = vec![
        Field::line("name", "Name").hint("Lower-case letters, digits, - and _."),
        Field::choice("logs", "Logs", &logs),
        Field::choice("kind", "Where", &kinds),
        optional("file", "Name of the file").hint("In “logs” of the portal's state directory."),
        optional("max_mib", "MiB of a file").value("100"),
        optional("keep", "Older files that are kept").value("10"),
        optional("url", "URL of the endpoint").hint("It takes POST."),
        Field::password("token", "Bearer token for the endpoint", "off")
            .optional()
            .hint("It is never shown again, and goes over https alone."),
    ];
    Form::new(NEW_SINK.name, SINKS, "Create", fields).with_test()
}

/// The sink that the form asks for. A number that can't be read is noted, and the smallest one stands in its place, so
/// that the service judges the other fields.
fn wanted_sink(fields: &Fields, problems: &mut Problems) -> Result<NewSink, Fault> {
    let logs = fields.text("logs").split(',');
    let logs = logs.map(|log| {
        log.parse::<Log>()
            .map_err(|why| Fault::invalid("logs", why))
    });
    let target = match fields.text("kind") == "file" {
        true => SinkTarget::File {
            file: fields.text("file").to_owned(),
            max_mib: problems
                .take(fields.number("max_mib", &FILE_MIB))?
                .unwrap_or(*FILE_MIB.start()),
            keep: problems
                .take(fields.number("keep", &FILES_RETAINED))?
                .unwrap_or(*FILES_RETAINED.start()),
        },
        false => SinkTarget::Http {
            url: fields.text("url").to_owned(),
        },
    };
    Ok(NewSink {
        sink: Sink {
            name: fields.text("name").to_owned(),
            logs: logs.collect::<Result<_, _>>()?,
            target,
            paused: false,
        },
        token: fields.filled("token").map(str::to_owned),
    })
}

pub(super) async fn create_sink(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    let Posted { person, fields } = posted;
    // Before the text is looked at: people who may not change anything learn nothing from it.
    person.caller.may_change()?;
    let service = &console.service;
    let is_test = fields.text("act") == "test";
    let made = async {
        let mut problems = Problems::default();
        let new = wanted_sink(&fields, &mut problems)?;
        problems.take(service.check_sink(&person.caller, new.clone()).await)?;
        problems.finish()?;
        match is_test {
            true => service.try_sink(&person.caller, new).await,
            false => service.create_sink(&person.caller, new).await.map(drop),
        }
    };
    let made = made.await;
    if made.is_ok() && !is_test {
        let notice = format!("Log sink {} created.", fields.text("name"));
        return Ok(done(SINKS, &notice));
    }
    let form = sent_sink_form(&fields);
    let (form, status) = match made {
        Ok(()) => (form, StatusCode::OK),
        Err(fault) => form.refused(fault)?,
    };
    let mut page = person.form_page(NEW_SINK.name, SINKS, form);
    if status == StatusCode::OK {
        page.done = Some("It took a test line. It is not saved yet.".to_owned());
    }
    Ok(page.with_status(status))
}

/// The form as it was sent, but for the token.
fn sent_sink_form(fields: &Fields) -> Form {
    let mut form = sink_form();
    for field in &mut form.fields {
        if field.name != "token" {
            field.value = fields.text(field.name).to_owned();
        } else if fields.filled("token").is_some() {
            field.hint = "Type it again: no page shows a token.";
        }
    }
    form
}

pub(super) async fn pause_sink(
    State(console): State<Console>,
    Path(name): Path<String>,
    posted: Posted,
    paused: bool,
) -> Result<Response, Fault> {
    let patch = SinkPatch {
        paused: Some(paused),
        ..SinkPatch::default()
    };
    let change = console
        .service
        .change_sink(&posted.person.caller, &name, None, patch);
    change.await?;
    let word = if paused { "paused" } else { "resumed" };
    Ok(done(SINKS, &format!("Log sink {name} {word}.")))
}

pub(super) async fn delete_sink(
    State(console): State<Console>,
    Path(name): Path<String>,
    posted: Posted,
) -> Result<Response, Fault> {
    let delete = console
        .service
        .delete_sink(&posted.person.caller, &name, None);
    delete.await?;
    Ok(done(SINKS, &format!("Log sink {name} deleted.")))
}

pub(super) async fn test_sink(
    State(console): State<Console>,
    Path(name): Path<String>,
    posted: Posted,
) -> Result<Response, Fault> {
    let Posted { person, .. } = posted;
    let tried = console.service.test_sink(&person.caller, &name).await?;
    let mut page = sinks_page(&console, &person).await?;
    match tried.error {
        None => page.done = Some(format!("Log sink {name} took a test line.")),
        Some(error) => {
            let text = format!("Log sink {name} did not take a test line: {error}");
            page.sections.insert(0, Section::Alert(text));
        }
    }
    Ok(page.with_status(StatusCode::OK))
}
