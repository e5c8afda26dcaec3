//! Arguments and steps that kinds of things share.

use super::api::{Entity, Query};
use super::output::{self, Format};
use super::shell::Shell;
use crate::exit::{Failure, Status};
use crate::visible::visible;
use clap::{Args, ValueEnum};
use culvert_base::quoted;
use serde::Serialize;
use std::io::{BufRead, IsTerminal, Read, Write};

/// One of a kind.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Its name or its id
    #[arg(value_name = "NAME|ID")]
    pub(super) which: String,
}

#[derive(Debug, Args)]
pub(super) struct Search {
    /// Only those with TEXT in the name, the name of what they belong to, an address or the software
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
}

impl Search {
    pub(super) fn query(&self) -> Query {
        Query::default().with_some("search", self.search.as_ref())
    }
}

/// Only machines that are connected, or only the others.
#[derive(Debug, Args)]
pub(super) struct Connection {
    /// Only those that are connected now
    #[arg(long, conflicts_with = "not_connected")]
    connected: bool,
    /// Only those that are not connected now
    #[arg(long)]
    not_connected: bool,
}

impl Connection {
    pub(super) const fn includes(&self, is_connected: bool) -> bool {
        match is_connected {
            true => !self.not_connected,
            false => !self.connected,
        }
    }
}

/// One of a kind, at the version that somebody has seen.
#[derive(Debug, Args)]
pub(super) struct Seen {
    #[command(flatten)]
    pub(super) which: Which,
    /// Only if it is still at version N, as "show" said
    #[arg(long, value_name = "N", value_parser = crate::whole_number::version)]
    pub(super) if_version: Option<u64>,
}

/// A thing to rename.
#[derive(Debug, Args)]
pub(super) struct Rename {
    #[command(flatten)]
    pub(super) seen: Seen,
    /// Its new name
    #[arg(long, value_name = "NAME")]
    pub(super) name: String,
}

/// A thing to delete.
#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    seen: Seen,
    #[command(flatten)]
    consent: Consent,
}

/// True if the user agreed to an action that can't be undone.
#[derive(Debug, Args)]
pub(super) struct Consent {
    /// Do not ask; needed where no terminal is
    #[arg(long, short)]
    yes: bool,
}

/// A thing that takes others along when it is deleted.
#[derive(Debug, Args)]
pub(super) struct DeleteWithOthers {
    #[command(flatten)]
    delete: Delete,
    /// Delete what belongs to it as well; without it that is refused while there is any
    #[arg(long)]
    cascade: bool,
}

impl Shell {
    /// Makes a thing, and says so.
    pub(super) async fn create<T: Entity>(&mut self, new: &impl Serialize) -> Result<T, Failure> {
        let made: T = self.api.create(new).await?;
        self.say("created", &made)?;
        Ok(made)
    }

    /// Changes a thing, and says so. `patch` is made from what is there.
    pub(super) async fn change<T: Entity, P: Serialize>(
        &mut self,
        seen: &Seen,
        patch: impl FnOnce(&T) -> Result<P, Failure>,
    ) -> Result<(), Failure> {
        let found: T = self.api.find(&seen.which.which).await?;
        let patch = patch(&found)?;
        let changed = self.api.change(&found, seen.if_version, &patch).await?;
        self.say("changed", &changed)
    }

    /// Does to a thing what `word` says, and says that it is `done`.
    pub(super) async fn act<T: Entity>(
        &mut self,
        seen: &Seen,
        word: &str,
        done: &str,
    ) -> Result<(), Failure> {
        let found: T = self.api.find(&seen.which.which).await?;
        let changed = self.api.act(&found, seen.if_version, word).await?;
        self.say(done, &changed)
    }

    /// Deletes a thing, and says so.
    pub(super) async fn delete<T: Entity>(&mut self, delete: &Delete) -> Result<(), Failure> {
        self.delete_by::<T>(delete, &Query::default(), ("", ""))
            .await
    }

    /// Deletes a thing, with what belongs to it where that is asked for, and says so.
    pub(super) async fn delete_with_others<T: Entity>(
        &mut self,
        delete: &DeleteWithOthers,
    ) -> Result<(), Failure> {
        let (query, also, fix) = match delete.cascade {
            true => (
                Query::default().with("cascade", true),
                " and everything that belongs to it",
                "",
            ),
            false => (
                Query::default(),
                "",
                "; delete those first, or all of it by --cascade",
            ),
        };
        self.delete_by::<T>(&delete.delete, &query, (also, fix))
            .await
    }

    async fn delete_by<T: Entity>(
        &mut self,
        delete: &Delete,
        query: &Query,
        (also, fix): (&str, &str),
    ) -> Result<(), Failure> {
        let seen = &delete.seen;
        let mut consent = delete.consent.asked_for(self.format)?;
        let found: T = self.api.find(&seen.which.which).await?;
        consent.obtain(format_args!(
            "delete {} {} ({}){also}",
            T::KIND,
            quoted(found.name()),
            found.id()
        ))?;
        self.api.delete(&found, seen.if_version, query, fix).await?;
        self.format
            .deleted(found.id(), sentence::<T>("deleted", &found))
    }

    pub(super) fn say<T: Entity>(&self, done: &str, item: &T) -> Result<(), Failure> {
        self.format.done(item, sentence(done, item))?;
        item.warnings().iter().for_each(|text| output::warn(text));
        Ok(())
    }
}

fn sentence<T: Entity>(done: &str, item: &T) -> String {
    format!("{} {} {done} ({})", T::KIND, quoted(item.name()), item.id())
}

/// A change without any is a slip.
pub(super) fn something<P: Default + PartialEq>(patch: P) -> Result<P, Failure> {
    match patch == P::default() {
        true => Err(Failure::new(
            Status::Usage,
            "nothing is to be changed: say what by an option, see --help",
        )),
        false => Ok(patch),
    }
}

pub(super) fn usage(message: impl std::fmt::Display) -> Failure {
    Failure::new(Status::Usage, message)
}

pub(super) const fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

pub(super) const fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

impl Consent {
    /// Refuses before anything is looked up where nobody has agreed and nobody can be asked.
    pub(super) fn asked_for(&self, format: Format) -> Result<Question, Failure> {
        match self.yes || can_ask(format) {
            true => Ok(Question {
                is_answered: self.yes,
            }),
            false => Err(usage("nobody can be asked whether to go on: add --yes")),
        }
    }
}

/// A question to the person at the terminal, unless the command line answers it.
#[derive(Debug)]
pub(super) struct Question {
    is_answered: bool,
}

impl Question {
    pub(super) fn obtain(&mut self, to_do: impl std::fmt::Display) -> Result<(), Failure> {
        if !self.is_answered {
            ask(visible(&to_do.to_string()))?;
            self.is_answered = true;
        }
        Ok(())
    }
}

/// True if a user sees a question and can answer it: input and output are terminals.
pub(super) fn can_ask(format: Format) -> bool {
    format == Format::Table && std::io::stdin().is_terminal()
}

/// Most bytes of an answer to the question whether to go on.
const MAX_REPLY_BYTES: u64 = 64;

/// Asks if the shown change is to be made. Only `y` and `yes` go on.
pub(super) fn ask(to_do: impl std::fmt::Display) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(
            Status::Failed,
            format_args!("asking whether to go on: {error}"),
        )
    };
    let mut output = std::io::stderr();
    write!(output, "{to_do}. Go on? [y/N] ").map_err(failed)?;
    output.flush().map_err(failed)?;
    let mut reply = String::new();
    let mut input = std::io::stdin().lock().take(MAX_REPLY_BYTES);
    input.read_line(&mut reply).map_err(failed)?;
    match reply.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new(Status::Failed, "nothing was changed")),
    }
}
