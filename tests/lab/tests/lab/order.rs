//! A flow is never reordered, at any number of workers.

use culvert_lab::measure::{IperfServer, TcpCounters, TcpLoad};
use culvert_lab::{Family, Implementation, TunnelPlan};

#[test]
fn eight_flows_are_never_reordered_at_any_number_of_workers() {
    for workers in 1..=4 {
        let culvert = Implementation::culvert_with(&format!("--workers {workers}"));
        let tunnel = TunnelPlan::between(&culvert, &culvert).build().unwrap();
        tunnel.link.keep_order().unwrap();
        tunnel.wait_until_up().unwrap();
        let address = tunnel.right_address(Family::V4);
        let server = IperfServer::start(&tunnel.right.namespace, address).unwrap();
        for reverse in [false, true] {
            let load = TcpLoad {
                connections: 8,
                reverse,
                ..TcpLoad::forward(3)
            };
            let (sender, receiver) = match reverse {
                false => (&tunnel.left.namespace, &tunnel.right.namespace),
                true => (&tunnel.right.namespace, &tunnel.left.namespace),
            };
            let before = [sender, receiver].map(|namespace| TcpCounters::of(namespace).unwrap());
            let report = server.tcp(&tunnel.left.namespace, &load).unwrap();
            let sender = TcpCounters::of(sender).unwrap().since(&before[0]);
            let receiver = TcpCounters::of(receiver).unwrap().since(&before[1]);

            let name = format!("{workers} workers, reverse {reverse}, {report:?}");
            assert_eq!(sender.reordering_seen_by_sender(), 0, "{name}");
            // A segment that overtakes another is queued as one that follows a lost one is; but a
            // receiver that gets both reports the needless repetition (DSACK, RFC 2883).
            assert_eq!(receiver.value("TCPDSACKOfoSent"), 0, "{name}");
        }
    }
}
