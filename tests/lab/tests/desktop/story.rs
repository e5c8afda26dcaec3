//! One person's day with the window, from the first start to signing out.

use crate::scene::Scene;
use crate::window::Window;
use culvert_lab::product::{Download, PRIVATE_V4};
use std::time::Instant;

/// Signs in, up to where the portal has welcomed the machine.
pub(crate) fn sign_in(scene: &Scene, window: &mut Window) {
    let portal = &scene.product.portal;
    window.click("Sign in");
    window.sees(&["With the browser", "With a token"]);
    window.fill("Portal address", &portal.url());
    window.fill(
        "Certificate fingerprint (optional)",
        &portal.certificate().unwrap(),
    );
    window.is_named();
    window.picture("2-sign-in");
    window.click("Sign in with the browser");
    window.sees(&["Compare this code", "Valid for", "Copy link"]);
    let code = window.find("[A-Z0-9]{4}-[A-Z0-9]{4}");
    let url = format!("{}/device?code={code}", portal.url());
    scene.wait("the browser", || window.opened() == [url.as_str()]);
    window.is_named();
    window.picture("3-code");
    scene.product.decide("ada", &code, "approve").unwrap();
    let connected = format!("Connected to {}", portal.address().ip());
    window.sees(&[&connected, "Intranet", "Payroll", "Wiki"]);
}

#[test]
fn a_person_signs_in_uses_resources_loses_one_and_the_portal_and_signs_out() {
    let mut scene = Scene::with_members(&["ada"]);
    let window = &mut Window::open(&scene, "ada");
    window.sees(&["Sign in to begin"]);
    window.is_named();
    window.picture("1-first-start");
    sign_in(&scene, window);
    window.picture("4-connected");

    opens_a_resource(&scene, window);
    window.click("Ask for access to Payroll");
    window.sees(&["Denied", "A condition of the policy does not hold now"]);
    window.picture("7-denied");

    let address = PRIVATE_V4.parse().unwrap();
    let download = Download::start(&scene.product.client.namespace, address, 80).unwrap();
    scene
        .product
        .portal
        .admin("policy delete intranet --yes")
        .unwrap();
    let cut = download.cut_after(Instant::now()).unwrap();
    window.sees(&["Intranet, 10.50.0.10, Ended", "Access ended: "]);
    println!("the download ended {} ms after the policy", cut.as_millis());
    window.picture("8-revoked");
    window.click("Remove Intranet from the list");
    window.sees_not("Intranet");
    window.sees(&["2 of 2"]);

    scene.product.portal.kill().unwrap();
    window.sees(&["The portal does not answer", "Wiki"]);
    window.picture("9-portal-away");
    scene.product.portal.start().unwrap();
    window.sees_not("The portal does not answer");
    window.sees(&["Connected to"]);

    let took_ms = the_service_comes_back(&scene, window);
    println!("the window recovered after the service answered, in ms: {took_ms:?}");

    window.click("Main menu");
    window.click("Sign out");
    window.sees(&["Sign out of this computer?"]);
    window.is_named();
    window.picture("12-sign-out");
    window.press("Sign out");
    window.sees(&["Sign in to begin"]);
    window.sees_not("Wiki");
    window.picture("13-signed-out");
}

/// The browser asks for the page, and its first packet for access.
fn opens_a_resource(scene: &Scene, window: &mut Window) {
    window.click("Open Intranet");
    window.sees(&["Granted", "gateway-1, direct"]);
    let is_page = |url: &String| url.trim_end_matches('/') == format!("http://{PRIVATE_V4}");
    scene.wait("the page", || window.opened().last().is_some_and(is_page));
    window.picture("5-opened");
    window.click("Gateways");
    window.sees(&["gateway-1", "direct · ", "bit/s in"]);
    window.is_named();
    window.picture("6-gateways");
    window.click("Resources");
}

/// It is killed, and then stopped in order, which removes its socket.
/// Returns the milliseconds from the service's first answer until the window showed it.
fn the_service_comes_back(scene: &Scene, window: &mut Window) -> Vec<(&'static str, u128)> {
    let mut took_ms = Vec::new();
    for (event, command, start) in [
        ("10-killed", "systemctl kill -s KILL culvert-client", "true"),
        (
            "11-stopped",
            "systemctl stop culvert-client",
            "systemctl start culvert-client",
        ),
    ] {
        scene.run(command);
        window.sees(&["The service is not running"]);
        window.sees_not("Wiki");
        window.picture(event);
        scene.run(start);
        scene.wait("the service to answer", || {
            scene.machine.run("culvert status").is_ok()
        });
        let answers = Instant::now();
        window.sees_not("The service is not running");
        took_ms.push((event, answers.elapsed().as_millis()));
        window.sees(&["Connected to", "Wiki"]);
    }
    took_ms
}
