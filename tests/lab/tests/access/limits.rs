//! Machines on which something is closed or missing: each has one line, and no wrong one.

use crate::common::{Bed, SOON, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4, Product};
use culvert_lab::wait_until;

/// The lines below `PROBLEMS` of the client's status.
fn problems(bed: &Bed) -> Vec<String> {
    let status = bed.product.client.status().unwrap();
    let problems = status["problems"].as_array().unwrap();
    let texts = problems.iter().filter_map(|problem| problem.as_str());
    texts.map(str::to_owned).collect()
}

/// Waits until the client reaches the resource by name at its IPv6 address in the tunnel.
fn comes_to_reach_by_ipv6(bed: &Bed) {
    let line = format!("curl -6 -fsS -m 8 http://{PRIVATE_NAME}/");
    wait_until("an answer by IPv6", SOON, || {
        bed.product.client.run_with_dns(&line).is_ok()
    })
    .unwrap();
}

/// A bed whose client's machine was prepared by a script.
fn with_machine(prepared: &str) -> Bed {
    let mut product = Product::networks(1).unwrap();
    product.client.namespace.shell(prepared).unwrap();
    product.begin(&access()).unwrap();
    Bed::around(product).unwrap()
}

#[test]
fn where_ipv6_is_off_on_all_interfaces_one_line_says_so_and_resources_are_reached_by_ipv4() {
    let bed = with_machine(
        "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
    );
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let client = &bed.product.client;
    let line = format!("curl -4 -fsS -m 8 http://{PRIVATE_NAME}/");
    assert!(client.run_with_dns(&line).is_ok());
    wait_until("one problem", SOON, || {
        let problems = problems(&bed);
        problems.len() == 1 && problems[0].contains("IPv6 is off on culvert0")
    })
    .unwrap_or_else(|error| panic!("{error}: {:?}", problems(&bed)));
}

#[test]
fn where_proc_sys_is_read_only_the_client_works_and_has_no_problem() {
    let mut product = Product::networks(1).unwrap();
    product.client.machine = "mount --bind -o ro /proc/sys /proc/sys".to_owned();
    product.begin(&access()).unwrap();
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    comes_to_reach_by_ipv6(&bed);
    assert_eq!(problems(&bed), Vec::<String>::new());
}

#[test]
fn where_the_switches_are_hidden_the_client_does_not_say_that_ipv6_is_off() {
    let mut product = Product::networks(1).unwrap();
    product.client.machine = "mount -t tmpfs none /proc/sys".to_owned();
    product.begin(&access()).unwrap();
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    comes_to_reach_by_ipv6(&bed);
    assert_eq!(problems(&bed), Vec::<String>::new());
}

#[test]
fn a_client_without_rules_about_applications_works_where_nft_is_not_installed() {
    let mut product = Product::networks(1).unwrap();
    product.client.machine = "mount -t tmpfs none /usr/sbin".to_owned();
    product.begin(&access()).unwrap();
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    assert_eq!(problems(&bed), Vec::<String>::new());
}
