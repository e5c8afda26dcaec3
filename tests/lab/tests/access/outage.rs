//! The portal goes away and comes back.

use crate::common::{Bed, WEB_PORT};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4};
use std::time::{Duration, Instant};

/// "portal killed for 60 s and restarted"
const OUTAGE: Duration = Duration::from_secs(60);

#[test]
fn without_a_portal_existing_access_goes_on_and_new_access_works_soon_after_it_is_back() {
    let mut bed = Bed::new(1).unwrap();
    let stream = bed.numbered_stream().unwrap();
    let download = bed.download().unwrap();
    bed.product.portal.kill().unwrap();
    std::thread::sleep(OUTAGE);
    assert!(
        bed.reaches(PRIVATE_V4, WEB_PORT),
        "new connections under an existing grant"
    );
    let name = format!("curl -4 -fsS -m 1 http://{PRIVATE_NAME}/");
    let client = &bed.product.client;
    assert!(
        client.run_with_dns(&name).is_err(),
        "a new grant needs the portal"
    );
    bed.product.portal.start().unwrap();
    let back = Instant::now();
    let client = &bed.product.client;
    while client.run_with_dns(&name).is_err() {
        assert!(back.elapsed() < Duration::from_secs(30));
    }
    let took = back.elapsed();
    assert!(took <= Duration::from_secs(5), "new access took {took:?}");
    download.goes_on(Duration::from_secs(1)).unwrap();
    let tally = stream.finish();
    assert!(tally.sent > 1_000, "{tally:?}");
    let overrun = frames_that_met_a_full_queue(&bed);
    assert!(
        tally.missing.len() as u64 <= overrun,
        "lost: {tally:?}, of which a busy machine may account for {overrun}"
    );
}

/// Packets that the kernel dropped because a program did not get the processor in time to read
/// them. They have nothing to do with the portal.
fn frames_that_met_a_full_queue(bed: &Bed) -> u64 {
    let gateway = &bed.product.gateways[0].namespace;
    let client = &bed.product.client.namespace;
    let ends = [(gateway, "culvert-gw0"), (client, "culvert0")];
    let dropped = ends.map(|(namespace, interface)| -> u64 {
        let counter = format!("cat /sys/class/net/{interface}/statistics/tx_dropped");
        namespace.shell(&counter).unwrap().trim().parse().unwrap()
    });
    dropped.iter().sum()
}
