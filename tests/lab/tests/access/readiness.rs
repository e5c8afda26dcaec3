//! A client's reports to supervisors, collectors and its service manager are true.

use crate::common::{Bed, SOON, WEB_PORT};
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::{Process, ServiceManager, wait_until};
use std::time::Duration;

const HEALTH: &str = "127.0.0.1:9589";

/// For how long the service manager waits for a sign of life.
const WATCHDOG: Duration = Duration::from_secs(2);

/// The documented interval of checks of the host, and room for a busy machine.
const PUT_BACK: Duration = Duration::from_secs(30);

/// Starts the client again, with health, beside a service manager.
fn start_beside(manager: &ServiceManager, product: &mut Product) -> Process {
    let client = &mut product.client;
    client.stop().unwrap();
    client.arguments = format!("--health {HEALTH}");
    let command = client.command().unwrap();
    let prefix = manager.prefix(WATCHDOG);
    let line = format!("{prefix} {command}");
    client.namespace.spawn(&line).unwrap()
}

/// The client's answer, without the status code.
fn answer(product: &Product, path: &str) -> String {
    let line = format!("curl -sS -m 4 -o - -w %{{http_code}} http://{HEALTH}{path}");
    let answer = product.client.namespace.run(&line).unwrap_or_default();
    let (body, code) = answer.split_at(answer.len().saturating_sub(3));
    format!("{code} {body}")
}

fn becomes(product: &Product, path: &str, begins: &str, holds: &str) {
    let mut last = String::new();
    wait_until(&format!("{path}: {begins} … {holds}"), SOON, || {
        last = answer(product, path);
        last.starts_with(begins) && last.contains(holds)
    })
    .unwrap_or_else(|error| panic!("{error}: {last}"));
}

#[test]
fn readyz_and_the_service_manager_hear_what_is_true_of_portal_grants_and_routes() {
    let mut bed = Bed::new(1).unwrap();
    let manager = ServiceManager::listen().unwrap();
    let _client = start_beside(&manager, &mut bed.product);
    becomes(&bed.product, "/readyz", "200", "ready");
    // It has started before it is connected: a machine that starts does not wait for the portal.
    manager.hears("READY=1\nSTATUS=", 1, SOON).unwrap();
    manager
        .hears("STATUS=connected to https://", 1, SOON)
        .unwrap();

    // Without the portal, and without a grant.
    bed.product.portal.kill().unwrap();
    becomes(&bed.product, "/readyz", "503", "it holds no grant");
    assert_eq!(answer(&bed.product, "/healthz"), "200 alive\n");
    manager
        .hears("STATUS=not connected to the portal: ", 1, SOON)
        .unwrap();
    bed.product.portal.start().unwrap();
    becomes(&bed.product, "/readyz", "200", "ready");

    // Without the portal, and with a grant.
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    bed.product.portal.kill().unwrap();
    becomes(
        &bed.product,
        "/metrics",
        "200",
        "culvert_client_portal_connected 0\n",
    );
    becomes(
        &bed.product,
        "/metrics",
        "200",
        "culvert_client_resources{state=\"granted\"} 1\n",
    );
    assert_eq!(answer(&bed.product, "/readyz"), "200 ready\n");
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));

    // Somebody takes the interface down: it comes back with its routes, and they lead somewhere.
    let client = &bed.product.client.namespace;
    client.run("ip link set culvert0 down").unwrap();
    let lead = || bed.reaches(PRIVATE_V4, WEB_PORT);
    wait_until("interface and routes to be put back", PUT_BACK, lead).unwrap();

    // The event loop has gone on all the while.
    manager.hears("WATCHDOG=1", 4, SOON).unwrap();
    assert_eq!(
        answer(&bed.product, "/nothing").split(' ').next(),
        Some("404")
    );
}
