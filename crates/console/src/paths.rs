//! Paths of the console that other pages lead to: the lists of pages, and the pages in between.

use super::view::Link;
use culvert_portal_auth::device_codes::written as written_code;

/// The page that asks a person to prove once more who they are.
pub(super) const CONFIRM: &str = "/confirm";

/// The page of the own second factor.
pub(super) const SECOND_FACTOR: &str = "/me/second-factor";

const fn page(path: &'static str, name: &'static str) -> Link {
    Link { path, name }
}

/// The pages of people who may read everything.
pub(super) const PAGES: &[Link] = &[
    page("/", "Overview"),
    page("/sites", "Sites"),
    page("/resources", "Resources"),
    page("/policies", "Policies"),
    page("/explain", "Explain"),
    page("/people", "Actors"),
    page("/groups", "Groups"),
    page("/service-accounts", "Service accounts"),
    page("/clients", "Clients"),
    page("/dns", "DNS"),
    page("/log/access", "Access log"),
    page("/log/changes", "Change log"),
    page("/log/flows", "Flow log"),
    page("/settings", "Settings"),
];

/// The pages of people who see only their own clients.
pub(super) const OWN_PAGES: &[Link] = &[page("/clients", "My clients")];

/// The page of the list that has this path: where signing in may lead, and nowhere else.
pub(super) fn page_of(path: &str) -> Option<&'static str> {
    let known = PAGES.iter().find(|page| page.path == path);
    known.map(|page| page.path)
}

/// The page after a sign-in, of those that a page or a link may ask for: a page of a list, or a
/// machine that waits with its code; the overview otherwise.
pub(super) fn next_page(asked: &str) -> String {
    if let Some(page) = page_of(asked) {
        return page.to_owned();
    }
    let code = asked.strip_prefix("/device?code=").and_then(written_code);
    match (asked, code) {
        ("/device", _) => "/device".to_owned(),
        (_, Some(code)) => format!("/device?code={code}"),
        (_, None) => "/".to_owned(),
    }
}

/// The paths that are open to people who must get a second factor first. The service refuses the
/// rest as well.
pub(super) const UNTIL_ENROLLED: &[&str] = &[
    SECOND_FACTOR,
    "/me/second-factor/confirm",
    "/me/passkeys",
    "/me/passkeys/confirm",
    CONFIRM,
    "/confirm/password",
    "/confirm/passkey",
    "/confirm/provider",
    "/confirm/done",
    "/sign-out",
];
