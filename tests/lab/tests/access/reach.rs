//! Who reaches what.

use crate::common::{Bed, OTHER_PORT, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6};

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
