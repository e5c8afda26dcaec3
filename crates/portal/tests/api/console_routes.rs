//! The routes of the console, read from its router: whatever is new there is walked by the tests.

use std::collections::BTreeSet;

/// A route, with ids in its path.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) path: String,
    /// Its path as the router has it.
    pub(crate) template: String,
    /// Its path has no ids.
    pub(crate) is_single: bool,
    pub(crate) is_page: bool,
    pub(crate) is_form: bool,
}

/// The kinds of ids in a path, by the beginning of the path.
const IDS: [(&str, &str); 22] = [
    ("clients", "cli"),
    ("plain-clients", "plain"),
    ("gateways", "gw"),
    ("groups", "grp"),
    ("people", "act"),
    ("actors", "act"),
    ("policies", "pol"),
    ("relays", "rly"),
    ("resources", "res"),
    ("sites", "site"),
    ("tokens", "tok"),
    ("wireguard", "wg"),
    ("actor", "act"),
    ("providers", "idp"),
    ("identities", "idn"),
    ("unlink", "idn"),
    ("with", "idp"),
    ("sessions", "tok"),
    ("name", "snk"),
    ("format", "csv"),
    ("handle", "key"),
    ("link", "key"),
];

/// All of them, with ids of things that are not there.
fn routes() -> Vec<Route> {
    routes_with(no_such)
}

/// The id of a thing of that kind that is not there. Plain WireGuard devices, which stand in paths of their own, are clients.
pub(crate) fn no_such(prefix: &str) -> String {
    let prefix = if prefix == "wg" { "cli" } else { prefix };
    format!("{prefix}_00000000000000000000000000")
}

/// All of them, with ids by what ids of that kind begin with.
pub(crate) fn routes_with(id_of: impl Fn(&str) -> String) -> Vec<Route> {
    let router = include_str!("../../../console/src/router.rs");
    let router = router.split_once("Router::new()").unwrap().1;
    let router = router.split_once(".layer(").unwrap().0;
    let route = |text: &str| {
        let (_, rest) = text.split_once('"').unwrap();
        let (template, handlers) = rest.split_once('"').unwrap();
        Route {
            path: with_ids(template, &id_of),
            template: template.to_owned(),
            is_single: !template.contains('{'),
            is_page: handlers.contains("get("),
            is_form: handlers.contains("post("),
        }
    };
    router.split(".route(").skip(1).map(route).collect()
}

/// A path with ids in it.
pub(crate) fn with_ids(template: &str, id_of: impl Fn(&str) -> String) -> String {
    let id_of = |name: &str| {
        let kind = IDS.iter().find(|(known, _)| *known == name);
        let kind = kind.unwrap_or_else(|| panic!("ids of {name}: add their kind"));
        id_of(kind.1)
    };
    let mut parts: Vec<String> = Vec::new();
    for part in template.split('/') {
        parts.push(match part {
            "{id}" => id_of(parts.last().unwrap()),
            part if part.starts_with('{') => id_of(part.trim_matches(['{', '}'])),
            part => part.to_owned(),
        });
    }
    parts.join("/")
}

/// Pages of who has signed in that name no thing.
pub(crate) fn pages() -> Vec<String> {
    let is_other = |path: &str| {
        path.starts_with("/assets/")
            || matches!(
                path,
                "/live"
                    | "/choices"
                    | "/favicon.ico"
                    | "/set-up"
                    | "/sign-in"
                    | "/sign-in/callback"
            )
    };
    let pages = routes()
        .into_iter()
        .filter(|route| route.is_page && route.is_single && !is_other(&route.path));
    pages.map(|route| route.path).collect()
}

/// The paths that forms are sent to; ids in them name things that do not exist.
pub(crate) fn forms() -> Vec<String> {
    let forms = routes().into_iter().filter(|route| route.is_form);
    forms.map(|route| route.path).collect()
}

/// The same with every id as a star, which a form on a page can be held against.
pub(crate) fn form_shapes() -> BTreeSet<String> {
    forms().iter().map(|form| shape(form)).collect()
}

/// A path with every id as a star.
pub(crate) fn shape(path: &str) -> String {
    let is_id = |part: &str| part.rsplit_once('_').is_some_and(|(_, id)| id.len() == 26);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        // Sinks stand in paths by their names.
        let is_named = parts.last() == Some(&"sinks");
        parts.push(if is_named || is_id(part) { "*" } else { part });
    }
    parts.join("/")
}

#[test]
fn the_router_is_read_whole() {
    let routes = routes();
    assert!(routes.iter().all(|route| route.is_page || route.is_form));
    assert!(
        pages().len() >= 17 && forms().len() >= 40,
        "{}",
        forms().len()
    );
    assert!(forms().contains(
        &"/groups/grp_00000000000000000000000000/remove/act_00000000000000000000000000".to_owned()
    ));
}

/// True if a form is for people who have not signed in yet.
pub(crate) fn is_before_signing_in(form: &str) -> bool {
    form == "/set-up" || form.starts_with("/sign-in") || form.starts_with("/invitation")
}
