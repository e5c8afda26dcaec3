//! Kinds of packets that a hostile gateway may send to a client, each with the reason for which the client drops it.

use crate::packets::{
    ACK, FIN, RST, SYN, echo, fragments, icmp, other, other_with, tcp, tcp_at, tcp_with, udp,
    udp_with, unreachable, with_extension, with_options,
};

/// One kind of packet.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Stage and reason of the counter.
    pub(crate) reason: &'static str,
    pub(crate) packet: Vec<u8>,
}

/// The addresses and ports by which the packets are told apart.
pub(crate) struct Ends {
    /// The client's own in the tunnel.
    pub(crate) own_v4: String,
    pub(crate) own_v6: String,
    /// The client's machine in its own network, and the router there.
    pub(crate) lan: String,
    pub(crate) router: String,
    /// The portal, with which the client speaks outside of the tunnel.
    pub(crate) portal: String,
    /// The resource, which lies behind the gateway.
    pub(crate) web: &'static str,
    pub(crate) web_v6: &'static str,
    /// An address behind the gateway of which the client has no grant.
    pub(crate) other: &'static str,
    /// The client's port of its connection to port 80 of the resource, and of its datagrams to port 7.
    pub(crate) tcp_port: u16,
    pub(crate) udp_port: u16,
    /// Ports at which the client's machine listens, of both families.
    pub(crate) tcp_listener: u16,
    pub(crate) udp_listener: u16,
}

const NOT_OPENED: &str = "gate not_opened";
const NOT_A_FLOW: &str = "gate not_a_flow";
const ICMP_TYPE: &str = "gate icmp_type";
const FRAGMENT: &str = "gate fragment";
const MALFORMED: &str = "gate malformed";
const HEADER_CHAIN: &str = "gate header_chain";
const SOURCE_ROUTED: &str = "gate source_routed";
const FOREIGN_DESTINATION: &str = "gate foreign_destination";
const INNER_MALFORMED: &str = "inner malformed";
const SOURCE: &str = "inner source_not_allowed";
const OTHER_GATEWAY: &str = "gate other_gateway";

fn kind(name: &'static str, reason: &'static str, packet: Vec<u8>) -> Kind {
    Kind {
        name,
        reason,
        packet,
    }
}

/// All kinds.
pub(crate) fn kinds(ends: &Ends) -> Vec<Kind> {
    let groups = [
        beginnings(ends),
        probes(ends),
        errors_and_links(ends),
        parts(ends),
        sources(ends),
        destinations(ends),
        headers(ends),
    ];
    groups.into_iter().flatten().collect()
}

/// Packets about the datagrams that the client sends from `own` to `server` by another gateway. This one has the address
/// `behind`.
pub(crate) fn of_other_gateway(own: (&str, u16), server: (&str, u16), behind: &str) -> Vec<Kind> {
    let cause = udp(own, server);
    let error = |from| unreachable(from, own.0, &cause, 200);
    vec![
        kind(
            "unreachable, from an address of this gateway",
            OTHER_GATEWAY,
            error(behind),
        ),
        kind(
            "unreachable, from the server of the other gateway",
            SOURCE,
            error(server.0),
        ),
        kind("unreachable, from a router", SOURCE, error("198.51.100.7")),
        kind("an answer", SOURCE, udp(server, own)),
    ]
}

/// Packets that would begin something at the client.
fn beginnings(ends: &Ends) -> Vec<Kind> {
    let (own, own_v6) = (ends.own_v4.as_str(), ends.own_v6.as_str());
    let (web, web_v6) = ((ends.web, 80), (ends.web_v6, 80));
    let (tcp_port, udp_port) = (ends.tcp_listener, ends.udp_listener);
    let syn = tcp_with(web, (own, tcp_port), SYN, b"");
    let mut dying = syn.clone();
    dying[8] = 0;
    with_right_checksum(&mut dying);
    let protocol = |number| other_with(ends.web, own, number, &[0; 40]);
    vec![
        kind("a SYN to a listening port", NOT_OPENED, syn),
        kind(
            "a SYN to a listening port by IPv6",
            NOT_OPENED,
            tcp_with(web_v6, (own_v6, tcp_port), SYN, b""),
        ),
        kind(
            "a SYN with data (TCP Fast Open)",
            NOT_OPENED,
            tcp_with(web, (own, tcp_port), SYN, b"GET / HTTP/1.0\r\n\r\n"),
        ),
        kind(
            "a SYN with a FIN",
            NOT_OPENED,
            tcp_with(web, (own, tcp_port), SYN | FIN, b""),
        ),
        kind(
            "a SYN between the ports of a connection",
            NOT_OPENED,
            tcp_with(web, (own, ends.tcp_port), SYN, b""),
        ),
        kind("a SYN whose time to live is zero", NOT_OPENED, dying),
        kind(
            "a datagram to a listening port",
            NOT_A_FLOW,
            udp(web, (own, udp_port)),
        ),
        kind(
            "a datagram to a listening port by IPv6",
            NOT_A_FLOW,
            udp(web_v6, (own_v6, udp_port)),
        ),
        kind(
            "a query to the client's resolver",
            NOT_A_FLOW,
            udp((ends.web, 5_353), (own, 53)),
        ),
        kind("an echo request", NOT_OPENED, echo(ends.web, own, 7, false)),
        kind(
            "an echo request by IPv6",
            NOT_OPENED,
            echo(ends.web_v6, own_v6, 7, false),
        ),
        kind(
            "a timestamp request",
            NOT_OPENED,
            icmp(ends.web, own, 13, 0, [0, 7, 0, 1], &[0; 12]),
        ),
        kind("IGMP", NOT_A_FLOW, protocol(2)),
        kind(
            "IP in IP",
            NOT_A_FLOW,
            other_with(ends.web, own, 4, &tcp(web, (own, tcp_port))),
        ),
        kind("IPv6 in IPv4", NOT_A_FLOW, protocol(41)),
        kind("GRE", NOT_A_FLOW, protocol(47)),
        kind("ESP", NOT_A_FLOW, protocol(50)),
        kind("AH over IPv4", NOT_A_FLOW, protocol(51)),
        kind("OSPF", NOT_A_FLOW, protocol(89)),
        kind("SCTP", NOT_A_FLOW, protocol(132)),
        kind("UDP-Lite", NOT_A_FLOW, protocol(136)),
        kind("GRE over IPv6", NOT_A_FLOW, other(ends.web_v6, own_v6, 47)),
    ]
}

/// Packets whose answers would tell which connections there are (CVE-2019-14899).
fn probes(ends: &Ends) -> Vec<Kind> {
    let own = ends.own_v4.as_str();
    let web = (ends.web, 80);
    let (mine, next) = ((own, ends.tcp_port), (own, ends.tcp_port ^ 1));
    let listener = (own, ends.tcp_listener);
    vec![
        kind(
            "a SYN-ACK to a port that is of no connection",
            NOT_A_FLOW,
            tcp_with(web, next, SYN | ACK, b""),
        ),
        kind(
            "an ACK out of the window to a port that is of no connection",
            NOT_A_FLOW,
            tcp_at(0x7fff_ffff, web, next, ACK, b""),
        ),
        kind(
            "an ACK from another port of the server",
            NOT_A_FLOW,
            tcp_with((ends.web, 81), mine, ACK, b""),
        ),
        kind(
            "an ACK to a listening port",
            NOT_A_FLOW,
            tcp_with(web, listener, ACK, b""),
        ),
        kind(
            "a RST to a port that is of no connection",
            NOT_A_FLOW,
            tcp_with(web, next, RST, b""),
        ),
        kind(
            "a RST from another port of the server",
            NOT_A_FLOW,
            tcp_with((ends.web, 443), mine, RST, b""),
        ),
        kind(
            "a FIN to a listening port",
            NOT_A_FLOW,
            tcp_with(web, listener, FIN, b""),
        ),
        kind(
            "a segment without flags",
            NOT_A_FLOW,
            tcp_with(web, listener, 0, b""),
        ),
        kind(
            "UDP between the ports of a TCP connection",
            NOT_A_FLOW,
            udp(web, mine),
        ),
        kind(
            "an answer of UDP to another port",
            NOT_A_FLOW,
            udp((ends.web, 7), (own, ends.udp_port ^ 1)),
        ),
        kind(
            "an answer of UDP from another port",
            NOT_A_FLOW,
            udp((ends.web, 53), (own, ends.udp_port)),
        ),
        kind(
            "an answer to a ping that nobody sent",
            NOT_A_FLOW,
            echo(ends.web, own, 4_711, true),
        ),
    ]
}

/// ICMP errors that are about nothing of the client, and messages of one link.
fn errors_and_links(ends: &Ends) -> Vec<Kind> {
    let (own, own_v6) = (ends.own_v4.as_str(), ends.own_v6.as_str());
    let (web, mine) = ((ends.web, 80), (own, ends.tcp_port));
    let about_mine = tcp(mine, web);
    let error = |cause: &[u8], quoted| unreachable(ends.web, own, cause, quoted);
    let link = |kind, payload: &[u8]| icmp(ends.web_v6, own_v6, kind, 0, [0; 4], payload);
    vec![
        kind(
            "a redirect",
            ICMP_TYPE,
            icmp(ends.web, own, 5, 1, [10, 50, 0, 11], &about_mine[..28]),
        ),
        kind(
            "source quench",
            ICMP_TYPE,
            icmp(ends.web, own, 4, 0, [0; 4], &about_mine[..28]),
        ),
        kind("a router advertisement", ICMP_TYPE, link(134, &[0; 8])),
        kind("a router solicitation", ICMP_TYPE, link(133, &[])),
        kind("a neighbour solicitation", ICMP_TYPE, link(135, &[0; 16])),
        kind("a neighbour advertisement", ICMP_TYPE, link(136, &[0; 16])),
        kind("a redirect of IPv6", ICMP_TYPE, link(137, &[0; 32])),
        kind(
            "a query for multicast listeners",
            ICMP_TYPE,
            link(130, &[0; 16]),
        ),
        kind(
            "unreachable, about a connection that is not there",
            NOT_A_FLOW,
            error(&tcp((own, ends.tcp_port ^ 1), web), 200),
        ),
        kind(
            "unreachable, about another machine's connection",
            NOT_A_FLOW,
            error(&tcp(("100.64.77.77", 40_000), web), 200),
        ),
        kind(
            "unreachable, about a connection outside of the tunnel",
            NOT_A_FLOW,
            error(&tcp((&ends.lan, 40_000), (&ends.portal, 443)), 200),
        ),
        kind(
            "unreachable, that quotes too little",
            NOT_A_FLOW,
            error(&about_mine, 27),
        ),
        kind(
            "packet too big, about a connection that is not there",
            NOT_A_FLOW,
            icmp(ends.web, own, 3, 4, [0, 0, 2, 0], &tcp((own, 1), web)[..28]),
        ),
        kind(
            "an error about an error",
            NOT_A_FLOW,
            error(&error(&about_mine, 28), 200),
        ),
    ]
}

/// Fragments.
fn parts(ends: &Ends) -> Vec<Kind> {
    let (own, own_v6) = (ends.own_v4.as_str(), ends.own_v6.as_str());
    let (web, web_v6) = ((ends.web, 80), (ends.web_v6, 80));
    let (tcp_port, udp_port) = (ends.tcp_listener, ends.udp_listener);
    let syn = tcp_with(web, (own, tcp_port), SYN, &[7; 64]);
    let datagram = udp_with(web, (own, udp_port), &[7; 64]);
    let datagram_v6 = udp_with(web_v6, (own_v6, udp_port), &[7; 64]);
    let [syn_first, syn_later] = fragments(&syn, 32, 1);
    let [first, later] = fragments(&datagram, 16, 2);
    let [first_v6, later_v6] = fragments(&datagram_v6, 16, 3);
    let [tiny, _] = fragments(&syn, 8, 4);
    // It would write over the ports of a first one, which never passes.
    let [_, overlapping] = fragments(&syn, 16, 1);
    let [error, _] = fragments(&unreachable(ends.web, own, &datagram, 200), 64, 5);
    vec![
        kind("the first fragment of a SYN", NOT_OPENED, syn_first),
        kind("a later fragment of a SYN", FRAGMENT, syn_later),
        kind("one that overlaps the first", FRAGMENT, overlapping),
        kind("the first fragment of a datagram", NOT_A_FLOW, first),
        kind("a later fragment of a datagram", FRAGMENT, later),
        kind("the first fragment by IPv6", NOT_A_FLOW, first_v6),
        kind("a later fragment by IPv6", FRAGMENT, later_v6),
        kind("a fragment too short for its ports", MALFORMED, tiny),
        kind("the first fragment of an error", MALFORMED, error),
    ]
}

/// Sources that do not lie behind the gateway.
fn sources(ends: &Ends) -> Vec<Kind> {
    let (own, own_v6) = (ends.own_v4.as_str(), ends.own_v6.as_str());
    let syn = |from| tcp_with((from, 80), (own, ends.tcp_listener), SYN, b"");
    vec![
        kind("a SYN from loopback", SOURCE, syn("127.0.0.1")),
        kind("a SYN from the client's own address", SOURCE, syn(own)),
        kind(
            "a datagram from the client's own address by IPv6",
            SOURCE,
            udp((own_v6, 53), (own_v6, ends.udp_listener)),
        ),
        kind("a SYN from multicast", SOURCE, syn("224.0.0.1")),
        kind(
            "a SYN from the broadcast address",
            SOURCE,
            syn("255.255.255.255"),
        ),
        kind("a SYN from nobody", SOURCE, syn("0.0.0.0")),
        kind(
            "a SYN from a link-local address",
            SOURCE,
            syn("169.254.7.7"),
        ),
        kind(
            "a SYN from the client's own network",
            SOURCE,
            syn(&ends.router),
        ),
        kind(
            "an answer of the portal, through the tunnel",
            SOURCE,
            tcp_with((&ends.portal, 443), (own, 40_000), SYN | ACK, b""),
        ),
        kind("a SYN from a resource of others", SOURCE, syn(ends.other)),
        kind("a SYN from another client", SOURCE, syn("100.64.77.77")),
        kind("a fragment from loopback", SOURCE, {
            let datagram = udp_with(("127.0.0.1", 53), (own, ends.udp_listener), &[7; 64]);
            fragments(&datagram, 16, 6)[1].clone()
        }),
    ]
}

/// Destinations that are not the client's address in the tunnel.
fn destinations(ends: &Ends) -> Vec<Kind> {
    let web = (ends.web, 80);
    let to = |address| udp(web, (address, ends.udp_listener));
    let to_v6 = |address| udp((ends.web_v6, 80), (address, ends.udp_listener));
    vec![
        kind(
            "a SYN to the client's address in its own network",
            FOREIGN_DESTINATION,
            tcp_with(web, (&ends.lan, ends.tcp_listener), SYN, b""),
        ),
        kind("to loopback", FOREIGN_DESTINATION, to("127.0.0.1")),
        kind("to loopback by IPv6", FOREIGN_DESTINATION, to_v6("::1")),
        kind(
            "to the broadcast address",
            FOREIGN_DESTINATION,
            to("255.255.255.255"),
        ),
        kind("to multicast", FOREIGN_DESTINATION, to("224.0.0.251")),
        kind(
            "to multicast by IPv6",
            FOREIGN_DESTINATION,
            to_v6("ff02::fb"),
        ),
        kind(
            "to the client's neighbour",
            FOREIGN_DESTINATION,
            to(&ends.router),
        ),
        kind("to another client", FOREIGN_DESTINATION, to("100.64.77.77")),
        kind(
            "to a link-local address",
            FOREIGN_DESTINATION,
            to_v6("fe80::1"),
        ),
    ]
}

/// Headers that lie, are cut short, or lead elsewhere.
fn headers(ends: &Ends) -> Vec<Kind> {
    let (own, own_v6) = (ends.own_v4.as_str(), ends.own_v6.as_str());
    let (web, web_v6) = ((ends.web, 80), (ends.web_v6, 80));
    let syn = tcp_with(web, (own, ends.tcp_listener), SYN, b"");
    let syn_v6 = tcp_with(web_v6, (own_v6, ends.tcp_listener), SYN, b"");
    let behind = |kind, header: &[u8]| with_extension(&syn_v6, kind, header, &syn_v6[40..]);
    let changed = |at: usize, byte: u8| {
        let mut packet = syn.clone();
        packet[at] = byte;
        packet
    };
    let route = [131, 7, 4, 10, 50, 0, 11];
    let routing = [&[6, 2, 0, 1, 0, 0, 0, 0][..], &[0; 16]].concat();
    let fragment = [44, 0, 0, 1, 0, 0, 0, 1, 6, 0, 0, 1, 0, 0, 0, 2];
    let no_option = [6, 0, 1, 4, 0, 0, 0, 0];
    let many = [[0, 0, 1, 4, 0, 0, 0, 0].repeat(9), no_option.to_vec()].concat();
    // A header of TCP needs twenty bytes, one of UDP eight.
    let half_tcp = other_with(ends.web, own, 6, &syn[20..32]);
    let half_udp = other_with(ends.web, own, 17, &[0x9c, 0x40, 0, 53]);
    vec![
        kind("a packet cut short", INNER_MALFORMED, syn[..30].to_vec()),
        kind("half an IP header", INNER_MALFORMED, syn[..10].to_vec()),
        kind(
            "half a header of IPv6",
            INNER_MALFORMED,
            syn_v6[..20].to_vec(),
        ),
        kind(
            "no packet",
            INNER_MALFORMED,
            b"no packet of any version".to_vec(),
        ),
        kind("IP of version 5", INNER_MALFORMED, changed(0, 0x55)),
        kind("a length beyond the packet", INNER_MALFORMED, changed(2, 5)),
        kind("a length below the header", INNER_MALFORMED, changed(3, 19)),
        kind("a header of four words", INNER_MALFORMED, changed(0, 0x44)),
        kind(
            "a header beyond the packet",
            INNER_MALFORMED,
            changed(0, 0x4f),
        ),
        kind("half a header of TCP", MALFORMED, half_tcp),
        kind("half a header of UDP", MALFORMED, half_udp),
        kind(
            "an option beyond its header",
            MALFORMED,
            with_options(&syn, &[7, 40, 4, 0]),
        ),
        kind(
            "an option without a length",
            MALFORMED,
            with_options(&syn, &[7, 0, 0, 0]),
        ),
        kind(
            "a loose source route",
            SOURCE_ROUTED,
            with_options(&syn, &route),
        ),
        kind("a routing header", SOURCE_ROUTED, behind(43, &routing)),
        kind(
            "a fragment in a fragment",
            HEADER_CHAIN,
            behind(44, &fragment),
        ),
        kind("ten headers of options", HEADER_CHAIN, behind(0, &many)),
        kind(
            "a SYN behind hop-by-hop options",
            NOT_OPENED,
            behind(0, &no_option),
        ),
        kind(
            "a SYN behind destination options",
            NOT_OPENED,
            behind(60, &no_option),
        ),
    ]
}

/// Writes the checksum of an IPv4 header without options.
fn with_right_checksum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let (words, _) = packet[..20].as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    packet[10..12].copy_from_slice(&(!folded).to_be_bytes()[2..]);
}
