//! A browser, driven by WebDriver.
//!
//! WebDriver is HTTP with JSON bodies, and a dozen of its commands are enough here. Crates for it bring an
//! asynchronous runtime and a second HTTP stack into tests that have neither (docs/adr/0021).

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_lab::{Namespace, Process, wait_until};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The address of the driver; its namespace is its own.
const DRIVER: &str = "http://127.0.0.1:9515";

/// A page, or the browser's start, may take this long when others compile.
const SLOW: Duration = Duration::from_secs(60);

/// The browser's word for an element of a page that was replaced.
const STALE: &str = "stale element reference";

/// The name under which WebDriver hands over elements (W3C WebDriver, section 12.1).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys as WebDriver writes them.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const SHIFT: &str = "\u{e008}";

/// One browser with one page, on a machine of its own. It ends when dropped, and with its namespace.
#[derive(Debug)]
pub(crate) struct Browser {
    namespace: Namespace,
    session: String,
    _driver: Process,
}

/// Something in a page, until another page is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element(String);

impl Element {
    /// It as an argument of [`Browser::run`].
    pub(crate) fn argument(&self) -> Value {
        json!({ ELEMENT: self.0 })
    }
}

impl Browser {
    /// Starts one in a namespace. Its files go below `dir`.
    pub(crate) fn start(namespace: &Namespace, dir: &Path) -> Result<Self> {
        let find = |tool: &str| culvert_lab::run(&format!("which {tool}"));
        if find("chromium").is_err() || find("chromedriver").is_err() {
            bail!(
                "the browser tests need chromium and chromedriver (packages chromium and \
                 chromium-driver): run scripts/setup.sh"
            );
        }
        let home = dir.join("browser");
        std::fs::create_dir_all(&home)?;
        let shell = shell(&home)?;
        let driver = namespace.spawn(&format!(
            "env HOME={0} TMPDIR={0} chromedriver --port=9515 --log-level=WARNING",
            home.display()
        ))?;
        wait_until("the browser's driver", SLOW, || {
            call(namespace, "GET", "/status", None).is_ok_and(|status| status["ready"] == true)
        })
        .with_context(|| driver.output())?;
        let made = call(
            namespace,
            "POST",
            "/session",
            Some(&capabilities(&home.display(), shell.as_deref())),
        )?;
        let id = made["sessionId"].as_str().context("no session")?;
        Ok(Self {
            namespace: namespace.clone(),
            session: format!("/session/{id}"),
            _driver: driver,
        })
    }

    /// Opens a page and waits until it is loaded.
    pub(crate) fn open(&self, url: &str) -> Result<()> {
        self.post("/url", &json!({ "url": url })).map(drop)
    }

    /// Does what leads to another page, and waits until that is there.
    pub(crate) fn leave_by(&self, way: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = self.one("html")?;
        way()?;
        let is_gone = || self.get(&format!("/element/{}/name", before.0)).is_err();
        wait_until("the next page", SLOW, is_gone)
    }

    /// Clicks on what leads to another page, and waits until that is there.
    pub(crate) fn follow(&self, on: &Element) -> Result<()> {
        self.leave_by(|| self.click(on))
    }

    /// The current address.
    pub(crate) fn url(&self) -> Result<String> {
        let url = self.get("/url")?;
        Ok(url.as_str().context("no URL")?.to_owned())
    }

    /// Runs the body of a function in the page, as its own scripts would, and returns its result. A promise
    /// is awaited.
    pub(crate) fn run(&self, body: &str, arguments: &[Value]) -> Result<Value> {
        let script = json!({ "script": body, "args": arguments });
        self.post("/execute/sync", &script)
    }

    /// All that a CSS selector finds.
    pub(crate) fn all(&self, selector: &str) -> Result<Vec<Element>> {
        let by = json!({ "using": "css selector", "value": selector });
        let found = self.post("/elements", &by)?;
        found
            .as_array()
            .context("no list")?
            .iter()
            .map(element)
            .collect()
    }

    /// The first that a CSS selector finds.
    pub(crate) fn one(&self, selector: &str) -> Result<Element> {
        let found = self.all(selector)?;
        let first = found.into_iter().next();
        first.with_context(|| format!("{} has no {selector}", self.url().unwrap_or_default()))
    }

    /// The link with this text.
    pub(crate) fn link(&self, text: &str) -> Result<Element> {
        let by = json!({ "using": "link text", "value": text });
        element(&self.post("/element", &by)?)
    }

    /// The focused element.
    pub(crate) fn focused(&self) -> Result<Element> {
        element(&self.get("/element/active")?)
    }

    /// The text of an element as it is shown.
    pub(crate) fn text(&self, of: &Element) -> Result<String> {
        let text = self.get(&format!("/element/{}/text", of.0))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// The text of the whole page as it is shown.
    pub(crate) fn page_text(&self) -> Result<String> {
        self.text(&self.one("body")?)
    }

    /// An attribute as the page has it; empty where it has none.
    pub(crate) fn attribute(&self, of: &Element, name: &str) -> Result<String> {
        let value = self.get(&format!("/element/{}/attribute/{name}", of.0))?;
        Ok(value.as_str().unwrap_or_default().to_owned())
    }

    /// Clicks on what stays on the page.
    pub(crate) fn click(&self, on: &Element) -> Result<()> {
        self.post(&format!("/element/{}/click", on.0), &json!({}))
            .map(drop)
    }

    /// Follows the link of that name, on a page that a newer state may replace meanwhile.
    pub(crate) fn follow_by_name(&self, name: &str) -> Result<()> {
        let until = Instant::now() + SLOW;
        loop {
            let followed = self.link(name).and_then(|link| self.follow(&link));
            match followed {
                Err(error) if error.to_string().contains(STALE) && Instant::now() < until => {}
                followed => return followed,
            }
        }
    }

    /// Puts a text into a field in the place of what is there.
    pub(crate) fn fill(&self, selector: &str, text: &str) -> Result<()> {
        let field = self.one(selector)?;
        self.post(&format!("/element/{}/clear", field.0), &json!({}))?;
        let keys = json!({ "text": text });
        self.post(&format!("/element/{}/value", field.0), &keys)
            .map(drop)
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub(crate) fn press(&self, keys: &str) -> Result<()> {
        let mut strokes = Vec::new();
        for key in keys.chars().map(String::from) {
            strokes.push(json!({ "type": "keyDown", "value": key }));
            strokes.push(json!({ "type": "keyUp", "value": key }));
        }
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", &json!({ "actions": [keyboard] }))
            .map(drop)
    }

    /// Presses a key while another is held down.
    pub(crate) fn press_holding(&self, held: &str, key: &str) -> Result<()> {
        let strokes = json!([
            { "type": "keyDown", "value": held },
            { "type": "keyDown", "value": key },
            { "type": "keyUp", "value": key },
            { "type": "keyUp", "value": held },
        ]);
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", &json!({ "actions": [keyboard] }))
            .map(drop)
    }

    /// Forgets whoever is signed in.
    pub(crate) fn forget_cookies(&self) -> Result<()> {
        self.call("DELETE", "/cookie", None).map(drop)
    }

    /// The page as a PNG, from its top to its end.
    pub(crate) fn picture(&self) -> Result<Vec<u8>> {
        let wanted = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.developer("Page.captureScreenshot", &wanted)?;
        let picture = picture["data"].as_str().context("no picture")?;
        Ok(STANDARD.decode(picture)?)
    }

    /// Gives the machine an authenticator that holds passkeys, and makes sure of whoever is there (Web
    /// Authentication Level 3, section 11).
    pub(crate) fn add_authenticator(&self) -> Result<()> {
        let authenticator = json!({
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": true,
            "hasUserVerification": true,
            "isUserConsenting": true,
            "isUserVerified": true,
        });
        self.post("/webauthn/authenticator", &authenticator)
            .map(drop)
    }

    /// A command of the browser's own protocol for developers.
    pub(crate) fn developer(&self, command: &str, parameters: &Value) -> Result<Value> {
        let command = json!({ "cmd": command, "params": parameters });
        self.post("/goog/cdp/execute", &command)
    }

    /// The entries of the page's console since the last call.
    pub(crate) fn console(&self) -> Result<Vec<Value>> {
        self.log("browser")
    }

    /// The browser's network events since the last call, in the developer tools protocol.
    pub(crate) fn network(&self) -> Result<Vec<Value>> {
        let entries = self.log("performance")?;
        let events = entries.iter().map(|entry| {
            let text = entry["message"].as_str().unwrap_or_default();
            let event: Value = serde_json::from_str(text)?;
            Ok(event["message"].clone())
        });
        events.collect()
    }

    fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let entries = self.post("/se/log", &json!({ "type": kind }))?;
        Ok(entries.as_array().cloned().unwrap_or_default())
    }

    fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, None)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("POST", path, Some(body))
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        call(
            &self.namespace,
            method,
            &format!("{}{path}", self.session),
            body,
        )
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It writes into its directory until it has ended. The namespace ends a browser that does not end
        // by itself.
        let _ended = self.call("DELETE", "", None);
    }
}

/// The program of the browser without windows of its own, which nobody would see: it takes far less of the processor.
/// None where the system has no such package, or not the version that its driver is for.
fn shell(home: &Path) -> Result<Option<PathBuf>> {
    let Ok(shell) = culvert_lab::run("which chromium-headless-shell") else {
        return Ok(None);
    };
    let version = |program| {
        let said = culvert_lab::run(&format!("{program} --version")).unwrap_or_default();
        said.split(' ')
            .find(|word| word.contains('.'))
            .map(str::to_owned)
    };
    if version("chromedriver") != version("chromium-headless-shell") {
        return Ok(None);
    }
    // It opens no page by itself, and the driver waits for one.
    let program = home.join("shell");
    let script = format!("#!/bin/sh\nexec {} \"$@\" about:blank\n", shell.trim());
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(Some(program))
}

/// The capabilities with which the browser is started.
fn capabilities(home: &impl std::fmt::Display, program: Option<&Path>) -> Value {
    let arguments = [
        "--headless=new".to_owned(),
        // Its sandbox refuses to run as root, which the lab is; it shows nothing but the portal.
        "--no-sandbox".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-background-networking".to_owned(),
        "--window-size=1280,900".to_owned(),
        // There are no names in the lab, and nobody who could be asked for them: pages of others that load
        // something from elsewhere would wait for an answer.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 10.*".to_owned(),
        format!("--user-data-dir={home}/profile"),
    ];
    let mut options = json!({ "args": arguments });
    if let Some(program) = program {
        options["binary"] = json!(program);
    }
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        // The portal's certificate is its own: tokens name it, and no authority does.
        "acceptInsecureCerts": true,
        "goog:chromeOptions": options,
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
    } } })
}

fn element(value: &Value) -> Result<Element> {
    let id = value[ELEMENT].as_str().context("not an element")?;
    Ok(Element(id.to_owned()))
}

/// One command of WebDriver. Its connection is made inside the namespace, and serves it alone.
fn call(namespace: &Namespace, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
    let text = namespace.inside(|| {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(SLOW))
            .http_status_as_error(false)
            .max_idle_connections(0)
            .proxy(None)
            .build()
            .into();
        let url = format!("{DRIVER}{path}");
        let mut response = match (method, body) {
            ("GET", _) => agent.get(&url).call()?,
            ("DELETE", _) => agent.delete(&url).call()?,
            (_, body) => agent
                .post(&url)
                .content_type("application/json")
                .send(body.unwrap_or(&json!({})).to_string())?,
        };
        // A picture of a long page has some megabytes.
        Ok(response
            .body_mut()
            .with_config()
            .limit(64 << 20)
            .read_to_string()?)
    })?;
    let mut answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    let value = answer["value"].take();
    if let Some(error) = value["error"].as_str() {
        let message = value["message"].as_str().unwrap_or_default();
        bail!("{method} {path}: {error}: {message}");
    }
    Ok(value)
}
