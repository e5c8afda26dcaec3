//! A person who signs in to the portal, played by curl.

use super::Product;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The password of each person.
pub const PASSWORD: &str = "correct horse battery";

impl Product {
    /// Adds a person with [`PASSWORD`], who is a member of all groups and may sign in.
    ///
    /// # Errors
    /// When the portal refuses.
    pub fn add_person(&self, name: &str) -> Result<()> {
        let portal = &self.portal;
        portal.admin(&format!("actor create {name} --kind user"))?;
        let groups: Value = serde_json::from_str(&portal.admin("group list --output json")?)?;
        for group in groups["items"].as_array().into_iter().flatten() {
            let id = group["id"].as_str().context("a group has an id")?;
            portal.admin(&format!("group add-member {id} {name}"))?;
        }
        let actor = portal.admin(&format!("actor show {name} --output json"))?;
        let actor: Value = serde_json::from_str(&actor)?;
        let script = format!(
            "curl -fsSk -m 20 -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' \
             -d '{{\"role\":\"user\",\"password\":\"{PASSWORD}\"}}' \
             {}/api/v1/actors/{}/sign-in",
            portal.owner_token()?,
            portal.url(),
            actor["id"].as_str().context("an actor has an id")?,
        );
        portal.namespace.shell(&script).map(drop)
    }

    /// The decision of a person on the page that the code leads to: `approve` or `deny`.
    ///
    /// # Errors
    /// When the portal refuses, or its page does not show the code.
    pub fn decide(&self, name: &str, code: &str, word: &str) -> Result<String> {
        let (url, dir) = (self.portal.url(), self.dir());
        let jar = dir.join(format!("cookies-{code}"));
        let jar = jar.display();
        let curl = format!("curl -fsSk -m 20 -b {jar} -c {jar} -H 'Origin: {url}'");
        let namespace = &self.portal.namespace;
        namespace.shell(&format!(
            "{curl} -o {jar}.html --data-urlencode name={name} \
             --data-urlencode 'password={PASSWORD}' {url}/sign-in"
        ))?;
        let page = namespace.shell(&format!("{curl} '{url}/device?code={code}'"))?;
        ensure!(page.contains(code), "the page shows no code: {page}");
        let token = form_token(&page)?;
        namespace.shell(&format!(
            "{curl} --data-urlencode form_token={token} --data-urlencode code={code} {url}/device/{word}"
        ))
    }
}

/// The form token that forms of the page send along.
///
/// # Errors
/// When it has no form.
pub fn form_token(page: &str) -> Result<&str> {
    let (_, rest) = page
        .split_once("name=\"form_token\" value=\"")
        .context("the page has no form")?;
    Ok(rest.split('"').next().unwrap_or_default())
}
