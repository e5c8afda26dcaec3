//! Access that ended leaves a client neither by the tunnel nor past it, unless the account says so.

use crate::common::{Bed, SOON, WEB_PORT};
use culvert_lab::product::{Client, PRIVATE_NAME, PRIVATE_V4, RecordKind};
use culvert_lab::wait_until;

/// Counts packets for the private network that leave the client's machine by the network.
const WATCH: &str = "nft 'add table inet seen; add chain inet seen out { type filter hook postrouting priority 300; }; \
                     add rule inet seen out oifname != { \"lo\", \"culvert0\" } ip daddr 10.50.0.10 counter'";

/// The answer of a resolver that does not say (RFC 1035 §4.1.1).
const REFUSED: u8 = 5;

/// The packets for the private network that have left past the tunnel.
fn seen_outside(client: &Client) -> u64 {
    let listing = client.run("nft list table inet seen").unwrap();
    let (_, after) = listing.split_once("counter packets ").unwrap();
    after.split_whitespace().next().unwrap().parse().unwrap()
}

/// The answer to a ping of the private network.
fn ping(client: &Client) -> String {
    let line = format!("ping -c 1 -W 2 {PRIVATE_V4}");
    let output = client.namespace.outcome(&line).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refuses(client: &Client) -> bool {
    ping(client).contains("Packet filtered")
}

/// True if the way to the private network is the tunnel, whether or not it is refused there.
fn leads_into_the_tunnel(client: &Client) -> bool {
    let way = client.run(&format!("ip route get {PRIVATE_V4}"));
    way.is_ok_and(|way| way.contains("culvert0"))
}

#[test]
fn packets_to_where_access_ended_are_refused_and_leave_in_the_clear_only_if_the_account_says_so() {
    let bed = Bed::new(1).unwrap();
    let (client, portal) = (&bed.product.client, &bed.product.portal);
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    client.run(WATCH).unwrap();
    for change in ["policy delete staff-web --yes", "resource delete web --yes"] {
        portal.admin(change).unwrap();
        wait_until("packets to be refused", SOON, || refuses(client)).unwrap();
        assert!(!bed.reaches(PRIVATE_V4, WEB_PORT));
    }
    // A name is not asked of the network, where it would have another address.
    portal.admin("policy delete staff-names --yes").unwrap();
    let by_name = format!("curl -fsS -m 4 http://{PRIVATE_NAME}/");
    assert!(client.run_with_dns(&by_name).is_err());
    assert!(leads_into_the_tunnel(client));
    assert_eq!(seen_outside(client), 0);
    let status = client.status().unwrap();
    let counters = status["counters"].as_array().unwrap();
    let ended = counters
        .iter()
        .find(|it| it["name"] == "packets_of_ended_access");
    assert!(
        ended.unwrap()["count"].as_u64().unwrap() > 0,
        "{counters:?}"
    );

    portal.admin("account set --ended-access release").unwrap();
    wait_until("the way of the host", SOON, || {
        !leads_into_the_tunnel(client)
    })
    .unwrap();
    ping(client);
    assert!(seen_outside(client) > 0, "the count counts");
}

#[test]
fn a_revoked_client_sends_nothing_past_the_tunnel_until_it_is_cleaned_up() {
    let mut bed = Bed::new(1).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    bed.product.client.run(WATCH).unwrap();
    bed.product.portal.admin("client revoke laptop").unwrap();
    let process = bed.product.client.process().unwrap();
    process.wait(SOON).unwrap();
    let client = &bed.product.client;
    assert!(!bed.reaches(PRIVATE_V4, WEB_PORT));
    assert_eq!(seen_outside(client), 0);
    let clean_up = format!(
        "{} client cleanup --state-dir {} --status-socket {}",
        culvert_lab::culvert_program().unwrap().display(),
        client.state_dir().display(),
        client.socket().display()
    );
    client.run(&clean_up).unwrap();
    ping(client);
    assert!(seen_outside(client) > 0, "the host is as it was");
}

#[test]
fn what_ended_is_refused_after_the_client_was_killed_too() {
    let mut bed = Bed::new(1).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    let stored = bed.product.client.state_dir().join("destinations.json");
    let is_kept = || std::fs::read_to_string(&stored).is_ok_and(|text| text.contains(PRIVATE_V4));
    wait_until("the client to keep where it leads", SOON, is_kept).unwrap();
    bed.product.client.run(WATCH).unwrap();
    // One ends while the client runs, and the other one while it does not.
    let admin = |bed: &Bed, line: &str| bed.product.portal.admin(line).unwrap();
    admin(&bed, "policy delete staff-web --yes");
    wait_until("packets to be refused", SOON, || {
        refuses(&bed.product.client)
    })
    .unwrap();
    bed.product.client.kill().unwrap();
    ping(&bed.product.client);
    admin(&bed, "policy delete staff-names --yes");
    for _ in 0..2 {
        bed.product.client.start().unwrap();
        let client = &bed.product.client;
        wait_until("packets to be refused", SOON, || refuses(client)).unwrap();
        assert!(leads_into_the_tunnel(client));
        let answer = client.ask(PRIVATE_NAME, RecordKind::A).unwrap();
        assert_eq!(answer.code, REFUSED, "{answer:?}");
        bed.product.client.kill().unwrap();
    }
    ping(&bed.product.client);
    assert_eq!(seen_outside(&bed.product.client), 0);

    bed.product.client.start().unwrap();
    admin(&bed, "account set --ended-access release");
    let client = &bed.product.client;
    wait_until("the way of the host", SOON, || {
        !leads_into_the_tunnel(client)
    })
    .unwrap();
    ping(client);
    assert!(seen_outside(client) > 0, "the count counts");
}
