//! Reachability: clients and the resources that they reach.

use crate::common::{Bed, OTHER_PORT, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6, Product};

#[test]
fn a_client_reaches_what_it_is_granted_by_address_and_by_name_and_nothing_else() {
    let bed = Bed::new(1).unwrap();
    let client = &bed.product.client;
    assert!(
        bed.reaches(PRIVATE_V4, WEB_PORT),
        "{}",
        client.status_text().unwrap()
    );
    for family in ["-4", "-6"] {
        let line = format!("curl {family} -fsS -m 8 http://{PRIVATE_NAME}/");
        let answer = client.run_with_dns(&line).unwrap();
        assert!(answer.starts_with("you come from"), "{answer}");
    }
    assert!(
        !bed.reaches(PRIVATE_V4, OTHER_PORT),
        "the filters name port 80"
    );
    assert!(
        !bed.reaches(PRIVATE_OTHER_V4, WEB_PORT),
        "the policy is for another group"
    );
    assert!(
        !bed.reaches(PRIVATE_V6, WEB_PORT),
        "there is no such resource"
    );
    let denied = bed
        .product
        .portal
        .admin_outcome("explain --client laptop --resource everything")
        .unwrap();
    assert_ne!(denied.status.code(), Some(0));
}

/// Names that look like addresses and are none, and addresses that no gateway forwards to: nobody could ever reach such a
/// resource, or ask such a server.
#[test]
fn what_could_never_be_reached_is_no_resource_and_no_server_of_a_domain() {
    let product = Product::networks(0).unwrap();
    let mut portal = product.portal;
    portal.start().unwrap();
    portal.set_up().unwrap();
    portal.apply("[[site]]\nname = \"lab\"\n").unwrap();
    let refused = |line: &str| {
        let outcome = portal.admin_outcome(line).unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert!(!outcome.status.success(), "{line}");
        said
    };
    for (address, why) in [
        ("10.0.0.256", "10.0.0.256"),
        ("1.2.3", "1.2.3"),
        ("0x7f.1", "0x7f.1"),
        ("010.0.0.1", "010.0.0.1"),
        ("2130706433", "2130706433"),
        ("10.0.0.1.5", "10.0.0.1.5"),
        ("web.08", "web.08"),
        ("168.63.129.16", "no gateway forwards"),
        ("100.100.100.200", "no gateway forwards"),
        ("::ffff:10.0.0.1", "write 10.0.0.1"),
        ("fec0::1", "no gateway forwards"),
        ("64:ff9b::7f00:1", "no gateway forwards"),
        ("fd00:ec2::/32", "no gateway forwards"),
    ] {
        let line = format!("resource create x --site lab --address {address} --allow tcp:80");
        let said = refused(&line);
        assert!(said.contains(why), "{address}: {said}");
        let file = format!(
            "[[site]]\nname = \"lab\"\n[[resource]]\nname = \"x\"\nsite = \"lab\"\naddress = \"{address}\"\n\
             allow = \"tcp:80\"\n"
        );
        let said = portal.apply(&file).unwrap_err().to_string();
        assert!(said.contains(why), "{address}: {said}");
    }
    for server in [
        "168.63.129.16",
        "100.100.100.200",
        "127.0.0.53",
        "fd00:ec2::253",
        "::ffff:168.63.129.16",
        "64:ff9b::a83f:8110",
        "10.0.0.256",
        "0x7f.1",
    ] {
        let said = refused(&format!("dns set corp.example --server {server}"));
        assert!(!said.trim().is_empty(), "{server}");
    }
    portal
        .admin("dns set corp.example --server 168.63.129.17")
        .unwrap();
}

#[test]
fn client_and_gateway_agree_on_the_suite_that_both_do_fast() {
    let bed = Bed::new(1).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    let status = bed.product.client.status().unwrap();
    let cipher = status["gateways"][0]["cipher"].as_str().unwrap();
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has = |flag: &str| processor.split_whitespace().any(|word| word == flag);
    let expected = if has("aes") && has("pclmulqdq") {
        "aes256gcm"
    } else {
        "chacha20poly1305"
    };
    assert_eq!(cipher, expected);
}

#[test]
fn of_resources_that_overlap_the_more_specific_decides_alone() {
    // All ports of the whole network, and of one machine in it the web server alone.
    let to_staff = "name = \"others-all\"\ngroup = \"staff\"";
    let access = access().replace("name = \"others-all\"\ngroup = \"others\"", to_staff);
    let bed = Bed::with_access(1, &access).unwrap();
    for port in [WEB_PORT, OTHER_PORT] {
        assert!(bed.reaches(PRIVATE_OTHER_V4, port), "port {port}");
    }
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    assert!(
        !bed.reaches(PRIVATE_V4, OTHER_PORT),
        "what the address's filters refuse is not looked for in the network"
    );
    // Without the narrow resource the wide one is all there is.
    bed.product
        .portal
        .admin("policy delete staff-web --yes")
        .unwrap();
    culvert_lab::wait_until("the network's grant", crate::common::SOON, || {
        bed.reaches(PRIVATE_V4, OTHER_PORT)
    })
    .unwrap();
}
