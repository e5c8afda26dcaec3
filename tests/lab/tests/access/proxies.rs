//! The portal behind nginx, HAProxy and Caddy, as `docs/behind-a-proxy.md` configures them, and with lines
//! of that left out.

use crate::common::{SOON, access};
use crate::proxy_scene::{Kind, ROUTER, Scene, URL};
use culvert_lab::product::Product;
use culvert_lab::{Namespace, culvert_program, wait_until};
use serde_json::Value;

/// Exit statuses (docs/exit-status.md).
const UNREACHABLE: i32 = 4;

/// Checks that a finding of this check has this verdict and holds all of this.
#[track_caller]
fn says(findings: &[Value], check: &str, verdict: &str, parts: &[&str]) {
    let is_it = |finding: &&Value| {
        let text = finding.to_string();
        finding["check"] == check
            && finding["verdict"] == verdict
            && parts.iter().all(|part| text.contains(part))
    };
    assert!(
        findings.iter().any(|it| is_it(&it)),
        "{check}: {parts:?}: {findings:#?}"
    );
}

fn works_as_documented(kind: Kind) {
    let mut scene = Scene::new().unwrap();
    scene.put_in_front(kind, &kind.documented()).unwrap();

    let (status, page) = scene.browse("", "/sign-in").unwrap();
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("<form"), "{page}");
    let (status, answer) = scene.sign_in().unwrap();
    assert_eq!(status, 303, "{answer}");
    assert!(answer.contains("__Host-culvert"), "{answer}");

    scene.product.client.start().unwrap();
    let mut clients = Value::Null;
    wait_until("the client to be noted", SOON, || {
        clients = scene.api("GET", "/clients", "").unwrap();
        clients["items"][0]["last_address"].is_string()
    })
    .unwrap();
    assert_eq!(clients["items"][0]["last_address"], ROUTER, "{clients}");

    let (status, findings) = scene.netcheck().unwrap();
    assert_eq!(status, 0, "{findings:#?}");
    says(&findings, "portal-http", "ok", &["sessions are opened"]);
    says(&findings, "portal-form", "ok", &[]);
    // Nothing of it is worth a warning.
    let output = scene.product.portal.output();
    assert!(!output.contains("WARN"), "{output}");
}

#[test]
fn the_documented_configuration_of_nginx_passes_everything_on() {
    works_as_documented(Kind::Nginx);
}

#[test]
fn the_documented_configuration_of_haproxy_passes_everything_on() {
    works_as_documented(Kind::HaProxy);
}

#[test]
fn the_documented_configuration_of_caddy_passes_everything_on() {
    works_as_documented(Kind::Caddy);
}

/// The documented configuration of nginx without the lines that hold any of these.
fn nginx_without(parts: &[&str]) -> String {
    let documented = Kind::Nginx.documented();
    for part in parts {
        assert!(documented.contains(part), "{part}");
    }
    let stays = |line: &&str| !parts.iter().any(|part| line.contains(part));
    let lines: Vec<&str> = documented.lines().filter(stays).collect();
    lines.join("\n")
}

/// Waits until the portal has logged one warning that holds all of this, and checks that there is no other.
#[track_caller]
fn is_logged_once(scene: &Scene, parts: &[&str]) {
    let lines = || {
        let output = scene.product.portal.output();
        let is_it = |line: &&str| line.contains("WARN") && parts.iter().all(|it| line.contains(it));
        output.lines().filter(is_it).count()
    };
    wait_until("the warning", SOON, || lines() > 0)
        .unwrap_or_else(|error| panic!("{error}: {}", scene.product.portal.output()));
    assert_eq!(lines(), 1, "{}", scene.product.portal.output());
}

#[test]
fn a_proxy_that_speaks_no_tls_1_3_or_no_tls_is_named_with_the_line_to_add() {
    let mut scene = Scene::new().unwrap();
    let old = nginx_without(&["proxy_ssl_protocols"]);
    let old = old.replace(
        "proxy_pass",
        "proxy_ssl_protocols TLSv1 TLSv1.1 TLSv1.2; proxy_pass",
    );
    scene.put_in_front(Kind::Nginx, &old).unwrap();
    for _ in 0..3 {
        assert_eq!(scene.browse("", "/sign-in").unwrap().0, 502);
    }
    is_logged_once(&scene, &["TLS 1.2 at most", "proxy_ssl_protocols TLSv1.3;"]);
    // So does another proxy, and a program without any.
    let at_most = Kind::HaProxy
        .documented()
        .replace("ssl verify none", "ssl verify none ssl-max-ver TLSv1.2");
    scene.put_in_front(Kind::HaProxy, &at_most).unwrap();
    assert_eq!(scene.browse("", "/sign-in").unwrap().0, 503);
    let line = "curl -ks -m 4 --tls-max 1.2 https://127.0.0.1:8443/sign-in";
    assert!(scene.product.portal.namespace.run(line).is_err());
    is_logged_once(&scene, &["TLS 1.2 at most", "proxy_ssl_protocols TLSv1.3;"]);

    let plain = Kind::Nginx
        .documented()
        .replace("proxy_pass https:", "proxy_pass http:");
    scene.put_in_front(Kind::Nginx, &plain).unwrap();
    for _ in 0..3 {
        let (status, text) = scene.browse("", "/sign-in").unwrap();
        assert_eq!(status, 400, "{text}");
        assert!(text.contains("speaks HTTPS"), "{text}");
    }
    let plain = Kind::HaProxy.documented().replace("ssl verify none", "");
    scene.put_in_front(Kind::HaProxy, &plain).unwrap();
    let (status, text) = scene.browse("", "/sign-in").unwrap();
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("speaks HTTPS"), "{text}");
    is_logged_once(&scene, &["plain HTTP", "proxy_pass https://"]);

    for option in ["send-proxy", "send-proxy-v2", "send-proxy-v2-ssl"] {
        let with_header = Kind::HaProxy
            .documented()
            .replace("ssl verify none", &format!("ssl verify none {option}"));
        scene.put_in_front(Kind::HaProxy, &with_header).unwrap();
        assert_eq!(scene.browse("", "/sign-in").unwrap().0, 503, "{option}");
        is_logged_once(&scene, &["PROXY protocol", "send-proxy"]);
    }
}

#[test]
fn a_proxy_that_does_not_pass_the_host_on_is_named_on_the_page_in_the_log_and_by_netcheck() {
    const LINE: &str = "proxy_set_header Host $http_host;";
    const EXPECTED: &str = "Host: portal.example`";
    let mut scene = Scene::new().unwrap();

    // nginx writes the address that it connects to.
    let without = nginx_without(&["proxy_set_header Host"]);
    scene.put_in_front(Kind::Nginx, &without).unwrap();
    let (status, page) = scene.sign_in().unwrap();
    assert_eq!(status, 403, "{page}");
    for part in ["Host: 127.0.0.1:8443`", EXPECTED, LINE] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (status, findings) = scene.netcheck().unwrap();
    assert_eq!(status, UNREACHABLE, "{findings:#?}");
    let parts = ["Host: 127.0.0.1:8443`", EXPECTED, LINE];
    says(&findings, "portal-form", "failed", &parts);
    is_logged_once(&scene, &["127.0.0.1:8443", "portal.example", LINE]);

    // Or a name of its own, and the one that was asked for where nobody reads it.
    let other = Kind::Nginx.documented().replace(
        LINE,
        "proxy_set_header Host backend; proxy_set_header X-Forwarded-Host $http_host;",
    );
    scene.put_in_front(Kind::Nginx, &other).unwrap();
    let (status, page) = scene.browse("", "/sign-in").unwrap();
    assert_eq!(status, 421, "{page}");
    for part in ["Host: backend`", EXPECTED, LINE, "X-Forwarded-Host"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (status, findings) = scene.netcheck().unwrap();
    assert_eq!(status, UNREACHABLE, "{findings:#?}");
    let parts = ["Host: backend`", EXPECTED, LINE];
    says(&findings, "portal-form", "failed", &parts);
    is_logged_once(&scene, &["backend", "portal.example", LINE]);
}

#[test]
fn a_proxy_that_passes_no_websockets_on_is_named_in_the_log_and_by_netcheck() {
    const LINE: &str = "proxy_set_header Upgrade $http_upgrade;";
    let mut scene = Scene::new().unwrap();
    for (left_out, came) in [
        (&["proxy_set_header Upgrade"] as &[_], "Upgrade: websocket"),
        (&["proxy_set_header Connection"], "Connection: upgrade"),
        (&["proxy_http_version"], "HTTP/1.0"),
        (
            &[
                "proxy_set_header Upgrade",
                "proxy_set_header Connection",
                "proxy_http_version",
            ],
            "HTTP/1.0",
        ),
    ] {
        let configuration = nginx_without(left_out);
        scene.put_in_front(Kind::Nginx, &configuration).unwrap();
        let (status, findings) = scene.netcheck().unwrap();
        assert_eq!(status, UNREACHABLE, "{left_out:?}: {findings:#?}");
        says(&findings, "portal-http", "failed", &[came, LINE]);
        let opened = findings
            .iter()
            .any(|it| it.to_string().contains("sessions are opened"));
        assert!(!opened, "{findings:#?}");
    }
    is_logged_once(&scene, &["WebSocket", LINE]);
    scene.product.client.launch().unwrap();
    wait_until("the client to say so", SOON, || {
        let output = scene.product.client.output();
        output.contains("HTTP 400") && output.contains("`Upgrade`")
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.product.client.output()));
}

#[test]
fn a_portal_behind_a_proxy_that_shows_another_certificate_warns_before_its_tokens_are_used() {
    let mut product = Product::networks(0).unwrap();
    product.portal.front = Some(URL.to_owned());
    product.portal.arguments = "--trusted-proxy 127.0.0.1".to_owned();
    // Tokens that are of no use are not written at all.
    let refused = product.portal.start_set_up(&access()).unwrap_err();
    let refused = format!("{refused:#}");
    assert!(
        refused.contains("no token is written") && refused.contains("--cert and --key"),
        "{refused}"
    );
    product.portal.arguments = "--trusted-proxy 127.0.0.1".to_owned();
    product.portal.start().unwrap();
    let is_warned = || {
        let output = product.portal.output();
        let is_it = |line: &str| line.contains("WARN") && line.contains("--cert");
        output.lines().any(is_it)
    };
    wait_until("the warning", SOON, is_warned).unwrap();
}

#[test]
fn a_portal_that_has_no_address_writes_none_into_tokens() {
    let machine = Namespace::new().unwrap();
    let product = Product::networks(0).unwrap();
    let state = product.dir().join("lonely");
    let line = format!(
        "{} portal run --state-dir {}",
        culvert_program().unwrap().display(),
        state.display()
    );
    let outcome = machine.outcome(&line).unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert_eq!(outcome.status.code(), Some(1), "{said}");
    assert!(said.contains("--url"), "{said}");
    assert!(outcome.stdout.is_empty(), "{outcome:?}");

    // Its network comes, goes, and comes with another address.
    let start = || {
        let mut process = machine.spawn(&line).unwrap();
        process.wait_for_output("ready", SOON).unwrap();
        let output = process.output();
        process.stop().unwrap();
        output
    };
    let address = |change: &str| {
        machine
            .run(&format!("ip address {change} dev net0"))
            .unwrap()
    };
    machine
        .shell(
            "ip link add net0 type veth peer name net1; ip link set net0 up; ip link set net1 up",
        )
        .unwrap();
    address("add 192.0.2.7/24");
    let first = start();
    assert!(first.contains("Portal: https://192.0.2.7:8443"), "{first}");
    assert!(!first.contains("WARN"), "{first}");
    address("del 192.0.2.7/24");
    let without = start();
    assert!(
        without.contains("Portal: https://192.0.2.7:8443"),
        "{without}"
    );
    assert!(without.contains("WARN"), "{without}");
    address("add 192.0.2.8/24");
    let other = start();
    assert!(other.contains("Portal: https://192.0.2.8:8443"), "{other}");
    let is_told = |line: &str| line.contains("WARN") && line.contains("192.0.2.7");
    assert!(other.lines().any(is_told), "{other}");
}
