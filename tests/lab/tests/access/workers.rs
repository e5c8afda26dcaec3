//! Gateway and client with several packet workers each.

use crate::common::{Bed, ECHO_PORT, SECOND, SOON, WEB_PORT, access};
use culvert_lab::product::{
    Download, NumberedStream, PRIVATE_NAME, PRIVATE_V4, Product, RecordKind,
};
use culvert_lab::{Namespace, wait_until};
use std::net::IpAddr;
use std::time::{Duration, Instant};

const WORKERS: usize = 2;

/// Datagrams that leave at once: as many meet each other on the way.
const BURST: u32 = 8;

/// The time for which the flows are watched.
const WATCHED: Duration = Duration::from_secs(6);

/// A bed with two workers at each end of the tunnel, and the echo server reached by name as well.
fn bed() -> Bed {
    let by_name = "address = \"web.corp.example\"\nfilters = [";
    let access = access().replace(
        by_name,
        &format!("{by_name}{{ protocol = \"udp\", ports = [7] }}, "),
    );
    let mut product = Product::networks(1).unwrap();
    let arguments = format!("--workers {WORKERS}");
    product.gateways[0].arguments.clone_from(&arguments);
    product.client.arguments = arguments;
    product.begin(&access).unwrap();
    keep_order(&product);
    Bed::around(product).unwrap()
}

/// Makes links keep the order of packets: what is out of order then is not their doing.
fn keep_order(product: &Product) {
    let gateway = &product.gateways[0].namespace;
    let client = &product.client.namespace;
    let inner = [&product.nat, &product.internet, &product.private];
    for namespace in inner.into_iter().chain([gateway, client]) {
        // One processor for all that arrives, whoever sent it.
        let one =
            "for queue in /sys/class/net/veth*/queues/rx-0/rps_cpus; do echo 1 > $queue; done";
        namespace.shell(one).unwrap();
    }
}

/// The number of threads of a process that carry packets.
fn workers(namespace: &Namespace, process_id: u32) -> usize {
    let names = format!("cat /proc/{process_id}/task/*/comm");
    let names = namespace.shell(&names).unwrap();
    let workers = names.lines().filter(|it| it.starts_with("culvert-road"));
    workers.count()
}

/// The address that stands for the web server's name.
fn named(bed: &Bed) -> IpAddr {
    let answer = bed.product.client.ask(PRIVATE_NAME, RecordKind::A).unwrap();
    answer.addresses[0]
}

#[test]
fn flows_through_two_workers_on_both_sides_go_through_and_none_is_reordered() {
    let mut bed = bed();
    let by_address: IpAddr = PRIVATE_V4.parse().unwrap();
    let by_name = named(&bed);
    let client = bed.product.client.namespace.clone();
    let targets = [by_address, by_name, by_address, by_name];
    let downloads = targets.map(|target| Download::start(&client, target, WEB_PORT).unwrap());
    let streams = targets
        .map(|target| NumberedStream::start_bursts(&client, target, ECHO_PORT, BURST).unwrap());
    std::thread::sleep(WATCHED);

    for download in &downloads {
        download.goes_on(SECOND).unwrap();
        let gap = download.longest_gap();
        assert!(gap < Duration::from_secs(2), "nothing came for {gap:?}");
    }
    states_tell(&bed, downloads.len() + streams.len());
    for stream in streams {
        let tally = stream.finish();
        let missing = tally.missing.len() as u64;
        assert_eq!(tally.overtaken, 0, "of {} datagrams", tally.sent);
        assert!(tally.sent > 1_000, "only {} were sent", tally.sent);
        // Bursts meet full queues where the programs wait for the processor: only few, if any.
        assert!(missing * 4 < tally.sent, "{missing} of {}", tally.sent);
    }
    let ids = [
        bed.product.client.process().unwrap().id(),
        bed.product.gateways[0].process().unwrap().id(),
    ];
    assert_eq!(ids.map(|id| workers(&client, id)), [WORKERS; 2]);
}

/// Checks what both ends say of themselves while so many flows pass.
fn states_tell(bed: &Bed, flows: usize) {
    let gateway = bed.product.gateways[0].status().unwrap();
    assert_eq!(gateway["ready"], true);
    assert_eq!(gateway["client_count"], 1);
    assert_eq!(gateway["grant_count"], 2);
    assert_eq!(gateway["name_count"], 1);
    assert!(gateway["load"]["flows"].as_u64().unwrap() >= flows as u64);
    let client_there = &gateway["clients"][0];
    let client = bed.product.client.status().unwrap();
    assert_eq!(client_there["id"], client["client"]);
    let gateway_there = &client["gateways"][0];
    assert_eq!(gateway_there["id"], gateway["gateway"]);
    assert_eq!(gateway_there["cipher"], client_there["cipher"]);
    assert_eq!(gateway_there["path"], "direct");
    for resource in client["resources"].as_array().unwrap() {
        assert_eq!(resource["state"], "granted", "{resource}");
        assert_eq!(resource["gateway"], gateway["gateway"]);
    }
    // Downloads of 3 MB/s each; an end sends what the other one receives.
    for (end, way) in [(client_there, "tx"), (gateway_there, "rx")] {
        let bytes = end[format!("{way}_bytes")].as_u64().unwrap();
        assert!(bytes > 1_000_000, "{end}");
    }
    assert!(gateway["problems"].as_array().unwrap().is_empty());
    assert!(client["problems"].as_array().unwrap().is_empty());
    for drop in gateway["drops"].as_array().unwrap() {
        // Copies of one initiation on several ways, and what a host says of itself on any link.
        let expected = ["replayed_initiation", "icmp_type"];
        let reason = drop["reason"].as_str().unwrap();
        assert!(expected.contains(&reason), "{drop}");
    }
}

#[test]
fn with_two_workers_a_deleted_policy_cuts_all_flows_within_a_second() {
    let bed = bed();
    let downloads = [(); 4].map(|()| bed.download().unwrap());
    let stream = bed.numbered_stream().unwrap();
    bed.product
        .portal
        .admin("policy delete staff-web --yes")
        .unwrap();
    // The change was committed before the command ended.
    let committed = Instant::now();
    for download in &downloads {
        let cut = download.cut_after(committed).unwrap();
        assert!(cut <= SECOND, "bytes came for another {cut:?}");
    }
    let answers = stream.answers();
    assert!(stream.goes_on(SECOND).is_err(), "after {answers} answers");
    // Access that another policy gives continues.
    let by_name = named(&bed);
    wait_until("the name", SOON, || {
        Download::start(&bed.product.client.namespace, by_name, WEB_PORT).is_ok()
    })
    .unwrap();
}
