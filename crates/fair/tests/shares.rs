//! The rules by which entries give way to each other.

use culvert_base::Uptime;
use culvert_fair::{Bounds, FairTable, Place, Refused, Subscriber};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const CAPACITY: usize = 1_024;
const SETTLING: Duration = Duration::from_secs(2);
const BOUNDS: Bounds = Bounds {
    capacity: CAPACITY,
    per_subscriber: CAPACITY,
    settling: SETTLING,
};
const START: Uptime = Uptime::ZERO;
const LATER: Uptime = Uptime::after(Duration::from_secs(3));

fn v4(host: u32) -> Subscriber {
    Subscriber::of(IpAddr::V4(Ipv4Addr::from_bits(0xcb00_7100 + host)))
}

/// A /64 of the site 2001:db8:site::/48.
fn v6(site: u16, network: u16) -> Subscriber {
    let address = Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, 1);
    Subscriber::of(IpAddr::V6(address))
}

/// Takes an entry in and says whose gives way.
fn admit(table: &mut FairTable<Subscriber>, who: Subscriber, now: Uptime) -> Option<Subscriber> {
    table.admit(who, now, who).expect("nothing settles").1
}

#[test]
fn a_newcomer_takes_the_place_of_whoever_fills_the_table_at_once() {
    let mut table = FairTable::new(BOUNDS);
    let greedy = v4(1);
    for _ in 0..CAPACITY {
        assert_eq!(admit(&mut table, greedy, START), None);
    }
    for host in 2..500 {
        assert_eq!(admit(&mut table, v4(host), START), Some(greedy));
    }
    assert_eq!(table.len(), CAPACITY);
}

#[test]
fn a_site_that_fills_the_table_from_thousands_of_networks_is_one_holder() {
    let mut table = FairTable::new(BOUNDS);
    for network in 0..u16::MAX {
        let _ = table.admit(v6(1, network), START, v6(1, network));
    }
    assert_eq!(table.len(), CAPACITY);
    let quiet = [v4(1), v4(1), v6(2, 0), v6(2, 1)];
    for who in quiet {
        let gone = admit(&mut table, who, START).unwrap();
        assert!(!quiet.contains(&gone));
    }
    // And they stay, whatever the site goes on to do.
    for network in 0..u16::MAX {
        let _ = table.admit(v6(1, network), LATER, v6(1, network));
    }
    let stayed = table.values().filter(|who| quiet.contains(who));
    assert_eq!(stayed.count(), quiet.len());
}

#[test]
fn a_neighbour_of_the_greedy_in_the_same_provider_and_site_gets_in() {
    let mut table = FairTable::new(BOUNDS);
    let greedy = v6(1, 1);
    for _ in 0..CAPACITY {
        admit(&mut table, greedy, START);
    }
    for neighbour in [v6(1, 2), v6(1, 0x102), v6(2, 1)] {
        assert_eq!(admit(&mut table, neighbour, START), Some(greedy));
    }
}

#[test]
fn the_oldest_of_the_largest_holder_gives_way() {
    let mut table = FairTable::new(BOUNDS);
    let mut places = Vec::new();
    for number in 0..CAPACITY {
        places.push(table.admit(v4(1), START, number).unwrap().0);
    }
    for (number, place) in places.iter().enumerate().take(10) {
        let (_, gone) = table.admit(v4(2), START, CAPACITY).unwrap();
        assert_eq!(gone, Some(number));
        assert_eq!(table.remove(*place), None);
    }
    assert_eq!(table.remove(places[10]), Some(10));
    assert_eq!(table.admit(v4(2), START, 0).unwrap().1, None);
}

#[test]
fn a_crowd_behind_one_address_does_not_push_out_those_who_are_about_to_be_done() {
    let mut table = FairTable::new(BOUNDS);
    let first = table.admit(v4(1), START, 0).unwrap().0;
    for number in 1..CAPACITY {
        table.admit(v4(1), START, number).unwrap();
    }
    let early = Uptime::after(SETTLING - Duration::from_nanos(1));
    assert_eq!(table.admit(v4(1), early, 9), Err(Refused(9)));
    assert!(table.get(first).is_some());
    assert_eq!(
        table.admit(v4(1), Uptime::after(SETTLING), 9).unwrap().1,
        Some(0)
    );
}

#[test]
fn a_share_bounds_a_subscriber_where_there_is_room_and_wider_networks_have_multiples() {
    let bounds = Bounds {
        per_subscriber: 10,
        settling: Duration::MAX,
        ..BOUNDS
    };
    let fits = |who: fn(u16) -> Subscriber| {
        let mut table = FairTable::new(bounds);
        let admitted = |number: &u16| table.admit(who(*number), START, ()).is_ok();
        (0..1_000).filter(admitted).count()
    };
    assert_eq!(fits(|_| v4(1)), 10);
    assert_eq!(fits(|_| v6(1, 1)), 10);
    assert_eq!(fits(|number| v6(1, number % 256)), 20);
    assert_eq!(fits(|number| v6(1, number << 8)), 40);
    assert_eq!(fits(|number| v6(number, 1)), 80);
}

#[test]
fn a_proxy_has_no_share_to_exceed_and_gives_way_last() {
    let bounds = Bounds {
        per_subscriber: 10,
        ..BOUNDS
    };
    let proxy = Subscriber::proxy(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut table = FairTable::new(bounds);
    for _ in 0..CAPACITY - 2 {
        assert_eq!(admit(&mut table, proxy, START), None);
    }
    for host in [1, 1, 2] {
        admit(&mut table, v4(host), START);
    }
    assert_eq!(table.held_by(proxy), CAPACITY as u64 - 2);
    assert_eq!(table.held_by(v4(1)), 1);
}

#[test]
fn an_empty_table_keeps_nothing_of_those_who_left() {
    let mut table = FairTable::new(BOUNDS);
    let places: Vec<Place> = (0..1_000)
        .map(|number| table.admit(v6(number, number), START, ()).unwrap().0)
        .collect();
    for place in places {
        table.remove(place).unwrap();
    }
    assert!(table.is_empty());
    assert_eq!(table.held_by(v6(1, 1)), 0);
    // Loads of before count for nobody.
    for _ in 0..CAPACITY {
        table.admit(v6(1, 1), START, ()).unwrap();
    }
    assert_eq!(table.admit(v4(1), START, ()).unwrap().1, Some(()));
    assert_eq!(table.held_by(v4(1)), 1);
}
