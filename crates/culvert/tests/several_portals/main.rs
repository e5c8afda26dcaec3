//! Several portals on one PostgreSQL database: sessions at any of them, and a leader that ends, hangs, or stops.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../store-sql/tests/postgres/process.rs"]
mod process;

mod machines;
mod scene;

use culvert_store::LEASE_MS;
use machines::{Client, Gateway, Relay, metrics};
use scene::Office;
use std::time::{Duration, Instant};

/// The longest time after the end of a leader until there is access anew, on a machine that others keep busy. The test
/// prints the time that it took.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_client_at_one_portal_gets_access_through_a_gateway_at_another() {
    let office = Office::with_portals(3);
    let mut gateway = Gateway::join(&office, 1).await.unwrap();
    for portal in [0, 1, 2] {
        let mut client = Client::join(&office, portal).await.unwrap();
        let (granted, answered) = tokio::join!(client.ask(), gateway.accept());
        assert_eq!(granted.unwrap(), answered.unwrap(), "portal {portal}");
    }
    // A policy that ends at one portal ends the grant of a client at another, at once.
    let mut client = Client::join(&office, 2).await.unwrap();
    let (granted, _) = tokio::join!(client.ask(), gateway.accept());
    office.at(1, "policy delete p --yes").ok();
    assert_eq!(client.revoked().await.unwrap(), granted.unwrap());
    // Each portal shows the portals and the machines of all.
    let token = office
        .at(0, "token create --kind api --actor ci --role auditor")
        .ok();
    for portal in [0, 1, 2] {
        let portals = office.at(portal, "portal list").ok();
        assert_eq!(portals.matches("follows").count(), 2, "{portals}");
        assert_eq!(portals.matches("leads").count(), 1, "{portals}");
        assert_eq!(portals.matches("(this one)").count(), 1, "{portals}");
        assert!(portals.contains("right"), "{portals}");
        assert!(portals.contains("\nDatabase: PostgreSQL "), "{portals}");
        let page = metrics(&office, portal, &token).await;
        let leads = i32::from(portal == office.leader());
        for line in [
            format!("culvert_portal_leads {leads}\n"),
            "culvert_portal_has_leader 1\n".to_owned(),
            "culvert_portal_portals{state=\"follows\"} 2\n".to_owned(),
            "culvert_portal_portals{state=\"silent\"} 0\n".to_owned(),
        ] {
            assert!(page.contains(&line), "{portal}: no {line}in {page}");
        }
        let listed = office.at(portal, "gateway list --json").ok();
        assert!(listed.contains("\"connected\":true"), "{portal}: {listed}");
    }
    let why = office
        .at(0, "explain --client client-2 --resource db")
        .denies();
    assert!(why.contains("no policy"), "{why}");
}

#[tokio::test]
async fn a_relay_at_any_portal_is_shown_and_led_by_all() {
    let office = Office::with_portals(3);
    let token = office.at(0, "token create --kind relay").ok();
    for portal in [0, 1, 2] {
        let mut relay = Relay::join(&office, portal, &token).await.unwrap();
        for other in [0, 1, 2] {
            let listed = office.at(other, "relay list --json").ok();
            assert!(listed.contains("\"connected\":true"), "{other}: {listed}");
        }
        let other = (portal + 1) % 3;
        office.at(other, "relay drain relay").ok();
        assert_eq!(relay.is_drained().await, Ok(true));
        office.at(other, "relay undrain relay").ok();
        assert_eq!(relay.is_drained().await, Ok(false));
    }
}

#[tokio::test]
async fn after_a_leader_was_killed_there_is_new_access() {
    let mut office = Office::with_portals(3);
    for _ in 0..2 {
        let leader = office.leader();
        let others: Vec<_> = office.running().filter(|at| *at != leader).collect();
        let mut gateway = Gateway::join(&office, others[0]).await.unwrap();
        let mut client = Client::join(&office, others[0]).await.unwrap();
        let (granted, _) = tokio::join!(client.ask(), gateway.accept());
        granted.unwrap();
        office.kill(leader);
        let began = Instant::now();
        // The machines come back, as the programs do.
        let mut gateway = Gateway::join_again(&office, others[0], began + SOON).await;
        let mut client = Client::join_again(&office, others[0], began + SOON).await;
        let (granted, _) = tokio::join!(client.ask(), gateway.accept());
        granted.unwrap();
        let took_s = began.elapsed().as_secs_f32();
        println!("new access {took_s:.1} s after the end of the leader");
        assert_ne!(office.leader(), leader);
        office.start(leader);
    }
}

#[tokio::test]
async fn a_leader_that_stops_hands_over_at_once() {
    let mut office = Office::with_portals(2);
    let leader = office.leader();
    let other = 1 - leader;
    let mut at_leader = Client::join(&office, leader).await.unwrap();
    let mut at_other = Client::join(&office, other).await.unwrap();
    office.terminate(leader);
    // So that they do not all come at the same moment, wherever they are.
    assert!(at_leader.is_told_when_to_come_back().await);
    assert!(at_other.is_told_when_to_come_back().await);
    let until = Instant::now() + SOON;
    let mut gateway = Gateway::join_again(&office, other, until).await;
    let mut client = Client::join_again(&office, other, until).await;
    let (granted, _) = tokio::join!(client.ask(), gateway.accept());
    granted.unwrap();
    assert_eq!(office.leader(), other);
}

#[tokio::test]
async fn while_the_database_is_away_nothing_is_granted_and_no_session_is_lost() {
    let office = Office::with_portals(1);
    let mut gateway = Gateway::join(&office, 0).await.unwrap();
    let mut client = Client::join(&office, 0).await.unwrap();
    office.take_database_away();
    // The lease has run out by then.
    tokio::time::sleep(Duration::from_millis(LEASE_MS)).await;
    client.say_ask().await;
    assert!(gateway.hears_nothing_for(Duration::from_secs(1)).await);
    office.bring_database_back();
    let (granted, accepted) = tokio::join!(client.granted(), gateway.accept());
    assert_eq!(granted.unwrap(), accepted.unwrap());
}

#[tokio::test]
async fn a_leader_that_was_paused_grants_nothing_after_another_leads() {
    let office = Office::with_portals(2);
    let leader = office.leader();
    let other = 1 - leader;
    // Both are at the leader, so no other portal stands between it and them.
    let mut gateway = Gateway::join(&office, leader).await.unwrap();
    let mut client = Client::join(&office, leader).await.unwrap();
    office.pause(leader);
    // The question waits for the leader in its socket.
    client.say_ask().await;
    office.wait_for_leader(other).await;
    office.resume(leader);
    assert!(client.is_told_to_come_back().await);
    assert!(gateway.hears_of_no_grant().await);
    office.wait_for_leader(other).await;
}

#[tokio::test]
async fn after_the_database_went_back_in_time_machines_are_told_of_the_state_that_it_has() {
    let office = Office::with_portals(2);
    for go_back in [Office::lose_changes, Office::exchange_changes] {
        let until = Instant::now() + SOON;
        Client::join_again(&office, 1, until).await;
        go_back(&office);
        // A client without a resource is not taken for one.
        while !Client::join(&office, 1)
            .await
            .is_err_and(|why| why == "no resource")
        {
            assert!(Instant::now() < until, "the hub goes on by lost changes");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        office
            .at(1, "policy create p --group build --resource db")
            .ok();
        let mut gateway = Gateway::join_again(&office, 0, until).await;
        let mut client = Client::join_again(&office, 1, until).await;
        let (granted, _) = tokio::join!(client.ask(), gateway.accept());
        granted.unwrap();
    }
}

#[tokio::test]
async fn a_leader_that_is_cut_off_from_the_database_sends_its_machines_to_the_next_one() {
    let office = Office::with_portals(2);
    let leader = office.leader();
    let other = 1 - leader;
    let mut client = Client::join(&office, leader).await.unwrap();
    office.cut_off(leader);
    office.wait_for_leader(other).await;
    // It hears of the next leader from that one alone.
    assert!(client.is_told_when_to_come_back().await);
    let until = Instant::now() + SOON;
    let mut gateway = Gateway::join_again(&office, other, until).await;
    let mut client = Client::join_again(&office, other, until).await;
    let (granted, _) = tokio::join!(client.ask(), gateway.accept());
    granted.unwrap();
}
