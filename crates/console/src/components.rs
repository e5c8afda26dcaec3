//! Every piece of the design on one page, without data: for people who change the design, and for tests that look at it.

use super::chart::Chart;
use super::person::Person;
use super::view::{
    Action, Cell, DeviceFile, Field, Form, GatewayRow, PortRow, Section, Step, Steps, Table,
    Warning, Way,
};
use axum::response::{IntoResponse, Response};
use culvert_portal_base::{Fault, now};
use culvert_wire::Timestamp;
use culvert_wire::api::{Activity, ActivitySpan, ActivityStep, FieldProblem};

const AT: &str = "/components";

/// In the list of pages.
const LIST: &str = "/settings";

/// A step of the sample charts: an hour.
const STEP_S: u32 = 60 * 60;

pub(super) async fn show(person: Person) -> Result<Response, Fault> {
    person.caller.may_read()?;
    let mut page = person.page("Components", LIST);
    page.done = Some("Client example revoked.".to_owned());
    page.sections = vec![
        Section::Alert("A fault: nothing was changed.".to_owned()),
        Section::Warnings(vec![Warning {
            text: "Something needs attention.".to_owned(),
            link: Some((AT.to_owned(), "Show")),
        }]),
        Section::Facts {
            title: "Badges and times".to_owned(),
            facts: vec![
                ("Good", Cell::good("connected")),
                ("Warning", Cell::warn("draining")),
                ("Bad", Cell::bad("revoked")),
                ("Plain", Cell::plain("away")),
                ("Time", Cell::time(Some(now()))),
                ("Code", Cell::code("100.64.0.1")),
                ("Link", Cell::link(AT, "A link")),
                ("Buttons", person.buttons(buttons())),
            ],
        },
        Section::Table(table(
            vec![row(&person, "First"), row(&person, "Second")],
            "Table",
        )),
        Section::Table(table(Vec::new(), "Empty table")),
        Section::List {
            title: "Sentences".to_owned(),
            items: vec!["The first.".to_owned(), "The second.".to_owned()],
        },
        Section::DeviceFile(DeviceFile {
            device: "example".to_owned(),
            tunnel: "example".to_owned(),
            text: "[Interface]\n".to_owned(),
            public_key: String::new(),
            seal: String::new(),
        }),
        Section::Note("A note about what is above.".to_owned()),
        Section::Steps(steps()),
        Section::Copy {
            title: "Text to copy".to_owned(),
            note: "It has a button, if the browser runs scripts.".to_owned(),
            text: "culvert status".to_owned(),
        },
        Section::Alternatives {
            title: "Tabs".to_owned(),
            note: "One of several ways.".to_owned(),
            ways: ["First way", "Second way"].map(way).to_vec(),
        },
        Section::Charts(charts()),
        Section::Ways(vec![(AT.to_owned(), "A way on".to_owned())]),
    ];
    page.sections.extend(person.forms([form()]));
    Ok(page.into_response())
}

/// The buttons do nothing but come back: the colours stay as they are.
fn buttons() -> Vec<Action> {
    let button = |name, loss: Option<&'static str>| Action {
        name,
        what: "example".to_owned(),
        path: "/theme".to_owned(),
        version: None,
        is_grave: loss.is_some(),
        loss,
    };
    vec![
        button("Verify", None),
        button("Revoke", Some("It loses all access at once.")),
    ]
}

fn row(person: &Person, name: &str) -> Vec<Cell> {
    let actions = buttons().into_iter().map(|action| Action {
        what: name.to_owned(),
        ..action
    });
    vec![
        Cell::link(AT, name),
        Cell::good("connected"),
        Cell::code("100.64.0.1"),
        Cell::time(Some(now())),
        person.menu(actions),
    ]
}

fn table(rows: Vec<Vec<Cell>>, title: &str) -> Table {
    Table {
        title: title.to_owned(),
        columns: vec!["Name", "State", "Address", "Last seen", "Actions"],
        rows,
        empty: "There is none yet.".into(),
        ..Table::default()
    }
}

/// A form as it looks after it was refused. It comes back here.
fn form() -> Form {
    let kinds = [("a", "The first"), ("b", "The second")];
    let fields = vec![
        Field::line("name", "Line").hint("A hint about the field."),
        Field::line("wrong", "Line with a fault").value("10.0.0.300"),
        Field::choice("kind", "Choice", &kinds),
        Field::lines("lines", "Lines"),
        Field::ports("ports", "Ports", vec![PortRow::default()]),
        Field::gateways("gateways", "Gateways", vec![gateway()]),
        Field::key("public_key", "Key", true),
    ];
    let problem = FieldProblem {
        field: "wrong".to_owned(),
        detail: "300 is no part of an address".to_owned(),
    };
    let mut form = Form::new("Form", "/theme", "Create", fields).with_problems(&[problem]);
    form.hide("back", AT.to_owned());
    form
}

fn gateway() -> GatewayRow {
    GatewayRow {
        id: "example".to_owned(),
        name: "gateway".to_owned(),
        about: "site office".to_owned(),
        is_checked: true,
        endpoint: String::new(),
        placeholder: "vpn.example.com:51820",
    }
}

fn steps() -> Steps {
    let steps = vec![
        Step::new("The first", true, "It is done."),
        Step::new("The second", false, "It is next."),
        Step::new("The third", false, "It comes later."),
    ];
    Steps::new("Steps", "1 of 3 steps are done.".to_owned(), steps)
}

fn way(name: &'static str) -> Way {
    Way {
        name,
        note: "A note about this way.",
        text: format!("command of: {name}"),
    }
}

fn charts() -> Vec<Chart> {
    let begin = now().unix_ms() - 24 * 1_000 * u64::from(STEP_S);
    let step = |number: u64| ActivityStep {
        at: Timestamp::from_unix_ms(begin + number * 1_000 * u64::from(STEP_S)),
        bytes: number * number * 1_000_000,
        granted: 0,
        denied: number % 5,
    };
    let activity = Activity {
        span: ActivitySpan::Day,
        step_s: STEP_S,
        steps: (0..24).map(step).collect(),
    };
    vec![
        Chart::throughput(AT, &activity),
        Chart::denials(AT, &activity),
    ]
}
