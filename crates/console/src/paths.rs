//! Paths of the console that other pages lead to: the lists of pages, and the pages in between.

use culvert_ids::ClientId;
use culvert_portal_auth::device_codes::written as written_code;

/// The page that asks a person to prove once more who they are.
pub(super) const CONFIRM: &str = "/confirm";

/// The list of people.
pub(super) const PEOPLE: &str = "/people";

/// The list of sites.
pub(super) const SITES: &str = "/sites";

/// The page on which a plain WireGuard device is added.
pub(super) const NEW_WIREGUARD: &str = "/wireguard/new";

/// The page with the file of a plain WireGuard device.
pub(super) fn file_of(device: ClientId) -> String {
    format!("/wireguard/{device}")
}

/// The page of the own second factor.
pub(super) const SECOND_FACTOR: &str = "/me/second-factor";

/// The first parts of paths that signing in may lead to: those of pages that people see.
const PARTS: &[&str] = &[
    "",
    "sites",
    "gateways",
    "clients",
    "components",
    "dns",
    "resources",
    "policies",
    "people",
    "groups",
    "service-accounts",
    "explain",
    "log",
    "settings",
    "tokens",
    "wireguard",
    "me",
    "first-steps",
];

/// Longest address that a sign-in leads on to: a search of a log has some hundred characters.
const MAX_NEXT_LEN: usize = 2048;

/// The address, if it is one of a page of this console. No other site is such an address, whatever a browser makes of it.
pub(super) fn own_page(asked: &str) -> Option<&str> {
    let path = asked.split(['?', '#']).next()?.strip_prefix('/')?;
    let part = path.split('/').next()?;
    let is_plain = asked
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    // Two slashes would name another host.
    let is_page = PARTS.contains(&part)
        && !path.starts_with('/')
        && !path.contains("//")
        && !path.contains("/export/");
    (is_plain && is_page && asked.len() <= MAX_NEXT_LEN).then_some(asked)
}

/// The page after a sign-in, of those that a page or a link may ask for. These are pages of the console, forms that wait,
/// and machines that wait with their code. Anything else leads to the overview.
pub(super) fn next_page(asked: &str) -> String {
    if let Some(page) = own_page(asked) {
        return page.to_owned();
    }
    let ticket = asked.strip_prefix("/confirm/done?form=");
    if ticket.is_some_and(is_ticket) {
        return asked.to_owned();
    }
    let code = asked.strip_prefix("/device?code=").and_then(written_code);
    match (asked, code) {
        ("/device", _) => "/device".to_owned(),
        (_, Some(code)) => format!("/device?code={code}"),
        (_, None) => "/".to_owned(),
    }
}

/// The page from which a form that waits is sent, of the ticket that it is known by.
pub(super) fn page_of_form(ticket: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("form", ticket)
        .finish();
    format!("{CONFIRM}/done?{query}")
}

/// True for the text by which a form that waits is known: 16 bytes in the Base64 of URLs.
fn is_ticket(text: &str) -> bool {
    text.len() == 22
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
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
    "/theme",
];

/// The address of a page with these words of a question.
pub(super) fn asking(path: &str, words: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(words)
        .finish();
    format!("{path}?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_leads_to_the_page_that_was_asked_for_and_to_no_other_site() {
        for own in [
            "/",
            "/?span=day",
            "/log/access?decision=denied&actor=clara%20koch",
            "/resources/res_00000000000000000000000000",
            "/settings/sinks",
        ] {
            assert_eq!(next_page(own), own);
        }
        assert_eq!(
            next_page("/device?code=BCDF-GHJK"),
            "/device?code=BCDF-GHJK"
        );
        let waiting = "/confirm/done?form=AAAAAAAAAAAAAAAAAAAA-_";
        assert_eq!(next_page(waiting), waiting);
        for other in [
            "",
            "/confirm/done?form=",
            "/confirm/done?form=AAAAAAAAAAAAAAAAAAA/\\_",
            "/confirm?form=AAAAAAAAAAAAAAAAAAAA-_",
            "sites",
            "//evil.example",
            "/\\evil.example",
            "/sites//evil",
            "https://evil.example/",
            "/sign-in",
            "/sign-out",
            "/assets/style.css",
            "/log/access/export/csv",
            "/api/v1/sites",
            "/sites?a=b c",
            "/sites\r\nset-cookie: a=b",
            "/sites/\u{202e}",
        ] {
            assert_eq!(next_page(other), "/", "{other}");
        }
        let long = format!("/sites?search={}", "x".repeat(MAX_NEXT_LEN));
        assert_eq!(next_page(&long), "/");
    }
}
