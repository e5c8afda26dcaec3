//! A host with fewer processors than threads that want one.

use std::collections::BTreeSet;
use std::fs;

use culvert_lab::measure::{IperfServer, TcpLoad};
use culvert_lab::{Family, WireGuardEnd, wait_until};

use crate::support::{SOON, culvert_tunnel};

/// Longer than any test takes; the load is ended when its purpose is fulfilled.
const ENDLESS_S: u32 = 300;

/// The number of times that the workers of an end chose to stay on their processors.
fn pinned(end: &WireGuardEnd) -> u64 {
    let status = end.culvert_json().unwrap();
    let workers = status["workers"].as_array().unwrap();
    workers
        .iter()
        .map(|worker| worker["pinned"].as_u64().unwrap())
        .sum()
}

/// The processors that the threads of an end may use, each way of saying it once.
fn allowed(end: &WireGuardEnd) -> BTreeSet<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", end.process.id())).unwrap();
    let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).unwrap();
    let allowed = |status: String| {
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed:"));
        line.unwrap().to_owned()
    };
    threads
        .map(|thread| allowed(status(thread.unwrap())))
        .collect()
}

#[test]
fn a_worker_that_has_to_wait_for_a_processor_stays_on_one_and_may_leave_it_when_there_is_less_to_do()
 {
    let processors = std::thread::available_parallelism().unwrap().get();
    let tunnel = culvert_tunnel().unwrap();
    let address = tunnel.right_address(Family::V4);
    let server = IperfServer::start(&tunnel.right.namespace, address).unwrap();
    let traffic = server.start_tcp(&tunnel.left.namespace, &TcpLoad::forward(ENDLESS_S));
    let traffic = traffic.unwrap();
    let rivals: Vec<_> = (0..processors)
        .map(|_| tunnel.left.namespace.spawn("sha256sum /dev/zero").unwrap())
        .collect();
    if processors > 1 {
        wait_until("a worker that stays", SOON * 4, || {
            pinned(&tunnel.left) + pinned(&tunnel.right) > 0
        })
        .unwrap();
    }
    drop((rivals, traffic));

    for end in [&tunnel.left, &tunnel.right] {
        wait_until("a worker that may go anywhere", SOON * 4, || {
            // A worker that sleeps decides nothing.
            tunnel
                .wait_until_reachable(&tunnel.left.namespace, address)
                .unwrap();
            allowed(end).len() == 1
        })
        .unwrap();
    }
}
