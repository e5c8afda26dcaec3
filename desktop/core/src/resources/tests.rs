use super::*;
use crate::ended::{Ended, Moment};
use crate::phase::Contact;
use crate::status::{Portal, PortalState};

fn resource(id: &str, name: &str, target: &str, state: AccessState) -> Resource {
    Resource {
        id: id.to_owned(),
        name: name.to_owned(),
        target: target.to_owned(),
        state,
        ..Resource::default()
    }
}

fn status(resources: Vec<Resource>) -> Status {
    Status {
        resources: status::sorted(resources),
        portal: Portal {
            state: PortalState::Connected,
            ..Portal::default()
        },
        ..Status::default()
    }
}

fn ids(rows: &[Rc<Row>]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

fn sample() -> Status {
    status(vec![
        resource("r1", "Wiki", "wiki.corp.example", AccessState::Granted),
        resource("r2", "database", "10.0.0.5", AccessState::Denied),
        resource("r3", "Ärzte-Portal", "10.0.0.6", AccessState::Idle),
    ])
}

#[test]
fn favourites_come_first_and_the_rest_by_name() {
    let mut favourites = Favourites::default();
    assert_eq!(ids(&rows(&sample(), &[], &favourites)), ["r2", "r1", "r3"]);
    favourites.set("r3", true);
    assert_eq!(ids(&rows(&sample(), &[], &favourites)), ["r3", "r2", "r1"]);
}

#[test]
fn names_are_in_natural_order_whatever_their_case() {
    let named = |names: &[&str]| {
        let resources = names.iter().enumerate().map(|(number, name)| {
            resource(&format!("r{number}"), name, "10.0.0.1", AccessState::Idle)
        });
        let rows = rows(&status(resources.collect()), &[], &Favourites::default());
        let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
        names
    };
    let names = [
        "server 10",
        "Server 2",
        "SERVER 1",
        "server 02",
        "web",
        "API",
    ];
    let ordered = [
        "API",
        "SERVER 1",
        "server 02",
        "Server 2",
        "server 10",
        "web",
    ];
    assert_eq!(named(&names), ordered);
    // Also from another order of the resources.
    let mut other = names;
    other.reverse();
    assert_eq!(named(&other), ordered);
}

#[test]
fn equal_names_are_in_the_order_of_addresses_and_ids() {
    let all = status(vec![
        resource("r1", "Web", "10.0.0.10", AccessState::Idle),
        resource("r2", "web", "10.0.0.9", AccessState::Idle),
        resource("r4", "web", "10.0.0.1", AccessState::Idle),
        resource("r3", "WEB", "10.0.0.1", AccessState::Idle),
    ]);
    assert_eq!(
        ids(&rows(&all, &[], &Favourites::default())),
        ["r3", "r4", "r2", "r1"]
    );
}

#[test]
fn search_finds_each_word_in_name_or_address() {
    let rows = rows(&sample(), &[], &Favourites::default());
    let find = |query| ids(&search(&rows, query, Choice::All)).join(" ");
    assert_eq!(find("WIKI"), "r1");
    assert_eq!(find("corp wiki"), "r1");
    assert_eq!(find("ärzte"), "r3");
    assert_eq!(find("10.0.0"), "r2 r3");
    assert_eq!(find("10.0.0 wiki"), "");
    assert_eq!(find("  "), "r2 r1 r3");
    assert_eq!(ids(&search(&rows, "", Choice::Denied)), ["r2"]);
    assert_eq!(ids(&search(&rows, "", Choice::Granted)), ["r1"]);
    assert!(search(&rows, "", Choice::Favourites).is_empty());
}

#[test]
fn a_row_tells_the_path_of_a_grant_and_the_reason_of_a_denial() {
    let mut status = sample();
    let why = Reason {
        code: "no_access".to_owned(),
        text: "no\nway".to_owned(),
        ago_ms: 5,
    };
    for resource in &mut status.resources {
        let resource = Arc::make_mut(resource);
        resource.gateway = Some("g1".to_owned());
        resource.why = Some(why.clone());
    }
    let gateway = |path: &str, by_tls| Gateway {
        id: "g1".to_owned(),
        name: "gw-1".to_owned(),
        path: path.to_owned(),
        by_tls,
        ..Gateway::default()
    };
    status.gateways = vec![gateway("relayed", true)];
    let rows = rows(&status, &[], &Favourites::default());
    let denied = Denied {
        code: "no_access".to_owned(),
        text: "no\u{fffd}way".to_owned(),
        opens_unix_s: None,
    };
    assert_eq!(
        (rows[0].why.as_ref(), rows[0].through.as_ref()),
        (Some(&denied), None)
    );
    let through = ("gw-1".to_owned(), Path::RelayedByTls);
    assert_eq!(
        (rows[1].why.as_ref(), rows[1].through.as_ref()),
        (None, Some(&through))
    );
    assert_eq!(Path::of(&gateway("direct", false)), Path::Direct);
    assert_eq!(Path::of(&gateway("relayed", false)), Path::Relayed);
    assert_eq!(Path::of(&gateway("teleported", false)), Path::None);
}

/// Carries the steps out, as the list does.
fn apply(old: &[Rc<Row>], new: &[Rc<Row>]) -> Vec<Rc<Row>> {
    let mut list = old.to_vec();
    for Splice { at, removed, added } in difference(old, new) {
        list.splice(at..at + removed, new[at..at + added].iter().cloned());
    }
    list
}

fn numbered(numbers: impl Iterator<Item = usize>) -> Vec<Rc<Row>> {
    let resources = numbers.map(|number| {
        let name = format!("{number:05}");
        resource(&name, &name, "10.0.0.0/8", AccessState::Idle)
    });
    rows(&status(resources.collect()), &[], &Favourites::default())
}

#[test]
fn the_steps_lead_from_one_list_to_the_other() {
    let lists = [
        numbered(0..0),
        numbered(0..10),
        numbered(0..200),
        numbered((0..200).filter(|number| number % 7 != 3)),
        numbered(100..300),
        numbered(5..6),
    ];
    for old in &lists {
        for new in &lists {
            assert_eq!(&apply(old, new), new);
        }
    }
}

#[test]
fn a_change_of_one_row_is_a_step_of_one_row() {
    let old = numbered(0..100);
    let mut new = old.clone();
    assert!(difference(&old, &new).is_empty());
    Rc::make_mut(&mut new[3]).state = AccessState::Granted;
    Rc::make_mut(&mut new[90]).state = AccessState::Granted;
    let one = |at| Splice {
        at,
        removed: 1,
        added: 1,
    };
    assert_eq!(difference(&old, &new), [one(3), one(90)]);
    for row in &mut new[10..90] {
        Rc::make_mut(row).state = AccessState::Denied;
    }
    assert_eq!(
        difference(&old, &new),
        [Splice {
            at: 3,
            removed: 88,
            added: 88
        }]
    );
    assert_eq!(apply(&old, &new), new);
}

#[test]
fn the_list_is_bounded() {
    let resources = (0..=MAX_ROWS).map(|number| Resource {
        id: number.to_string(),
        ..Resource::default()
    });
    let status = status(resources.collect());
    assert_eq!(rows(&status, &[], &Favourites::default()).len(), MAX_ROWS);
}

#[test]
fn rows_that_are_updated_are_those_that_are_made_anew() {
    let mut favourites = Favourites::default();
    favourites.set("r030", true);
    let (mut updated, mut ended) = (Rows::default(), Ended::default());
    let mut status = status(
        (0..60)
            .map(|number| {
                resource(
                    &format!("r{number:03}"),
                    &format!("n{}", number % 7),
                    "t",
                    AccessState::Idle,
                )
            })
            .collect(),
    );
    let mut number = 1_usize;
    for step in 0..200_usize {
        // A small generator (Knuth, MMIX) chooses what changes.
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = (number >> 33) % status.resources.len();
        match step % 5 {
            0 => drop(status.resources.remove(place)),
            1 => Arc::make_mut(&mut status.resources[place]).name = format!("m{step}"),
            // Every second time one that was removed comes back.
            2 => {
                let mut all: Vec<Resource> =
                    status.resources.iter().map(|it| (**it).clone()).collect();
                let gone = ended.traces().last().filter(|_| step % 10 == 2);
                let new = resource(&format!("s{step}"), "new", "t", AccessState::Idle);
                all.push(gone.map_or(new, |gone| (*gone.resource).clone()));
                status.resources = status::sorted(all);
            }
            3 => Arc::make_mut(&mut status.resources[place]).state = AccessState::Denied,
            _ => {
                favourites.set("r030", step % 10 == 4);
            }
        }
        let now = Moment {
            now_ms: u64::try_from(step).unwrap(),
            unix_s: 0,
        };
        ended.observe(&Contact::Status(Arc::new(status.clone())), now);
        if step % 11 == 0 {
            let id = ended.traces().first().map(|it| it.resource.id.clone());
            ended.dismiss(&id.unwrap_or_default());
        }
        let traces = ended.traces();
        updated.update(&status, traces, &favourites, 0);
        assert_eq!(
            updated.all(),
            rows(&status, traces, &favourites),
            "step {step}"
        );
        assert!(!updated.update(&status, traces, &favourites, 0));
    }
}

#[test]
fn a_gateway_that_changes_its_path_changes_rows() {
    let mut status = sample();
    Arc::make_mut(&mut status.resources[0]).gateway = Some("g1".to_owned());
    status.gateways = vec![Gateway {
        id: "g1".to_owned(),
        path: "direct".to_owned(),
        ..Gateway::default()
    }];
    let (mut shown, favourites) = (Rows::default(), Favourites::default());
    assert!(shown.update(&status, &[], &favourites, 0));
    status.gateways[0].rx_bytes_per_s = 9;
    assert!(!shown.update(&status, &[], &favourites, 0));
    status.gateways[0].path = "relayed".to_owned();
    assert!(shown.update(&status, &[], &favourites, 0));
}

#[test]
fn a_resource_that_is_gone_stays_in_its_place_as_ended() {
    let mut all = vec![
        resource("r1", "a", "a.example", AccessState::Granted),
        resource("r2", "b", "b.example", AccessState::Granted),
        resource("r3", "c", "c.example", AccessState::Idle),
    ];
    for resource in &mut all {
        resource.allow = Some(vec!["tcp:443".to_owned()]);
    }
    let before = status(all.clone());
    all.remove(1);
    let after = status(all);
    let mut ended = Ended::default();
    let at = |now_ms| Moment { now_ms, unix_s: 9 };
    let (mut shown, favourites) = (Rows::default(), Favourites::default());
    ended.observe(&Contact::Status(Arc::new(before.clone())), at(0));
    shown.update(&before, ended.traces(), &favourites, 0);
    assert!(shown.all().iter().all(|row| row.opens && row.end.is_none()));
    ended.observe(&Contact::Status(Arc::new(after.clone())), at(1));
    assert!(shown.update(&after, ended.traces(), &favourites, 0));
    assert_eq!(ids(shown.all()), ["r1", "r2", "r3"]);
    let row = &shown.all()[1];
    let end = End {
        unix_s: 9,
        is_exact: true,
    };
    assert_eq!((row.end, row.opens), (Some(end), false));
    assert_eq!((&row.why, &row.through), (&None, &None));
    // It is found as any other, and is no access.
    assert_eq!(ids(&search(shown.all(), "b.example", Choice::All)), ["r2"]);
    assert_eq!(ids(&search(shown.all(), "", Choice::Granted)), ["r1"]);
    assert!(search(shown.all(), "", Choice::Denied).is_empty());
    ended.dismiss("r2");
    assert!(shown.update(&after, ended.traces(), &favourites, 0));
    assert_eq!(ids(shown.all()), ["r1", "r3"]);
}

#[test]
fn a_row_has_the_rate_of_its_resource_until_it_ends_and_others_stay_as_they_are() {
    let counted = |sent| {
        let mut status = sample();
        let first = Arc::make_mut(&mut status.resources[0]);
        (first.sent_bytes, first.received_bytes) = (Some(sent), Some(0));
        status
    };
    let (mut shown, favourites) = (Rows::default(), Favourites::default());
    assert!(shown.update(&counted(0), &[], &favourites, 1_000));
    assert_eq!(shown.next_ms(1_000), None);
    let before = shown.all().to_vec();
    assert!(shown.update(&counted(500), &[], &favourites, 2_000));
    let changed: Vec<_> = before
        .iter()
        .zip(shown.all())
        .filter(|(old, new)| old != new)
        .collect();
    let [(old, new)] = changed[..] else {
        panic!("{} rows changed", changed.len());
    };
    let rate = Rate {
        received: 0,
        sent: 500,
    };
    assert_eq!((old.rate, new.rate), (None, Some(rate)));
    // Nothing more comes: the rate ends by time.
    assert!(!shown.update(&counted(500), &[], &favourites, 3_000));
    let end_ms = shown.next_ms(3_000).unwrap();
    assert!(shown.update(&counted(500), &[], &favourites, end_ms));
    assert_eq!(shown.all(), before);
    assert_eq!(shown.next_ms(end_ms), None);
}
