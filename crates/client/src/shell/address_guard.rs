//! Keeps the table by which the tunnel's addresses are for the tunnel alone.

use culvert_host::{AddressGuard, HostError, InterfaceName, TableState, remove_address_guard};
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The interval at which the table is checked, and after which a failure is tried again. A check takes a run of `nft`, 20 ms of
/// a processor. Without the table, a neighbour learns that there is a tunnel and opens nothing, so a minute is soon enough.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The task that keeps the table.
pub(crate) struct AddressGuardHandle {
    interface: InterfaceName,
    wanted: watch::Sender<Vec<IpAddr>>,
    task: JoinHandle<()>,
}

impl AddressGuardHandle {
    /// Begins. Nothing is set up before [`Self::want`].
    pub(crate) fn start(interface: InterfaceName) -> Self {
        let (wanted, wishes) = watch::channel(Vec::new());
        let task = tokio::spawn(keep(interface.clone(), wishes));
        Self {
            interface,
            wanted,
            task,
        }
    }

    /// These addresses are for the tunnel alone.
    pub(crate) fn want(&self, addresses: Vec<IpAddr>) {
        self.wanted.send_replace(addresses);
    }

    /// Ends, and removes the table.
    pub(crate) async fn remove(self) {
        self.task.abort();
        match remove_address_guard(&self.interface).await {
            // Without the program there was never a table.
            Ok(()) | Err(HostError::NftMissing) => {}
            Err(error) => {
                tracing::warn!(%error, "the rules about the tunnel's addresses could not be removed");
            }
        }
    }
}

impl Drop for AddressGuardHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Installs the table where other addresses are wanted, and where it is not as it was.
async fn keep(interface: InterfaceName, mut wishes: watch::Receiver<Vec<IpAddr>>) {
    let mut installed: Option<(Vec<IpAddr>, AddressGuard)> = None;
    let mut last_trouble = None;
    loop {
        let wanted = wishes.borrow_and_update().clone();
        let result = match wanted.is_empty() {
            true => Ok(()),
            false => install(&interface, wanted, &mut installed).await,
        };
        match result {
            Err(HostError::NftMissing) => {
                tracing::info!(
                    "packets from other interfaces to the tunnel's addresses are not dropped, because nft is missing: \
                     install the package nftables"
                );
                // It is asked for at the next start.
                return;
            }
            Err(error) => {
                let trouble = error.to_string();
                if last_trouble.as_ref() != Some(&trouble) {
                    tracing::warn!(
                        "packets from other interfaces to the tunnel's addresses are not dropped: {trouble}"
                    );
                }
                last_trouble = Some(trouble);
            }
            Ok(()) => last_trouble = None,
        }
        tokio::select! {
            changed = wishes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

async fn install(
    interface: &InterfaceName,
    wanted: Vec<IpAddr>,
    installed: &mut Option<(Vec<IpAddr>, AddressGuard)>,
) -> Result<(), HostError> {
    if let Some((addresses, guard)) = installed
        && *addresses == wanted
    {
        if guard.check().await? == TableState::Intact {
            return Ok(());
        }
        tracing::warn!(
            "another program changed the rules about the tunnel's addresses; they are installed again"
        );
    }
    let guard = AddressGuard::install(interface.clone(), &wanted).await?;
    *installed = Some((wanted, guard));
    Ok(())
}
