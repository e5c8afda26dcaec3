//! A portal that is asked to end.

use crate::access::ask;
use crate::portal::{ACCOUNT, MEMBERSHIP, Portal, now};
use culvert_store::{AccessFilter, Client, Decision, PageLimit, StoreExt};
use culvert_wire::messages::ToClient;

#[tokio::test]
async fn all_that_was_recorded_is_in_the_database_when_it_has_stopped() {
    let portal = Portal::start().await;
    portal.delete(MEMBERSHIP).await;
    let mut clients = Vec::new();
    for number in 0..4 {
        let mut client = portal.client(&format!("m{number}")).await;
        let ToClient::Welcome { client: id, .. } = client.hear().await else {
            panic!("welcome");
        };
        client.say(&ask(1)).await;
        assert!(matches!(client.hear().await, ToClient::AccessDenied { .. }));
        clients.push((id, client));
    }
    let stopped_from = now();
    portal.sessions.stop().await;
    let filter = AccessFilter::default();
    let log = portal
        .store
        .access_log(ACCOUNT, &filter, None, PageLimit::MAX);
    let log = log.await.unwrap().items;
    assert_eq!(log.len(), 4);
    assert!(
        log.iter()
            .all(|line| line.entry.decision == Decision::Denied)
    );
    for (id, _session) in &clients {
        let row: Client = portal.store.get_as(ACCOUNT, *id).await.unwrap();
        assert!(row.seen.unwrap().at >= stopped_from, "seen until the end");
    }
}
