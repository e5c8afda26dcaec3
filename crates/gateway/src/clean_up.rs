//! Undoing what a gateway that was killed left on its host.

use crate::GatewayError;
use culvert_host::{InterfaceName, Network, Routing, remove_table};

/// Removes the rules, the routes and the kernel's table of a gateway that is gone for good, and returns
/// which rules and routes there were, a line each.
///
/// Must be called in a tokio runtime.
///
/// # Errors
/// [`GatewayError::Host`] without `CAP_NET_ADMIN` or `nft`, or where the kernel refuses.
pub async fn clean_up(
    interface: &InterfaceName,
    routing: &Routing,
) -> Result<Vec<String>, GatewayError> {
    culvert_host::require_net_admin()?;
    culvert_host::require_nft()?;
    let removed = Network::open()?.clean_up_leftovers(routing).await?;
    // Last: as long as anything leads to the tunnel, its guard stays.
    remove_table(interface).await?;
    Ok(removed)
}
