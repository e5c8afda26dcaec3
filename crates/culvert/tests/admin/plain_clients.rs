//! `culvert admin plain-client`: the files of devices, and the way of their private keys.

use crate::scene::{Portal, Session, Shell, mode, stay_gateway};
use crate::terminal::{on_terminal, on_terminal_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_session::PrivateKey;
use serde_json::{Value, json};
use std::process::Command;

/// The text in the place of a private key that the portal does not have.
const PLACEHOLDER: &str = "REPLACE_BY_THE_PRIVATE_KEY_OF_THE_DEVICE";

/// A key that no machine has.
const KEY: &str = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";
const OTHER_KEY: &str = "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0=";

/// A portal where `ci` may use `db` of the site `office` and `tape` of the site `depot`. Each has a gateway that is connected.
fn with_gateways() -> (Portal, Shell, [Session; 2]) {
    let (portal, shell) = Portal::with_office();
    for line in [
        "policy create --group build --resource db",
        "site create depot",
        "resource create tape --site depot --address 10.9.0.0/16 --allow any",
        "policy create --group build --resource tape",
    ] {
        shell.line(line).ok();
    }
    let gateways = [("office", "gate"), ("depot", "store")].map(|(site, name)| {
        let token = shell.line(&format!("token create --kind gateway --site {site}"));
        stay_gateway(&token.ok(), name)
    });
    (portal, shell, gateways)
}

/// The value of a line of a file.
fn value<'a>(file: &'a str, key: &str) -> &'a str {
    let mut lines = file.lines().filter_map(|line| line.split_once(" = "));
    lines.find(|(name, _)| *name == key).unwrap().1
}

fn devices(shell: &Shell) -> Value {
    shell.json(&["client", "list"])["items"].clone()
}

#[test]
fn a_new_key_pair_s_private_half_is_in_the_file_alone() {
    let (portal, shell, _gateways) = with_gateways();
    let path = portal.path("phone.conf");
    let out = path.to_str().unwrap();
    let line = format!(
        "plain-client add phone --actor ci --gateway gate --gateway store \
         --endpoint store=depot.example.com:51820 --out {out}"
    );
    let said = shell.line(&line);
    let notes = String::from_utf8(said.0.stderr.clone()).unwrap();
    let told = said.ok();
    assert!(
        told.contains("\"phone\" added") && told.contains(out),
        "{told}"
    );
    assert!(
        notes.contains("one file") && !notes.contains("PrivateKey"),
        "{notes}"
    );
    assert_eq!(mode(&path), 0o600);
    let file = std::fs::read_to_string(&path).unwrap();
    let private = value(&file, "PrivateKey").to_owned();
    assert_ne!(private, PLACEHOLDER);
    let shown = shell.json(&["client", "show", "phone"]);
    assert_eq!(shown["public_key"], public_key(&private));
    for words in ["AllowedIPs = 10.1.2.3/32", "AllowedIPs = 10.9.0.0/16"] {
        assert!(file.contains(words), "{file}");
    }
    assert!(file.contains("Endpoint = 192.0.2.1:51820"), "{file}");
    assert!(
        file.contains("Endpoint = depot.example.com:51820"),
        "{file}"
    );
    // The portal keeps no endpoint: given again, they make the same file but for the key.
    let again = shell.line(
        "plain-client file phone --endpoint gate=192.0.2.1:51820 --endpoint store=depot.example.com:51820",
    );
    let again = again.ok();
    for words in [
        "Endpoint = 192.0.2.1:51820",
        "Endpoint = depot.example.com:51820",
    ] {
        assert!(again.contains(words), "{again}");
    }
    assert_eq!(
        again.trim_end(),
        file.replace(&private, PLACEHOLDER).trim_end()
    );
    // Nobody else has it: neither the answers, nor the files and logs of the portal.
    for told in [
        told,
        notes,
        shell.line("plain-client file phone").ok(),
        shell.json(&["plain-client", "file", "phone"]).to_string(),
        shell.line("log changes --limit 100").ok(),
    ] {
        assert!(!told.contains(&private), "{told}");
    }
    let mut grep = Command::new("grep");
    grep.args(["-rqF", &private]).arg(portal.state_dir());
    assert_eq!(grep.status().unwrap().code(), Some(1));
    let shown = shell.line("client show phone").ok();
    assert!(shown.contains("gate, store (plain WireGuard)"), "{shown}");
}

/// The public key of a private one.
fn public_key(private: &str) -> String {
    let bytes = STANDARD.decode(private).unwrap();
    let private: [u8; 32] = bytes.try_into().unwrap();
    let key = PrivateKey::from_bytes(private);
    // Clamped, as `wg genkey` writes them.
    assert_eq!(key.as_bytes(), &private);
    key.public_key().to_string()
}

#[test]
fn a_given_public_key_prints_a_file_with_a_place_for_the_private_one() {
    let (portal, shell, _gateways) = with_gateways();
    let add = format!("plain-client add phone --actor ci --gateway gate --public-key {KEY}");
    let said = shell.line(&add);
    let notes = String::from_utf8(said.0.stderr.clone()).unwrap();
    assert!(
        notes.contains("write it into the line PrivateKey"),
        "{notes}"
    );
    let file = said.ok();
    assert_eq!(value(&file, "PrivateKey"), PLACEHOLDER);
    assert_eq!(shell.line("plain-client file phone").ok(), file);
    let json = shell.json(&["plain-client", "file", "phone"]);
    assert_eq!(json["file"], format!("{}\n", file.trim_end()));
    assert_eq!(json["peers"][0]["allowed_ips"], json!(["10.1.2.3/32"]));
    let path = portal.path("phone.conf");
    let line = format!("plain-client file phone --out {}", path.display());
    shell.line(&line).ok();
    assert_eq!(
        (mode(&path), std::fs::read_to_string(&path).unwrap()),
        (0o600, file)
    );
    // The same key and the same name are refused.
    let taken = shell.line(&add.replace("phone", "tablet")).fails(1);
    assert!(taken.contains("key"), "{taken}");
    shell.line(&add.replace(KEY, OTHER_KEY)).fails(1);
}

#[test]
fn a_private_key_without_a_place_to_go_is_not_made() {
    let (portal, shell, _gateways) = with_gateways();
    let path = portal.path("phone.conf");
    std::fs::write(&path, "another").unwrap();
    let add = "plain-client add phone --actor ci --gateway gate";
    for (options, status, words) in [
        ("", 2, "--out FILE"),
        ("--qr", 2, "terminal"),
        ("--json --out -", 2, "--out FILE"),
        ("--out - --qr", 2, "one thing"),
        ("--endpoint nowhere --out -", 1, "HOST:PORT"),
        (&*format!("--out {}", path.display()), 1, "remove it first"),
    ] {
        let line = format!("{add} {options}");
        let error = shell.line(line.trim_end()).fails(status);
        assert!(error.contains(words), "{options}: {error}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "another");
    // A refusal of the portal leaves no file.
    let absent = portal.path("absent.conf");
    let line = format!("{add}-no --out {}", absent.display());
    shell.line(&line).fails(1);
    assert!(!absent.exists());
    assert_eq!(devices(&shell), json!([]));
}

#[test]
fn an_endpoint_of_several_gateways_says_of_which() {
    let (_portal, shell, _gateways) = with_gateways();
    let add = format!("plain-client add phone --actor ci --public-key {KEY}");
    let error = shell
        .line(&format!("{add} --endpoint a.example:1"))
        .fails(2);
    assert!(error.contains("GATEWAY=HOST:PORT"), "{error}");
    let both = format!("{add} --gateway gate --endpoint gate=a.example:1 --endpoint b.example:1");
    let error = shell.line(&both).fails(2);
    assert!(error.contains("one endpoint"), "{error}");
    let other = format!("{add} --gateway gate --endpoint store=a.example:1");
    let error = shell.line(&other).fails(1);
    assert!(error.contains("does not use this gateway"), "{error}");
    let line = format!("{add} --gateway gate --endpoint a.example:1");
    assert_eq!(value(&shell.line(&line).ok(), "Endpoint"), "a.example:1");
}

#[test]
fn another_key_takes_the_place_of_the_first() {
    let (portal, shell, _gateways) = with_gateways();
    let add = format!("plain-client add phone --actor ci --gateway gate --public-key {KEY}");
    shell.line(&add).ok();
    let path = portal.path("phone.conf");
    let rekey = format!(
        "plain-client rekey phone --endpoint a.example:1 --out {}",
        path.display()
    );
    let stale = format!("{rekey} --if-version 7");
    let error = shell.line(&stale).fails(1);
    assert!(error.contains("version"), "{error}");
    assert!(!path.exists());
    let said = shell.line(&rekey).ok();
    assert!(said.contains("\"phone\" changed"), "{said}");
    let file = std::fs::read_to_string(&path).unwrap();
    assert_eq!(value(&file, "Endpoint"), "a.example:1");
    let public = public_key(value(&file, "PrivateKey"));
    let shown = shell.json(&["client", "show", "phone"]);
    assert_eq!(shown["public_key"], public);
    // Another gateway, by the key of the device.
    let line = format!("plain-client rekey phone --gateway store --public-key {OTHER_KEY}");
    let file = shell.line(&line).ok();
    assert_eq!(value(&file, "AllowedIPs"), "10.9.0.0/16");
}

#[test]
fn a_terminal_shows_the_code_or_the_device_is_taken_back() {
    let (_portal, shell, _gateways) = with_gateways();
    let words = [
        "plain-client",
        "add",
        "phone",
        "--actor",
        "ci",
        "--gateway",
        "gate",
        "--qr",
    ];
    let (shown, status) = on_terminal_of(40, shell.command(&words), "");
    assert_eq!(status, Some(1), "{shown}");
    assert!(shown.contains("deleted again"), "{shown}");
    assert_eq!(devices(&shell), json!([]));
    let (shown, status) = on_terminal(shell.command(&words), "");
    assert_eq!(status, Some(0), "{shown}");
    assert!(
        shown.contains("\u{1b}[38;5;16;48;5;231m") && shown.contains('█'),
        "{shown}"
    );
    assert!(!shown.contains("[Interface]"), "{shown}");
    assert_eq!(devices(&shell)[0]["name"], "phone");
}

#[test]
fn people_add_their_own_devices_where_the_account_says_so() {
    let (portal, shell, _gateways) = with_gateways();
    shell.line("actor create bob --kind service_account").ok();
    let token = portal.path("bob.token");
    let line = format!(
        "token create --kind api --actor bob --role user --out {}",
        token.display()
    );
    shell.line(&line).ok();
    // The role reads no gateways, so it names one by its id.
    let gateway = shell.json(&["gateway", "show", "gate"])["id"].clone();
    let add = format!(
        "plain-client add phone --gateway {} --public-key {KEY} --token-file {}",
        gateway.as_str().unwrap(),
        token.display()
    );
    let error = shell.line(&add).fails(5);
    assert!(error.contains("administrators"), "{error}");
    shell.line("account set --own-devices on").ok();
    assert_eq!(shell.json(&["account", "show"])["own_devices"], true);
    shell.line(&add).ok();
    shell.line("account set --own-devices off").ok();
    shell.line(&add.replace("phone", "tablet")).fails(5);
}
