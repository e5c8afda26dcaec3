//! The client's addresses in the tunnel are for the tunnel alone.
//!
//! Linux takes a packet for any of its addresses at any of its interfaces (RFC 1122's weak host model). A neighbour on the
//! local network that sends to the tunnel's address learns from the encrypted answers which connections there are
//! (CVE-2019-14899). The client's gate sees nothing of such a packet, which never was in the tunnel, so it ends here: before
//! connections are tracked, and without a change of `rp_filter`.

use std::fmt::Write;
use std::net::IpAddr;

use super::rules::{TABLE_PREFIX, header, remove_text};
use super::{TableState, list, load, nft};
use crate::{Family, HostError, InterfaceName};

/// An installed table. It stays when this is dropped, as that about applications does.
#[derive(Debug)]
pub struct AddressGuard {
    interface: InterfaceName,
    /// The table as `nft` lists it, compared as text.
    listing: String,
}

impl AddressGuard {
    /// Installs the rules about these addresses in place of whatever was in their table.
    ///
    /// # Errors
    /// [`HostError::NftMissing`], [`HostError::NeedsNetAdmin`], or what `nft` says; the table is as it was before then.
    pub async fn install(
        interface: InterfaceName,
        addresses: &[IpAddr],
    ) -> Result<Self, HostError> {
        let text = to_nft(&interface, addresses);
        let listing = load(&table_of(&interface), text).await?;
        Ok(Self { interface, listing })
    }

    /// Looks whether the table is still as it was installed.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub async fn check(&self) -> Result<TableState, HostError> {
        Ok(match list(&table_of(&self.interface)).await? {
            None => TableState::Lost,
            Some(listing) if listing == self.listing => TableState::Intact,
            Some(_) => TableState::Changed,
        })
    }
}

/// Removes the table of an interface, such as one that a crash left behind; nothing happens if there is none.
///
/// # Errors
/// As [`AddressGuard::install`].
pub async fn remove_address_guard(interface: &InterfaceName) -> Result<(), HostError> {
    let text = remove_text(&table_of(interface));
    nft::run(&["-f", "-"], None, text)
        .await?
        .success("remove the table about the tunnel's addresses")?;
    Ok(())
}

fn table_of(interface: &InterfaceName) -> String {
    format!("{TABLE_PREFIX}addresses_{interface}")
}

/// The transaction that replaces whatever is in the table.
fn to_nft(interface: &InterfaceName, addresses: &[IpAddr]) -> String {
    let table = table_of(interface);
    let mut text = remove_text(&table);
    let mut line = |line: &str| {
        // Writing into a string does not fail.
        let _written = writeln!(text, "{line}");
    };
    line(&format!("table inet {table} {{"));
    line("\tchain prerouting {");
    line("\t\ttype filter hook prerouting priority raw; policy accept;");
    line(&format!("\t\tiifname {{ \"lo\", \"{interface}\" }} accept"));
    // Containers ask the host's resolver at this address, by the bridge that they are on. It answers guests alone.
    line("\t\tmeta l4proto { tcp, udp } th dport 53 accept");
    for address in addresses {
        let header = header(Family::of(*address));
        line(&format!("\t\t{header} daddr {address} counter drop"));
    }
    line("\t}");
    line("}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tunnel_and_the_host_itself_reach_the_tunnels_addresses() {
        let interface = "cv0".parse().unwrap();
        let addresses = ["100.64.0.9", "fd00::9"].map(|text| text.parse().unwrap());
        let text = to_nft(&interface, &addresses);
        assert_eq!(
            text,
            "table inet culvert_addresses_cv0\n\
             delete table inet culvert_addresses_cv0\n\
             table inet culvert_addresses_cv0 {\n\
             \tchain prerouting {\n\
             \t\ttype filter hook prerouting priority raw; policy accept;\n\
             \t\tiifname { \"lo\", \"cv0\" } accept\n\
             \t\tmeta l4proto { tcp, udp } th dport 53 accept\n\
             \t\tip daddr 100.64.0.9 counter drop\n\
             \t\tip6 daddr fd00::9 counter drop\n\
             \t}\n\
             }\n"
        );
    }
}
