//! Undoing what a client that was killed left on its host.

use crate::ClientError;
use culvert_host::{
    HostError, InterfaceName, Network, ResolverChoice, ResolverControl, ResolverMode, Routing,
    StateDir, remove_address_guard, remove_application_rules,
};
use std::path::Path;

/// Makes the system's resolver as it was before the client, where the state directory `state_dir` says
/// that it is not. Nothing happens where there is no such directory.
///
/// # Errors
/// [`ClientError::Host`] where a client runs in that directory, where it is another user's, or where the
/// resolver can't be put back; it says what to do.
pub async fn clean_up_resolver(state_dir: &Path) -> Result<(), ClientError> {
    if !state_dir.exists() {
        return Ok(());
    }
    let state = StateDir::open(state_dir)?;
    let _lock = state.lock()?;
    let mut control = ResolverControl::new(ResolverChoice::Mode(ResolverMode::Off), state);
    Ok(control.clean_up().await?)
}

/// Removes the rules, the routes and the tables of nftables of a client that is gone for good, and returns
/// which rules and routes there were, a line each. Until then they keep packets for resources from leaving
/// past the tunnel.
///
/// Must be called in a tokio runtime.
///
/// # Errors
/// [`ClientError::Host`] without `CAP_NET_ADMIN`, or where the kernel refuses.
pub async fn clean_up_network(
    interface: &InterfaceName,
    routing: &Routing,
) -> Result<Vec<String>, ClientError> {
    culvert_host::require_net_admin()?;
    let removed = Network::open()?.clean_up_leftovers(routing).await?;
    // Last: as long as anything leads to resources, the rules about applications stay.
    for removed in [
        remove_application_rules(interface).await,
        remove_address_guard(interface).await,
    ] {
        match removed {
            // Without the program there was never a table.
            Ok(()) | Err(HostError::NftMissing) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(removed)
}
