//! The console in a browser: a portal, and an administrator's machine with a browser.

use crate::driver::Browser;
use anyhow::{Context, Result};
use culvert_lab::product::{PRIVATE_OTHER_V4, PRIVATE_V4, Product};
use culvert_lab::wait_until;
use serde_json::{Value, json};
use std::time::Duration;

/// Something on this machine that should happen at once may take this long when others compile.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The password of all people in these tests.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// Everybody who signs in, by name and role.
pub(crate) const PEOPLE: [(&str, &str); 4] = [
    ("olivia", "owner"),
    ("adam", "admin"),
    ("audrey", "auditor"),
    ("ursula", "user"),
];

/// A portal that runs, and a browser behind a router that reaches it.
#[derive(Debug)]
pub(crate) struct Console {
    pub(crate) browser: Browser,
    /// The portal's address.
    pub(crate) url: String,
    pub(crate) product: Product,
}

impl Console {
    /// With a portal that nobody owns yet.
    pub(crate) fn new(gateways: u8) -> Result<Self> {
        let mut product = Product::networks(gateways)?;
        product.portal.start()?;
        let machine = product.other_client()?.namespace;
        Ok(Self {
            browser: Browser::start(&machine, product.dir())?,
            url: product.portal.url(),
            product,
        })
    }

    /// With a portal that has an owner, something of everything, and all of [`PEOPLE`].
    pub(crate) fn with_people() -> Result<Self> {
        Self::new(0)?.peopled()
    }

    /// The same on the portal's own machine, where it has a name that passkeys can be bound to.
    pub(crate) fn with_people_at_localhost() -> Result<Self> {
        let mut product = Product::networks(0)?;
        product.portal.name = Some("localhost".to_owned());
        product.portal.start()?;
        let console = Self {
            browser: Browser::start(&product.portal.namespace, product.dir())?,
            url: product.portal.url(),
            product,
        };
        console.peopled()
    }

    /// The same with a gateway that reaches the portal once it is started.
    pub(crate) fn with_people_and_a_gateway() -> Result<Self> {
        Self::new(1)?.peopled()
    }

    /// With people, a connected gateway and client, a provider, a sink, a flow log, and a denied request,
    /// so that each kind of page shows something.
    pub(crate) fn with_everything() -> Result<Self> {
        let mut console = Self::new(1)?.peopled()?;
        let provider =
            json!({ "name": "Example", "issuer": "https://id.example", "client_id": "culvert" });
        console.api("POST", "/providers", Some(&provider))?;
        let file = json!({ "kind": "file", "file": "access.jsonl", "max_mib": 1, "keep": 1 });
        let sink = json!({ "name": "archive", "logs": ["access", "flows"], "target": file });
        console.api("POST", "/sinks", Some(&json!({ "sink": sink })))?;
        let product = &mut console.product;
        product.portal.admin("retention set --flow-log on")?;
        let (gateway, client) = (&mut product.gateways[0], &mut product.client);
        let tokens = (gateway.token_file(), client.token_file());
        product.portal.token("gateway --site office", &tokens.0)?;
        gateway.start()?;
        product.portal.token("client --actor ursula", &tokens.1)?;
        client.start()?;
        let is_denied = || {
            let _refused = client
                .namespace
                .outcome(&format!("curl -sS -m 1 http://{PRIVATE_OTHER_V4}/"));
            let denied = product.portal.admin("log access --decision denied --json");
            denied.is_ok_and(|entries| !entries.is_empty())
        };
        wait_until("a request that is denied", SOON, is_denied)?;
        // A gateway that ends tells of its flows before it is gone.
        let is_logged = || {
            let _answered = client
                .namespace
                .outcome(&format!("curl -sS -m 2 http://{PRIVATE_V4}/"));
            let restarted = gateway.stop().and_then(|_| gateway.start());
            let flows = product.portal.admin("log flows --json");
            restarted.is_ok() && flows.is_ok_and(|entries| !entries.is_empty())
        };
        wait_until("a flow in the log", SOON, is_logged)?;
        Ok(console)
    }

    fn peopled(self) -> Result<Self> {
        let console = self;
        let portal = &console.product.portal;
        portal.set_up()?;
        portal.apply(&access())?;
        let actors = console.api("GET", "/actors", None)?;
        for (name, role) in PEOPLE {
            let actors = actors["items"].as_array().context("no actors")?;
            let actor = actors.iter().find(|actor| actor["name"] == name);
            let id = actor.and_then(|actor| actor["id"].as_str());
            let path = format!("/actors/{}/sign-in", id.context("an actor")?);
            let sign_in = json!({ "role": role, "password": PASSWORD });
            console.api("POST", &path, Some(&sign_in))?;
        }
        Ok(console)
    }

    /// A request to the API as the owner.
    pub(crate) fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let file = self.product.dir().join("body.json");
        std::fs::write(&file, body.map(Value::to_string).unwrap_or_default())?;
        let portal = &self.product.portal;
        let text = portal.namespace.shell(&format!(
            "curl -gksS --fail-with-body -m 20 -X {method} -H 'authorization: Bearer {}' \
             -H 'content-type: application/json' --data-binary @{} {}/api/v1{path}",
            portal.owner_token()?,
            file.display(),
            self.url
        ))?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Opens a page by its path.
    pub(crate) fn open(&self, path: &str) -> Result<()> {
        self.browser.open(&format!("{}{path}", self.url))
    }

    /// The path of the page that is open.
    pub(crate) fn path(&self) -> Result<String> {
        let url = self.browser.url()?;
        Ok(url.strip_prefix(&self.url).unwrap_or(&url).to_owned())
    }

    /// Signs in as somebody, and whoever was signed in is forgotten.
    pub(crate) fn sign_in(&self, name: &str) -> Result<()> {
        self.open("/sign-in")?;
        self.browser.forget_cookies()?;
        self.open("/sign-in")?;
        self.send("Sign in", &[("name", name), ("password", PASSWORD)])?;
        self.comes_to("My clients", |path| !path.starts_with("/sign-in"))
    }

    /// Fills fields of the form with this title in, or chooses from their lists, and sends it.
    pub(crate) fn send(&self, form: &str, fields: &[(&str, &str)]) -> Result<()> {
        let form = format!("form[aria-label=\"{form}\"]");
        for (name, value) in fields {
            let list = format!("{form} select[name=\"{name}\"]");
            if self.browser.all(&list)?.is_empty() {
                let field = format!("{form} [name=\"{name}\"]");
                self.browser.fill(&field, value)?;
            } else {
                let option = format!("{list} option[value=\"{value}\"]");
                self.browser.click(&self.browser.one(&option)?)?;
            }
        }
        let button = self.browser.one(&format!("{form} button[type=submit]"))?;
        self.browser.follow(&button)
    }

    /// Chooses one of a list of the form with this title, by its value.
    pub(crate) fn choose(&self, form: &str, name: &str, value: &str) -> Result<()> {
        let option = format!(
            "form[aria-label=\"{form}\"] select[name=\"{name}\"] option[value=\"{value}\"]"
        );
        self.browser.click(&self.browser.one(&option)?)
    }

    /// Waits until the page that is open has such a path.
    pub(crate) fn comes_to(&self, what: &str, is_there: impl Fn(&str) -> bool) -> Result<()> {
        wait_until(what, SOON, || self.path().is_ok_and(|path| is_there(&path)))
            .with_context(|| self.browser.page_text().unwrap_or_default())
    }
}

/// Something of everything.
pub(crate) fn access() -> String {
    format!(
        r#"
[[site]]
name = "office"

[[actor]]
name = "olivia"
kind = "admin"

[[actor]]
name = "adam"
kind = "admin"

[[actor]]
name = "audrey"
kind = "admin"

[[actor]]
name = "ursula"
kind = "user"

[[actor]]
name = "build server"
kind = "service_account"

[[group]]
name = "staff"
members = ["ursula", "build server"]

[[resource]]
name = "intranet"
site = "office"
address = "{PRIVATE_V4}"
allow = "tcp:80,443"

[[resource]]
name = "database"
site = "office"
address = "db.corp.example"
allow = "tcp:5432"

[[resource]]
name = "vault"
site = "office"
address = "{PRIVATE_OTHER_V4}"
allow = "tcp:80"

[[policy]]
name = "verified clients alone"
group = "staff"
resource = "vault"
verified = true

[[policy]]
name = "staff to intranet"
group = "staff"
resource = "intranet"

[[policy]]
name = "office hours"
group = "staff"
resource = "database"
time = ["mon-fri 08:00-18:00 Europe/Berlin"]
"#
    )
}
