//! The restrictions of the units on their services, as systemd and the kernel apply them.

use culvert_lab::{Namespace, run, workspace_dir};

/// Of ten: what the project promises of its units.
const MOST_EXPOSURE: f64 = 3.0;

#[test]
fn every_unit_is_exposed_less_than_promised() {
    let units = workspace_dir().join("packaging/systemd");
    let mut seen = 0;
    for unit in std::fs::read_dir(units).unwrap() {
        let unit = unit.unwrap().path();
        let said = run(&format!(
            "systemd-analyze security --no-pager --offline=true {}",
            unit.display()
        ))
        .unwrap();
        let verdict = said.lines().find(|line| line.contains("Overall exposure"));
        let words = verdict.unwrap().split_whitespace();
        let exposure = words
            .filter_map(|word| word.parse::<f64>().ok())
            .next_back();
        assert!(exposure.unwrap() < MOST_EXPOSURE, "{said}");
        seen += 1;
    }
    assert_eq!(seen, 4, "client, gateway, portal and relay");
}

#[test]
fn the_gateways_settings_switch_forwarding_on_and_keep_router_advertisements() {
    let namespace = Namespace::new().unwrap();
    namespace
        .run("ip link add veth0 type veth peer veth1")
        .unwrap();
    let settings = workspace_dir().join("packaging/config/50-culvert-gateway.conf");
    namespace
        .run(&format!(
            "/lib/systemd/systemd-sysctl {}",
            settings.display()
        ))
        .unwrap();
    for (setting, expected) in [
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv6.conf.all.forwarding", "1"),
        ("net.ipv6.conf.veth0.accept_ra", "2"),
        ("net.ipv6.conf.default.accept_ra", "2"),
    ] {
        let value = namespace.run(&format!("sysctl -n {setting}")).unwrap();
        assert_eq!(value.trim(), expected, "{setting}");
    }
}
