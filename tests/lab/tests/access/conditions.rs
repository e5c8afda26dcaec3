//! Access under conditions, and what happens when they end.

use crate::common::{Bed, SECOND, WEB_PORT, access_with};
use crate::country_file::country_file;
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::wait_until;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A running download has been seen by then, on a machine that compiles as well.
const LEAD_S: u64 = 5;

/// A zone that is an hour and three quarters of one apart from every clock that may be taken for it.
const ZONE: &str = "Asia/Kathmandu";
const ZONE_AHEAD_S: u64 = 5 * 3600 + 45 * 60;

const MINUTE_S: u64 = 60;
const DAY_S: u64 = 24 * 3600;

fn unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

/// Checks that a download goes on until an instant and stops within a second of it.
fn cuts_at(bed: &Bed, end_unix_s: u64) {
    let download = bed.download().unwrap();
    let end = UNIX_EPOCH + Duration::from_secs(end_unix_s);
    let ahead = end.duration_since(SystemTime::now());
    let at = Instant::now() + ahead.expect("the download began before the end");
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
    let silent = download.silent_for();
    assert!(silent < SECOND, "nothing has come for {silent:?}");
    let cut = download.cut_after(at).unwrap();
    assert!(cut <= SECOND, "bytes came for another {cut:?}");
    assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "it is over");
}

#[test]
fn a_policy_that_expires_cuts_a_running_download_within_a_second() {
    let bed = Bed::new(1).unwrap();
    let end_unix_s = unix_s() + LEAD_S;
    let end = culvert_lab::run(&format!("date -u -d @{end_unix_s} +%Y-%m-%dT%H:%M:%SZ")).unwrap();
    let access = access_with(&format!("expires = {}", end.trim()));
    bed.product.portal.apply(&access).unwrap();
    cuts_at(&bed, end_unix_s);
}

#[test]
fn a_time_window_that_ends_cuts_a_running_download_within_a_second() {
    let bed = Bed::new(1).unwrap();
    // Windows end with a minute.
    let end_unix_s = (unix_s() + LEAD_S).next_multiple_of(MINUTE_S);
    let clock = |unix_s: u64| {
        let minutes = (unix_s + ZONE_AHEAD_S) % DAY_S / MINUTE_S;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    };
    let (from, until) = (clock(end_unix_s - 10 * MINUTE_S), clock(end_unix_s));
    let access = access_with(&format!("time = \"daily {from}-{until} {ZONE}\""));
    bed.product.portal.apply(&access).unwrap();
    cuts_at(&bed, end_unix_s);
}

#[test]
fn a_window_by_the_clocks_of_another_zone_is_closed() {
    // The time of day in the zone now, stated as if the zone were Greenwich.
    let minutes = (unix_s() + ZONE_AHEAD_S) % DAY_S / MINUTE_S;
    let clock = |minutes: u64| format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60);
    let (from, until) = (clock(minutes + DAY_S / 60 - 30), clock(minutes + 30));
    let window = |zone: &str| access_with(&format!("time = \"daily {from}-{until} {zone}\""));
    let bed = Bed::with_access(1, &window("Etc/UTC")).unwrap();
    assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "{from}-{until} in UTC");
    bed.product.portal.apply(&window(ZONE)).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
}

#[test]
fn a_country_counts_by_the_address_that_the_portal_sees() {
    let mut product = Product::networks(1).unwrap();
    let file = product.dir().join("countries.mmdb");
    // The client's router has 10.200.13.2, and later another address.
    std::fs::write(&file, country_file([10, 200, 13, 2], 32, "NL")).unwrap();
    product.portal.arguments = format!("--geoip {}", file.display());
    product.begin(&access_with("country = [\"NL\"]")).unwrap();
    let bed = Bed::around(product).unwrap();
    assert!(
        bed.reaches(PRIVATE_V4, WEB_PORT),
        "it is in the Netherlands"
    );

    let portal = &bed.product.portal;
    portal.apply(&access_with("country = [\"DE\"]")).unwrap();
    assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "it is not in Germany");
    let explained = portal.admin_outcome("explain --client laptop --resource web");
    let explained = explained.unwrap();
    assert_eq!(explained.status.code(), Some(5), "{explained:?}");

    portal.apply(&access_with("country = [\"NL\"]")).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let download = bed.download().unwrap();
    // The router gets an address of no known country, and the client a session from there.
    let router = &bed.product.nat;
    router
        .shell(
            "ip address del 10.200.13.2/24 dev veth13 && \
             ip address add 10.200.13.3/24 dev veth13 && \
             ip route replace default via 10.200.13.1",
        )
        .unwrap();
    drop(download);
    // The portal hears of it as the client notices that its session is dead, and begins another.
    wait_until("nobody knows where it is", Duration::from_secs(40), || {
        !bed.reaches(PRIVATE_V4, WEB_PORT)
    })
    .unwrap();
    let denied = bed
        .product
        .portal
        .admin_outcome("explain --client laptop --resource web");
    assert_eq!(denied.unwrap().status.code(), Some(5));
}
