//! A virtual machine gets a new generation: it was cloned, or restored from a snapshot.

use std::time::{Duration, Instant};

use culvert_lab::{Family, Namespace, wait_until};
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use crate::support::{SOON, culvert_tunnel, passes_traffic};

/// Both ends are back within this time.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// As the driver of the generation ID has the kernel tell it.
const ANNOUNCEMENT: &[u8] = b"change@/devices/LNXSYSTM:00/LNXSYBUS:00/VMGENCTR:00\0ACTION=change\0\
    DEVPATH=/devices/LNXSYSTM:00/LNXSYBUS:00/VMGENCTR:00\0SUBSYSTEM=acpi\0NEW_VMGENID=1\0";

/// Has the kernel multicast `uevent` in a namespace, as one of its own.
fn announce(namespace: &Namespace, uevent: &[u8]) {
    // struct nlmsghdr: length, the first type that is not netlink's own, NLM_F_REQUEST, sequence, port.
    let mut message = u32::try_from(16 + uevent.len())
        .unwrap()
        .to_ne_bytes()
        .to_vec();
    message.extend([16_u16, 1].map(u16::to_ne_bytes).concat());
    message.extend([0; 8]);
    message.extend(uevent);
    let send = || {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(KOBJECT_UEVENT),
        )?;
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&socket, &message, SendFlags::empty(), &kernel)?;
        Ok(())
    };
    namespace.inside(send).unwrap();
}

#[test]
fn after_a_new_generation_old_keys_send_nothing_and_both_ends_are_back_in_time() {
    let tunnel = culvert_tunnel().unwrap();
    let (left, right) = (&tunnel.left, &tunnel.right);
    let changes = || {
        let status = left.culvert_json().unwrap();
        status["generation_changes"].as_u64().unwrap()
    };
    assert_eq!(changes(), 0);
    announce(
        &left.namespace,
        b"change@/devices/x\0ACTION=change\0NEW_VMGENID=0\0",
    );

    // Packets under the earlier keys arrive at the other end until the change, and none after it.
    let began = Instant::now();
    announce(&left.namespace, ANNOUNCEMENT);
    wait_until("the new generation is noticed", SOON, || changes() == 1).unwrap();
    let ping = format!("ping -c 1 -W 1 {}", tunnel.left_address(Family::V4));
    // One may be on its way under the earlier keys.
    wait_until("an answer under new keys", SOON, || {
        right.namespace.run(&ping).is_ok()
    })
    .unwrap();
    assert!(began.elapsed() < BACK_WITHIN, "{:?}", began.elapsed());

    passes_traffic(&tunnel).unwrap();
    assert_eq!(
        changes(),
        1,
        "an event of the same machine is no new generation"
    );
    let output = left.process.output();
    assert_eq!(
        output.matches("all WireGuard sessions begin anew").count(),
        1,
        "{output}"
    );
}
