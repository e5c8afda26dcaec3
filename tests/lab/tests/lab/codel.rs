//! Queues that stand: senders are told.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use culvert_lab::{Family, LinkShape, WireGuardEnd, wait_until};
use rustix::net::sockopt;

use crate::ecn::{DISCARD_PORT, ECT_0, NOT_ECT, count_inside};
use crate::support::{SOON, culvert_tunnel};

/// The marks and losses by CoDel at an end so far.
fn told(end: &WireGuardEnd) -> (u64, u64) {
    let status = end.culvert_json().unwrap();
    let workers = status["workers"].as_array().unwrap().iter();
    let marks = workers.map(|worker| worker["queue_marked"].as_u64().unwrap());
    let losses = end.culvert_drops("tun_receive", "codel").unwrap();
    (marks.sum(), losses)
}

/// Is set when it is dropped.
struct Flag<'a>(&'a AtomicBool);

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn senders_into_a_queue_that_stands_are_told_by_marks_where_they_know_them_and_by_losses_otherwise()
{
    for (ecn, what) in [(ECT_0, "marks"), (NOT_ECT, "losses")] {
        let tunnel = culvert_tunnel().unwrap();
        let slow = LinkShape {
            rate_mbit: Some(10),
            mtu_bytes: None,
        };
        tunnel.link.shape(slow).unwrap();
        let target = SocketAddr::new(tunnel.right_address(Family::V4), DISCARD_PORT);
        let bind = || Ok(UdpSocket::bind("0.0.0.0:0")?);
        let socket = tunnel.left.namespace.inside(bind).unwrap();
        sockopt::set_ip_tos(&socket, ecn).unwrap();
        assert_eq!(told(&tunnel.left), (0, 0));
        let marked = count_inside(&tunnel, Family::V4, "ce");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Also where what follows panics.
            let _over = Flag(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // Refused where the queue is full.
                    let _refused = socket.send_to(&[0; 1200], target);
                }
            });
            wait_until(what, SOON, || {
                let (marks, losses) = told(&tunnel.left);
                if ecn == ECT_0 {
                    marks > 0 && marked.packets().unwrap() > 0
                } else {
                    losses > 0
                }
            })
            .unwrap();
        });
        let (marks, losses) = told(&tunnel.left);
        assert_eq!((marks == 0, losses == 0), (ecn == NOT_ECT, ecn == ECT_0));
    }
}
