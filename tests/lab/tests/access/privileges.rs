//! The rights of root that programs keep: the needed ones, under every user.

use crate::common::{Bed, SOON, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::wait_until;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

/// A user whom every machine has, and its number.
const NOBODY: (&str, &str) = ("nobody", "65534");

/// The capabilities of programs that it starts, as /proc shows them: CAP_NET_ADMIN is bit 12.
const OF_CHILDREN: &str = "0000000000001000";
/// With CAP_BPF, bit 39, for the tunnel's queues.
const GATEWAY: &str = "0000008000001000";
/// With CAP_NET_BIND_SERVICE, bit 10.
const CLIENT: &str = "0000008000001400";
/// With CAP_DAC_OVERRIDE, bit 1: nobody may make cgroups by their mode.
const ROOT_CLIENT: &str = "0000008000001402";

/// A device node as udev makes it, for everybody; what may be done with it takes CAP_NET_ADMIN.
const TUN_FOR_ALL: &str = "mount -t tmpfs tmpfs /dev/net; mknod -m 666 /dev/net/tun c 10 200";

/// The kernel's status of every thread of the program that was started as process `id`.
fn threads(id: u32) -> Vec<BTreeMap<String, String>> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let read = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread may have ended since.
        let text = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        Some(text.lines().filter_map(field).collect())
    };
    tasks.filter_map(read).collect()
}

/// Checks all threads of a process.
fn runs_with(id: u32, uid: &str, capabilities: &str) {
    let threads = threads(id);
    assert!(threads.len() > 3, "the program itself: {threads:?}");
    for thread in threads {
        let name = &thread["Name"];
        let uids: Vec<&str> = thread["Uid"].split_whitespace().collect();
        assert_eq!(uids, [uid; 4], "{name}");
        for (set, expected) in [
            ("CapPrm", capabilities),
            ("CapEff", capabilities),
            ("CapBnd", capabilities),
            ("CapInh", OF_CHILDREN),
            ("CapAmb", OF_CHILDREN),
        ] {
            assert_eq!(thread[set], expected, "{set} of {name}");
        }
        assert_eq!(thread["NoNewPrivs"], "1", "{name}");
    }
}

/// Lets others pass through the directories of the lab, which stay closed to their eyes.
fn open_ways(product: &Product) {
    let temporary = std::env::temp_dir();
    let state_dirs = [product.client.state_dir(), product.gateways[0].state_dir()];
    for way in state_dirs.iter().flat_map(|dir| dir.ancestors().skip(1)) {
        if way != temporary && way.starts_with(&temporary) {
            std::fs::set_permissions(way, std::fs::Permissions::from_mode(0o711)).unwrap();
        }
    }
}

#[test]
fn a_client_and_a_gateway_that_became_another_user_do_all_that_root_does() {
    let mut product = Product::networks(1).unwrap();
    open_ways(&product);
    product.client.arguments = format!("--user {} --workers 1", NOBODY.0);
    product.gateways[0]
        .arguments
        .push_str(&format!(" --user {} --workers 1", NOBODY.0));
    product.client.machine = TUN_FOR_ALL.to_owned();
    product.gateways[0].machine = TUN_FOR_ALL.to_owned();
    product.begin(&access()).unwrap();
    let mut bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let client = bed.product.client.process().unwrap().id();
    runs_with(client, NOBODY.1, CLIENT);
    let gateway = bed.product.gateways[0].process().unwrap().id();
    runs_with(gateway, NOBODY.1, GATEWAY);
    let status = bed.product.client.status().unwrap();
    assert_eq!(status["privileges"]["uid"], 65534, "{status}");
    assert_eq!(status["problems"], serde_json::json!([]), "{status}");

    // The portal goes and comes, and so does the network.
    bed.product.portal.kill().unwrap();
    bed.product.portal.start().unwrap();
    let sessions = |bed: &Bed| bed.product.client.status().unwrap()["portal"]["sessions"].as_u64();
    wait_until("another session", SOON, || sessions(&bed) == Some(2)).unwrap();
    let uplink = bed
        .product
        .client
        .namespace
        .shell("ip -o link show type veth | head -1 | cut -d : -f 2 | cut -d @ -f 1");
    let uplink = uplink.unwrap().trim().to_owned();
    let script = format!(
        "ip -o route show default > /tmp/{uplink}-$$; ip link set {uplink} down; ip link set {uplink} up; \
         while read route; do ip route replace $route; done < /tmp/{uplink}-$$; rm /tmp/{uplink}-$$"
    );
    bed.product.client.namespace.shell(&script).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();

    // It takes back what it did.
    bed.product.client.stop().unwrap();
    let left = bed
        .product
        .client
        .namespace
        .shell("ip rule; ip link")
        .unwrap();
    assert!(
        !left.contains("17238") && !left.contains("culvert0"),
        "{left}"
    );
}

#[test]
fn root_that_stays_root_keeps_no_right_but_those_that_are_needed() {
    let mut product = Product::networks(1).unwrap();
    product.client.arguments = "--workers 1".to_owned();
    product.gateways[0]
        .arguments
        .push_str(" --workers 1 --no-sandbox");
    product.begin(&access()).unwrap();
    let mut bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let client = bed.product.client.process().unwrap().id();
    runs_with(client, "0", ROOT_CLIENT);
    let gateway = bed.product.gateways[0].process().unwrap().id();
    runs_with(gateway, "0", GATEWAY);
    assert!(is_filtered(client));
    let status = bed.product.client.status().unwrap();
    assert_eq!(status["sandbox"]["files"]["state"], "closed", "{status}");
    // If the administrator does not want it, it says so.
    assert!(!is_filtered(gateway));
    let status = bed.product.gateways[0].status().unwrap();
    let files = &status["sandbox"]["files"];
    assert_eq!(files["state"], "open", "{status}");
    assert!(files["why"].to_string().contains("no_sandbox"), "{status}");
}

/// True if a seccomp program filters the system calls of every thread of a process.
fn is_filtered(id: u32) -> bool {
    threads(id).iter().all(|thread| thread["Seccomp"] == "2")
}
