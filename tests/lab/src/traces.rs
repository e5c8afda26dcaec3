//! The files and settings of a machine, by which those that packages leave behind are found.

use crate::machine::Machine;
use anyhow::Result;
use std::collections::BTreeSet;

/// Files that `dpkg`, `systemd-sysusers` and systemd themselves keep when a package is purged: lists,
/// logs, and the copies of `/etc/passwd` and its like from before a change.
const OWNED_BY_OTHERS: [&str; 10] = [
    "/var/lib/dpkg/",
    "/var/log/dpkg.log",
    "/var/log/journal/",
    "/etc/passwd-",
    "/etc/group-",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/subuid-",
    "/etc/subgid-",
    "/etc/.pwd.lock",
];

/// The names of all files of a machine, and its network.
#[derive(Debug, PartialEq)]
pub struct Traces {
    files: BTreeSet<String>,
    network: String,
}

impl Traces {
    /// Those of now.
    ///
    /// # Errors
    /// When the machine does not answer.
    pub fn of(machine: &Machine) -> Result<Self> {
        let files = machine.shell("find / -xdev -print; find /run -xdev -name '*culvert*'")?;
        let is_ours = |file: &&str| {
            !OWNED_BY_OTHERS
                .iter()
                .any(|stored| file.starts_with(stored))
        };
        let network = machine.shell(
            "for family in -4 -6; do ip $family rule; ip $family route show table all; done | grep -v fe80: | sort
             ip -brief link | cut -d ' ' -f 1; nft list ruleset; cat /etc/resolv.conf",
        )?;
        Ok(Self {
            files: files.lines().filter(is_ours).map(str::to_owned).collect(),
            network,
        })
    }

    /// Checks that nothing new is left.
    ///
    /// # Panics
    /// When something is.
    pub fn is_gone(&self, now: &Self) {
        let left: Vec<_> = now.files.difference(&self.files).collect();
        assert!(left.is_empty(), "files are left: {left:#?}");
        assert_eq!(self.network, now.network);
    }
}
