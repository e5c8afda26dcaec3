//! The parts' common ground: how long they measure, who is measured, where results go.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use culvert_lab::Implementation;

use super::part::Part;
use super::sheet::Sheet;
use crate::effort::Effort;
use crate::subject::{self, Kind, Means, Subject};

/// The length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Quick,
    Full,
}

/// The settings that the parts share.
#[derive(Debug)]
pub(crate) struct Lab {
    scope: Scope,
    /// The round that is measured, from 1, of so many.
    round: u32,
    rounds: u32,
    began: Instant,
    part: Part,
    results: PathBuf,
}

impl Lab {
    /// By default a quick run has one round, and a full one three.
    pub(super) fn new(scope: Scope, rounds: Option<u32>, results: PathBuf) -> Self {
        let default_rounds = match scope {
            Scope::Quick => 1,
            Scope::Full => 3,
        };
        Self {
            scope,
            round: 1,
            rounds: rounds.unwrap_or(default_rounds),
            began: Instant::now(),
            part: Part::Peers,
            results,
        }
    }

    /// Begins a part of a round.
    pub(super) fn turn_to(&mut self, part: Part, round: u32) {
        (self.part, self.round) = (part, round);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// The round that is measured, from 1.
    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(crate) fn effort(&self) -> Effort {
        let quick = self.scope == Scope::Quick;
        Effort {
            congestion_controls: &["cubic"],
            load_s: if quick { 2 } else { 4 },
            udp_steps: if quick { 5 } else { 8 },
            ..Effort::new(quick, Some(self.rounds))
        }
    }

    /// The directory for charts and results.
    pub(crate) fn results(&self) -> &Path {
        &self.results
    }

    /// Says what is measured now.
    pub(crate) fn progress(&self, what: &str) {
        eprintln!(
            "[{:4} s] {}, round {} of {}: {what}",
            self.began.elapsed().as_secs(),
            self.part.name(),
            self.round,
            self.rounds
        );
    }

    /// Keeps what has been measured so far; before there is anything, what an earlier run has measured.
    pub(crate) fn keep(&self, sheet: &mut Sheet) -> Result<()> {
        if sheet.is_empty() {
            return Ok(());
        }
        sheet.write(&self.part.path(&self.results))
    }

    /// The results of another part, if it has any.
    pub(crate) fn sheet_of(&self, part: Part) -> Result<Option<Sheet>> {
        Sheet::read(&part.path(&self.results))
    }

    /// Culvert at both ends.
    #[expect(clippy::unused_self, reason = "a subject of this study")]
    pub(crate) fn culvert(&self, arguments: &str) -> Subject {
        Subject {
            name: "culvert",
            kind: Kind::Product,
            means: Means::WireGuard(Implementation::culvert_with(arguments)),
        }
    }

    /// The bare link, Culvert with both suites, and the peers that are built; the sheet says which are not.
    pub(crate) fn tunnels_and_link(&self, sheet: &mut Sheet) -> Result<Vec<Subject>> {
        let (subjects, missing) = subject::choose(self.scope == Scope::Quick, None, "")?;
        // Every round finds the same.
        for line in missing {
            if !sheet.failures.contains(&line) {
                sheet.failures.push(line);
            }
        }
        Ok(subjects)
    }

    /// One round tells how far behind a peer is whose throughput others are always ahead of.
    #[expect(clippy::unused_self, reason = "a rule of this study")]
    pub(crate) fn measures_throughput_of(&self, subject: &Subject, round: u32) -> bool {
        round == 1 || !subject.is_slow_peer()
    }

    /// In bad weather it is the sender's TCP that suffers, whatever the tunnel: peers cross it once, and not at
    /// all where there is no time.
    pub(crate) fn crosses_weather(&self, subject: &Subject, round: u32) -> bool {
        subject.kind != Kind::Peer || (self.scope == Scope::Full && round == 1)
    }
}

/// The order of a round: there and back by turns. A change of the machine in the course of a round, such as
/// getting warm, is then not taken for a difference.
pub(crate) fn in_turn<T: Copy>(items: &[T], round: u32) -> Vec<T> {
    let mut order = items.to_vec();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}
