//! Names that a search list makes, of a site that does not answer.

use crate::common::{
    A_TYPE, AAAA_TYPE, BOTH, CORP, Clocked, EDNS, TXT_TYPE, UPSTREAMS, name, query, upstream_answer,
};
use culvert_dns::{
    ACCESS_WAIT, DEAD_WAIT, Outcome, SUSPECT_AFTER, SUSPECT_WAIT, Transport, UPSTREAM_TRIES,
    UPSTREAM_WAIT,
};
use domain::base::iana::{ExtendedErrorCode, OptRcode};
use std::time::Duration;

/// The one name that exists elsewhere, and what the search list makes of it.
const PUBLIC: &str = "www.example.com";
const CANDIDATE: &str = "www.example.com.corp.example";

fn ms(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap()
}

/// A machine that completes names with the resource's domain.
fn searching() -> Clocked {
    let mut stub = Clocked::new();
    stub.stub
        .set_search(&[name("corp.example"), name("eu.corp.example")]);
    stub
}

/// Answers what is asked of the upstreams, as one does that knows [`PUBLIC`] and what ends in `.test` alone.
fn serve(stub: &mut Clocked) -> usize {
    let forwards = std::mem::take(&mut stub.forwards);
    for forward in &forwards {
        let text = String::from_utf8_lossy(&forward.query).to_lowercase();
        let is_known =
            text.contains("\u{3}www\u{7}example\u{3}com\0") || text.contains("\u{4}test\0");
        let mut answer = upstream_answer(&forward.query, &[]);
        if !is_known {
            answer[3] |= 3;
        }
        stub.answer_upstream(&answer, &forward.upstream.to_string())
            .unwrap();
    }
    forwards.len()
}

/// Asks, with upstreams that answer at once, and says how long the answer took and its code.
fn timed(stub: &mut Clocked, id: u16, name: &str, qtype: u16) -> (u64, OptRcode) {
    let begun = stub.now_ms;
    stub.ask(id, name, qtype);
    serve(stub);
    while stub.answers.is_empty() {
        assert!(stub.now_ms < begun + 10_000, "{name} has no answer");
        stub.pass(1);
        serve(stub);
    }
    (stub.now_ms - begun, stub.answer().code)
}

/// Names until the site counts as dead: two without an answer.
fn kill(stub: &mut Clocked) {
    for (id, host) in [(900, "a.corp.example"), (901, "b.corp.example")] {
        stub.ask(id, host, A_TYPE);
        stub.resolve(host, Outcome::Unanswered);
    }
    stub.answers.clear();
}

#[test]
fn a_search_goes_on_from_a_silent_site_to_the_name_that_exists_elsewhere() {
    let mut stub = searching();
    let (took, code) = timed(&mut stub, 1, CANDIDATE, A_TYPE);
    assert_eq!((took, code), (ms(SUSPECT_AFTER), OptRcode::NXDOMAIN));
    // Nobody has said yet that the site is dead, and it is not waited for as long again.
    for (id, qtype) in [(2, AAAA_TYPE), (3, A_TYPE), (4, TXT_TYPE)] {
        let (took, code) = timed(&mut stub, id, CANDIDATE, qtype);
        assert_eq!((took, code), (ms(SUSPECT_WAIT), OptRcode::NXDOMAIN));
    }
}

#[test]
fn a_site_that_answers_is_believed_whatever_exists_elsewhere() {
    let mut stub = searching();
    stub.ask(1, CANDIDATE, A_TYPE);
    stub.pass(ms(SUSPECT_AFTER) - 1);
    assert_eq!(stub.forwards, [], "the name is nobody else's business yet");
    stub.resolve(CANDIDATE, Outcome::Families(BOTH));
    assert_eq!(stub.answer().code, OptRcode::NOERROR);
    // Nor is anything that was said elsewhere while it was silent.
    let mut stub = searching();
    timed(&mut stub, 1, CANDIDATE, A_TYPE);
    stub.resolve(CANDIDATE, Outcome::Families(BOTH));
    let (took, code) = timed(&mut stub, 2, CANDIDATE, A_TYPE);
    assert_eq!((took, code), (0, OptRcode::NOERROR));
}

#[test]
fn a_name_of_the_site_alone_is_never_denied_by_its_silence() {
    let mut stub = searching();
    for host in ["db2.corp.example", "gone.example.com.corp.example"] {
        let (took, code) = timed(&mut stub, 1, host, A_TYPE);
        assert_eq!(
            (took, code),
            (ms(ACCESS_WAIT), OptRcode::SERVFAIL),
            "{host}"
        );
        stub.pass(10_000);
    }
    kill(&mut stub);
    for host in ["db3.corp.example", "lost.example.com.corp.example"] {
        let (took, code) = timed(&mut stub, 2, host, A_TYPE);
        assert_eq!((took, code), (ms(DEAD_WAIT), OptRcode::SERVFAIL), "{host}");
    }
}

#[test]
fn outside_names_wait_for_a_dead_site_no_longer_at_all_and_it_is_asked_all_the_same() {
    let mut stub = searching();
    kill(&mut stub);
    stub.wanted.clear();
    for number in 0..200 {
        let host = format!("h{number}.example.test.corp.example");
        let (took, code) = timed(&mut stub, number, &host, A_TYPE);
        assert_eq!((took, code), (0, OptRcode::NXDOMAIN), "{host}");
        assert_eq!(stub.wanted.pop().unwrap().0, name(&host));
        stub.resolve(&host, Outcome::Unanswered);
        stub.pass(50);
    }
    // The first answer ends it.
    stub.ask(1, "db2.corp.example", A_TYPE);
    stub.resolve("db2.corp.example", Outcome::Families(BOTH));
    assert_eq!(stub.answer().code, OptRcode::NOERROR);
    stub.ask(2, CANDIDATE, A_TYPE);
    stub.pass(ms(SUSPECT_AFTER) - 1);
    assert_eq!((stub.answers.len(), stub.forwards.len()), (0, 0));
}

#[test]
fn what_the_gateway_knows_already_is_no_sign_of_life_of_the_site() {
    let mut stub = searching();
    stub.grant("db2.corp.example");
    kill(&mut stub);
    // Each grant tells it again.
    stub.resolve("db2.corp.example", Outcome::Families(BOTH));
    let (took, code) = timed(&mut stub, 1, CANDIDATE, A_TYPE);
    assert_eq!((took, code), (0, OptRcode::NXDOMAIN));
}

#[test]
fn one_silent_name_leaves_the_others_of_its_site_their_time() {
    let mut stub = searching();
    for _ in 0..10 {
        stub.ask(1, "silent.corp.example", A_TYPE);
        stub.pass(2_500);
        stub.resolve("silent.corp.example", Outcome::Unanswered);
        stub.pass(5_000);
    }
    stub.answers.clear();
    stub.ask(2, "db2.corp.example", A_TYPE);
    stub.pass(ms(ACCESS_WAIT) - 1);
    stub.resolve("db2.corp.example", Outcome::Families(BOTH));
    assert_eq!(stub.answer().code, OptRcode::NOERROR);
}

#[test]
fn the_longest_search_domain_is_cut_off_and_a_resource_is_no_outside_name() {
    let mut stub = searching();
    kill(&mut stub);
    let (took, code) = timed(&mut stub, 1, "www.example.com.eu.corp.example", A_TYPE);
    assert_eq!((took, code), (0, OptRcode::NXDOMAIN));
    stub.ask(2, "a.corp.example.corp.example", A_TYPE);
    assert_eq!(stub.forwards, [], "{PUBLIC} alone is an outside name");
    // Without a search list, nobody hears of it.
    stub.stub.set_search(&[]);
    stub.ask(3, CANDIDATE, A_TYPE);
    assert_eq!(stub.forwards, []);
}

#[test]
fn with_no_upstream_that_answers_the_search_fails_as_the_site_does() {
    let mut stub = searching();
    kill(&mut stub);
    stub.ask(1, CANDIDATE, A_TYPE);
    stub.pass(ms(UPSTREAM_WAIT) * u64::try_from(UPSTREAM_TRIES).unwrap());
    let answer = stub.answer();
    assert_eq!(answer.code, OptRcode::SERVFAIL);
    assert_eq!(
        answer.error.unwrap().0,
        ExtendedErrorCode::NO_REACHABLE_AUTHORITY
    );
    assert_eq!(
        (stub.stub.counts().waiting, stub.stub.counts().forwarded),
        (0, 0)
    );
    assert!(
        stub.forwards
            .iter()
            .all(|it| UPSTREAMS.contains(&it.upstream.to_string().as_str()))
    );
}

#[test]
fn a_negative_answer_in_the_sites_place_may_not_be_remembered_and_says_why() {
    let mut stub = searching();
    kill(&mut stub);
    stub.send(&query(1, CANDIDATE, A_TYPE, EDNS), 1, Transport::Tcp)
        .unwrap();
    assert_eq!(serve(&mut stub), 1);
    let answer = stub.answer();
    assert_eq!(
        (answer.code, answer.negative_ttl_s),
        (OptRcode::NXDOMAIN, None)
    );
    assert_eq!(answer.error.unwrap().0, ExtendedErrorCode::NETWORK_ERROR);
    stub.end_access(CORP);
    assert_eq!(stub.answers, []);
}
