//! The measured requests: each page of the console that has rows behind it, and the same of the
//! API.

use anyhow::{Context, Result};

use crate::portal::process::Process;

/// One page.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// In the table: the path without ids.
    pub(super) name: String,
    pub(super) path: String,
    pub(super) who: Who,
    pub(super) until: Until,
}

/// The signed-in caller of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// In a browser.
    Person,
    /// With a token.
    Program,
}

/// The part of the answer at which the clock stops.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    End,
    /// A long answer: its end is not waited for.
    FirstByte,
}

/// Lists of the console that have a second page, and what the API calls them.
const LISTS: [(&str, &str); 4] = [
    ("/resources", "/resources"),
    ("/policies", "/policies"),
    ("/groups", "/groups"),
    ("/clients", "/clients"),
];

/// Other pages with no id in them.
const PLAIN: [&str; 43] = [
    "/",
    "/sites",
    "/people",
    "/service-accounts",
    "/settings",
    "/settings/account",
    "/settings/tokens",
    "/settings/retention",
    "/settings/sinks",
    "/settings/providers",
    "/dns",
    "/me",
    "/first-steps",
    "/explain",
    "/resources?search=net-99",
    "/resources?search=nothing",
    "/resources?sort=holder",
    "/policies?sort=-holder",
    "/policies?search=nothing",
    "/clients?sort=-seen",
    "/clients?sort=holder",
    "/clients?state=unverified&search=person-500",
    "/clients?search=nothing",
    "/log/changes",
    "/log/changes?entity=site",
    "/log/changes?cursor=50000",
    "/log/access",
    "/log/access?decision=revoked",
    "/log/access?cursor=500000",
    "/log/flows",
    "/log/flows?cursor=500000",
    // A search without a hit: it reads all entries.
    "/log/changes?search=nothing",
    "/log/access?search=nothing",
    "/log/flows?search=nothing",
    "/log/access?search=net-99",
    "/resources/new",
    "/policies/new",
    "/policies/new?group=group-1&resource=net-1",
    "/people/invitations/new",
    "/settings/tokens/new",
    "/me/access",
    "/choices?kind=resource&text=net-99",
    "/log/access?from=today",
];

/// The same of the API.
const OF_API: [&str; 16] = [
    "/actors?limit=200",
    "/sites",
    "/tokens?limit=200",
    "/gateways",
    "/status",
    "/activity",
    "/resources?search=net-99",
    "/resources?search=nothing",
    "/policies?limit=200",
    "/log/changes?limit=200",
    "/log/changes?entity=site",
    "/log/access?limit=200",
    "/log/access?decision=revoked",
    "/log/flows?limit=200",
    "/sessions/clients",
    "/actors?name=person-500",
];

/// All of them, for the account that the portal has.
pub(super) async fn all(portal: &Process) -> Result<Vec<Page>> {
    let mut pages: Vec<Page> = PLAIN.iter().map(|path| Page::of_console(path)).collect();
    pages.extend(OF_API.iter().map(|path| Page::of_api(path)));
    for (path, list) in LISTS {
        pages.push(Page::of_console(path));
        pages.push(Page::of_api(&format!("{list}?limit=200")));
        let cursor = middle(portal, list).await?;
        // The console counts pages of 50 rows.
        pages.push(Page::of_console(path).with("page", "100"));
        pages.push(Page::of_api(&format!("{list}?limit=200")).with("cursor", &cursor));
    }
    pages.extend(details(portal).await?);
    pages.extend(searches(portal).await?);
    for log in ["changes", "access", "flows"] {
        for format in ["csv", "jsonl"] {
            let path = format!("/log/{log}/export/{format}");
            let mut page = Page::of_console(&path);
            page.until = Until::FirstByte;
            pages.push(page);
        }
    }
    Ok(pages)
}

/// The first thing of each kind, which has the most behind it, and the last.
async fn details(portal: &Process) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for (kind, name) in [
        ("sites", "site"),
        ("resources", "net-0"),
        ("policies", "policy-9"),
        ("actors", "person-0"),
    ] {
        let id = id_of(portal, &format!("/{kind}?name={name}")).await?;
        let page = if kind == "actors" { "people" } else { kind };
        pages.push(Page::of_console(&format!("/{page}/ID")).at(&id));
        pages.push(Page::of_api(&format!("/{kind}/ID")).at(&id));
    }
    for kind in ["groups", "clients", "gateways"] {
        let id = id_of(portal, &format!("/{kind}?limit=1")).await?;
        pages.push(Page::of_console(&format!("/{kind}/ID")).at(&id));
        pages.push(Page::of_api(&format!("/{kind}/ID")).at(&id));
    }
    let group = id_of(portal, "/groups?limit=1").await?;
    pages.push(Page::of_api("/groups/ID/members?limit=200").at(&group));
    Ok(pages)
}

/// Explanations, and logs by what they are about.
async fn searches(portal: &Process) -> Result<Vec<Page>> {
    let client = portal.get("/clients?limit=1").await?;
    let name = client["items"][0]["name"].as_str().context("a client")?;
    let id = client["items"][0]["id"].as_str().context("a client")?;
    let net = id_of(portal, "/resources?name=net-0").await?;
    let mut pages = vec![
        Page::of_console("/explain?resource=net-0").with("client", name),
        Page::of_api("/explain")
            .with("client", id)
            .with("resource", &net),
        Page::of_console("/log/access").with("client", name),
        Page::of_console("/log/access?resource=net-1"),
        Page::of_console("/log/access?actor=person-0"),
        Page::of_console("/log/flows?resource=net-1"),
        Page::of_console("/log/flows?actor=person-0"),
    ];
    // An hour at the beginning of what is kept: far from where the newest is.
    let log = portal.get("/log/access?limit=1&cursor=2").await?;
    let at = log["items"][0]["at"].as_str().context("an entry")?;
    for path in [
        "/log/changes",
        "/log/access",
        "/log/access?decision=denied",
        "/log/flows",
    ] {
        pages.push(Page::of_console(path).with("until", at));
        pages.push(Page::of_console(path).with("from", at));
    }
    Ok(pages)
}

async fn id_of(portal: &Process, list: &str) -> Result<String> {
    let found = portal.get(list).await?;
    let id = found["items"][0]["id"].as_str();
    Ok(id.with_context(|| format!("{list} is empty"))?.to_owned())
}

/// The cursor of the page in the middle of a list.
async fn middle(portal: &Process, list: &str) -> Result<String> {
    let mut cursors = Vec::new();
    let mut path = format!("{list}?limit=200");
    while let Some(next) = portal.get(&path).await?["next_cursor"].as_str() {
        path = format!("{list}?limit=200&cursor={next}");
        cursors.push(next.to_owned());
    }
    let middle = cursors.len() / 2;
    cursors.into_iter().nth(middle).context("one page is all")
}

impl Page {
    fn of_console(path: &str) -> Self {
        Self {
            name: path.to_owned(),
            path: path.to_owned(),
            who: Who::Person,
            until: Until::End,
        }
    }

    fn of_api(path: &str) -> Self {
        let path = format!("{}{path}", culvert_wire::api::PREFIX);
        Self {
            who: Who::Program,
            ..Self::of_console(&path)
        }
    }

    /// With an id in the place of `ID`.
    fn at(mut self, id: &str) -> Self {
        self.path = self.path.replace("ID", id);
        self
    }

    /// With one more in the query; its value is not in the name.
    fn with(mut self, key: &str, value: &str) -> Self {
        let sign = if self.path.contains('?') { '&' } else { '?' };
        self.path = format!("{}{sign}{key}={value}", self.path);
        self.name = format!("{}{sign}{key}=…", self.name);
        self
    }
}
