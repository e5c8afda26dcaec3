//! `culvert sign-in` with a browser: here a person's, played by curl, on another machine.

use crate::common::{Bed, SOON, WEB_PORT, access};
use anyhow::Result;
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::{Process, culvert_program, wait_until};
use serde_json::Value;
use std::path::Path;

/// Exit statuses (docs/exit-status.md).
const UNREACHABLE: i32 = 4;
const DENIED: i32 = 5;

/// A product whose client waits for commands, and a person who may sign in.
pub(crate) fn waiting() -> Product {
    let mut product = Product::networks(1).unwrap();
    product.declare(&access()).unwrap();
    let gateway = &mut product.gateways[0];
    let token = gateway.token_file();
    product.portal.token("gateway --site lab", &token).unwrap();
    gateway.start().unwrap();
    product.client.takes_commands = true;
    product.client.launch().unwrap();
    product.add_person("ada").unwrap();
    product
}

/// The options that name the portal, with its certificate as it has printed it.
pub(crate) fn at_portal(product: &Product) -> String {
    let pin = product.portal.certificate().unwrap();
    format!("--portal {} --certificate {pin}", product.portal.url())
}

/// Begins to sign in, up to where the person is told what to do.
pub(crate) fn begin(product: &Product, options: &str) -> (Process, Value) {
    let line = format!(
        "{} sign-in {} --json --socket {} {options}",
        culvert_program().unwrap().display(),
        at_portal(product),
        product.client.socket().display()
    );
    let process = product.client.namespace.spawn(&line).unwrap();
    let told = || {
        let output = process.output();
        let line = output.lines().find(|line| line.starts_with('{'))?;
        serde_json::from_str::<Value>(line).ok()
    };
    wait_until("the code", SOON, || told().is_some())
        .unwrap_or_else(|error| panic!("{error}: {}", process.output()));
    let told = told().unwrap();
    assert_eq!(told["schema_version"], 1);
    (process, told["sign_in"].clone())
}

/// A person's decision on the page that the code leads to.
pub(crate) fn decide(product: &Product, code: &str, word: &str) -> Result<String> {
    product.decide("ada", code, word)
}

#[test]
fn a_person_signs_a_machine_in_from_another_one_and_reaches_what_they_may() {
    let product = waiting();
    let (mut process, told) = begin(&product, "");
    let code = told["user_code"].as_str().unwrap();
    let url = format!("{}/device?code={code}", product.portal.url());
    assert_eq!(told["url_with_code"], url);
    decide(&product, code, "approve").unwrap();
    let status = process.wait(SOON).unwrap();
    assert!(status.success(), "{}", process.output());
    let output = process.output();
    let last: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!(last["service"]["state"], "up");
    assert!(!output.contains("cv_client_"), "no token is printed");
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let tokens = bed
        .product
        .portal
        .admin("token list --output json")
        .unwrap();
    let tokens: Value = serde_json::from_str(&tokens).unwrap();
    let mut tokens = tokens["items"].as_array().unwrap().iter();
    let token = tokens.find(|token| token["name"].as_str().unwrap().contains("signed in"));
    let token = token.unwrap();
    assert_eq!(token["one_time"], true);
    assert!(token["used"].is_string(), "it is this machine's alone now");
}

#[test]
fn the_token_goes_into_a_file_where_that_is_asked_for_and_nowhere_when_denied() {
    let product = waiting();
    let file = product.dir().join("laptop.token");
    let out = format!("--token-out {}", file.display());
    let (mut denied, told) = begin(&product, &out);
    let code = told["user_code"].as_str().unwrap();
    decide(&product, code, "deny").unwrap();
    let status = denied.wait(SOON).unwrap();
    assert_eq!(status.code(), Some(DENIED), "{}", denied.output());
    assert!(
        denied.output().contains("was denied"),
        "{}",
        denied.output()
    );
    assert!(!file.exists());

    let (mut process, told) = begin(&product, &out);
    let code = told["user_code"].as_str().unwrap();
    decide(&product, code, "approve").unwrap();
    assert!(
        process.wait(SOON).unwrap().success(),
        "{}",
        process.output()
    );
    assert!(mode(&file) == 0o600 && !process.output().contains("cv_client_"));
    let token = std::fs::read_to_string(&file).unwrap();
    assert!(token.starts_with("cv_client_"));
    let status = product.client.status().unwrap();
    assert_eq!(status["service"]["state"], "signed_out");
}

#[test]
fn a_portal_with_another_certificate_is_asked_nothing() {
    let product = waiting();
    let pin = "A".repeat(43);
    let line = format!(
        "sign-in --portal {} --certificate {pin}",
        product.portal.url()
    );
    let output = product.client.tell(&line).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(UNREACHABLE), "{said}");
    assert!(said.contains("certificate"), "{said}");
}

fn mode(file: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}
