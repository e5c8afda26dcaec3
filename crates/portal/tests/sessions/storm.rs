//! Many at once. `culvert-bench portal` measures how long they wait.

use crate::portal::{Machine, Portal};
use culvert_ids::ClientId;
use culvert_wire::messages::ToClient;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::http::header::RETRY_AFTER;

const CLIENTS: usize = 1_000;

/// Far more than the portal needs: only a portal that lost somebody reaches it.
const DEADLINE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_1000_clients_that_come_at_once_are_welcomed_if_they_return_when_told_to() {
    let portal = Arc::new(Portal::start().await);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let portal = Arc::clone(&portal);
        clients.spawn(async move { welcomed(&portal, &format!("m{number}")).await });
    }
    let clients = timeout(DEADLINE, clients.join_all()).await;
    let clients = clients.expect("everybody is welcomed in time");
    let ids: BTreeSet<_> = clients.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), CLIENTS);
}

/// Connects until the portal welcomes the client; waits as long as each refusal says.
async fn welcomed(portal: &Portal, machine: &str) -> (ClientId, Machine<ToClient, DuplexStream>) {
    loop {
        let wait_s = match portal.client_by_pipe(machine).await {
            Ok(mut client) => match client.hear().await {
                ToClient::Welcome { client: id, .. } => return (id, client),
                ToClient::Refused {
                    retry_after_s: Some(wait_s),
                    ..
                } => wait_s.into(),
                other => panic!("{other:?}"),
            },
            Err(refusal) => refusal.headers()[RETRY_AFTER]
                .to_str()
                .unwrap()
                .parse()
                .unwrap(),
        };
        sleep(Duration::from_secs(wait_s)).await;
    }
}
