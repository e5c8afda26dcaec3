//! Machines on which something is closed or missing: each has one line, and no wrong one.

use crate::common::{Bed, SOON, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4, Product, RecordKind};
use culvert_lab::wait_until;

/// The lines below `PROBLEMS` of the client's status.
fn problems(bed: &Bed) -> Vec<String> {
    lines(&bed.product.client.status().unwrap())
}

/// The same of the gateway's.
fn problems_of_gateway(bed: &Bed) -> Vec<String> {
    lines(&bed.product.gateways[0].status().unwrap())
}

fn lines(status: &serde_json::Value) -> Vec<String> {
    let problems = status["problems"].as_array().unwrap();
    let texts = problems.iter().filter_map(|problem| problem.as_str());
    texts.map(str::to_owned).collect()
}

/// A bed whose gateway's machine was prepared by one script, and its program's files by another.
fn with_gateway(prepared: &str, files: &str) -> anyhow::Result<Bed> {
    let mut product = Product::networks(1)?;
    product.gateways[0].namespace.shell(prepared)?;
    product.gateways[0].machine = files.to_owned();
    product.begin(&access())?;
    Bed::around(product)
}

/// The last line of a gateway that does not start.
fn why_it_does_not_start(prepared: &str, files: &str) -> String {
    let error = with_gateway(prepared, files).err().expect("it has started");
    let said = format!("{error:#}");
    said.lines().last().unwrap_or_default().to_owned()
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
    let has_one_problem = || {
        wait_until("one problem", SOON, || {
            let problems = problems(&bed);
            problems.len() == 1 && problems[0].contains("IPv6 is off on culvert0")
        })
        .unwrap_or_else(|error| panic!("{error}: {:?}", problems(&bed)));
    };
    let has_none = || {
        wait_until("no problem", SOON, || problems(&bed).is_empty())
            .unwrap_or_else(|error| panic!("{error}: {:?}", problems(&bed)));
        comes_to_reach_by_ipv6(&bed);
    };
    has_one_problem();
    // It may be switched while the client runs, on all interfaces or on that of the tunnel; where it is off on another
    // one, nothing is lost.
    let switch = |interface: &str, off: u8| {
        let line = format!("sysctl -q -w net.ipv6.conf.{interface}.disable_ipv6={off}");
        client.namespace.run(&line).unwrap();
    };
    switch("default", 0);
    switch("all", 0);
    has_none();
    switch("culvert0", 1);
    has_one_problem();
    switch("culvert0", 0);
    has_none();
    switch("all", 1);
    has_one_problem();
    switch("all", 0);
    has_none();
    for interface in ["veth14", "lo", "default"] {
        switch(interface, 1);
        has_none();
    }
}

/// A program that gives another one the kernel of a machine that has no IPv6 at all.
const WITHOUT_IPV6: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/access/without_ipv6.c");

/// A script of a machine whose kernel has no IPv6: no socket of it opens, and it has no switch.
fn without_ipv6(product: &Product, name: &str) -> String {
    let program = product.dir().join(name);
    let program = program.display();
    culvert_lab::run(&format!("cc -O1 -o {program} {WITHOUT_IPV6}")).unwrap();
    // The shell begins anew below the program: `sh -ec SCRIPT`.
    format!(
        "if [ -z \"${{WITHOUT_IPV6:-}}\" ]; then export WITHOUT_IPV6=1; \
         exec {program} sh -ec \"$(tr '\\0' '\\n' </proc/$$/cmdline | tail -n +3)\"; fi
         mount -t tmpfs none /proc/sys/net/ipv6"
    )
}

#[test]
fn where_no_socket_of_ipv6_opens_and_its_switches_are_hidden_one_line_says_that_it_is_off() {
    let mut product = Product::networks(1).unwrap();
    let off = "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
    product.client.namespace.shell(off).unwrap();
    product.client.machine = without_ipv6(&product, "client-without-ipv6");
    product.gateways[0].namespace.shell(off).unwrap();
    product.gateways[0].machine = without_ipv6(&product, "gateway-without-ipv6");
    product.begin(&access()).unwrap();
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let line = format!("curl -4 -fsS -m 8 http://{PRIVATE_NAME}/");
    assert!(
        bed.product.client.namespace.run(&line).is_err(),
        "the name is known outside"
    );
    let is_about_ipv6 = |problem: &String| problem.contains("IPv6 is off on ");
    let client = problems(&bed);
    assert!(client.len() == 1 && is_about_ipv6(&client[0]), "{client:?}");
    // A gateway that can't see whether it forwards says that too.
    let (ipv6, others): (Vec<_>, Vec<_>) = problems_of_gateway(&bed)
        .into_iter()
        .partition(is_about_ipv6);
    assert_eq!((ipv6.len(), others.len()), (1, 1), "{ipv6:?} {others:?}");
    assert!(others[0].contains("/proc/sys is hidden"), "{others:?}");
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

#[test]
fn a_gateway_without_ipv6_says_so_in_one_line_and_names_lead_where_it_can_send() {
    let off = "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
    let bed = with_gateway(off, "").unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let client = &bed.product.client;
    let answer = client.ask(PRIVATE_NAME, RecordKind::Aaaa).unwrap();
    assert_eq!((answer.code, answer.addresses), (0, vec![]));
    let line = format!("curl -fsS -m 8 http://{PRIVATE_NAME}/");
    assert!(client.run_with_dns(&line).is_ok());
    let problems = problems_of_gateway(&bed);
    assert!(
        problems.len() == 1 && problems[0].contains("IPv6 is off on culvert-gw0"),
        "{problems:?}"
    );
}

#[test]
fn a_gateway_works_where_proc_sys_is_read_only_and_has_no_problem() {
    let bed = with_gateway("true", "mount --bind -o ro /proc/sys /proc/sys").unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    comes_to_reach_by_ipv6(&bed);
    assert_eq!(problems_of_gateway(&bed), Vec::<String>::new());
}

#[test]
fn a_gateway_works_where_the_switches_are_hidden_and_says_that_it_can_not_see_them() {
    let bed = with_gateway("true", "mount -t tmpfs none /proc/sys").unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    comes_to_reach_by_ipv6(&bed);
    let problems = problems_of_gateway(&bed);
    assert!(
        problems.len() == 1 && problems[0].contains("/proc/sys is hidden"),
        "{problems:?}"
    );
}

#[test]
fn a_gateway_that_can_not_work_says_why_and_what_to_do() {
    let said = why_it_does_not_start("sysctl -q -w net.ipv4.ip_forward=0", "");
    assert!(said.contains("IPv4 forwarding is off"), "{said}");
    assert!(said.contains("`sysctl -w net.ipv4.ip_forward=1`"), "{said}");
    let said = why_it_does_not_start("true", "mount -t tmpfs none /usr/sbin");
    assert!(said.contains("nft is not installed"), "{said}");
}
