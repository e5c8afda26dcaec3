//! An account that requires verified gateways.

use crate::common::{Bed, SECOND, SOON, WEB_PORT};
use culvert_lab::product::PRIVATE_V4;
use culvert_lab::wait_until;
use std::time::Instant;

const REQUIRE: &str = "account set --require-verified-gateways on";

#[test]
fn a_gateway_that_enrols_waits_until_it_is_verified_and_unverified_it_carries_nothing_after_a_second()
 {
    let mut bed = Bed::new(1).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let name = bed.product.gateways[0].name.clone();

    // Nobody is cut off unseen.
    let refused = bed.product.portal.admin_outcome(REQUIRE).unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(&name) && said.contains("--yes"), "{said}");
    let download = bed.download().unwrap();
    bed.product
        .portal
        .admin(&format!("{REQUIRE} --yes"))
        .unwrap();
    let cut = download.cut_after(Instant::now()).unwrap();
    assert!(cut <= SECOND, "bytes came for another {cut:?}");

    // As a gateway that enrols for the first time.
    bed.product.gateways[0].stop().unwrap();
    let delete = format!("gateway delete {name} --yes");
    bed.product.portal.admin(&delete).unwrap();
    bed.product.gateways[0].start().unwrap();
    let gateway = &bed.product.gateways[0];
    let waits = || gateway.status().unwrap()["awaits_verification"] == true;
    wait_until("the gateway to wait", SOON, waits).unwrap();
    let fingerprint = gateway.status().unwrap()["fingerprint"].clone();
    let fingerprint = fingerprint.as_str().unwrap();
    assert!(gateway.output().contains(fingerprint), "its log says which");
    let shown = format!("gateway show {name}");
    let shown = bed.product.portal.admin(&shown).unwrap();
    assert!(
        shown.contains(fingerprint) && shown.contains("waiting"),
        "{shown}"
    );
    assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "nobody has verified it");

    let portal = &bed.product.portal;
    for _ in 0..2 {
        portal.admin(&format!("gateway verify {name}")).unwrap();
        bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
        assert!(!waits());
        let download = bed.download().unwrap();
        portal.admin(&format!("gateway unverify {name}")).unwrap();
        // The change was committed before the command ended.
        let cut = download.cut_after(Instant::now()).unwrap();
        assert!(cut <= SECOND, "bytes came for another {cut:?}");
        assert!(!bed.reaches(PRIVATE_V4, WEB_PORT));
    }
}
