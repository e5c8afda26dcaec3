//! The logs of client and gateway.

use crate::common::{Bed, SOON, WEB_PORT};
use culvert_lab::product::PRIVATE_V4;
use culvert_lab::wait_until;

#[test]
fn a_clients_log_names_portal_resource_and_gateway_of_all_that_is_granted_and_revoked() {
    let mut bed = Bed::new(2).unwrap();
    let says = |bed: &Bed, parts: &[&str]| {
        let what = parts.join(", ");
        let is_said = || {
            let output = bed.product.client.output();
            output
                .lines()
                .any(|line| parts.iter().all(|part| line.contains(part)))
        };
        wait_until(&what, SOON, is_said)
            .unwrap_or_else(|error| panic!("{error}: {}", bed.product.client.output()));
    };
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    let url = bed.product.client.status().unwrap()["portal_url"].clone();
    let url = url.as_str().unwrap();
    let first = bed.product.client.output();
    let first = first.lines().find(|line| line.contains("connected to"));
    assert!(first.is_some_and(|line| line.contains(url)), "{first:?}");
    says(
        &bed,
        &["access granted", "resource=\"web\"", "gateway=\"gateway-"],
    );

    let killed = bed.serving();
    bed.product.gateways[killed].kill().unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    // The portal sees the end of its connection before the client notices anything.
    let gone = format!("gateway=\"gateway-{}\"", killed + 1);
    says(&bed, &["a gateway is gone", &gone]);

    bed.product
        .portal
        .admin("policy delete staff-web --yes")
        .unwrap();
    says(&bed, &["access revoked", "resource=\"web\"", "reason="]);

    // Client and gateway are told of it apart.
    for part in [
        "connected to the portal",
        url,
        "access granted",
        "access revoked",
    ] {
        let gateway = &bed.product.gateways[1 - killed];
        wait_until(part, SOON, || gateway.output().contains(part))
            .unwrap_or_else(|error| panic!("{error}: {}", gateway.output()));
    }
    let gateway = bed.product.gateways[1 - killed].output();
    for event in ["access granted", "access revoked"] {
        let line = gateway.lines().find(|line| line.contains(event)).unwrap();
        for part in [
            "client=\"",
            "client_id=cli_",
            "resource=\"web\"",
            "resource_id=res_",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    let status = bed.product.gateways[1 - killed].status().unwrap();
    assert_eq!(status["site_name"], "lab");
}
