//! A user namespace: root inside of it has no right over BPF, and none over the host.

use culvert_lab::culvert_program;
use std::process::Command;

/// Two network namespaces of one user namespace, joined by a veth pair, and a tunnel between them. Everything ends with
/// the script, which is the first process of its own namespace.
const SCRIPT: &str = r#"
set -e
umask 077
mount -t tmpfs none /run
mkdir /run/wireguard
ip link set lo up
mkfifo /run/end
unshare -n cat /run/end & other=$!
exec 3>/run/end
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
there() { nsenter -n -t $other "$@"; }
ip link add v0 type veth peer name v1
ip link set v1 netns $other
ip addr add 10.9.0.1/24 dev v0
ip link set v0 up
there ip addr add 10.9.0.2/24 dev v1
there ip link set v1 up
"$CULVERT" wg -f wa & left=$!
there "$CULVERT" wg -f wb & right=$!
until [ -S /run/wireguard/wa.sock ] && [ -S /run/wireguard/wb.sock ]; do
    kill -0 $left && kill -0 $right
    sleep 0.02
done
wg genkey >/run/a
wg genkey >/run/b
wg set wa private-key /run/a listen-port 51820 peer $(wg pubkey </run/b) allowed-ips 10.8.0.2/32 endpoint 10.9.0.2:51820
wg set wb private-key /run/b listen-port 51820 peer $(wg pubkey </run/a) allowed-ips 10.8.0.1/32 endpoint 10.9.0.1:51820
ip addr add 10.8.0.1/24 dev wa
ip link set wa up
there ip addr add 10.8.0.2/24 dev wb
there ip link set wb up
ping -q -c 3 -i 0.2 -W 5 10.8.0.2
"$CULVERT" wg show wa
"#;

#[test]
fn in_a_user_namespace_a_tunnel_carries_and_says_what_is_off_and_why() {
    let line = "setpriv --pdeathsig KILL timeout 60 \
                unshare --user --map-root-user --net --mount --pid --fork --kill-child --mount-proc sh -c";
    let mut words = line.split_ascii_whitespace();
    let output = Command::new(words.next().unwrap())
        .args(words)
        .arg(SCRIPT)
        .env("CULVERT", culvert_program().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains(" 0% packet loss"), "{said}");
    let off: Vec<&str> = said
        .lines()
        .filter(|it| it.contains("offload off:"))
        .collect();
    let is_explained =
        |line: &&str| line.ends_with("needs CAP_BPF, which no process of a user namespace has");
    assert!(!off.is_empty() && off.iter().all(is_explained), "{off:?}");
    assert!(!errors.contains("ERROR"), "{errors}");
}
