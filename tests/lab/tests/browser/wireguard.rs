//! Plain WireGuard devices: the browser makes the key pair and draws the file, and the portal gets the public key alone.

use crate::console::{Console, PASSWORD, SOON};
use crate::fresh_proof::{WAITING, take_a_break};
use crate::hand::Hand;
use crate::page;
use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use culvert_lab::wait_until;
use qrcodegen::{Mask, QrCode, QrCodeEcc, QrSegment, Version};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

const NEW: &str = "/wireguard/new";
const FORM: &str = "Add a WireGuard device";

/// Bytes that fit a code of each version, from 1 on, with error correction M (ISO/IEC 18004, table 7).
const CAPACITIES: [usize; 25] = [
    14, 26, 42, 62, 84, 106, 122, 152, 180, 213, 251, 287, 331, 362, 412, 450, 504, 560, 624, 666,
    711, 779, 857, 911, 997,
];

/// White modules around a code.
const QUIET: i32 = 4;

/// A code as the page draws it: its modules a side, and the dark ones.
struct Drawn {
    size: i32,
    dark: BTreeSet<(i32, i32)>,
}

impl Drawn {
    /// From the side of the picture and the path of its dark modules.
    fn new(side: i32, path: &str) -> Result<Self> {
        let place = |part: &str| {
            let place = part.strip_suffix("h1v1h-1z").context("no module")?;
            let (x, y) = place.split_once(' ').context("no place")?;
            let at = |text: &str| text.parse::<i32>().map(|at| at - QUIET);
            anyhow::Ok((at(x)?, at(y)?))
        };
        let dark = path.split('M').skip(1).map(place);
        Ok(Self {
            size: side - 2 * QUIET,
            dark: dark.collect::<Result<_>>()?,
        })
    }

    /// True if a reader gets this text: the modules are those that another encoder makes of it, by one of the masks.
    fn says(&self, text: &str) -> bool {
        (0..8).any(|mask| {
            let segment = QrSegment::make_bytes(text.as_bytes());
            let (first, last) = (Version::new(1), Version::new(25));
            let mask = Some(Mask::new(mask));
            let level = QrCodeEcc::Medium;
            let made =
                QrCode::encode_segments_advanced(&[segment], level, first, last, mask, false);
            made.is_ok_and(|code| self.is(&code))
        })
    }

    fn is(&self, code: &QrCode) -> bool {
        let all = (0..code.size()).flat_map(|y| (0..code.size()).map(move |x| (x, y)));
        let dark: BTreeSet<_> = all.filter(|(x, y)| code.get_module(*x, *y)).collect();
        code.size() == self.size && dark == self.dark
    }
}

/// With a gateway that is connected, and its people.
fn console() -> Console {
    let mut console = Console::with_people_and_a_gateway().unwrap();
    let product = &mut console.product;
    let gateway = &mut product.gateways[0];
    let token = gateway.token_file();
    product
        .portal
        .token("gateway --site office", &token)
        .unwrap();
    gateway.start().unwrap();
    let is_connected = || {
        let sessions = console.api("GET", "/sessions/gateways", None);
        sessions.is_ok_and(|found| found["items"].as_array().is_some_and(|all| all.len() == 1))
    };
    wait_until("the gateway", SOON, is_connected).unwrap();
    console
}

/// The script of the page has dealt with its file.
fn file_is_complete(console: &Console) -> String {
    let is_complete = || {
        console
            .browser
            .all(".device-file .once:not([hidden])")
            .is_ok_and(|found| !found.is_empty())
    };
    wait_until("the private key in the file", SOON, is_complete)
        .with_context(|| console.browser.page_text().unwrap_or_default())
        .unwrap();
    file_text(console)
}

fn file_text(console: &Console) -> String {
    let script = "return document.querySelector('.device-file pre').textContent";
    let text = console.browser.run(script, &[]).unwrap();
    text.as_str().unwrap().to_owned()
}

fn private_key(file: &str) -> Option<&str> {
    let line = file.lines().find(|line| line.starts_with("PrivateKey"))?;
    let key = line.strip_prefix("PrivateKey = ")?;
    STANDARD.decode(key).ok().filter(|key| key.len() == 32)?;
    Some(key)
}

/// The public key, by WireGuard's own tool.
fn public_key(console: &Console, private_key: &str) -> String {
    let path = console.product.dir().join("device.key");
    std::fs::write(&path, private_key).unwrap();
    let line = format!("wg pubkey < {}", path.display());
    let key = console.product.portal.namespace.shell(&line).unwrap();
    key.trim().to_owned()
}

/// The device with this name, as the portal has it.
fn device(console: &Console, name: &str) -> Value {
    let clients = console.api("GET", "/clients", None).unwrap();
    let clients = clients["items"].as_array().unwrap().iter();
    let mut named = clients.filter(|client| client["name"] == name);
    named.next().cloned().unwrap_or_default()
}

/// Fails where one of the browser's requests since the last look has the private key in it.
fn nothing_was_sent_of(console: &Console, private_key: &str) -> Result<()> {
    let bytes = STANDARD.decode(private_key)?;
    let mut hex = String::new();
    for byte in &bytes {
        write!(hex, "{byte:02x}")?;
    }
    let quoted = private_key.replace('+', "%2B").replace('/', "%2F");
    let quoted = quoted.replace('=', "%3D");
    let secret = [
        private_key.trim_end_matches('=').to_owned(),
        quoted.trim_end_matches("%3D").to_owned(),
        URL_SAFE_NO_PAD.encode(&bytes),
        hex,
    ];
    let mut bodies = 0;
    for event in console.browser.network()? {
        let is_request = event["method"] == "Network.requestWillBeSent";
        let text = event["params"]["request"].to_string();
        let has_secret = |secret: &String| text.contains(secret);
        ensure!(!secret.iter().any(has_secret), "it was sent: {text}");
        bodies += usize::from(is_request && text.contains("public_key="));
    }
    ensure!(bodies > 0, "no request had a public key");
    Ok(())
}

/// The code on the page.
fn drawn(console: &Console) -> Drawn {
    let script = "const code = document.querySelector('.scan svg');
        return [code.getAttribute('viewBox'), code.querySelector('path').getAttribute('d')]";
    let code = console.browser.run(script, &[]).unwrap();
    let side = code[0].as_str().unwrap().rsplit(' ').next();
    let side = side.unwrap().parse().unwrap();
    Drawn::new(side, code[1].as_str().unwrap()).unwrap()
}

/// Clicks on the button, and reads the file that the browser stores.
fn downloaded(console: &Console, name: &str) -> String {
    let dir: PathBuf = console.product.dir().join("downloads");
    std::fs::create_dir_all(&dir).unwrap();
    let allow = json!({ "behavior": "allow", "downloadPath": dir });
    let browser = &console.browser;
    browser
        .developer("Browser.setDownloadBehavior", &allow)
        .unwrap();
    let button = browser.one(".device-file button.download").unwrap();
    assert_eq!(browser.text(&button).unwrap(), format!("Download {name}"));
    browser.click(&button).unwrap();
    let path = dir.join(name);
    let is_there = || path.metadata().is_ok_and(|file| file.len() > 0);
    wait_until("the downloaded file", SOON, is_there).unwrap();
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_browser_makes_the_key_and_the_picture_and_the_portal_gets_the_public_key_alone() {
    let console = console();
    console.sign_in("olivia").unwrap();
    console.open("/clients/new").unwrap();
    let way = console.browser.link(FORM).unwrap();
    console.browser.follow(&way).unwrap();
    page::is_usable(&console, "wireguard-new").unwrap();
    let fields = [("name", "Ada's phone"), ("actor", "ursula")];
    console.send(FORM, &fields).unwrap();

    let file = file_is_complete(&console);
    let key = private_key(&file).context(file.clone()).unwrap();
    let stored = device(&console, "Ada's phone");
    assert_eq!(public_key(&console, key), stored["public_key"]);
    nothing_was_sent_of(&console, key).unwrap();
    let stored_keys = console.browser.run("return sessionStorage.length", &[]);
    assert_eq!(stored_keys.unwrap(), 0, "the private key stays in the tab");
    assert!(drawn(&console).says(&file), "the picture is not of {file}");
    let saved = downloaded(&console, "Ada-s-phone.conf");
    assert_eq!(saved, file);
    // WireGuard's own tool reads it.
    let path = console.product.dir().join("downloads/Ada-s-phone.conf");
    let strip = format!("wg-quick strip {}", path.display());
    let stripped = console.product.portal.namespace.run(&strip).unwrap();
    assert!(stripped.contains(key), "{stripped}");
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("Scan this with the WireGuard app"), "{text}");
    assert!(!text.contains("has no private key"), "{text}");
    page::is_for_everybody(&console, "wireguard-file").unwrap();

    // Shown again, it has no private key and no picture.
    let again = format!("/wireguard/{}", stored["id"].as_str().unwrap());
    console.open(&again).unwrap();
    page::is_usable(&console, "wireguard-again").unwrap();
    let file = file_text(&console);
    assert_eq!(private_key(&file), None, "{file}");
    assert!(console.browser.all(".scan").unwrap().is_empty());

    // Another key for it.
    console.send("New key", &[]).unwrap();
    let file = file_is_complete(&console);
    let key = private_key(&file).context(file.clone()).unwrap();
    let renewed = device(&console, "Ada's phone");
    assert_eq!(public_key(&console, key), renewed["public_key"]);
    assert_ne!(renewed["public_key"], stored["public_key"]);
    nothing_was_sent_of(&console, key).unwrap();
    page::look(&console).unwrap();
    console
        .open(&format!("/clients/{}", stored["id"].as_str().unwrap()))
        .unwrap();
    page::is_usable(&console, "wireguard-client").unwrap();
}

#[test]
fn a_person_adds_a_device_of_their_own_and_the_key_waits_in_the_tab_for_a_fresh_proof() {
    let console = console();
    console.sign_in("olivia").unwrap();
    console.open("/settings/account").unwrap();
    console
        .send("Change it", &[("own_devices", "yes")])
        .unwrap();
    console.sign_in("ursula").unwrap();
    console.open("/me/access").unwrap();
    let way = console.browser.link(FORM).unwrap();
    console.browser.follow(&way).unwrap();
    page::is_usable(&console, "wireguard-new-own").unwrap();
    take_a_break(&console).unwrap();
    console.send(FORM, &[("name", "tablet")]).unwrap();
    let asks = |path: &str| path.starts_with("/confirm?form=");
    console.comes_to("the question who it is", asks).unwrap();
    console
        .send("With your password", &[("current", PASSWORD)])
        .unwrap();
    console.send(WAITING, &[]).unwrap();
    let file = file_is_complete(&console);
    let key = private_key(&file).context(file.clone()).unwrap();
    let stored = device(&console, "tablet");
    assert_eq!(public_key(&console, key), stored["public_key"]);
    nothing_was_sent_of(&console, key).unwrap();
    assert!(drawn(&console).says(&file), "the picture is not of {file}");
}

#[test]
fn a_browser_that_makes_no_such_key_says_so_and_sends_one_that_is_pasted() {
    let console = console();
    console.sign_in("olivia").unwrap();
    let without = json!({ "source": "crypto.subtle.generateKey = () => \
        Promise.reject(new DOMException('no such algorithm', 'NotSupportedError'))" });
    let command = "Page.addScriptToEvaluateOnNewDocument";
    console.browser.developer(command, &without).unwrap();
    console.open(NEW).unwrap();
    let says_so = || {
        let told = console.browser.all("fieldset.key .unable:not([hidden])");
        told.is_ok_and(|found| found.len() == 1)
    };
    wait_until("the reason in words", SOON, says_so).unwrap();
    page::is_usable(&console, "wireguard-new-pasted").unwrap();
    add_pasted(&console, "router");
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("has no private key of the device"), "{text}");
    assert!(console.browser.all(".scan").unwrap().is_empty());
}

#[test]
fn without_scripts_a_device_is_added_by_its_public_key() {
    let console = console();
    Hand::WithoutScript.take(&console).unwrap();
    console.sign_in("olivia").unwrap();
    console.open(NEW).unwrap();
    page::look(&console).unwrap();
    add_pasted(&console, "server");
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("PrivateKey = REPLACE"), "{text}");
}

/// Adds a device by a key that it has. The page that is open offers nothing else.
fn add_pasted(console: &Console, name: &str) {
    const KEY: &str = "pqlhU0OdPVUeDdhKDhcOEZQHHbJVcNE6ECcjNRYUY0c=";
    assert_eq!(
        console.browser.all(".key .choices:not([hidden])").unwrap(),
        []
    );
    let fields = [("name", name), ("actor", "ursula"), ("public_key", KEY)];
    console.send(FORM, &fields).unwrap();
    assert_eq!(page::look(console).unwrap().status, 200);
    assert_eq!(device(console, name)["public_key"], KEY);
}

#[test]
fn codes_of_all_versions_are_those_of_another_encoder() {
    let console = Console::with_people().unwrap();
    console.open("/sign-in").unwrap();
    let encoder = include_str!("../../../../crates/console/templates/qr.js");
    let script = format!(
        "{encoder}\nconst code = culvertQr(arguments[0]);\nreturn code && [code.side, code.path];"
    );
    let mut texts = vec![String::new(), "ü 家 \u{1f511}".to_owned()];
    for (at, len) in CAPACITIES.iter().enumerate() {
        let letter = |at: usize| char::from(b' ' + u8::try_from(at * at % 95).unwrap());
        let text = |len: usize| -> String { (0..len).map(|place| letter(place + at)).collect() };
        texts.extend([text(*len), text(*len + 1)]);
    }
    for (at, text) in texts.iter().enumerate() {
        let code = console.browser.run(&script, &[json!(text)]).unwrap();
        if text.len() > CAPACITIES[24] {
            assert_eq!(code, Value::Null, "{} bytes", text.len());
            continue;
        }
        let side = i32::try_from(code[0].as_i64().unwrap()).unwrap();
        let drawn = Drawn::new(side, code[1].as_str().unwrap()).unwrap();
        assert!(drawn.says(text), "{at}: {text}");
        // Each capacity is that of one version, and one byte more is the next one's.
        let version = CAPACITIES.iter().position(|most| text.len() <= *most);
        assert_eq!(
            drawn.size,
            21 + 4 * i32::try_from(version.unwrap()).unwrap()
        );
    }
}
