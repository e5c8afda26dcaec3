//! Changes of the network that are told, and those that are not; the addresses that are offered.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use culvert_host::{Network, NetworkChange, NetworkWatch, Routing, WatchOptions};
use tokio::time::timeout;

use crate::support::{inside, run, shell};
use crate::tunnel_host::{Host, RESOURCES, wanted};

/// Long enough for anything that does come.
const DEADLINE: Duration = Duration::from_secs(60);
/// As long as one may wait for what does not come: many times [`DEBOUNCE`].
const NOTHING_COMES: Duration = Duration::from_millis(400);
/// Short, so that the tests are.
const DEBOUNCE: Duration = Duration::from_millis(20);

const NOTHING: NetworkChange = NetworkChange {
    addresses: false,
    ways: false,
    rules: false,
};

fn options() -> WatchOptions {
    WatchOptions {
        own_interfaces: vec!["cv0".parse().expect("a name")],
        routing: Routing::CLIENT,
        destinations: Vec::new(),
        debounce: DEBOUNCE,
    }
}

async fn change(watch: &mut NetworkWatch) -> Result<NetworkChange> {
    let changed = timeout(DEADLINE, watch.changed()).await;
    Ok(changed.context("no change is told")??)
}

async fn nothing_changes(watch: &mut NetworkWatch) -> Result<()> {
    match timeout(NOTHING_COMES, watch.changed()).await {
        Err(_) => Ok(()),
        Ok(changed) => anyhow::bail!("told: {changed:?}"),
    }
}

#[test]
fn an_address_that_comes_or_goes_is_told() {
    let host = Host::new();
    inside(&host.namespace, async || {
        let mut watch = NetworkWatch::open(options()).await?;
        for (address, flags) in [("10.9.0.1/24", ""), ("fd00:9::1/64", "nodad")] {
            let plain: IpAddr = address.split('/').next().context("an address")?.parse()?;
            shell(&format!("ip address add {address} dev veth1 {flags}"))?;
            assert!(change(&mut watch).await?.addresses, "{address}");
            assert!(watch.candidates().contains(&plain));
            shell(&format!("ip address del {address} dev veth1"))?;
            assert!(change(&mut watch).await?.addresses, "{address}");
            assert!(!watch.candidates().contains(&plain));
        }
        shell("ip link set veth1 down")?;
        let changed = change(&mut watch).await?;
        assert!(changed.addresses && changed.ways, "{changed:?}");
        assert_eq!(watch.candidates(), Vec::<IpAddr>::new());
        Ok(())
    });
}

#[test]
fn a_way_that_changes_is_told() {
    let host = Host::new();
    inside(&host.namespace, async || {
        let mut watch = NetworkWatch::open(options()).await?;
        for command in [
            "ip route replace default via 10.200.1.9",
            "ip route del default",
            "ip route add default via 10.200.1.2 src 10.200.1.1",
            "ip -6 route replace default via fd00:200:1::9",
            "ip -6 route replace unreachable default",
            // As VPN programs take the default route over without replacing it.
            "ip route add 128.0.0.0/1 via 10.200.1.7",
            "ip rule add not fwmark 0x99 lookup 99 pref 100",
            "ip route add default via 10.200.1.8 table 99",
        ] {
            shell(command)?;
            if command.starts_with("ip rule") {
                continue;
            }
            let changed = change(&mut watch).await?;
            assert_eq!(
                changed,
                NetworkChange {
                    ways: true,
                    ..NOTHING
                },
                "{command}"
            );
        }
        Ok(())
    });
}

#[test]
fn ways_to_the_destinations_in_use_are_watched() {
    let host = Host::new();
    inside(&host.namespace, async || {
        let mut watch = NetworkWatch::open(options()).await?;
        shell("ip route add 203.0.113.0/24 via 10.200.1.7")?;
        nothing_changes(&mut watch).await?;
        watch
            .set_destinations(vec!["203.0.113.5".parse()?, "2001:db8::5".parse()?])
            .await?;
        nothing_changes(&mut watch).await?;
        shell("ip route replace 203.0.113.0/24 via 10.200.1.8")?;
        assert_eq!(
            change(&mut watch).await?,
            NetworkChange {
                ways: true,
                ..NOTHING
            }
        );
        shell("ip -6 route add 2001:db8::/64 via fd00:200:1::8")?;
        assert_eq!(
            change(&mut watch).await?,
            NetworkChange {
                ways: true,
                ..NOTHING
            }
        );
        Ok(())
    });
}

#[test]
fn the_tunnel_itself_is_no_news() {
    let host = Host::new();
    inside(&host.namespace, async || {
        let mut network = Network::open()?;
        let everything = wanted(&["0.0.0.0/0", "::/0", "10.1.0.0/16", "fd00:77::/64"]);
        network.apply(&everything).await?;
        let mut watch = NetworkWatch::open(options()).await?;
        let mut other = wanted(&["0.0.0.0/0", "::/0", "10.3.0.0/16"]);
        other.addresses = vec!["100.64.0.6".parse()?];
        other.mtu_bytes = 1300;
        assert!(!network.apply(&other).await?.changes.is_empty());
        shell("ip link set cv0 down")?;
        shell("ip route add 10.4.0.0/16 dev veth1 table 17238")?;
        nothing_changes(&mut watch).await?;
        // Nor is what only this host's containers see.
        shell("ip link add docker0 type bridge")?;
        shell("ip address add 172.17.0.1/16 dev docker0")?;
        shell("ip link set docker0 up")?;
        shell("ip route add 10.66.0.0/16 via 10.200.1.2")?;
        nothing_changes(&mut watch).await
    });
}

#[test]
fn rules_that_somebody_removes_are_told_and_can_be_applied_again() {
    let host = Host::new();
    inside(&host.namespace, async || {
        let mut network = Network::open()?;
        network.apply(&wanted(&RESOURCES)).await?;
        let mut watch = NetworkWatch::open(options()).await?;
        for family in ["-4", "-6"] {
            shell(&format!("ip {family} rule del pref 5010"))?;
            let changed = change(&mut watch).await?;
            assert_eq!(
                changed,
                NetworkChange {
                    rules: true,
                    ..NOTHING
                }
            );
            assert_eq!(network.apply(&wanted(&RESOURCES)).await?.changes.len(), 1);
            let changed = change(&mut watch).await?;
            assert_eq!(
                changed,
                NetworkChange {
                    rules: true,
                    ..NOTHING
                }
            );
            assert_eq!(network.apply(&wanted(&RESOURCES)).await?.changes.len(), 0);
            nothing_changes(&mut watch).await?;
        }
        Ok(())
    });
}

#[test]
fn many_changes_at_once_are_told_once() {
    let host = Host::new();
    inside(&host.namespace, async || {
        let mut watch = NetworkWatch::open(options()).await?;
        let mut commands = String::new();
        for number in 1..=10 {
            commands += &format!("ip address add 10.9.{number}.1/24 dev veth1\n");
        }
        shell(&commands)?;
        assert!(change(&mut watch).await?.addresses);
        assert_eq!(watch.candidates().len(), 2 + 10);
        nothing_changes(&mut watch).await
    });
}

#[test]
fn what_came_and_went_is_not_told() {
    let host = Host::new();
    inside(&host.namespace, async || {
        let mut watch = NetworkWatch::open(options()).await?;
        shell("ip address add 10.9.0.1/24 dev veth1; ip address del 10.9.0.1/24 dev veth1")?;
        nothing_changes(&mut watch).await
    });
}

#[test]
fn a_change_is_told_though_the_kernel_lost_its_event() {
    let host = Host::new();
    // Later events would do the work of the one that is lost.
    culvert_lab::wait_until("addresses proven unique", DEADLINE, || {
        run(&host.namespace, "ip -6 address show tentative").is_empty()
    })
    .expect("nobody else is on the link");
    inside(&host.namespace, async || {
        let mut watch = NetworkWatch::open(options()).await?;
        // Routes in our own table are no news, and the event of the address finds no room any more.
        let mut batch = String::new();
        for number in 0..5000 {
            batch += &format!(
                "route add 10.{}.{}.0/24 dev veth1 table 17238\n",
                20 + number / 250,
                number % 250
            );
        }
        batch += "address add 10.9.0.1/24 dev veth1\n";
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), batch)?;
        shell(&format!("ip -batch {}", file.path().display()))?;
        assert!(change(&mut watch).await?.addresses);
        // And it goes on.
        shell("ip address del 10.9.0.1/24 dev veth1")?;
        assert!(change(&mut watch).await?.addresses);
        Ok(())
    });
}

#[test]
fn waiting_for_a_change_can_be_given_up_at_any_moment() {
    let host = Host::new();
    inside(&host.namespace, async || {
        let mut watch = NetworkWatch::open(options()).await?;
        let mut told = 0;
        for number in 1..=3 {
            shell(&format!("ip address add 10.9.{number}.1/24 dev veth1"))?;
            for wait_us in (0..45_000).step_by(1500) {
                let wait = Duration::from_micros(wait_us);
                if let Ok(changed) = timeout(wait, watch.changed()).await {
                    assert!(changed?.addresses);
                    told += 1;
                }
            }
        }
        // A machine that is too busy may not have come that far.
        while watch.candidates().len() < 2 + 3 {
            assert!(change(&mut watch).await?.addresses);
            told += 1;
        }
        assert!((1..=3).contains(&told), "{told}");
        nothing_changes(&mut watch).await
    });
}

#[test]
fn an_apply_that_is_given_up_is_finished_by_the_next() {
    let host = Host::new();
    let many: Vec<String> = (0..200)
        .map(|number| format!("10.{number}.0.0/16"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    inside(&host.namespace, async || {
        let mut network = Network::open()?;
        for wait_us in (0..10_000).step_by(200) {
            let wanted = wanted(if wait_us % 400 == 0 {
                &many
            } else {
                &RESOURCES
            });
            let applied = network.apply(&wanted);
            let _given_up = timeout(Duration::from_micros(wait_us), applied).await;
        }
        network.apply(&wanted(&many)).await?;
        let again = network.apply(&wanted(&many)).await?;
        assert_eq!(again.changes, Vec::<String>::new());
        Ok(())
    });
    assert!(host.route("10.199.0.1").contains("dev cv0"));
    assert!(host.route("fd00:77::3").contains("dev veth1"));
}

#[test]
fn addresses_under_which_others_reach_the_host_are_offered() {
    let host = Host::new();
    for command in [
        // Another network without a way out: offered, but later.
        "ip link add aside type veth peer name asidepeer",
        "ip address add 10.3.0.1/24 dev aside",
        "ip link set aside up",
        "ip address add 10.4.0.1/24 dev asidepeer",
        // Containers behind a bridge.
        "ip link add docker0 type bridge",
        "ip address add 172.17.0.1/16 dev docker0",
        "ip link set docker0 up",
        "ip link add guest type veth peer name guestpeer",
        "ip link set guest master docker0",
        "ip link set guest up",
        // A bridge that is the host's way into a network.
        "ip link add br0 type bridge",
        "ip address add 10.5.0.1/24 dev br0",
        "ip link set br0 up",
        "ip link add card type ifb",
        "ip link set card master br0",
        "ip link add guest2 type veth peer name guest2peer",
        "ip link set guest2 master br0",
        // Addresses that are no good to others.
        "ip address add 169.254.7.7/16 dev veth1",
        "ip address add 10.6.0.1/24 dev veth1 scope link",
        "ip -6 address add fd00:6::1/64 dev veth1 nodad preferred_lft 0",
        "ip address add 100.64.0.5/32 dev cv0",
        "ip link set cv0 up",
        "ip address add 10.7.0.1/32 dev lo",
    ] {
        run(&host.namespace, command);
    }
    let offered = inside(&host.namespace, async || {
        let own = ["cv0".parse()?];
        let now = Network::open()?.candidates(&own, &Routing::GATEWAY).await?;
        let watched = NetworkWatch::open(options()).await?.candidates();
        assert_eq!(now, watched);
        Ok(now)
    });
    let offered: Vec<String> = offered.iter().map(ToString::to_string).collect();
    assert_eq!(
        offered,
        ["10.200.1.1", "fd00:200:1::1", "10.3.0.1", "10.5.0.1"]
    );
}
