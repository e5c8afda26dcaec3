//! Many at once.

use crate::portal::Portal;
use culvert_wire::messages::ToClient;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

const CLIENTS: usize = 1_000;

/// The limit for a portal on two processors that has nothing else to do.
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_1000_clients_that_come_at_once_are_welcomed_within_10_s() {
    let portal = Arc::new(Portal::start().await);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let portal = Arc::clone(&portal);
        clients.spawn(async move {
            let mut client = portal.client_by_pipe(&format!("m{number}")).await;
            match client.hear().await {
                ToClient::Welcome { client: id, .. } => (id, client),
                other => panic!("{other:?}"),
            }
        });
    }
    let clients = timeout(LIMIT, clients.join_all()).await;
    let clients = clients.expect("everybody is welcomed in time");
    let ids: BTreeSet<_> = clients.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), CLIENTS);
    let status = portal.sessions.status().await.unwrap();
    assert_eq!(status.clients, CLIENTS);
}
