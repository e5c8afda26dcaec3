//! System calls that fail for the moment, as they do where memory is short: strace has them fail in the real program.

use culvert_lab::{Family, Process, Tunnel, WireGuardEnd, wait_until};

use crate::support::{SOON, culvert_tunnel, joined_batches, passes_traffic};

/// Has every twentieth of `calls` of an end fail with `error`, for as long as the process lives that is returned.
fn failing(end: &WireGuardEnd, calls: &str, error: &str) -> Process {
    let pid = end.process.id();
    let path = match calls.contains("sendmsg") {
        true => "",
        // Other descriptors are read too.
        false => "-P /dev/net/tun",
    };
    let line = format!(
        "strace -f -o /dev/null {path} -e trace={calls} -e inject={calls}:error={error}:when=20+20 -p {pid}"
    );
    let strace = end.namespace.spawn(&line).unwrap();
    wait_until("strace to be attached", SOON, || {
        strace.output().contains("attached")
    })
    .unwrap();
    strace
}

/// Nothing of the tunnel's own is off.
fn has_all_offloads(end: &WireGuardEnd) -> bool {
    let status = end.culvert_json().unwrap();
    let offloads = status["offloads"].as_array().unwrap();
    let coalesces = !offloads
        .iter()
        .any(|offload| offload["name"] == "coalescing");
    let peers = status["peers"].as_array().unwrap();
    coalesces
        && !peers
            .iter()
            .any(|peer| peer["is_segmentation_refused"] == true)
}

/// Pings, of which the last are waited for `wait_s`.
fn ping(tunnel: &Tunnel, wait_s: u32) -> String {
    let address = tunnel.right_address(Family::V4);
    let line = format!("ping -q -c 200 -i 0.01 -W {wait_s} {address}");
    let outcome = tunnel.left.namespace.outcome(&line).unwrap();
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

#[test]
fn reads_of_the_tun_that_fail_for_the_moment_lose_a_frame_each_and_end_nothing() {
    let tunnel = culvert_tunnel().unwrap();
    let lost = || tunnel.left.culvert_drops("tun_receive", "failed").unwrap();
    for error in [
        "ENOMEM", "ENOBUFS", "EIO", "EINVAL", "EFAULT", "EMSGSIZE", "ENETDOWN", "EPERM", "ENOSPC",
    ] {
        let before = lost();
        let strace = failing(&tunnel.left, "read", error);
        let said = ping(&tunnel, 1);
        assert!(!said.contains(" 0 received"), "{error}: {said}");
        assert!(lost() > before, "{error}: {said}");
        drop(strace);
        tunnel.wait_until_up().unwrap();
        passes_traffic(&tunnel).unwrap();
    }
}

#[test]
fn every_twentieth_call_that_fails_loses_nothing_and_turns_no_offload_off() {
    let tunnel = culvert_tunnel().unwrap();
    let ends = [&tunnel.left, &tunnel.right];
    let calls = "writev,sendmsg,recvmmsg";
    for error in [
        "EINVAL",
        "EIO",
        "ENOBUFS",
        "ENOMEM",
        "EINTR",
        "EFAULT",
        "ENOSPC",
        "EOPNOTSUPP",
    ] {
        let straces = ends.map(|end| failing(end, calls, error));
        // None is lost, so the wait is no time that passes: a busy machine may take it.
        let said = ping(&tunnel, 30);
        assert!(said.contains(" 0% packet loss"), "{error}: {said}");
        passes_traffic(&tunnel).unwrap();
        for end in ends {
            for (stage, reason) in [("udp_send", "failed"), ("tun_send", "failed")] {
                let lost = end.culvert_drops(stage, reason).unwrap();
                assert_eq!(lost, 0, "{error}: {stage} {reason}");
            }
            wait_until("all offloads", SOON, || has_all_offloads(end)).unwrap();
        }
        drop(straces);
        let before = ends.map(|end| joined_batches(end, "coalesced").unwrap());
        passes_traffic(&tunnel).unwrap();
        for (end, before) in ends.into_iter().zip(before) {
            assert!(joined_batches(end, "coalesced").unwrap() > before);
        }
    }
}
