//! The gateway's firewall: its text, and the life of its table.

use std::process::Command;
use std::time::Duration;

use culvert_host::{
    Firewall, FirewallWatch, GatewayRules, HostAccess, HostError, SourceAddress, TableState,
    remove_table,
};

use tokio::time::timeout;

use crate::support::{inside, is_as_reviewed, namespace, nft, run};

/// Long enough for anything that does come.
const DEADLINE: Duration = Duration::from_secs(60);
/// As long as one may wait for what does not come.
const NOTHING_COMES: Duration = Duration::from_millis(400);

/// Rules as a gateway with both families has them.
fn rules() -> GatewayRules {
    GatewayRules {
        interface: "cv0".parse().expect("a name"),
        addresses: vec![
            "100.64.0.1".parse().expect("an address"),
            "fd00:2021:1111::1".parse().expect("an address"),
        ],
        client_ranges: vec![
            "100.64.0.0/11".parse().expect("a range"),
            "fd00:2021:1111::/107".parse().expect("a range"),
        ],
        source: SourceAddress::Masquerade,
        dns_port: 20_053,
        inbound: Vec::new(),
        plain_dns_port: 53,
        host_access: HostAccess::Deny,
    }
}

/// Every shape that the text can have.
fn all_shapes() -> Vec<(&'static str, &'static str, GatewayRules)> {
    vec![
        ("masquerade", include_str!("golden/masquerade.nft"), rules()),
        (
            "keep_source",
            include_str!("golden/keep_source.nft"),
            GatewayRules {
                source: SourceAddress::Keep,
                host_access: HostAccess::Allow,
                ..rules()
            },
        ),
        (
            "only_ipv4",
            include_str!("golden/only_ipv4.nft"),
            GatewayRules {
                interface: "br-lan.100".parse().expect("a name"),
                addresses: vec!["100.64.0.1".parse().expect("an address")],
                // Twice and overlapping: a set must not hold one address twice.
                client_ranges: ["100.64.0.5/11", "100.64.0.0/12", "10.99.0.0/16"]
                    .map(|range| range.parse().expect("a range"))
                    .to_vec(),
                ..rules()
            },
        ),
        (
            "nothing",
            include_str!("golden/nothing.nft"),
            GatewayRules {
                addresses: Vec::new(),
                client_ranges: Vec::new(),
                ..rules()
            },
        ),
    ]
}

#[test]
fn resources_may_begin_connections_to_clients_from_their_ranges_and_clients_none() {
    let new = |inbound: &[&str]| {
        let inbound = inbound.iter();
        let rules = GatewayRules {
            inbound: inbound
                .map(|range| range.parse().expect("a range"))
                .collect(),
            ..rules()
        };
        let text = rules.to_nft();
        let lines = text.lines().map(str::trim);
        let new = lines.filter(|line| line.contains("ct state new accept"));
        new.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(new(&[]), [""; 0]);
    let v4 = "ip saddr != { 100.64.0.0/11 } ip saddr { 10.0.0.0/8 } ip daddr { 100.64.0.0/11 } ct state new accept";
    let v6 = "ip6 saddr != { fd00:2021:1111::/107 } ip6 saddr { fd50::/64 } ip6 daddr { fd00:2021:1111::/107 } \
              ct state new accept";
    assert_eq!(new(&["10.0.0.0/8", "10.1.0.0/16", "fd50::/64"]), [v4, v6]);
    // More than the kernel is to look at: the program's verdict alone counts.
    let many: Vec<String> = (0..1_025_u32)
        .map(|number| format!("10.{}.{}.0/32", number / 128, 2 * (number % 128)))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let all = "ip saddr != { 100.64.0.0/11 } ip daddr { 100.64.0.0/11 } ct state new accept";
    assert_eq!(new(&many), [all]);
}

#[test]
fn the_text_is_as_reviewed() {
    for (name, golden, rules) in all_shapes() {
        is_as_reviewed(&format!("{name}.nft"), &rules.to_nft(), golden);
    }
}

#[test]
fn the_kernel_takes_every_shape() {
    let namespace = namespace();
    for (name, _, rules) in all_shapes() {
        let checked = namespace.inside(|| {
            let file = tempfile::NamedTempFile::new()?;
            std::fs::write(file.path(), rules.to_nft())?;
            Ok(Command::new("nft")
                .arg("-c")
                .arg("-f")
                .arg(file.path())
                .output()?)
        });
        let output = checked.expect("nft runs");
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        inside(&namespace, async || {
            let firewall = Firewall::install(rules).await?;
            assert_eq!(firewall.check().await?, TableState::Intact, "{name}");
            Ok(firewall.remove().await?)
        });
    }
    assert_eq!(run(&namespace, "nft list ruleset"), "");
}

#[test]
fn a_table_that_was_removed_is_lost_until_it_is_installed_again() {
    let namespace = namespace();
    inside(&namespace, async || {
        let mut firewall = Firewall::install(rules()).await?;
        for (harm, state) in [
            ("flush table inet culvert_cv0", TableState::Changed),
            (
                "add rule inet culvert_cv0 input accept",
                TableState::Changed,
            ),
            (
                "delete chain inet culvert_cv0 postrouting",
                TableState::Changed,
            ),
            ("delete table inet culvert_cv0", TableState::Lost),
            ("flush ruleset", TableState::Lost),
        ] {
            nft(harm)?;
            assert_eq!(firewall.check().await?, state, "{harm}");
            firewall.reinstall().await?;
            assert_eq!(firewall.check().await?, TableState::Intact, "after {harm}");
        }
        Ok(())
    });
}

#[test]
fn installing_twice_is_as_installing_once() {
    let namespace = namespace();
    let listings = inside(&namespace, async || {
        let _left_by_a_crash = Firewall::install(rules()).await?;
        let once = nft("list ruleset")?;
        Firewall::install(rules()).await?;
        Ok([once, nft("list ruleset")?])
    });
    assert_eq!(listings[0], listings[1]);
    assert_eq!(listings[0].matches("table ").count(), 1);
}

#[test]
fn replaced_rules_are_the_new_ones_and_of_the_same_interface() {
    let namespace = namespace();
    inside(&namespace, async || {
        let mut firewall = Firewall::install(rules()).await?;
        let keep = GatewayRules {
            source: SourceAddress::Keep,
            ..rules()
        };
        firewall.replace(keep.clone()).await?;
        assert_eq!(firewall.rules(), &keep);
        assert_eq!(firewall.check().await?, TableState::Intact);
        assert!(!nft("list ruleset")?.contains("masquerade"));
        let other = GatewayRules {
            interface: "cv1".parse()?,
            ..rules()
        };
        let refused = firewall.replace(other).await;
        assert!(
            matches!(refused, Err(HostError::OtherInterface { .. })),
            "{refused:?}"
        );
        Ok(())
    });
}

#[test]
fn tables_of_others_are_not_touched() {
    let namespace = namespace();
    inside(&namespace, async || {
        nft("add table inet site")?;
        nft("add chain inet site routed { type filter hook forward priority 0 ; policy drop ; }")?;
        nft("add rule inet site routed ip daddr 10.0.0.0/8 counter accept")?;
        nft("add table inet culvert_cv1")?;
        let before = nft("list ruleset")?;
        let mut firewall = Firewall::install(rules()).await?;
        firewall.reinstall().await?;
        firewall.remove().await?;
        remove_table(&"cv0".parse()?).await?;
        assert_eq!(nft("list ruleset")?, before);
        Ok(())
    });
}

#[test]
fn cap_net_admin_alone_is_enough_and_its_lack_is_told() {
    use rustix::process::Uid;
    use rustix::thread::{CapabilitySet, CapabilitySets};
    let namespace = namespace();
    // The result of `setcap cap_net_admin+ep` on a program that an ordinary user starts: the
    // capability is there, and is not handed on by itself. All of this concerns one thread.
    let with_capabilities = |capabilities: CapabilitySet| {
        inside(&namespace, async move || {
            rustix::thread::set_keep_capabilities(true)?;
            let nobody = Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody)?;
            let sets = CapabilitySets {
                effective: capabilities,
                permitted: capabilities,
                inheritable: CapabilitySet::empty(),
            };
            rustix::thread::set_capabilities(None, sets)?;
            let required = culvert_host::require_net_admin();
            Ok((required, Firewall::install(rules()).await))
        })
    };
    let (required, installed) = with_capabilities(CapabilitySet::NET_ADMIN);
    assert!(required.is_ok(), "{required:?}");
    assert!(installed.is_ok(), "{installed:?}");
    let (required, installed) = with_capabilities(CapabilitySet::empty());
    assert!(
        matches!(required, Err(HostError::NeedsNetAdmin)),
        "{required:?}"
    );
    assert!(
        matches!(installed, Err(HostError::NeedsNetAdmin)),
        "{installed:?}"
    );
}

#[test]
fn a_change_of_the_table_is_told_at_once_with_who_made_it_and_those_of_others_are_not() {
    let namespace = namespace();
    inside(&namespace, async || {
        nft("add table inet theirs")?;
        let firewall = Firewall::install(rules()).await?;
        let mut watch = FirewallWatch::open(&rules().interface)?;
        nft("add chain inet theirs theirs; delete table inet theirs")?;
        let told = timeout(NOTHING_COMES, watch.changed()).await;
        assert!(told.is_err(), "{told:?}");
        for change in ["flush chain inet culvert_cv0 forward", "flush ruleset"] {
            nft(change)?;
            let told = timeout(DEADLINE, watch.changed()).await??;
            assert_eq!(told.as_deref(), Some("nft"), "{change}");
        }
        assert_eq!(firewall.check().await?, TableState::Lost);
        Ok(())
    });
}
