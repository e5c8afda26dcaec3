//! The client's table about applications: its life, and what it does to sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv6Addr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use culvert_host::{
    ApplicationFirewall, ApplicationRules, CgroupWatch, HostError, MAX_RULED_RANGES, TableState,
    remove_application_rules,
};
use culvert_lab::application_name;
use culvert_policy::{ApplicationName, Applications, Prefix};

use tokio::time::timeout;

use crate::support::{inside, namespace, nft, run, shell};

/// Long enough for anything that does come.
const DEADLINE: Duration = Duration::from_secs(60);

/// An application of this test alone.
fn application() -> ApplicationName {
    application_name().parse().expect("a name")
}

/// `rule` for the addresses behind the interface `cv0`, except one.
fn rules(rule: Applications) -> ApplicationRules {
    ApplicationRules {
        interface: "cv0".parse().expect("a name"),
        ranges: BTreeMap::from([
            ("10.9.0.0/16".parse().expect("a range"), rule.clone()),
            ("10.9.0.7/32".parse().expect("a range"), Applications::ANY),
            ("fd09::/64".parse().expect("a range"), rule),
        ]),
    }
}

fn table() -> &'static str {
    "culvert_applications_cv0"
}

/// A namespace with an interface `cv0` behind which the addresses of [`rules`] are said to be.
fn with_interface() -> culvert_lab::Namespace {
    let namespace = namespace();
    for line in [
        "ip link add cv0 type veth peer name cv1",
        "ip address add 10.9.0.1/16 dev cv0",
        "ip address add fd09::1/64 dev cv0 nodad",
        "ip link set cv0 up",
        "ip link set cv1 up",
        // Nobody is there to say which card has which address.
        "ip neigh add 10.9.0.7 lladdr 02:00:00:00:00:07 dev cv0",
        "ip neigh add 10.9.0.8 lladdr 02:00:00:00:00:08 dev cv0",
        "ip neigh add fd09::8 lladdr 02:00:00:00:00:08 dev cv0",
    ] {
        run(&namespace, line);
    }
    namespace
}

/// True if the kernel takes a datagram of this process for there.
fn may_send(to: &str) -> bool {
    let from = if to.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = UdpSocket::bind(from).expect("a socket");
    match socket.send_to(b"x", to) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(
                error.kind(),
                std::io::ErrorKind::PermissionDenied,
                "{error}"
            );
            false
        }
    }
}

#[test]
fn a_program_of_no_application_is_refused_where_only_a_named_one_may_send_and_is_counted() {
    let namespace = with_interface();
    inside(&namespace, async || {
        let app = application();
        let only = Applications::only(BTreeSet::from([app.clone()]))?;
        let firewall = ApplicationFirewall::install(rules(only)).await?;
        assert!(!may_send("10.9.0.8:9"));
        assert!(!may_send("[fd09::8]:9"));
        assert!(may_send("10.9.0.7:9"), "the narrower range has no rule");
        let refused = firewall.take_refused().await?;
        assert_eq!((refused.others, refused.applications.len()), (2, 0));
        assert_eq!(firewall.take_refused().await?.others, 0, "counted once");
        let except = Applications::except(BTreeSet::from([app]))?;
        let firewall = ApplicationFirewall::install(rules(except)).await?;
        assert!(may_send("10.9.0.8:9") && may_send("[fd09::8]:9"));
        firewall.remove().await?;
        assert_eq!(nft("list ruleset")?, "");
        Ok(())
    });
}

#[test]
fn a_table_or_a_cgroup_that_was_removed_is_noticed_and_made_again() {
    let namespace = with_interface();
    inside(&namespace, async || {
        let app = application();
        let rule = Applications::only(BTreeSet::from([app.clone()]))?;
        let firewall = ApplicationFirewall::install(rules(rule.clone())).await?;
        assert_eq!(firewall.check().await?, TableState::Intact);
        nft(&format!("flush chain inet {} output", table()))?;
        assert_eq!(firewall.check().await?, TableState::Changed);
        nft("flush ruleset")?;
        assert_eq!(firewall.check().await?, TableState::Lost);
        let firewall = ApplicationFirewall::install(rules(rule.clone())).await?;
        firewall.cgroups().remove(&app);
        assert_eq!(firewall.check().await?, TableState::Changed);
        let firewall = ApplicationFirewall::install(rules(rule)).await?;
        assert_eq!(firewall.check().await?, TableState::Intact);
        assert!(!may_send("10.9.0.8:9"));
        firewall.remove().await.map_err(Into::into)
    });
}

/// The folder of the cgroups of applications.
fn slices() -> std::io::Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let mount = mount.and_then(|line| line.split(' ').nth(4));
    Ok(Path::new(mount.expect("a mount")).join("culvert.slice"))
}

#[test]
fn a_child_in_the_cgroup_may_send_and_what_it_starts_too() {
    let namespace = with_interface();
    inside(&namespace, async || {
        let app = application();
        let rule = Applications::only(BTreeSet::from([app.clone()]))?;
        let firewall = ApplicationFirewall::install(rules(rule)).await?;
        let slices = slices()?;
        let procs = slices.join(format!("culvert-{app}.slice/cgroup.procs"));
        let procs = procs.display();
        let send = "bash -c \"echo x >/dev/udp/10.9.0.8/9\"";
        shell(&format!("echo $$ > {procs}; {send}; sh -c {send:?}"))?;
        assert!(shell(send).is_err(), "outside");
        firewall.remove().await?;
        Ok(())
    });
}

#[test]
fn nobody_but_root_may_write_to_the_cgroup_of_an_application() {
    let namespace = with_interface();
    inside(&namespace, async || {
        let app = application();
        let rule = Applications::only(BTreeSet::from([app.clone()]))?;
        let firewall = ApplicationFirewall::install(rules(rule)).await?;
        let slices = slices()?;
        let own = slices.join(format!("culvert-{app}.slice"));
        let mut files = vec![slices.clone(), own.clone()];
        for folder in [slices, own.clone()] {
            for entry in std::fs::read_dir(folder)? {
                files.push(entry?.path());
            }
        }
        for file in files {
            // Cgroups of other tests come and go.
            let Ok(found) = std::fs::metadata(&file) else {
                continue;
            };
            let is_closed = found.uid() == 0 && found.mode() & 0o022 == 0;
            assert!(is_closed, "{}: {:o}", file.display(), found.mode());
        }
        let procs = own.join("cgroup.procs");
        let user = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        let moved = shell(&format!("{user} sh -c 'echo $$ > {}'", procs.display()));
        let refused = moved.expect_err("a user moves no process").to_string();
        assert!(refused.contains("denied"), "{refused}");
        firewall.remove().await?;
        Ok(())
    });
}

#[test]
fn tables_of_others_stay_and_a_table_that_a_crash_left_is_removed() {
    let namespace = with_interface();
    inside(&namespace, async || {
        nft("add table inet culvert_cv0")?;
        let before = nft("list ruleset")?;
        let app = application();
        let rule = Applications::except(BTreeSet::from([app.clone()]))?;
        let left = ApplicationFirewall::install(rules(rule)).await?;
        remove_application_rules(&"cv0".parse()?).await?;
        remove_application_rules(&"cv0".parse()?).await?;
        assert_eq!(nft("list ruleset")?, before);
        left.cgroups().remove(&app);
        Ok(())
    });
}

#[test]
fn as_many_ranges_as_there_may_be_are_installed_and_looked_at() {
    let namespace = namespace();
    inside(&namespace, async || {
        let app = application();
        let rule = Applications::only(BTreeSet::from([app.clone()]))?;
        // None is next to another, so that each stays one.
        let address = |number: usize| {
            let bits = u128::from(u64::try_from(number).expect("few")) * 2;
            Ipv6Addr::from_bits((0xfd09_ffff << 96) + bits)
        };
        let ranges = |count| {
            let ranges = (0..count).map(|number| {
                let range = Prefix::host(address(number).into());
                (range, rule.clone())
            });
            ApplicationRules {
                interface: "cv0".parse().expect("a name"),
                ranges: ranges.collect(),
            }
        };
        let firewall = ApplicationFirewall::install(ranges(MAX_RULED_RANGES)).await?;
        assert_eq!(firewall.check().await?, TableState::Intact);
        let more = ApplicationFirewall::install(ranges(MAX_RULED_RANGES + 1)).await;
        assert!(matches!(more, Err(HostError::TooMany { .. })));
        firewall.remove().await?;
        Ok(())
    });
}

#[test]
fn a_cgroup_that_goes_or_comes_is_told_at_once() {
    let namespace = with_interface();
    inside(&namespace, async || {
        let app = application();
        let rule = Applications::only(BTreeSet::from([app.clone()]))?;
        let firewall = ApplicationFirewall::install(rules(rule)).await?;
        let mut watch = CgroupWatch::open()?;
        firewall.cgroups().remove(&app);
        let gone = async {
            // Other tests make and remove theirs beside it.
            while firewall.cgroups_stand() {
                watch.changed().await?;
            }
            anyhow::Ok(())
        };
        timeout(DEADLINE, gone).await??;
        firewall.cgroups().ensure(&app)?;
        timeout(DEADLINE, watch.changed()).await??;
        firewall.remove().await.map_err(Into::into)
    });
}
