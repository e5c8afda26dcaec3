//! Gateways that fall silent or die while they carry flows.

use crate::common::{Bed, SOON, WEB_PORT};
use culvert_lab::product::{Gateway, PRIVATE_V4};
use culvert_lab::wait_until;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// "within five seconds if it fell silent"
const TAKEN_OVER: Duration = Duration::from_secs(5);

/// The limit of one attempt to connect: the next attempt is a new packet.
const ATTEMPT: Duration = Duration::from_millis(300);

/// Drops whatever comes to the gateway, leaves it or would pass it. Its sockets stay as they are.
const SILENCE: &str = "add table inet silence; \
     add chain inet silence in { type filter hook prerouting priority -400; policy drop; }; \
     add chain inet silence out { type filter hook output priority -400; policy drop; }";

/// Makes the gateway that carries a download and numbered datagrams fail, and checks that new
/// connections and the datagrams go on through the other one. Returns which one failed.
fn is_taken_over(bed: &mut Bed, fail: impl FnOnce(&mut Gateway)) -> usize {
    let stream = bed.numbered_stream().unwrap();
    let _download = bed.download().unwrap();
    let failing = bed.serving();
    fail(&mut bed.product.gateways[failing]);
    let at = Instant::now();
    while !connects(bed) {
        assert!(at.elapsed() < 4 * TAKEN_OVER, "nobody took over");
    }
    let connected = at.elapsed();
    let way = bed.way_of(&bed.product.client, SOON).unwrap();
    assert_ne!(way, failing);
    assert!(
        connected <= TAKEN_OVER,
        "a new connection took {connected:?}"
    );
    stream.goes_on(TAKEN_OVER).unwrap();
    let gap = stream.longest_gap();
    assert!(gap <= TAKEN_OVER, "no datagram came back for {gap:?}");
    assert_eq!(bed.serving(), way);
    failing
}

/// True if the web server accepts a new connection of the client at once.
fn connects(bed: &Bed) -> bool {
    let target: IpAddr = PRIVATE_V4.parse().unwrap();
    let target = SocketAddr::new(target, WEB_PORT);
    let attempt = || Ok(TcpStream::connect_timeout(&target, ATTEMPT)?);
    bed.product.client.namespace.inside(attempt).is_ok()
}

/// True if the client noticed it by itself.
fn client_noticed(bed: &Bed) -> bool {
    let said = bed.product.client.output();
    said.contains("a gateway does not answer")
}

#[test]
fn a_gateway_whose_packets_are_all_dropped_under_load_is_taken_over_within_five_seconds() {
    let mut bed = Bed::new(2).unwrap();
    let silent = is_taken_over(&mut bed, |gateway| {
        let silence = format!("nft '{SILENCE}'");
        gateway.namespace.shell(&silence).unwrap();
    });
    assert!(client_noticed(&bed), "nobody told the client");
    let gateways = &mut bed.product.gateways;
    assert!(gateways[silent].process().unwrap().is_running().unwrap());

    // It is heard again, by the portal as well, and then the other one dies.
    let heard_again = "nft delete table inet silence";
    gateways[silent].namespace.run(heard_again).unwrap();
    wait_until("the silent one to be connected", SOON, || {
        let status = gateways[silent].status();
        status.is_ok_and(|status| status["portal"]["state"] == "connected")
    })
    .unwrap();
    gateways[1 - silent].kill().unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    assert_eq!(bed.serving(), silent);
}

#[test]
fn a_gateway_whose_link_goes_down_under_load_is_taken_over_within_five_seconds() {
    let mut bed = Bed::new(2).unwrap();
    is_taken_over(&mut bed, |gateway| {
        let down = format!("ip link set {} down", gateway.public_interface());
        gateway.namespace.run(&down).unwrap();
    });
    assert!(client_noticed(&bed), "nobody told the client");
}

#[test]
fn a_gateway_that_is_killed_under_load_is_taken_over_within_five_seconds() {
    let mut bed = Bed::new(2).unwrap();
    is_taken_over(&mut bed, |gateway| gateway.kill().unwrap());
}
