//! The settings for names that belong to no resource (ADR 0012).

use super::edit::{Edit, Now};
use super::fields::Fields;
use super::forms::Posted;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_wire::api::{Account, AccountPatch, DesiredDns, DesiredDnsDomain, FieldProblem};

const AT: &str = "/dns";

fn form(search: &str, domains: &str) -> Form {
    let fields = vec![
        Field::lines("search", "Short names are completed with")
            .hint("One domain a line, in this order: corp.example")
            .value(search),
        Field::lines("domains", "Names that are asked of servers of their own")
            .hint(
                "One domain a line, and the addresses of its servers: corp.example 10.1.2.53 10.1.3.53. \
                 The domain . is every name.",
            )
            .value(domains),
    ];
    Form::new("Rules about names", AT, "Change", fields)
}

/// The two fields as they are.
fn texts(account: &Account) -> (String, String) {
    let domains = account.dns.domains.iter();
    let domains = domains.map(|domain| format!("{} {}", domain.name, domain.servers.join(" ")));
    let domains: Vec<_> = domains.collect();
    (account.dns.search.join("\n"), domains.join("\n"))
}

fn facts(account: &Account) -> Vec<(&'static str, Cell)> {
    let (search, domains) = texts(account);
    vec![
        ("Short names are completed with", Cell::code(search)),
        ("Domains with servers of their own", Cell::code(domains)),
    ]
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let account = console.service.account(&person.caller).await?;
    let mut page = person.page("DNS", AT);
    page.sections.push(Section::Prose {
        title: "What clients do with names".to_owned(),
        text: "Names of resources go before these rules. A server inside a resource is reached through the \
               tunnel by whoever may use that resource: allow udp:53 and tcp:53 there. Connected clients \
               follow a change within a second."
            .to_owned(),
    });
    if person.may_change() {
        let (search, domains) = texts(&account);
        let form = form(&search, &domains).with_version(account.version);
        page.sections.push(Section::Form(form));
    } else {
        page.sections.push(Section::Facts {
            title: "Rules about names".to_owned(),
            facts: facts(&account),
        });
    }
    Ok(page.into_response())
}

fn wanted(fields: &Fields) -> DesiredDns {
    let domains = fields.lines("domains");
    let domains = domains.iter().map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        DesiredDnsDomain {
            name: words.next().unwrap_or_default(),
            servers: words.collect(),
        }
    });
    DesiredDns {
        search: fields.lines("search"),
        domains: domains.collect(),
    }
}

/// The API counts domains from 0, people their lines from 1.
fn by_line(problem: FieldProblem) -> FieldProblem {
    let field = problem
        .field
        .trim_start_matches("dns")
        .trim_start_matches('.');
    let Some((root, rest)) = field.split_once('[') else {
        let field = field.to_owned();
        return FieldProblem { field, ..problem };
    };
    let index = rest.split(']').next().and_then(|index| index.parse().ok());
    FieldProblem {
        field: root.to_owned(),
        detail: match index {
            Some(index) => format!("line {}: {}", u64::saturating_add(index, 1), problem.detail),
            None => problem.detail,
        },
    }
}

pub(super) async fn change(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let patch = AccountPatch {
        dns: Some(wanted(&fields)),
        ..AccountPatch::default()
    };
    let service = &console.service;
    let changed = service.change_account(&person.caller, version, patch).await;
    let changed = changed.map_err(|fault| match fault {
        Fault::Invalid(problems) => Fault::Invalid(problems.into_iter().map(by_line).collect()),
        other => other,
    });
    let edit = Edit {
        person: &person,
        fields: &fields,
        at: AT,
        form: form(fields.text("search"), fields.text("domains")),
        onward: (AT.to_owned(), "DNS is changed.".to_owned()),
    };
    let now = async {
        let account = service.account(&person.caller).await?;
        Ok(Now {
            facts: facts(&account),
            version: account.version,
        })
    };
    edit.finish(changed, now).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_by_its_line() {
        for (field, root, detail) in [
            ("dns.domains[1].servers[0]", "domains", "line 2: wrong"),
            ("dns.search[0]", "search", "line 1: wrong"),
            ("dns.domains", "domains", "wrong"),
            ("dns", "", "wrong"),
        ] {
            let problem = by_line(FieldProblem {
                field: field.to_owned(),
                detail: "wrong".to_owned(),
            });
            assert_eq!((&*problem.field, &*problem.detail), (root, detail));
        }
    }
}
