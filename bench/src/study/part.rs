//! The parts of the study.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// A part of the study, which can be measured on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Culvert beside its peers and the bare link.
    Peers,
    /// The system calls that a TUN descriptor takes.
    Calls,
    /// The plain tunnel by each way to wait, the engine, and the bare link.
    Models,
    /// The worth of each mechanism.
    Ablation,
    /// Processor time by function.
    Profile,
    /// Small writes, with batching and without.
    Corking,
    /// Links of a rate, with delay and loss.
    Links,
    /// Workers and flows.
    Workers,
    /// The product's gateway beside a plain tunnel that forwards.
    Gateway,
    /// The speed of this machine at copying and encrypting.
    Limits,
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peers => "peers",
            Self::Calls => "calls",
            Self::Models => "models",
            Self::Ablation => "ablation",
            Self::Profile => "profile",
            Self::Corking => "corking",
            Self::Links => "links",
            Self::Workers => "workers",
            Self::Gateway => "gateway",
            Self::Limits => "limits",
        }
    }

    pub(super) fn path(self, results: &Path) -> PathBuf {
        results.join(format!("{}.json", self.name()))
    }
}
