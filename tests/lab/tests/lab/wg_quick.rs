//! `wg-quick` brings Culvert up and down as it does any WireGuard in user space.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Result;
use culvert_lab::{
    Family, Implementation, KeyPair, Link, LinkShape, Namespace, Subnet, WireGuardEnd,
    culvert_program, wait_until,
};

use crate::support::SOON;

const PORT: u16 = 51820;

/// A directory with a link named `culvert-wg`, a configuration, and an `ip` that knows no kernel
/// WireGuard, so that wg-quick falls back to user space on every machine.
struct QuickDir(PathBuf);

impl QuickDir {
    fn new(interface: &str, config: &str) -> Self {
        let dir = Self(std::env::temp_dir().join(format!("{interface}-quick")));
        fs::create_dir_all(&dir.0).unwrap();
        symlink(
            culvert_program().unwrap().canonicalize().unwrap(),
            dir.0.join("culvert-wg"),
        )
        .unwrap();
        let real_ip = culvert_lab::run("sh -c which${IFS}ip").unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *'type wireguard'*) exit 1 ;; esac\nexec {} \"$@\"\n",
            real_ip.trim()
        );
        write(&dir.0.join("ip"), &script, 0o755);
        write(&dir.config(interface), config, 0o600);
        dir
    }

    fn config(&self, interface: &str) -> PathBuf {
        self.0.join(format!("{interface}.conf"))
    }

    /// `wg-quick up` or `down`.
    fn quick(&self, namespace: &Namespace, verb: &str, interface: &str) -> Result<String> {
        // wg-quick gives up if the kernel's module is there; here it shall not see it.
        namespace.shell(&format!(
            "mount -t tmpfs none /sys/module
             export PATH={dir}:$PATH WG_QUICK_USERSPACE_IMPLEMENTATION=culvert-wg
             wg-quick {verb} {config} 2>&1",
            dir = self.0.display(),
            config = self.config(interface).display()
        ))
    }
}

impl Drop for QuickDir {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn wg_quick_brings_culvert_up_and_down_even_as_the_default_route() {
    let (left, right) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let link = Link::new(&left, &right, Subnet(1), LinkShape::default()).unwrap();
    let peer = WireGuardEnd::start(&Implementation::culvert(), &right).unwrap();
    let keys = KeyPair::generate().unwrap();
    let inner = Subnet(100);
    peer.configure(PORT, &[format!("{}/24", inner.host(Family::V4, 2))], 1420)
        .unwrap();
    peer.set_peer(&keys.public_key, None, "10.200.100.1/32", None)
        .unwrap();

    // With 0.0.0.0/0, wg-quick keeps outer packets out of the tunnel by their mark.
    for allowed_ips in ["10.200.100.0/24", "0.0.0.0/0"] {
        let interface = WireGuardEnd::unique_name();
        let config = format!(
            "[Interface]\nPrivateKey = {}\nAddress = {}/32\nMTU = 1400\n\
             [Peer]\nPublicKey = {}\nEndpoint = {}:{PORT}\nAllowedIPs = {allowed_ips}\n",
            keys.private_key,
            inner.host(Family::V4, 1),
            peer.keys.public_key,
            link.subnet.host(Family::V4, 2)
        );
        let dir = QuickDir::new(&interface, &config);
        let said = dir.quick(&left, "up", &interface).unwrap();
        assert!(said.contains("culvert-wg"), "{said}");

        let ping = format!("ping -c 1 -W 0.5 {}", inner.host(Family::V4, 2));
        wait_until(&format!("an answer through {said}"), SOON, || {
            left.run(&ping).is_ok()
        })
        .unwrap();
        let shown = left.run(&format!("ip link show {interface}")).unwrap();
        assert!(shown.contains("mtu 1400"), "{shown}");

        dir.quick(&left, "down", &interface).unwrap();
        let socket_path = WireGuardEnd::socket_path(&interface);
        wait_until("the socket to be removed", SOON, || !socket_path.exists()).unwrap();
        wait_until("the process to end", SOON, || {
            culvert_lab::run(&format!("ip netns pids {}", left.name()))
                .unwrap()
                .trim()
                .is_empty()
        })
        .unwrap();
    }
}
