//! The routes that a portal serves, read from its router itself: what serves can't be left out.

use crate::console_routes::routes_with;
use crate::support::Running;
use std::collections::{BTreeMap, BTreeSet};

/// Sessions of machines, which take any method.
const ANY: &str = "ANY";

/// A route: its method, and its path as the router has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Served {
    pub(crate) method: String,
    pub(crate) template: String,
}

impl Served {
    /// True if it is there to change something.
    pub(crate) fn is_mutating(&self) -> bool {
        self.method != "GET"
    }

    pub(crate) fn is_of_api(&self) -> bool {
        self.template.starts_with("/api/")
    }
}

/// All of them.
pub(crate) fn served(running: &Running) -> BTreeSet<Served> {
    let text = running.portal.describe_routes();
    // The fallback comes after the routes.
    let (routes, _) = text.split_once("fallback_router:").unwrap();
    let (routes, paths) = routes.split_once("node: Node { paths: {").unwrap();
    let number = |text: &str| text.split(')').next().unwrap().to_owned();
    let paths = paths.split("RouteId(").skip(1);
    let paths: BTreeMap<String, &str> = paths
        .map(|text| (number(text), text.split('"').nth(1).unwrap()))
        .collect();
    let mut served = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for text in routes.split("RouteId(").skip(1) {
        let template = paths[&number(text)];
        assert!(ids.insert(number(text)), "{template} is there twice");
        let allowed = text.split_once("allow_header: ");
        let allowed = allowed.unwrap_or_else(|| panic!("{template}: {text}")).1;
        let methods = match allowed.strip_prefix("Bytes(b\"") {
            Some(methods) => methods.split('"').next().unwrap(),
            None if allowed.starts_with("Skip") => ANY,
            None => panic!("{template}: {text}"),
        };
        for method in methods.split(',').filter(|method| *method != "HEAD") {
            served.insert(Served {
                method: method.to_owned(),
                template: template.to_owned(),
            });
        }
    }
    assert_eq!(ids.len(), paths.len(), "a path without a route");
    served
}

/// A path of the route, with ids of things that are not there.
fn path(template: &str) -> String {
    let part = |part: &str| match part.starts_with('{') {
        true => "x".to_owned(),
        false => part.to_owned(),
    };
    let parts: Vec<String> = template.split('/').map(part).collect();
    parts.join("/")
}

/// The list is checked by asking: a method that a path has not is answered with 405, and no other is.
#[tokio::test]
async fn the_list_of_routes_is_what_the_portal_serves() {
    let running = Running::start().await;
    let served = served(&running);
    let templates: BTreeSet<&str> = served.iter().map(|route| &*route.template).collect();
    let mut at = 0;
    for template in &templates {
        at += 1;
        let mut stranger = running.client_at(at).await;
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let is = |route: &Served| {
                route.template == *template && [method, ANY].contains(&&*route.method)
            };
            let answer = stranger.send(method, &path(template), &[], None).await;
            let has = answer.status != 405;
            assert_eq!(has, served.iter().any(is), "{method} {template}");
        }
    }
    assert!(served.len() >= 200, "{}", served.len());
}

/// The other tests walk the routes of the API by its document, and those of the console by its source.
#[tokio::test]
async fn the_document_and_the_source_of_the_console_have_every_route_that_is_served() {
    let running = Running::start().await;
    let mut stranger = running.client().await;
    let document = stranger.get("/api/v1/openapi.json").await.expect(200);
    let document = document.json();
    let mut known = BTreeSet::new();
    let mut add = |method: &str, template: &str| {
        let (method, template) = (method.to_uppercase(), template.to_owned());
        assert!(known.insert(Served { method, template }));
    };
    for (template, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            add(method, template);
        }
    }
    for route in routes_with(|_| String::new()) {
        for (method, has) in [("GET", route.is_page), ("POST", route.is_form)] {
            if has {
                add(method, &route.template);
            }
        }
    }
    for other in ["/healthz", "/readyz", "/metrics", "/api/v1/openapi.json"] {
        add("GET", other);
    }
    for side in ["client", "gateway", "portal", "relay"] {
        add(ANY, &format!("/api/v1/session/{side}"));
    }
    let served = served(&running);
    let unexpected: Vec<_> = served.symmetric_difference(&known).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}
