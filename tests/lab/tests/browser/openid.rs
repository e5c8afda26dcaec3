//! Signing in by an identity provider, a real one on a machine of its own, and signing a machine in that way
//! (docs/sign-in.md).

use crate::console::{Console, SOON};
use crate::page;
use anyhow::{Context, Result};
use culvert_lab::{Process, Subnet, culvert_program, peer_program, wait_until};
use serde_json::{Value, json};
use std::process::Stdio;

/// The network between the lab's internet and the provider's machine.
const PROVIDER_NET: Subnet = Subnet(40);

/// The people whom the provider knows, with their names.
const SUBJECT: &str = "s-4711";
const NAME: &str = "paula";

/// The text of the link to the provider on the portal's page for signing in.
const WAY: &str = "Sign in with Example";

/// A portal with people, and a provider that it knows.
struct Scene {
    console: Console,
    issuer: String,
    _provider: Process,
}

impl Scene {
    fn new() -> Result<Self> {
        let console = Console::with_people()?;
        let (provider, issuer, ca) = provider(&console)?;
        let groups = console.api("GET", "/groups", None)?;
        let described = json!({
            "name": "Example", "issuer": issuer, "client_id": "culvert", "client_secret": "of a test",
            "ca": ca, "scopes": ["profile", "groups"], "groups_claim": "groups",
            "groups": [{"value": "cn=staff", "group": groups["items"][0]["id"]}],
            "unknown_people": "make",
        });
        console.api("POST", "/providers", Some(&described))?;
        Ok(Self {
            console,
            issuer,
            _provider: provider,
        })
    }

    /// Follows the way to the provider, from the page for signing in.
    fn leave_for_the_provider(&self) -> Result<()> {
        let browser = &self.console.browser;
        browser.follow(&browser.link(WAY)?)?;
        self.is_at_the_provider()
    }

    fn is_at_the_provider(&self) -> Result<()> {
        let is_there = || {
            let url = self.console.browser.url();
            url.is_ok_and(|url| url.starts_with(&self.issuer))
        };
        wait_until("the provider's page", SOON, is_there)
            .with_context(|| self.console.browser.page_text().unwrap_or_default())
    }

    /// Signs in at the provider, consents, and comes back, to this page in the end. The URL at which the
    /// provider had the browser come back.
    fn sign_in_at_the_provider(&self, to: &str) -> Result<String> {
        let browser = &self.console.browser;
        browser.fill("[name=login]", SUBJECT)?;
        browser.fill("[name=password]", "any")?;
        browser.follow(&browser.one("button[type=submit]")?)?;
        self.is_at_the_provider()?;
        assert!(browser.page_text()?.contains("groups"), "what is asked for");
        // Its pages are no concern of the portal's.
        self.forget_what_happened()?;
        browser.follow(&browser.one("button[type=submit]")?)?;
        self.console.comes_to(to, |path| path == to)?;
        let loaded = page::look_after(&self.console, Some(&self.issuer))?;
        assert_eq!((loaded.status, loaded.is_page), (200, true), "{to}");
        let is_callback = |url: &String| url.contains("/sign-in/callback?");
        let back = loaded.asked.into_iter().find(is_callback);
        back.context("nothing led back to the portal")
    }

    fn forget_what_happened(&self) -> Result<()> {
        let _requests = self.console.browser.network()?;
        let _messages = self.console.browser.console()?;
        Ok(())
    }

    /// The text of the page, which must have no fault.
    fn reads(&self) -> Result<String> {
        page::look(&self.console)?;
        self.console.browser.page_text()
    }
}

/// Starts the provider; its issuer, and the certificate that it shows.
fn provider(console: &Console) -> Result<(Process, String, String)> {
    let machine = console.product.on_the_internet(PROVIDER_NET)?;
    let address = PROVIDER_NET.host(culvert_lab::Family::V4, 2).to_string();
    let certified = rcgen::generate_simple_self_signed([address.clone()])?;
    let dir = console.product.dir();
    let accounts = dir.join("accounts.json");
    let person = json!({"preferred_username": NAME, "groups": ["cn=staff", "others"]});
    std::fs::write(&accounts, json!({ SUBJECT: person }).to_string())?;
    let client = json!({
        "client_id": "culvert", "client_secret": "of a test",
        "redirect_uris": [format!("{}/sign-in/callback", console.url)],
        "scope": "openid profile groups",
    });
    let configuration = json!({
        "cert": certified.cert.pem(), "key": certified.signing_key.serialize_pem(),
        "address": address, "asks_consent": true, "clients": [client], "accounts": accounts,
    });
    let file = dir.join("provider.json");
    std::fs::write(&file, configuration.to_string())?;
    let line = format!(
        "{} {}",
        peer_program("oidc-provider")?.display(),
        file.display()
    );
    // It ends with its input.
    let mut provider = machine.spawn_with(&line, |command| {
        command.stdin(Stdio::piped());
    })?;
    provider.wait_for_output("issuer https://", SOON)?;
    let whole = || {
        provider
            .output()
            .split_once("issuer ")
            .is_some_and(|(_, rest)| rest.contains('\n'))
    };
    wait_until("the issuer", SOON, whole)?;
    let output = provider.output();
    let issuer = output.lines().find_map(|line| line.strip_prefix("issuer "));
    let issuer = issuer.context("no issuer")?.to_owned();
    Ok((provider, issuer, certified.cert.pem()))
}

#[test]
fn a_person_signs_in_by_a_provider_and_what_led_back_is_good_once() {
    let scene = Scene::new().unwrap();
    let console = &scene.console;
    console.open("/sign-in").unwrap();
    scene.reads().unwrap();
    page::is_for_everybody(console, "sign-in-by-a-provider").unwrap();

    // A person who turns back at the provider reads the reason why nobody was signed in.
    scene.leave_for_the_provider().unwrap();
    scene.forget_what_happened().unwrap();
    let browser = &console.browser;
    browser
        .follow(&browser.link("[ Cancel ]").unwrap())
        .unwrap();
    let text = browser.page_text().unwrap();
    assert!(
        text.contains("Not signed in") && text.contains("access_denied"),
        "{text}"
    );
    browser
        .follow(&browser.link("To the page for signing in").unwrap())
        .unwrap();

    scene.leave_for_the_provider().unwrap();
    let back = scene.sign_in_at_the_provider("/me/access").unwrap();
    assert!(browser.page_text().unwrap().contains(NAME));
    console.open("/me").unwrap();
    assert!(scene.reads().unwrap().contains(SUBJECT));
    let groups = console.api("GET", "/groups", None).unwrap();
    let staff = groups["items"][0]["id"].as_str().unwrap();
    let members = console.api("GET", &format!("/groups/{staff}/members"), None);
    let members = members.unwrap().to_string();
    assert!(members.contains(NAME), "{members}");

    // The same once more, such as by the browser's way back.
    browser.open(&back).unwrap();
    let text = scene.reads().unwrap();
    assert!(
        text.contains("used already") && text.contains("signed in as before"),
        "{text}"
    );
    page::is_for_everybody(console, "sign-in-used-already").unwrap();
    console.open("/me").unwrap();
    assert!(scene.reads().unwrap().contains(NAME), "still signed in");

    let out = browser.one("form.out button").unwrap();
    browser.follow(&out).unwrap();
    console
        .comes_to("the page for signing in", |path| {
            path.starts_with("/sign-in")
        })
        .unwrap();
    browser.open(&back).unwrap();
    let text = scene.reads().unwrap();
    assert!(
        text.contains("Not signed in") && text.contains("used already"),
        "{text}"
    );
    console.open("/me").unwrap();
    assert!(console.path().unwrap().starts_with("/sign-in"));
}

#[test]
fn a_machine_is_signed_in_by_whom_the_provider_knows() {
    let mut scene = Scene::new().unwrap();
    let client = &mut scene.console.product.client;
    client.takes_commands = true;
    client.launch().unwrap();
    wait_until("the client's socket", SOON, || client.socket().exists()).unwrap();
    let (mut process, told) = begin(&scene.console).unwrap();
    let url = told["url_with_code"].as_str().unwrap();
    let code = told["user_code"].as_str().unwrap();

    scene.console.browser.open(url).unwrap();
    scene.reads().unwrap();
    scene.leave_for_the_provider().unwrap();
    let question = format!("/device?code={code}");
    scene.sign_in_at_the_provider(&question).unwrap();
    let text = scene.console.browser.page_text().unwrap();
    assert!(text.contains(code) && text.contains(NAME), "{text}");
    page::is_for_everybody(&scene.console, "device-asks").unwrap();
    scene.console.send("The code is the same", &[]).unwrap();
    let text = scene.reads().unwrap();
    assert!(text.contains("The machine is signed in as you"), "{text}");

    let said = process.succeed(SOON).unwrap();
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(last["service"]["state"], "up", "{said}");
    scene.console.open("/clients").unwrap();
    let text = scene.reads().unwrap();
    assert!(text.contains("laptop"), "{text}");
    scene.console.browser.open(url).unwrap();
    let text = scene.console.browser.page_text().unwrap();
    assert!(
        !text.contains("The code is the same"),
        "a code is good once: {text}"
    );
}

/// Begins to sign the client in, up to where its person is told what to do.
fn begin(console: &Console) -> Result<(Process, Value)> {
    let portal = &console.product.portal;
    let output = portal.output();
    let (_, rest) = output
        .split_once("Certificate (SHA-256): ")
        .context("no certificate")?;
    let pin = rest.lines().next().unwrap_or_default();
    let client = &console.product.client;
    let line = format!(
        "{} sign-in --portal {} --certificate {pin} --json --socket {}",
        culvert_program()?.display(),
        console.url,
        client.socket().display()
    );
    let process = client.namespace.spawn(&line)?;
    let told = || {
        let output = process.output();
        let line = output.lines().find(|line| line.starts_with('{'))?;
        serde_json::from_str::<Value>(line).ok()
    };
    wait_until("the code", SOON, || told().is_some()).with_context(|| process.output())?;
    let told = told().context("the code")?;
    Ok((process, told["sign_in"].clone()))
}
