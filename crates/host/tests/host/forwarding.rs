//! Forwarding: required, turned on, left off.

use culvert_host::{
    Family, Forwarding, HostError, enable_forwarding, forwarding, require_forwarding,
};
use culvert_lab::{Link, LinkShape, Namespace, Subnet};

use crate::support::{inside, namespace, run, shell};

#[test]
fn forwarding_is_required_with_the_command_that_turns_it_on() {
    let namespace = namespace();
    for family in [Family::V4, Family::V6] {
        inside(&namespace, async || {
            assert_eq!(forwarding(family)?, Forwarding::Off);
            let error = require_forwarding(family).expect_err("it is off");
            let text = error.to_string();
            let (_, fix) = text.split_once('`').expect("a command");
            let (fix, _) = fix.split_once('`').expect("a command");
            assert!(text.contains("--enable-forwarding"), "{text}");
            shell(fix)?;
            require_forwarding(family)?;
            assert!(!enable_forwarding(family)?, "it was on");
            shell(&fix.replace("=1", "=0"))?;
            assert!(enable_forwarding(family)?, "it was off");
            Ok(require_forwarding(family)?)
        });
    }
}

#[test]
fn ipv6_forwarding_stays_off_where_it_would_cost_the_default_route() {
    let (host, router) = (namespace(), namespace());
    let link = Link::new(&host, &router, Subnet(1), LinkShape::default()).expect("a link");
    let interface = &link.interface;
    run(
        &host,
        &format!("sysctl -q -w net.ipv6.conf.{interface}.accept_ra=1"),
    );
    let default = || run(&host, "ip -6 route show default");
    culvert_lab::wait_until(
        "the default route",
        std::time::Duration::from_secs(20),
        || {
            advertise(&router, interface);
            default().contains("proto ra")
        },
    )
    .expect("the host heeds the router");
    inside(&host, async || {
        let error = enable_forwarding(Family::V6).expect_err("it would lose its route");
        assert!(
            matches!(error, HostError::AdvertisementsLost { .. }),
            "{error}"
        );
        assert_eq!(forwarding(Family::V6)?, Forwarding::Off);
        let text = error.to_string();
        let fix = text.split('`').nth(1).expect("a command");
        shell(fix)?;
        assert!(enable_forwarding(Family::V6)?);
        Ok(())
    });
    assert!(default().contains("proto ra"), "the route is still there");
}

/// Sends a router advertisement (RFC 4861 §4.2) on the interface: "use me for half an hour".
fn advertise(router: &Namespace, interface: &str) {
    use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sockopt};
    let sent = router.inside(|| {
        let icmp = Some(ipproto::ICMPV6);
        let socket = rustix::net::socket(AddressFamily::INET6, SocketType::RAW, icmp)?;
        sockopt::set_ipv6_multicast_hops(&socket, 255)?;
        let index = rustix::net::netdevice::name_to_index(&socket, interface)?;
        let all_nodes = std::net::SocketAddrV6::new("ff02::1".parse()?, 0, 0, index);
        // Type 134, code 0, checksum by the kernel, hop limit 64, no flags, lifetime 1800 s.
        let message = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        // As long as the interface has no usable link-local address this fails, and is tried again.
        let _sent = rustix::net::sendto(&socket, &message, SendFlags::empty(), &all_nodes);
        Ok(())
    });
    sent.expect("raw sockets are for root");
}
