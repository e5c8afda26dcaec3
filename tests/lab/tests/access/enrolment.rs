//! Machines that do not get in, and what the program says then.

use crate::common::{SOON, access};
use culvert_lab::product::Product;
use culvert_lab::{culvert_program, wait_until};
use std::path::{Path, PathBuf};

/// Exit statuses (docs/exit-status.md).
const NOT_ENROLLED: i32 = 3;
const UNREACHABLE: i32 = 4;
const REVOKED: i32 = 5;

/// A portal that knows an actor and a site, and nobody else.
fn portal_alone() -> Product {
    let mut product = Product::networks(1).unwrap();
    product.declare(&access()).unwrap();
    product
}

/// A file with the token that `change` makes of a client's good one.
fn changed_token(product: &Product, name: &str, change: impl Fn(&str) -> String) -> PathBuf {
    let file = product.dir().join(name);
    product
        .portal
        .token("client --actor laptop", &file)
        .unwrap();
    let good = std::fs::read_to_string(&file).unwrap();
    // The file keeps its mode.
    std::fs::write(&file, change(good.trim())).unwrap();
    file
}

/// Another letter in the place of the tenth one of a part of a token, between dots.
fn with_other_letter(token: &str, part: usize) -> String {
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    let other = if parts[part].as_bytes()[20] == b'4' {
        "5"
    } else {
        "4"
    };
    parts[part].replace_range(20..21, other);
    parts.join(".")
}

/// Runs a client or gateway that is expected to end at once, and checks how.
fn ends(product: &Product, role: &str, token: &Path, status: i32, error: &str) {
    let state = product.dir().join("nobody");
    let socket = match role {
        "client" => format!("--status-socket {}", product.dir().join("sock").display()),
        _ => String::new(),
    };
    let line = format!(
        "{} {role} run --token-file {} --state-dir {} --exit-when-unreachable --log-level error {socket}",
        culvert_program().unwrap().display(),
        token.display(),
        state.display()
    );
    let namespace = match role {
        "client" => &product.client.namespace,
        _ => &product.gateways[0].namespace,
    };
    let outcome = namespace.outcome(&line).unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status.code(), Some(status), "{said}");
    assert!(said.contains(error), "'{error}' is not in: {said}");
    let secret = std::fs::read_to_string(token).unwrap();
    let secret = secret.split('.').nth(1).unwrap_or("no secret");
    assert!(!said.contains(secret), "the secret is in: {said}");
}

#[test]
fn a_token_that_the_portal_does_not_take_is_status_3() {
    let product = portal_alone();
    let portal = &product.portal;
    let wrong = changed_token(&product, "wrong", |good| with_other_letter(good, 1));
    let unknown = changed_token(&product, "unknown", |good| with_other_letter(good, 0));
    let cut = changed_token(&product, "cut", |good| good[..good.len() / 2].to_owned());
    let expired = product.dir().join("expired");
    portal
        .token("client --actor laptop --expires 1s", &expired)
        .unwrap();
    let revoked = product.dir().join("revoked");
    portal
        .token("client --actor laptop --name revoked", &revoked)
        .unwrap();
    portal.admin("token revoke revoked").unwrap();
    // The one that expires has by the time that the others are tried.
    for file in [wrong, unknown, revoked, cut, expired] {
        ends(&product, "client", &file, NOT_ENROLLED, "token");
    }
    let gateway = product.dir().join("gateway-token");
    portal
        .token("gateway --site lab --name gone", &gateway)
        .unwrap();
    portal.admin("token revoke gone").unwrap();
    ends(&product, "gateway", &gateway, NOT_ENROLLED, "token");
    let client = changed_token(&product, "client-token", str::to_owned);
    ends(&product, "gateway", &client, NOT_ENROLLED, "`gateway`");
}

#[test]
fn a_one_time_token_enrols_no_second_machine() {
    let mut product = portal_alone();
    let token = product.client.token_file();
    let of = "client --actor laptop --one-time";
    product.portal.token(of, &token).unwrap();
    product.client.start().unwrap();
    product.client.kill().unwrap();
    // The same machine may come again.
    product.client.start().unwrap();
    ends_beside(&product, &token);
}

/// Another machine, which is not the client's.
fn ends_beside(product: &Product, token: &Path) {
    let outcome = product.nat.outcome(&format!(
        "{} client run --token-file {} --state-dir {1}.state --status-socket {1}.sock --dns off --log-level error",
        culvert_program().unwrap().display(),
        token.display(),
    ));
    let outcome = outcome.unwrap();
    assert_eq!(outcome.status.code(), Some(NOT_ENROLLED), "{outcome:?}");
}

#[test]
fn a_portal_that_is_not_the_one_of_the_token_or_not_there_is_status_4() {
    let mut product = portal_alone();
    let client = changed_token(&product, "client-token", str::to_owned);
    let gateway = product.dir().join("gateway-token");
    product
        .portal
        .token("gateway --site lab", &gateway)
        .unwrap();
    product.portal.kill().unwrap();
    for (role, token) in [("client", &client), ("gateway", &gateway)] {
        ends(&product, role, token, UNREACHABLE, "10.200.10.2:8443");
    }
    // Somebody else has the portal's address, or its administrator has lost the certificate.
    let certificate = product.portal.state_dir().join("certificate.pem");
    std::fs::remove_file(certificate).unwrap();
    product.portal.start().unwrap();
    for (role, token) in [("client", &client), ("gateway", &gateway)] {
        ends(&product, role, token, UNREACHABLE, "certificate");
    }
}

#[test]
fn a_machine_that_is_revoked_ends_with_status_5_and_stays_out() {
    let mut product = Product::start(1, &access()).unwrap();
    product.portal.admin("client revoke laptop").unwrap();
    let client = product.client.process().unwrap();
    assert_eq!(client.wait(SOON).unwrap().code(), Some(REVOKED));
    let rules = product.client.namespace.run("ip rule").unwrap();
    assert!(
        rules.contains("17238"),
        "nothing leaves past the tunnel: {rules}"
    );
    let again = product.client.command().unwrap();
    let outcome = product.client.namespace.outcome(&again).unwrap();
    assert_eq!(outcome.status.code(), Some(REVOKED), "{outcome:?}");

    product.portal.admin("gateway revoke gateway-1").unwrap();
    let gateway = product.gateways[0].process().unwrap();
    assert_eq!(gateway.wait(SOON).unwrap().code(), Some(REVOKED));
    let tables = "nft list tables";
    wait_until("the gateway's table to go", SOON, || {
        let left = product.gateways[0].namespace.run(tables);
        left.is_ok_and(|left| !left.contains("culvert"))
    })
    .unwrap();
}

#[test]
fn a_token_file_that_others_can_read_is_status_3_and_the_error_has_the_fix() {
    use std::os::unix::fs::PermissionsExt;
    let product = portal_alone();
    let file = changed_token(&product, "token", str::to_owned);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    for role in ["client", "gateway"] {
        ends(&product, role, &file, NOT_ENROLLED, "chmod 600");
    }
}
