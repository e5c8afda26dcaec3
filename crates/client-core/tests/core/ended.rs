//! Access that ended: what led into the tunnel is refused there, unless the account lets it go.

use crate::play::{Granting, Play, prefix, reason, resource, resource_id, to};
use culvert_client_core::{Domains, PacketRefusal};
use culvert_dns::Transport;
use culvert_wire::messages::{ReasonCode, ToClient};
use std::net::SocketAddr;

const OFFICE: &str = "10.0.0.0/24";
const SERVER: &str = "10.0.0.7";

fn set(play: &mut Play, number: u8, target: &str) {
    play.hear(ToClient::ResourceSet {
        resource: resource(number, target),
    });
}

fn remove(play: &mut Play, number: u8) {
    play.hear(ToClient::ResourceRemoved {
        resource: resource_id(number),
    });
}

/// The answer to a packet for an address, which has no route.
fn refusal(play: &mut Play, address: &str) -> Option<PacketRefusal> {
    play.refused.clear();
    play.packet(1, to(address, 80));
    play.refused.first().map(|(_, refusal)| *refusal)
}

fn leads(play: &Play, range: &str) -> bool {
    play.routes.contains(&prefix(range))
}

#[test]
fn a_resource_that_is_taken_away_is_refused_in_the_tunnel() {
    let mut play = Play::open(&[(1, OFFICE)]);
    play.gain(SERVER, 1, Granting::through(1, 1));
    assert!(play.way_to(SERVER).is_some());
    remove(&mut play, 1);
    assert!(leads(&play, OFFICE), "{:?}", play.routes);
    assert_eq!(play.way_to(SERVER), None);
    assert_eq!(refusal(&mut play, SERVER), Some(PacketRefusal::Prohibited));
    // Nobody is asked about it.
    assert!(play.said.is_empty(), "{:?}", play.said);
}

#[test]
fn a_resource_that_nobody_has_used_stays_in_the_tunnel_too() {
    let mut play = Play::open(&[(1, OFFICE)]);
    remove(&mut play, 1);
    assert!(leads(&play, OFFICE));
    assert_eq!(refusal(&mut play, SERVER), Some(PacketRefusal::Prohibited));
    let outside = refusal(&mut play, "10.0.1.7");
    assert_eq!(outside, Some(PacketRefusal::Unreachable));
}

#[test]
fn a_resource_that_comes_back_is_asked_for_again() {
    let mut play = Play::open(&[(1, OFFICE)]);
    remove(&mut play, 1);
    // As another one, at the same place.
    set(&mut play, 2, OFFICE);
    play.gain(SERVER, 2, Granting::through(1, 1));
    assert!(play.way_to(SERVER).is_some());
    remove(&mut play, 2);
    assert_eq!(refusal(&mut play, SERVER), Some(PacketRefusal::Prohibited));
}

#[test]
fn a_resource_that_leads_elsewhere_leaves_its_old_place_refused() {
    let mut play = Play::open(&[(1, OFFICE)]);
    set(&mut play, 1, "10.9.0.0/24");
    assert!(leads(&play, OFFICE) && leads(&play, "10.9.0.0/24"));
    assert_eq!(refusal(&mut play, SERVER), Some(PacketRefusal::Prohibited));
    assert_eq!(refusal(&mut play, "10.9.0.7"), None);
}

#[test]
fn a_wider_resource_still_gives_access_to_a_part_that_was_taken_away() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, OFFICE)]);
    remove(&mut play, 2);
    play.gain(SERVER, 1, Granting::through(1, 1));
    assert!(play.way_to(SERVER).is_some());
}

#[test]
fn what_was_taken_away_while_the_portal_was_out_of_reach_is_refused() {
    let mut play = Play::open(&[(1, OFFICE), (2, "10.5.0.0/24")]);
    play.disconnect();
    play.reconnect(vec![resource(2, "10.5.0.0/24")], Vec::new());
    assert!(leads(&play, OFFICE) && leads(&play, "10.5.0.0/24"));
    assert_eq!(refusal(&mut play, SERVER), Some(PacketRefusal::Prohibited));
}

#[test]
fn a_resource_that_the_portal_lists_later_is_not_refused_meanwhile() {
    let mut play = Play::open(&[(1, OFFICE), (2, "10.5.0.0/24"), (3, "10.6.0.0/24")]);
    play.disconnect();
    play.later_resources = 2;
    play.reconnect(vec![resource(3, "10.6.0.0/24")], Vec::new());
    assert!(play.client.is_listing());
    assert_eq!(refusal(&mut play, SERVER), None);
    set(&mut play, 1, OFFICE);
    assert!(play.client.is_listing());
    assert_eq!(refusal(&mut play, "10.5.0.7"), None);
    // With the last one, another that is new, it is known what has ended.
    set(&mut play, 4, "10.7.0.0/24");
    assert!(!play.client.is_listing());
    assert_eq!(
        refusal(&mut play, "10.5.0.7"),
        Some(PacketRefusal::Prohibited)
    );
    for listed in [SERVER, "10.6.0.7", "10.7.0.7"] {
        assert_eq!(refusal(&mut play, listed), None, "{listed}");
    }
}

#[test]
fn a_list_that_was_cut_off_begins_anew_with_the_next_session() {
    let mut play = Play::open(&[(1, OFFICE), (2, "10.5.0.0/24")]);
    play.disconnect();
    play.later_resources = 2;
    play.reconnect(vec![resource(3, "10.6.0.0/24")], Vec::new());
    play.disconnect();
    assert!(play.client.is_listing());
    play.later_resources = 1;
    play.reconnect(vec![resource(1, OFFICE)], Vec::new());
    assert_eq!(refusal(&mut play, "10.6.0.7"), None);
    set(&mut play, 2, "10.5.0.0/24");
    assert!(!play.client.is_listing());
    assert_eq!(
        refusal(&mut play, "10.6.0.7"),
        Some(PacketRefusal::Prohibited)
    );
}

#[test]
fn an_account_may_let_ended_access_leave_the_tunnel() {
    let mut play = Play::new();
    play.releases_ended_access = true;
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    play.welcome(vec![resource(1, OFFICE)], Vec::new());
    assert!(play.client.releases_ended_access());
    remove(&mut play, 1);
    assert!(!leads(&play, OFFICE), "{:?}", play.routes);
    // From now on it is refused, and what is refused is let go again.
    play.hear(ToClient::EndedAccessSet { releases: false });
    set(&mut play, 2, OFFICE);
    remove(&mut play, 2);
    assert!(leads(&play, OFFICE));
    play.hear(ToClient::EndedAccessSet { releases: true });
    assert!(!leads(&play, OFFICE));
}

#[test]
fn a_revoked_grant_is_refused_at_once() {
    let mut play = Play::open(&[(1, OFFICE)]);
    play.gain(SERVER, 1, Granting::through(1, 1));
    play.hear(ToClient::AccessRevoked {
        grant: crate::play::grant_id(1),
        reason: reason(ReasonCode::PolicyChanged),
    });
    assert!(leads(&play, OFFICE));
    assert_eq!(refusal(&mut play, SERVER), Some(PacketRefusal::Prohibited));
}

#[test]
fn a_name_that_was_taken_away_is_answered_here_and_not_by_the_network() {
    let mut play = Play::open(&[(1, "web.corp.example")]);
    let upstream: SocketAddr = "192.0.2.53:53".parse().unwrap();
    let now = play.now();
    play.client.set_dns_upstreams(&[upstream], now);
    remove(&mut play, 1);
    let within = ["web.corp.example".parse().unwrap()];
    let asked = Domains::Within(within.into_iter().collect());
    assert_eq!(play.domains.last(), Some(&asked));
    let mut question = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["web", "corp", "example"] {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend(label.as_bytes());
    }
    question.extend([0, 0, 1, 0, 1]);
    let from: SocketAddr = "127.0.0.1:4000".parse().unwrap();
    let now = play.now();
    play.client
        .handle_dns_query(&question, Transport::Udp, from, now);
    play.poll();
    assert!(play.upstreams.is_empty(), "{:?}", play.upstreams);
    assert_eq!(play.answers.len(), 1);
    // REFUSED, as for every name to which access is denied.
    assert_eq!(play.answers[0][3] & 0xF, 5, "{:?}", play.answers[0]);
}

/// The next run of a client, to which the portal shows these resources.
fn restarted(before: &Play, resources: &[(u8, &str)]) -> Play {
    let mut play = Play::new();
    let stored = before.remembered.last().cloned();
    play.client.set_remembered(stored.unwrap_or_default());
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    let resources = resources.iter().map(|(number, at)| resource(*number, at));
    play.welcome(resources.collect(), Vec::new());
    play
}

/// Lets the client keep what it has to.
fn keep(play: &mut Play) {
    play.pass(1_000);
}

#[test]
fn a_resource_that_moves_twice_leaves_both_places_refused() {
    let mut play = Play::open(&[(1, OFFICE)]);
    for place in ["10.9.0.0/24", "10.8.0.0/24"] {
        set(&mut play, 1, place);
    }
    assert_eq!(refusal(&mut play, SERVER), Some(PacketRefusal::Prohibited));
    let second = refusal(&mut play, "10.9.0.7");
    assert_eq!(second, Some(PacketRefusal::Prohibited));
    // Another one at the first place, which is let go again with the account's word.
    set(&mut play, 2, OFFICE);
    play.hear(ToClient::EndedAccessSet { releases: true });
    assert!(leads(&play, OFFICE) && !leads(&play, "10.9.0.0/24"));
    remove(&mut play, 2);
    assert!(!leads(&play, OFFICE), "{:?}", play.routes);
}

#[test]
fn access_that_ended_is_refused_by_the_next_run_too() {
    let mut play = Play::open(&[(1, OFFICE), (2, "web.corp.example"), (3, "10.5.0.0/24")]);
    keep(&mut play);
    remove(&mut play, 1);
    remove(&mut play, 2);
    // It was killed at once: nothing more is kept where access ends.
    let stored = play.remembered.len();
    keep(&mut play);
    assert_eq!(play.remembered.len(), stored);

    // While it did not run, the third was taken away.
    let mut next = restarted(&play, &[(4, "10.6.0.0/24")]);
    for range in [OFFICE, "10.5.0.0/24", "10.6.0.0/24"] {
        assert!(leads(&next, range), "{range}: {:?}", next.routes);
    }
    for ended in [SERVER, "10.5.0.7"] {
        assert_eq!(refusal(&mut next, ended), Some(PacketRefusal::Prohibited));
    }
    let within = ["web.corp.example".parse().unwrap()];
    let asked = Domains::Within(within.into_iter().collect());
    assert_eq!(next.domains.last(), Some(&asked));
    // And so by the run after that.
    keep(&mut next);
    let mut last = restarted(&next, &[(5, OFFICE)]);
    assert_eq!(
        refusal(&mut last, "10.6.0.7"),
        Some(PacketRefusal::Prohibited)
    );
    assert_eq!(refusal(&mut last, SERVER), None, "it is there again");
}

/// Of access that ended no id is known. Under the one that stands in its place another resource may be there.
#[test]
fn a_name_to_which_access_ended_is_no_name_of_another_resource() {
    let mut play = Play::open(&[(1, "web.corp.example")]);
    remove(&mut play, 1);
    set(&mut play, 0, OFFICE);
    crate::names::ask(&mut play, "web.corp.example", 1);
    assert!(play.said.is_empty(), "{:?}", play.said);
    assert_eq!(play.answers.last().unwrap()[3] & 0xF, 5);
}

#[test]
fn a_client_keeps_where_it_led_when_that_is_new_and_once_a_second_at_most() {
    let mut play = Play::open(&[(1, OFFICE)]);
    assert!(play.remembered.is_empty());
    for number in 2..50 {
        play.hear(ToClient::ResourceSet {
            resource: resource(number, &format!("10.{number}.0.0/24")),
        });
    }
    keep(&mut play);
    assert_eq!(play.remembered.len(), 1);
    // The same again, under another name and in a new session.
    play.hear(ToClient::ResourceSet {
        resource: culvert_wire::model::Resource {
            name: "another".to_owned(),
            ..resource(1, OFFICE)
        },
    });
    play.disconnect();
    play.reconnect(vec![resource(1, OFFICE)], Vec::new());
    keep(&mut play);
    assert_eq!(play.remembered.len(), 1);
    // One that ends before it is kept is told of in an orderly end.
    set(&mut play, 60, "10.60.0.0/24");
    assert!(play.client.take_unkept().is_some());
    assert!(play.client.take_unkept().is_none());
}

#[test]
fn an_account_that_releases_ended_access_releases_that_of_the_last_run() {
    let mut play = Play::open(&[(1, OFFICE)]);
    keep(&mut play);
    let mut next = Play::new();
    next.releases_ended_access = true;
    next.client.set_remembered(play.remembered[0].clone());
    next.client.handle_timeout(next.now());
    next.poll();
    next.connect();
    next.welcome(Vec::new(), Vec::new());
    assert!(!leads(&next, OFFICE), "{:?}", next.routes);
    keep(&mut next);
    assert!(next.remembered.last().unwrap().is_empty());
}
