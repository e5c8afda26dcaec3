use super::*;
use crate::limits::{
    DESCRIPTORS_NEEDED, LEAST_CONNECTIONS, MAX_CALLERS, MAX_CLOSING, MAX_CONNECTIONS,
    MAX_HANDSHAKES, MAX_SESSIONS, MAX_STRANGERS,
};
use crate::tables::{
    CALLERS_PER_ACTOR, HANDSHAKES_PER_SUBSCRIBER, STRANGERS_PER_SUBSCRIBER, Seated,
};
use culvert_ids::ActorId;
use std::time::Duration;
use tokio::time::{sleep, timeout};

fn bounds() -> Bounds {
    Bounds::new(Limits::FULL, Arc::new(Metrics::new()))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

async fn admit(bounds: &Bounds, address: &str) -> Option<Arc<Connection>> {
    let room = bounds.room().await;
    bounds.admit(ip(address), false, Class::Handshake, room)
}

/// True if a connection was told to give way.
async fn is_evicted(connection: &Connection) -> bool {
    timeout(Duration::ZERO, connection.evicted()).await.is_ok()
}

#[tokio::test]
async fn one_address_leaves_room_for_others_and_gets_its_own_back() {
    let bounds = bounds();
    let mut held = Vec::new();
    while let Some(connection) = admit(&bounds, "203.0.113.7").await {
        held.push(connection);
    }
    assert_eq!(held.len(), MAX_HANDSHAKES / HANDSHAKES_PER_SUBSCRIBER);
    let other = admit(&bounds, "203.0.113.8").await.unwrap();
    for connection in &held {
        assert!(!is_evicted(connection).await, "there is room");
    }
    held.pop();
    held.push(admit(&bounds, "203.0.113.7").await.unwrap());
    assert!(admit(&bounds, "203.0.113.7").await.is_none());
    drop((held, other));
    assert!(bounds.0.classes().handshakes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn handshakes_that_hang_give_way_to_those_of_everybody_else() {
    let bounds = bounds();
    let mut hanging = Vec::new();
    for network in 0..MAX_HANDSHAKES {
        // As many as one /48 may have, and the rest from addresses of IPv4.
        let address = match network % 2 {
            0 => format!("2001:db8:1:{network:x}::1"),
            _ => format!("198.51.{}.{}", network / 256, network % 4),
        };
        if let Some(connection) = admit(&bounds, &address).await {
            hanging.push(connection);
        }
    }
    let mut served = Vec::new();
    for host in 0..8 {
        let newcomer = admit(&bounds, &format!("203.0.113.{host}")).await;
        served.push(newcomer.unwrap());
    }
    for connection in &served {
        assert!(!is_evicted(connection).await);
    }
    let mut evicted = 0;
    for connection in &hanging {
        evicted += usize::from(is_evicted(connection).await);
    }
    assert_eq!(evicted, hanging.len() + served.len() - MAX_HANDSHAKES);
}

#[tokio::test]
async fn handshakes_that_hang_do_not_take_connections_that_are_through() {
    let bounds = bounds();
    let mut through = Vec::new();
    for host in 0..=255 {
        let connection = admit(&bounds, &format!("203.0.113.{host}")).await.unwrap();
        assert!(connection.has_shaken_hands());
        through.push(connection);
    }
    let mut hanging = Vec::new();
    for network in 0..2 * MAX_HANDSHAKES {
        hanging.extend(admit(&bounds, &format!("2001:db8:{network:x}::1")).await);
    }
    for connection in &through {
        assert!(!is_evicted(connection).await);
    }
}

#[tokio::test]
async fn strangers_take_no_place_of_those_who_have_shown_who_they_are() {
    let bounds = bounds();
    let mut known = Vec::new();
    for host in 0..=255u8 {
        let connection = admit(&bounds, "203.0.113.7").await.unwrap();
        assert!(connection.has_shaken_hands());
        match host % 2 {
            0 => connection.is_of(ActorId::from_bytes([host; 16])),
            _ => assert!(connection.is_of_machine(ip("203.0.113.7"))),
        }
        known.push(connection);
    }
    let mut strangers = Vec::new();
    for network in 0..2 * MAX_STRANGERS {
        let connection = admit(&bounds, &format!("2001:{:x}::1", 0x1000 + network)).await;
        let connection = connection.unwrap();
        assert!(connection.has_shaken_hands());
        strangers.push(connection);
        if strangers.len() == MAX_STRANGERS {
            // Those who give way are closed.
            strangers.remove(0);
        }
    }
    for connection in &known {
        assert!(!is_evicted(connection).await);
    }
}

#[tokio::test]
async fn an_actor_with_too_many_connections_takes_none_of_another_actors() {
    let bounds = bounds();
    let one = ActorId::from_bytes([1; 16]);
    let mut held = Vec::new();
    for host in 0..2 * MAX_CALLERS / CALLERS_PER_ACTOR {
        let address = format!("198.51.{}.{}", host / 256, host % 256);
        let connection = admit(&bounds, &address).await.unwrap();
        assert!(connection.has_shaken_hands());
        connection.is_of(one);
        held.push(connection);
    }
    let held_by_one = bounds.0.classes().callers.len();
    assert_eq!(held_by_one, MAX_CALLERS / CALLERS_PER_ACTOR);
    let other = admit(&bounds, "203.0.113.7").await.unwrap();
    other.is_of(ActorId::from_bytes([2; 16]));
    assert_eq!(bounds.0.classes().callers.len(), held_by_one + 1);
}

#[tokio::test]
async fn sessions_of_machines_never_give_way_and_are_bounded_in_all_and_for_one_address() {
    let bounds = bounds();
    let mut sessions = Vec::new();
    let mut refused = 0;
    for number in 0..MAX_SESSIONS + 3_000 {
        let address = match number < 5_000 {
            true => "203.0.113.7".to_owned(),
            false => format!("10.{}.{}.1", number / 256, number % 256),
        };
        let connection = admit(&bounds, &address).await.unwrap();
        match connection.is_of_machine(ip(&address)) {
            true => sessions.push(connection),
            false => refused += 1,
        }
        if number == 4_999 {
            assert_eq!(refused, 1_000, "4,000 share an address");
        }
    }
    assert_eq!(sessions.len(), MAX_SESSIONS);
    for session in &sessions {
        assert!(!is_evicted(session).await);
    }
}

#[tokio::test]
async fn requests_that_a_proxy_passes_on_count_for_whom_it_asks() {
    let bounds = bounds();
    let share = MAX_STRANGERS / STRANGERS_PER_SUBSCRIBER;
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..2 * share {
        let room = bounds.room().await;
        let proxy = bounds.admit(ip("10.0.0.1"), true, Class::Handshake, room);
        let proxy = proxy.unwrap();
        assert!(proxy.has_shaken_hands());
        refused += usize::from(!proxy.asks(ip("203.0.113.7")));
        held.push(proxy);
    }
    assert_eq!(refused, share);
    let proxy = held.last().unwrap();
    assert!(proxy.asks(ip("203.0.113.8")), "another client is served");
    proxy.is_of(ActorId::from_bytes([1; 16]));
    assert!(!proxy.asks(ip("203.0.113.7")), "each request is somebody's");
}

#[tokio::test]
async fn a_connection_that_gave_way_counts_until_it_is_closed() {
    let limits = Limits::within(512);
    let bounds = Bounds::new(limits, Arc::new(Metrics::new()));
    let mut open = Vec::new();
    let mut count = 0;
    // Nobody closes what gives way: at some point nobody is accepted.
    let stuck = async {
        loop {
            open.extend(admit(&bounds, &format!("10.0.{}.{}", count / 256, count % 256)).await);
            count += 1;
        }
    };
    let _ = timeout(Duration::from_millis(500), stuck).await;
    assert_eq!(count, limits.connections() + MAX_CLOSING);
    open.clear();
    assert!(admit(&bounds, "203.0.113.7").await.is_some());
}

#[test]
fn classes_share_what_descriptors_allow() {
    assert_eq!(Limits::FULL.connections(), MAX_CONNECTIONS);
    let needed = DESCRIPTORS_NEEDED;
    assert_eq!(Limits::within(needed), Limits::FULL);
    assert_eq!(Limits::within(u64::MAX), Limits::FULL);
    assert_ne!(Limits::within(needed - 1), Limits::FULL);
    for descriptors in [0, 64, 1_024, 4_096, 16_384] {
        let limits = Limits::within(descriptors);
        let connections = limits.connections();
        let Limits {
            handshakes,
            strangers,
            callers,
            machines,
            ..
        } = limits;
        assert!(
            [handshakes, strangers, callers, machines]
                .iter()
                .all(|of| *of > 0)
        );
        assert!(connections as u64 <= descriptors.max(LEAST_CONNECTIONS as u64));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_evicted_hears_of_it_however_late_it_listens() {
    let bounds = bounds();
    let first = admit(&bounds, "203.0.113.7").await.unwrap();
    let all = || {
        let classes = bounds.0.classes();
        classes.handshakes.values().for_each(Seated::evict);
    };
    all();
    sleep(Duration::from_secs(1)).await;
    assert!(is_evicted(&first).await);
}
