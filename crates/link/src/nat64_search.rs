//! The task that finds out how IPv4 addresses are reached.

use crate::look_up::LookUp;
use crate::nat64::{Nat64, find_nat64};
use culvert_path::Nat64Prefix;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The time after which a resolver that told no prefix is asked again: its server may have been away.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The task. It ends when this is dropped.
#[derive(Debug)]
pub struct Nat64Search {
    again: watch::Sender<u64>,
    /// The prefix by which IPv4 addresses are reached; none if they are reached as they are.
    pub found: watch::Receiver<Option<Nat64Prefix>>,
    task: JoinHandle<()>,
}

impl Nat64Search {
    /// Begins. `mark` keeps its questions about routes out of the tunnel.
    pub fn start(look_up: LookUp, mark: Option<u32>) -> Self {
        let (again, asked) = watch::channel(0);
        let (tell, found) = watch::channel(None);
        let task = tokio::spawn(search(look_up, mark, asked, tell));
        Self { again, found, task }
    }

    /// The network is another one.
    pub fn begin_again(&self) {
        self.again.send_modify(|count| *count += 1);
    }
}

impl Drop for Nat64Search {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn search(
    look_up: LookUp,
    mark: Option<u32>,
    mut asked: watch::Receiver<u64>,
    tell: watch::Sender<Option<Nat64Prefix>>,
) {
    loop {
        asked.borrow_and_update();
        let found = find_nat64(look_up, mark).await;
        tell.send_if_modified(|before| {
            let is_other = *before != found.prefix();
            if is_other {
                match found {
                    Nat64::NotNeeded => tracing::info!("IPv4 addresses are reached as they are"),
                    Nat64::Discovered(prefix) => {
                        tracing::info!(%prefix, "IPv4 addresses are reached by the NAT64 of this network");
                    }
                    Nat64::Assumed => tracing::info!(
                        prefix = %Nat64Prefix::WELL_KNOWN,
                        "this network has IPv6 alone, and its resolver tells no NAT64: the well-known prefix is used"
                    ),
                }
            }
            *before = found.prefix();
            is_other
        });
        let retry = async {
            match found {
                Nat64::Assumed => sleep(RETRY_AFTER).await,
                Nat64::NotNeeded | Nat64::Discovered(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = asked.changed() => if changed.is_err() { return },
            () = retry => {}
        }
    }
}
