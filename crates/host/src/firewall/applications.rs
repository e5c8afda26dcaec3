//! The programs of this host that may send into the tunnel, and their ranges: a table of the client's own.
//!
//! The rules stand at the hook for output, where a packet still knows the socket that sent it.
//! Traffic that this host forwards for other machines or containers belongs to no program here, so
//! no rule handles it. `docs/adr/0010-applications-by-cgroup.md` has the reasons.

mod ranges;
mod refused;
pub(super) mod rules;

pub use refused::Refused;
use rules::table_of;
pub use rules::{ApplicationRules, MAX_RULED_RANGES};

use std::collections::{BTreeMap, BTreeSet};

use culvert_policy::ApplicationName;

use super::{TableState, list, load, nft, rules::remove_text};
use crate::cgroup::ApplicationCgroups;
use crate::{HostError, InterfaceName};

/// An installed table. It stays when this is dropped: a client that crashes leaves it behind, and the
/// next one replaces it.
#[derive(Debug)]
pub struct ApplicationFirewall {
    rules: ApplicationRules,
    cgroups: ApplicationCgroups,
    /// The inodes of the cgroups at the time when the table was loaded.
    inodes: BTreeMap<ApplicationName, u64>,
    /// The table as `nft` lists it, compared as text.
    listing: String,
}

impl ApplicationFirewall {
    /// Installs the rules in place of whatever was in their table, all at once, after it has made the
    /// cgroups of all applications that they name.
    ///
    /// # Errors
    /// [`HostError::NoApplications`] where the kernel or its cgroups can't tell programs apart;
    /// [`HostError::NftMissing`], [`HostError::NeedsNetAdmin`], or what `nft` says. The table is as it
    /// was before then.
    pub async fn install(rules: ApplicationRules) -> Result<Self, HostError> {
        let cgroups = ApplicationCgroups::find()?;
        let mut inodes = BTreeMap::new();
        for application in rules.applications() {
            cgroups.ensure(&application)?;
            if let Some(inode) = cgroups.inode(&application) {
                inodes.insert(application, inode);
            }
        }
        let text = rules.to_nft(|application| cgroups.nft_path(application))?;
        let listing = load(&table_of(&rules.interface), text)
            .await
            .map_err(explain)?;
        Ok(Self {
            rules,
            cgroups,
            inodes,
            listing,
        })
    }

    /// The installed rules.
    #[must_use]
    pub const fn rules(&self) -> &ApplicationRules {
        &self.rules
    }

    /// The place of the applications' cgroups.
    #[must_use]
    pub const fn cgroups(&self) -> &ApplicationCgroups {
        &self.cgroups
    }

    /// Looks whether the table is still as it was installed; it is not, too, where a cgroup that it
    /// names has been removed or made anew.
    ///
    /// # Errors
    /// As [`install`](Self::install); an error means that nobody knows.
    pub async fn check(&self) -> Result<TableState, HostError> {
        Ok(match list(&table_of(&self.rules.interface)).await? {
            None => TableState::Lost,
            Some(listing) if listing != self.listing => TableState::Changed,
            Some(_) if self.cgroups_stand() => TableState::Intact,
            Some(_) => TableState::Changed,
        })
    }

    /// True if the cgroups are those that the table names: others of the same name, such as systemd
    /// makes when a service starts again, are none of them. This takes no other program.
    #[must_use]
    pub fn cgroups_stand(&self) -> bool {
        let applications = self.rules.applications();
        let stands = |application| {
            let inode = self.cgroups.inode(application);
            inode.is_some() && inode.as_ref() == self.inodes.get(application)
        };
        applications.iter().all(stands)
    }

    /// The packets refused since the last call.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub async fn take_refused(&self) -> Result<Refused, HostError> {
        let table = Some(table_of(&self.rules.interface));
        let arguments = &["reset", "counters", "table", "inet"];
        let outcome = nft::run(arguments, table, String::new()).await?;
        let text = outcome.success("read the counters of the firewall table")?;
        Ok(rules::parse_counters(&text))
    }

    /// Removes the table, and the cgroups of its applications that are empty.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub async fn remove(self) -> Result<(), HostError> {
        for application in self.rules.applications() {
            self.cgroups.remove(&application);
        }
        remove_application_rules(&self.rules.interface).await
    }

    /// Removes the cgroups, if they are empty, of applications that are in no rule any more.
    pub fn forget(&self, applications: &BTreeSet<ApplicationName>) {
        let named = self.rules.applications();
        for application in applications.difference(&named) {
            self.cgroups.remove(application);
        }
    }
}

/// Removes the table of an interface, such as one that a crash left behind; nothing happens if there
/// is none.
///
/// # Errors
/// As [`ApplicationFirewall::install`].
pub async fn remove_application_rules(interface: &InterfaceName) -> Result<(), HostError> {
    let text = remove_text(&table_of(interface));
    nft::run(&["-f", "-"], None, text)
        .await?
        .success("remove the firewall table")?;
    Ok(())
}

/// `nft` does not say what it is that the kernel lacks.
fn explain(error: HostError) -> HostError {
    match error {
        HostError::Nft { message, .. }
            if message.contains("Could not process rule")
                && (message.contains("No such file") || message.contains("not supported")) =>
        {
            HostError::no_applications(format!(
                "the kernel's packet filter does not know cgroups of sockets: it takes Linux 5.13 with \
                 CONFIG_NFT_SOCKET ({message})"
            ))
        }
        other => other,
    }
}
