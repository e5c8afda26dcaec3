//! Common identity providers: what is known of each before somebody registers the portal there.

use super::fields::Fields;

/// A provider that many have.
struct Template {
    /// As it is in the address of the form.
    word: &'static str,
    name: &'static str,
    issuer: &'static str,
    scopes: &'static str,
    groups_claim: &'static str,
    /// The part of the issuer to replace, or what else is to be done there.
    note: &'static str,
}

/// Of each, the page of its own documentation about OpenID Connect says the issuer. `docs/sign-in.md` has the claims with
/// groups.
const TEMPLATES: [Template; 5] = [
    Template {
        word: "google",
        name: "Google",
        issuer: "https://accounts.google.com",
        scopes: "profile email",
        groups_claim: "",
        note: "Create an OAuth client of the kind “Web application”. Google tells no groups.",
    },
    Template {
        word: "entra",
        name: "Microsoft Entra ID",
        issuer: "https://login.microsoftonline.com/TENANT-ID/v2.0",
        scopes: "profile email",
        groups_claim: "groups",
        note: "Replace TENANT-ID by the id of your tenant. Groups come by their ids.",
    },
    Template {
        word: "okta",
        name: "Okta",
        issuer: "https://YOUR-ORG.okta.com",
        scopes: "profile email groups",
        groups_claim: "groups",
        note: "Replace YOUR-ORG. Give the application a groups claim.",
    },
    Template {
        word: "keycloak",
        name: "Keycloak",
        issuer: "https://KEYCLOAK-HOST/realms/REALM",
        scopes: "profile email",
        groups_claim: "groups",
        note: "Replace KEYCLOAK-HOST and REALM. Groups take the mapper “Group Membership”.",
    },
    Template {
        word: "authentik",
        name: "authentik",
        issuer: "https://AUTHENTIK-HOST/application/o/APPLICATION/",
        scopes: "profile email",
        groups_claim: "groups",
        note: "Replace AUTHENTIK-HOST and APPLICATION, and keep the slash at the end.",
    },
];

/// The ways to the form with each template in it.
pub(super) fn ways(at: &str) -> Vec<(String, String)> {
    let way = |template: &Template| {
        let path = format!("{at}?template={}", template.word);
        (path, template.name.to_owned())
    };
    TEMPLATES.iter().map(way).collect()
}

/// The fields of a template, and the note about it.
pub(super) fn filled(asked: &Fields) -> Option<(Fields, &'static str)> {
    let word = asked.filled("template")?;
    let template = TEMPLATES.iter().find(|template| template.word == word)?;
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("name", template.name)
        .append_pair("issuer", template.issuer)
        .append_pair("scopes", template.scopes)
        .append_pair("groups_claim", template.groups_claim)
        .finish();
    let fields = Fields::parse_query(&query).ok()?;
    Some((fields, template.note))
}
