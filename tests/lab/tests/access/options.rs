//! The effect of a gateway's options.

use crate::common::{Bed, OTHER_PORT, SOON, WEB_PORT, access};
use anyhow::Result;
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4, Product, Server};
use culvert_lab::{Family, Link, LinkShape, Namespace, Subnet, wait_until};
use std::net::IpAddr;
use std::time::Duration;

/// By which the first gateway is on the internet, or whoever stands before it.
const OUTSIDE: Subnet = Subnet(20);
/// Between a router and the gateway behind it, where nothing leads from outside.
const BEHIND: Subnet = Subnet(40);

/// The port that the router forwards: another than the gateway's own.
const FORWARDED_PORT: u16 = 4500;

/// "A name is looked up again every minute", the look-up may take five seconds, and what the client
/// was told may be ten seconds old.
const LOOKED_UP_AGAIN: Duration = Duration::from_secs(75);

/// A router that takes the first gateway's place on the internet, and forwards one UDP port to it.
fn router_before_the_gateway(product: &Product) -> Result<Namespace> {
    let gateway = &product.gateways[0].namespace;
    let outside = format!("veth{}", OUTSIDE.0);
    gateway.run(&format!("ip link del {outside}"))?;
    let router = Namespace::new()?;
    Link::new(&product.internet, &router, OUTSIDE, LinkShape::default())?;
    Link::new(&router, gateway, BEHIND, LinkShape::default())?;
    for (namespace, net) in [(&router, OUTSIDE), (gateway, BEHIND)] {
        let way = net.host(Family::V4, 1);
        namespace.run(&format!("ip route add default via {way}"))?;
    }
    let to = BEHIND.host(Family::V4, 2);
    router.shell(&format!(
        "sysctl -q -w net.ipv4.ip_forward=1; nft 'add table ip nat; \
         add chain ip nat pre {{ type nat hook prerouting priority dstnat; }}; \
         add rule ip nat pre iifname {outside} udp dport {FORWARDED_PORT} dnat to {to}:51820; \
         add chain ip nat post {{ type nat hook postrouting priority srcnat; }}; \
         add rule ip nat post oifname {outside} masquerade'"
    ))?;
    Ok(router)
}

/// Starts the first gateway again, with these arguments.
fn restart_gateway(bed: &mut Bed, arguments: &str) {
    let gateway = &mut bed.product.gateways[0];
    gateway.stop().unwrap();
    arguments.clone_into(&mut gateway.arguments);
    gateway.start().unwrap();
}

/// The endpoint to which the client sends.
fn endpoint(bed: &Bed) -> String {
    let status = bed.product.client.status().unwrap();
    status["gateways"][0]["endpoint"].to_string()
}

#[test]
fn a_gateway_behind_a_router_is_reached_by_its_public_endpoint_alone() {
    let mut product = Product::networks(1).unwrap();
    let _router = router_before_the_gateway(&product).unwrap();
    product.begin(&access()).unwrap();
    let mut bed = Bed::around(product).unwrap();
    assert!(
        !bed.reaches(PRIVATE_V4, WEB_PORT),
        "from outside nothing leads to the gateway's own addresses"
    );
    let outside = bed.product.gateways[0].public_address(Family::V4);
    let public = format!("{outside}:{FORWARDED_PORT}");
    restart_gateway(&mut bed, &format!("--public-endpoint {public}"));
    // It would avoid the gateway for a while.
    bed.product.client.stop().unwrap();
    bed.product.client.start().unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    assert_eq!(endpoint(&bed), format!("\"{public}\""));
    let download = bed.download().unwrap();
    download.goes_on(SOON).unwrap();
}

#[test]
fn a_public_endpoint_by_name_follows_the_router_to_another_address_within_a_minute() {
    const NAME: &str = "gateway.example";
    let mut product = Product::networks(1).unwrap();
    let router = router_before_the_gateway(&product).unwrap();
    let outside = product.gateways[0].public_address(Family::V4);
    product.names.set(NAME, &[outside]);
    product.gateways[0].arguments = format!("--public-endpoint {NAME}:{FORWARDED_PORT}");
    product.begin(&access()).unwrap();
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();

    let moved = OUTSIDE.host(Family::V4, 77);
    let interface = format!("veth{}", OUTSIDE.0);
    router
        .shell(&format!(
            "ip address del {outside}/24 dev {interface}; \
             ip address add {moved}/24 dev {interface}; \
             ip route replace default via {}",
            OUTSIDE.host(Family::V4, 1)
        ))
        .unwrap();
    bed.product.names.set(NAME, &[moved]);
    let public = format!("\"{moved}:{FORWARDED_PORT}\"");
    wait_until("the way by the new address", LOOKED_UP_AGAIN, || {
        bed.reaches(PRIVATE_V4, WEB_PORT) && endpoint(&bed) == public
    })
    .unwrap();
}

/// The client's address as the web server sees it.
fn source(bed: &Bed, family: Family) -> Option<IpAddr> {
    let option = match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    };
    let line = format!("curl {option} -fsS -m 4 http://{PRIVATE_NAME}/");
    let said = bed.product.client.run_with_dns(&line).ok()?;
    let from = said.strip_prefix("you come from ")?.split(' ').next()?;
    from.parse().ok()
}

#[test]
fn a_server_sees_the_gateway_or_with_keep_source_the_client_itself() {
    let mut bed = Bed::new(1).unwrap();
    for family in [Family::V4, Family::V6] {
        let own = bed.product.gateways[0].private_address(family);
        assert_eq!(source(&bed, family), Some(own));
    }
    restart_gateway(&mut bed, "--keep-source");
    // The gateway has forgotten nothing, and the servers do not know the way back.
    for family in [Family::V4, Family::V6] {
        assert_eq!(source(&bed, family), None);
    }
    for (family, clients, status) in [
        (Family::V4, "100.64.0.0/11", "ipv4"),
        (Family::V6, "fd00:2021:1111::/107", "ipv6"),
    ] {
        let gateway = bed.product.gateways[0].private_address(family);
        let route = format!("ip route add {clients} via {gateway}");
        bed.product.private.run(&route).unwrap();
        let own = bed.product.client.status().unwrap()[status].clone();
        let own: IpAddr = own.as_str().unwrap().parse().unwrap();
        wait_until("an answer to the client's own address", SOON, || {
            source(&bed, family) == Some(own)
        })
        .unwrap();
    }
}

#[test]
fn services_of_the_gateways_own_machine_are_reached_with_host_access_alone() {
    let mut product = Product::networks(1).unwrap();
    let gateway = &product.gateways[0];
    let own = gateway.private_address(Family::V4);
    let _servers = [WEB_PORT, OTHER_PORT].map(|port| {
        let server = Server::start(&gateway.namespace, own, port);
        server.unwrap()
    });
    let access = format!(
        r#"{}
[[resource]]
name = "the gateway's machine"
site = "lab"
kind = "address"
address = "{own}"
filters = [{{ protocol = "tcp", ports = [{WEB_PORT}] }}, {{ protocol = "icmp" }}]

[[policy]]
name = "staff-gateway"
group = "staff"
resource = "the gateway's machine"
"#,
        access()
    );
    product.begin(&access).unwrap();
    let mut bed = Bed::around(product).unwrap();
    let own = own.to_string();
    let answers_pings = |bed: &Bed| {
        let ping = format!("ping -n -c 1 -W 3 {own}");
        let outcome = bed.product.client.namespace.outcome(&ping);
        outcome.is_ok_and(|outcome| outcome.status.success())
    };
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT), "what is behind it");
    assert!(!bed.reaches(&own, WEB_PORT), "not itself");
    assert!(!answers_pings(&bed), "not even by a ping");

    restart_gateway(&mut bed, "--host-access");
    bed.comes_to_reach(&own, WEB_PORT).unwrap();
    assert!(answers_pings(&bed));
    assert!(!bed.reaches(&own, OTHER_PORT), "the filters name port 80");
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
}
