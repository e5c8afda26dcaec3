//! Checks that hold for every page.

use crate::console::Console;
use crate::sizes;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The script that `scripts/axe.sh` fetches: accessibility rules for pages.
const AXE: &str = "target/tools/axe-core/axe.min.js";

/// The directory of pictures for people to look at.
const PICTURES: &str = "target/screenshots";

/// The screens of which pictures are kept, by their widths in pixels; two of [`sizes::WIDTHS`].
const SCREENS: [(&str, u64); 2] = [("desk", 1440), ("phone", 390)];

/// The height of these screens, in pixels.
const HEIGHT: u64 = 900;
const SCHEMES: [&str; 2] = ["light", "dark"];

/// A text that runs a script on a page that does not escape it.
pub(crate) const STORED_SCRIPT: &str =
    "<script>window.intruder=1</script><img src=x onerror=window.intruder=1>\"'&{{7*7}}";

/// A page that has just been loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Its status of HTTP.
    pub(crate) status: u64,
    /// True for a page, as opposed to a file.
    pub(crate) is_page: bool,
    /// All that was asked for on the way to it, by URL.
    pub(crate) asked: Vec<String>,
}

/// Checks the page that was just opened. All requests went to the portal, the browser's console has no
/// error, and no script of a field ran.
pub(crate) fn look(console: &Console) -> Result<Loaded> {
    look_after(console, None)
}

/// The same of a page that pages of somebody else led to, whose URLs begin so.
pub(crate) fn look_after(console: &Console, other: Option<&str>) -> Result<Loaded> {
    let mut problems = Vec::new();
    let mut loaded = Loaded {
        status: 0,
        is_page: false,
        asked: Vec::new(),
    };
    let is_foreign = |url: &str| other.is_some_and(|begin| url.starts_with(begin));
    for event in console.browser.network()? {
        let parameters = &event["params"];
        let asked = parameters["request"]["url"].as_str();
        match (event["method"].as_str(), asked) {
            (Some("Network.requestWillBeSent"), Some(url)) => {
                if !is_own(console, url) && !is_foreign(url) {
                    problems.push(format!("something was asked of {url}"));
                }
                loaded.asked.push(url.to_owned());
            }
            (Some("Network.responseReceived"), _) if parameters["type"] == "Document" => {
                let response = &parameters["response"];
                loaded.status = response["status"].as_u64().unwrap_or_default();
                loaded.is_page = response["mimeType"] == "text/html";
            }
            _ => {}
        }
    }
    for entry in console.browser.console()? {
        // A form that was refused is a page with a status of 422, which the browser notes.
        if entry["source"] == "network" && loaded.status >= 400 && is_about(console, &entry) {
            continue;
        }
        if entry["level"] == "SEVERE" || entry["source"] == "security" {
            problems.push(format!("the browser's console: {}", entry["message"]));
        }
    }
    if loaded.is_page && console.browser.run("return window.intruder === 1", &[])? == true {
        problems.push("a script that was written into a field ran".to_owned());
    }
    if !problems.is_empty() {
        let path = console.path()?;
        let path = path.split('?').next().unwrap_or_default();
        bail!("{path} ({}): {}", loaded.status, problems.join("; "));
    }
    Ok(loaded)
}

/// True if the request goes to the portal or to nobody: content within a page, and the empty page at the
/// start.
fn is_own(console: &Console, url: &str) -> bool {
    let rest = url.strip_prefix(&console.url);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        || url.starts_with("data:")
        || url.starts_with("chrome:")
}

/// True if an entry of the browser's console is about the page itself.
fn is_about(console: &Console, entry: &Value) -> bool {
    let message = entry["message"].as_str().unwrap_or_default();
    let about = message.split(' ').next().unwrap_or_default();
    console
        .browser
        .url()
        .is_ok_and(|url| url.split('?').next() == about.split('?').next())
}

/// Looks at the page that was just opened, as [`look`] does: it is for everybody, and pictures of it are kept.
pub(crate) fn is_usable(console: &Console, name: &str) -> Result<Loaded> {
    let loaded = look(console)?;
    is_for_everybody(console, name)?;
    Ok(loaded)
}

/// Fails where the page keeps somebody out: nothing is cut off or covered on screens of all sizes, and it violates no
/// rule of axe-core on a desk or a phone, light and dark. Keeps pictures of these under that name.
pub(crate) fn is_for_everybody(console: &Console, name: &str) -> Result<()> {
    let mut problems = Vec::new();
    console.browser.run(axe()?, &[])?;
    // A screen is set up once for all that is looked at on it: a change draws the page again.
    for scheme in SCHEMES {
        set_scheme(console, scheme)?;
        for width in sizes::WIDTHS {
            set_screen(console, width, HEIGHT)?;
            let mut found = sizes::faults(console)?;
            if let Some((screen, _)) = SCREENS.iter().find(|(_, other)| *other == width) {
                found.extend(violations(console, scheme)?);
                keep_picture(console, &format!("{name}.{screen}.{scheme}"))?;
            }
            let found = found.iter();
            problems.extend(found.map(|fault| format!("{scheme}, {width} wide: {fault}")));
        }
    }
    forget_screen(console)?;
    match problems.is_empty() {
        true => Ok(()),
        false => bail!("{}: {problems:#?}", console.path()?),
    }
}

/// Rules of axe-core about colours. A scheme has colours of its own and nothing else, so all others say the same of the
/// dark page as of the light one.
const RULES_OF_COLOURS: [&str; 2] = ["color-contrast", "link-in-text-block"];

/// Violations of the rules of axe-core, in words.
fn violations(console: &Console, scheme: &str) -> Result<Vec<String>> {
    const CHECK: &str = "return axe.run(document, arguments[0]).then(result => result.violations.map(rule => \
        rule.id + ': ' + rule.help + ': ' + rule.nodes.map(node => node.html).join(' ')))";
    let mut options = json!({ "resultTypes": ["violations"] });
    if scheme != SCHEMES[0] {
        options["runOnly"] = json!({ "type": "rule", "values": RULES_OF_COLOURS });
    }
    sizes::words(&console.browser.run(CHECK, &[options])?)
}

fn axe() -> Result<&'static str> {
    static SCRIPT: OnceLock<String> = OnceLock::new();
    if let Some(script) = SCRIPT.get() {
        return Ok(script);
    }
    let path = culvert_lab::workspace_dir().join(AXE);
    let script = std::fs::read_to_string(&path)
        .with_context(|| format!("{} is missing: run scripts/axe.sh", path.display()))?;
    Ok(SCRIPT.get_or_init(|| script))
}

fn keep_picture(console: &Console, name: &str) -> Result<()> {
    let dir = culvert_lab::workspace_dir().join(PICTURES);
    std::fs::create_dir_all(&dir)?;
    let picture = console.browser.picture()?;
    Ok(std::fs::write(dir.join(format!("{name}.png")), picture)?)
}

/// Has the browser show the page on a screen of that size, in pixels.
pub(crate) fn set_screen(console: &Console, width: u64, height: u64) -> Result<()> {
    let metrics = json!({
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500
    });
    console
        .browser
        .developer("Emulation.setDeviceMetricsOverride", &metrics)
        .map(drop)
}

/// Has it show pages as it did at first.
pub(crate) fn forget_screen(console: &Console) -> Result<()> {
    set_scheme(console, "light")?;
    let nothing = json!({});
    console
        .browser
        .developer("Emulation.clearDeviceMetricsOverride", &nothing)
        .map(drop)
}

/// Has the browser prefer light or dark pages.
pub(crate) fn set_scheme(console: &Console, scheme: &str) -> Result<()> {
    let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
    let media = json!({ "features": [feature] });
    console
        .browser
        .developer("Emulation.setEmulatedMedia", &media)
        .map(drop)
}
