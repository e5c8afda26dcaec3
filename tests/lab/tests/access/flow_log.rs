//! The flow log of what a real client carries through a real gateway: who, what, where, how much, and
//! neither less nor twice. And the access log of a client that is not let in.

use crate::common::{Bed, ECHO_PORT, OTHER_PORT, SOON, WEB_PORT, access, access_with};
use culvert_lab::product::{PRIVATE_OTHER_V4, PRIVATE_V4, Product};
use culvert_lab::{culvert_program, wait_until};
use serde_json::Value;

/// Of a download that is looked for; pages of the web server are shorter.
const DOWNLOAD_BYTES: u64 = 400_000;

/// The flow log as JSON lines, the newest first.
fn flows(bed: &Bed) -> Vec<Value> {
    let text = bed.product.portal.admin("log flows --json").unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn to_port(bed: &Bed, port: u16) -> Vec<Value> {
    let mut flows = flows(bed);
    flows.retain(|flow| flow["port"] == port);
    flows
}

fn number(flow: &Value, field: &str) -> u64 {
    flow[field].as_u64().unwrap()
}

fn downloads(bed: &Bed) -> Vec<Value> {
    let mut flows = to_port(bed, WEB_PORT);
    flows.retain(|flow| number(flow, "received_bytes") > DOWNLOAD_BYTES);
    flows
}

/// A download from its beginning until its server knows that it has ended, and how many bytes came.
fn download(bed: &Bed) -> u64 {
    let download = bed.download().unwrap();
    wait_until("the download", SOON, || download.bytes() > DOWNLOAD_BYTES).unwrap();
    download.end().unwrap();
    let bytes = download.bytes();
    drop(download);
    let open = format!("ss -Htn state established sport = :{WEB_PORT}");
    wait_until("the end of the download", SOON, || {
        bed.product.private.run(&open).unwrap().is_empty()
    })
    .unwrap();
    bytes
}

#[test]
fn a_download_and_datagrams_are_in_the_flow_log_once_and_only_while_it_is_on() {
    let mut product = Product::networks(1).unwrap();
    product.declare(&access()).unwrap();
    let switch = |product: &Product, to: &str| {
        let set = format!("retention set --flow-log {to}");
        product.portal.admin(&set).unwrap();
    };
    // A gateway hears of it when it connects, before anybody may use it.
    switch(&product, "on");
    product.enrol().unwrap();
    let mut bed = Bed::around(product).unwrap();
    // Somebody follows it meanwhile.
    let portal = &bed.product.portal;
    let follow = format!(
        "env HOME={} {} admin log flows --follow --json",
        portal.home().display(),
        culvert_program().unwrap().display()
    );
    let mut follower = portal.namespace.spawn(&follow).unwrap();

    let stream = bed.numbered_stream().unwrap();
    let bytes = download(&bed);
    wait_until("answers", SOON, || stream.answers() >= 20).unwrap();
    let tally = stream.finish();
    // A gateway that ends tells of its flows before it is gone; a closed one waits half a minute otherwise.
    bed.product.gateways[0].stop().unwrap();
    let (tcp, udp) = (downloads(&bed), to_port(&bed, ECHO_PORT));
    assert_eq!((tcp.len(), udp.len()), (1, 1), "{:?}", flows(&bed));
    let (tcp, udp) = (&tcp[0], &udp[0]);
    follower
        .wait_for_output("\"protocol\":\"udp\"", SOON)
        .unwrap();
    for (flow, protocol, end) in [(tcp, "tcp", "closed"), (udp, "udp", "stopped")] {
        assert_eq!(flow["protocol"], protocol, "{flow}");
        assert_eq!(flow["end"], end, "{flow}");
        assert_eq!(flow["address"], PRIVATE_V4, "{flow}");
        assert!(flow["at"].as_str() > flow["started"].as_str(), "{flow}");
        assert!(flow["application"].is_null(), "{flow}");
        assert_eq!(flow["path"], "direct", "{flow}");
    }
    // The bytes that the client read, with headers, and those that were in flight when it stopped.
    let received = number(tcp, "received_bytes");
    assert!(received > bytes && received < 3 * bytes, "{bytes}: {tcp}");
    assert!(number(tcp, "sent_bytes") > 0 && number(tcp, "sent_packets") > 2);
    let answered = tally.sent - tally.missing.len() as u64;
    assert!(answered >= 20);
    assert!(number(udp, "sent_packets") <= tally.sent, "{udp}");
    assert!(number(udp, "received_packets") >= answered, "{udp}");
    assert!(number(udp, "sent_bytes") > 28 * answered, "{udp}");
    // With names, as people read it.
    let csv = bed
        .product
        .portal
        .admin("log flows --csv --search 7")
        .unwrap();
    let line = csv.lines().find(|line| line.contains(",udp,")).unwrap();
    let gateway = &bed.product.gateways[0].name;
    assert!(
        line.contains(&format!(",laptop,laptop,web,{gateway},udp,{PRIVATE_V4},7,")),
        "{line}"
    );

    // The portal and the gateway restart: none is lost, none is there twice.
    bed.product.portal.kill().unwrap();
    follower
        .wait_for_output("going on once it answers", SOON)
        .unwrap();
    bed.product.portal.start().unwrap();
    bed.product.gateways[0].start().unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    download(&bed);
    bed.product.gateways[0].stop().unwrap();
    assert_eq!(
        (downloads(&bed).len(), to_port(&bed, ECHO_PORT).len()),
        (2, 1)
    );

    // Off, nothing is recorded.
    switch(&bed.product, "off");
    bed.product.gateways[0].start().unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    download(&bed);
    bed.product.gateways[0].stop().unwrap();
    let count = flows(&bed).len();
    assert_eq!(downloads(&bed).len(), 2);
    // On again, what was carried meanwhile stays unknown.
    switch(&bed.product, "on");
    bed.product.gateways[0].start().unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    bed.product.gateways[0].stop().unwrap();
    let all = flows(&bed);
    assert!(all.len() > count, "{all:?}");
    assert_eq!(
        (downloads(&bed).len(), to_port(&bed, ECHO_PORT).len()),
        (2, 1)
    );

    // A log reader that followed over all of that saw each of them once.
    let newest = number(&all[0], "seq");
    follower
        .wait_for_output(&format!("\"seq\":{newest},"), SOON)
        .unwrap();
    let said = follower.output();
    assert!(said.contains("the portal answers again"), "{said}");
    let seen = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let seen: Vec<u64> = seen.map(|flow: Value| number(&flow, "seq")).collect();
    assert_eq!(seen, (1..=newest).collect::<Vec<_>>());
    follower.stop().unwrap();
}

#[test]
fn a_client_that_is_denied_is_in_the_access_log_with_the_reason() {
    let bed = Bed::with_access(1, &access_with("verified = true")).unwrap();
    assert!(!bed.reaches(PRIVATE_V4, WEB_PORT));
    assert!(!bed.reaches(PRIVATE_OTHER_V4, OTHER_PORT));
    let portal = &bed.product.portal;
    let denied = "log access --decision denied --client laptop --search VERIFIED --since today";
    let mut said = String::new();
    wait_until("the denial in the log", SOON, || {
        said = portal.admin(&format!("{denied} --json")).unwrap();
        !said.is_empty()
    })
    .unwrap();
    let entry: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(entry["decision"], "denied");
    assert!(
        entry["gateway"].is_null() && entry["grant"].is_null(),
        "{entry}"
    );
    let table = portal.admin(denied).unwrap();
    assert!(table.contains("laptop") && table.contains("web"), "{table}");
    let granted = "log access --decision granted --json";
    assert_eq!(portal.admin(granted).unwrap(), "");
    assert_eq!(
        portal.admin("log flows --json").unwrap(),
        "",
        "nor was anything carried"
    );
}
