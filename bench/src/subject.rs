//! The measured subjects.

use anyhow::{Result, bail};
use culvert_io_models::Model;
use culvert_lab::Implementation;

/// The role of a subject in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The bare link.
    Direct,
    /// Culvert speaking plain WireGuard.
    Product,
    /// Culvert with its AES-256-GCM suite.
    ProductAes,
    /// Another implementation.
    Peer,
}

/// One column of the result.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// Its name in tables and results.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The means that carries its packets.
    pub(crate) means: Means,
}

/// The means that carries packets between the two namespaces.
#[derive(Clone, Debug)]
pub(crate) enum Means {
    /// The link itself.
    Link,
    /// A tunnel with this program at both ends.
    WireGuard(Implementation),
    /// A plain tunnel that waits for packets in this way.
    Plain(Model),
}

/// Names of the peers, fastest first.
const PEERS: [(&str, Implementation); 4] = [
    ("tailscale", Implementation::Tailscale),
    ("gotatun", Implementation::Gotatun),
    ("wireguard-go", Implementation::WireguardGo),
    ("boringtun", Implementation::Boringtun),
];

/// The one leads in TCP, the other in UDP and round-trip time: for a first impression they are enough.
const LEADING_PEERS: usize = 2;

/// The subjects of a run; a quick run has fewer peers. Also a line for each subject that is left out because it is not
/// built; the line is printed too.
///
/// # Errors
/// When `only_peers` has an unknown name.
pub(crate) fn choose(
    quick: bool,
    only_peers: Option<&[String]>,
    culvert_args: &str,
) -> Result<(Vec<Subject>, Vec<String>)> {
    for name in only_peers.unwrap_or_default() {
        if !PEERS.iter().any(|(peer, _)| peer == name) {
            bail!(
                "there is no peer '{name}': known are {}",
                PEERS.map(|(peer, _)| peer).join(", ")
            );
        }
    }
    let default_peers = if quick { LEADING_PEERS } else { PEERS.len() };
    let peers = PEERS
        .into_iter()
        .enumerate()
        .filter(|(index, (name, _))| match only_peers {
            Some(names) => names.iter().any(|wanted| wanted == name),
            None => *index < default_peers,
        });
    let plain = Implementation::culvert_with(culvert_args);
    let aes = Implementation::culvert_with(&format!("--cipher aes256gcm {culvert_args}"));
    let mut subjects = vec![
        Subject {
            name: "direct",
            kind: Kind::Direct,
            means: Means::Link,
        },
        Subject {
            name: "culvert",
            kind: Kind::Product,
            means: Means::WireGuard(plain),
        },
        Subject {
            name: "culvert-aes",
            kind: Kind::ProductAes,
            means: Means::WireGuard(aes),
        },
    ];
    subjects.extend(peers.map(|(_, (name, implementation))| Subject {
        name,
        kind: Kind::Peer,
        means: Means::WireGuard(implementation),
    }));
    let mut missing = Vec::new();
    subjects.retain(|subject| match subject.what_is_missing() {
        None => true,
        Some(line) => {
            eprintln!("{line}");
            missing.push(line);
            false
        }
    });
    Ok((subjects, missing))
}

impl Subject {
    /// The WireGuard program at both ends, where it is one.
    pub(crate) fn implementation(&self) -> Option<&Implementation> {
        match &self.means {
            Means::WireGuard(implementation) => Some(implementation),
            Means::Link | Means::Plain(_) => None,
        }
    }

    /// True for a peer whose throughput is always below that of the others.
    pub(crate) fn is_slow_peer(&self) -> bool {
        PEERS[LEADING_PEERS..]
            .iter()
            .any(|(name, _)| *name == self.name)
    }

    /// The reason for which its program is missing, if it is.
    fn what_is_missing(&self) -> Option<String> {
        let error = self.implementation()?.program().err()?;
        Some(format!("without {}: {error:#}", self.name))
    }
}
