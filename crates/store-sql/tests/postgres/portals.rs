//! Portals that share a database: one leads, and grants of an earlier leader are refused.

use crate::server::{Database, Server};
use culvert_ids::{AccountId, ClientId, GatewayId, GrantId, PolicyId, PortalId, ResourceId};
use culvert_store::{
    Account, AccountSettings, Author, Claim, Grant, LEASE_MS, Leading, MAX_PORTALS, PortalReport,
    Portals, Stamp, Store, StoreError,
};
use culvert_store_sql::SqlStore;
use culvert_wire::token::{CertificatePin, SecretDigest};
use culvert_wire::{Cipher, Timestamp};
use std::sync::Arc;
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);
const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);

pub(crate) fn report(number: u8) -> PortalReport {
    PortalReport {
        id: PortalId::from_bytes([number; 16]),
        address: ([192, 0, 2, number], 443).into(),
        pin: CertificatePin::of(&[number]),
        key: SecretDigest::from_bytes([number; 32]),
        version: "0.1.0".to_owned(),
        now: NOW,
    }
}

async fn portal(database: &Database) -> SqlStore {
    SqlStore::open(database.options().portal()).await.unwrap()
}

/// Has the lease last, however long a busy machine takes for what comes next.
pub(crate) async fn lengthen_lease(database: &Database) {
    let longer = "UPDATE portal_lead SET until_ms = until_ms + 600000";
    Server::get().run(&database.name, longer).await;
}

/// Ends the lease of the leader, as time does.
async fn end_lease(database: &Database) {
    let sql = "UPDATE portal_lead SET until_ms = 0";
    Server::get().run(&database.name, sql).await;
}

fn grant() -> Grant {
    Grant {
        id: GrantId::from_bytes([1; 16]),
        client: ClientId::from_bytes([2; 16]),
        gateway: GatewayId::from_bytes([3; 16]),
        resource: ResourceId::from_bytes([4; 16]),
        policy: PolicyId::from_bytes([5; 16]),
        cipher: Cipher::ChaCha20Poly1305,
        issued: NOW,
        expires: NOW,
    }
}

async fn create_account(store: &SqlStore) {
    let account = Account {
        id: ACCOUNT,
        name: "Example".to_owned(),
        settings: AccountSettings::default(),
        stamp: Stamp::default(),
    };
    let created = store.create_account(account, Author::PORTAL, NOW).await;
    created.unwrap();
}

#[tokio::test]
async fn one_portal_leads_until_its_lease_ends_and_the_next_one_has_a_higher_epoch() {
    let database = Server::get().database().await;
    let (one, two) = (portal(&database).await, portal(&database).await);
    let nobody = one.report(&report(1), Claim::Renew).await.unwrap();
    assert_eq!(nobody, Leading::Nobody);
    let first = one.report(&report(1), Claim::Take).await.unwrap();
    assert_eq!(first, Leading::This { epoch: 1 });
    lengthen_lease(&database).await;
    // However much another one wants it.
    let led = two.report(&report(2), Claim::Take).await.unwrap();
    let Leading::Other(leader) = led else {
        panic!("{led:?}");
    };
    assert_eq!((leader.epoch, leader.portal), (1, report(1).id));
    assert_eq!(
        (leader.address, leader.pin),
        (report(1).address, report(1).pin)
    );
    // A lease that ran out is renewed as long as nobody has taken it.
    end_lease(&database).await;
    let nobody = two.report(&report(2), Claim::Renew).await.unwrap();
    assert_eq!(nobody, Leading::Nobody);
    let again = one.report(&report(1), Claim::Renew).await.unwrap();
    assert_eq!(again, Leading::This { epoch: 1 });
    end_lease(&database).await;
    let taken = two.report(&report(2), Claim::Take).await.unwrap();
    assert_eq!(taken, Leading::This { epoch: 2 });
    lengthen_lease(&database).await;
    let led = one.report(&report(1), Claim::Take).await.unwrap();
    assert!(
        matches!(led, Leading::Other(leader) if leader.epoch == 2),
        "{led:?}"
    );
    // A leader that stops is followed at once.
    two.retire(report(2).id).await.unwrap();
    let back = one.report(&report(1), Claim::Take).await.unwrap();
    assert_eq!(back, Leading::This { epoch: 3 });
}

#[tokio::test]
async fn a_portal_that_says_nothing_for_the_time_of_a_lease_is_followed() {
    let database = Server::get().database().await;
    let (one, two) = (portal(&database).await, portal(&database).await);
    one.report(&report(1), Claim::Take).await.unwrap();
    let led = two.report(&report(2), Claim::Take).await.unwrap();
    assert!(matches!(led, Leading::Other(_)), "{led:?}");
    tokio::time::sleep(Duration::from_millis(LEASE_MS + 1)).await;
    let leads = two.report(&report(2), Claim::Take).await.unwrap();
    assert_eq!(leads, Leading::This { epoch: 2 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_portals_that_take_the_lead_at_once_exactly_one_has_it() {
    let database = Server::get().database().await;
    let mut portals = Vec::new();
    for _ in 0..4 {
        portals.push(Arc::new(portal(&database).await));
    }
    for round in 1..=250 {
        end_lease(&database).await;
        let mut reports = tokio::task::JoinSet::new();
        for (number, portal) in (1..).zip(&portals) {
            let portal = Arc::clone(portal);
            reports
                .spawn(async move { portal.report(&report(number), Claim::Take).await.unwrap() });
        }
        let answers = reports.join_all().await;
        let leads = |answer: &&Leading| matches!(answer, Leading::This { .. });
        assert_eq!(
            answers.iter().filter(leads).count(),
            1,
            "{round}: {answers:?}"
        );
    }
}

#[tokio::test]
async fn a_portal_writes_grants_only_while_no_other_one_has_begun_to_lead() {
    let database = Server::get().database().await;
    let (one, two) = (portal(&database).await, portal(&database).await);
    create_account(&one).await;
    let refused = |written: Result<u64, StoreError>| {
        assert!(
            matches!(written, Err(StoreError::NotLeading)),
            "{written:?}"
        );
    };
    refused(one.save_grants(ACCOUNT, vec![grant()]).await);
    one.report(&report(1), Claim::Take).await.unwrap();
    one.save_grants(ACCOUNT, vec![grant()]).await.unwrap();
    // A late leader that has not heard of its end yet.
    end_lease(&database).await;
    two.report(&report(2), Claim::Take).await.unwrap();
    refused(one.save_grants(ACCOUNT, vec![grant()]).await);
    refused(one.end_grants(ACCOUNT, vec![grant().id]).await);
    two.save_grants(ACCOUNT, vec![grant()]).await.unwrap();
    // A command beside the portals is none of them.
    let command = SqlStore::open(database.options()).await.unwrap();
    command.end_grants(ACCOUNT, Vec::new()).await.unwrap();
}

#[tokio::test]
async fn portals_are_listed_with_their_clocks_and_known_by_their_keys_while_they_run() {
    let database = Server::get().database().await;
    let store = portal(&database).await;
    store.report(&report(1), Claim::Take).await.unwrap();
    store.report(&report(2), Claim::Renew).await.unwrap();
    let old = "UPDATE portal SET seen_ms = seen_ms - 6000 WHERE address = '192.0.2.2:443'";
    Server::get().run(&database.name, old).await;
    let facts = store.database().await.unwrap();
    assert_eq!(facts.program, "PostgreSQL");
    assert_eq!(facts.name.as_ref(), Some(&database.name));
    assert!(facts.size_bytes > 1_000_000, "{facts:?}");
    let listed = store.portals().await.unwrap();
    let of = |number: usize| (listed[number].id, listed[number].runs, listed[number].leads);
    assert_eq!(of(0), (report(1).id, true, true));
    assert_eq!(of(1), (report(2).id, false, false));
    let ahead_ms = NOW.unix_ms().cast_signed() - listed[0].seen.unix_ms().cast_signed();
    assert!(
        listed[0].clock_ahead_ms.abs_diff(ahead_ms) < 60_000,
        "{listed:?}"
    );
    let key = store.portal_key(report(1).id).await.unwrap();
    assert_eq!(key, Some(report(1).key));
    assert_eq!(store.portal_key(report(2).id).await.unwrap(), None);
    assert_eq!(
        store
            .portal_key(PortalId::from_bytes([9; 16]))
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn a_portal_that_was_killed_again_and_again_is_let_in_and_those_that_run_stay_known() {
    let database = Server::get().database().await;
    let store = portal(&database).await;
    store.report(&report(1), Claim::Take).await.unwrap();
    let killed = format!(
        "INSERT INTO portal SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), address, pin, key_digest, software, \
         started_ms, seen_ms - 10000 - n, 0 FROM portal, generate_series(1, {MAX_PORTALS}) n"
    );
    Server::get().run(&database.name, &killed).await;
    let led = store.report(&report(2), Claim::Renew).await.unwrap();
    assert!(
        matches!(led, Leading::Other(leader) if leader.portal == report(1).id),
        "{led:?}"
    );
    let listed = store.portals().await.unwrap();
    assert_eq!(listed.len() as u64, MAX_PORTALS);
    assert!(listed[0].runs && listed[1].runs && !listed[2].runs);
}
