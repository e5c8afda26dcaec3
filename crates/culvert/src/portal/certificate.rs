//! `culvert portal certificate`: the certificates of a portal, and the way from its own one to the next.

use super::common::{EXIT_STATUS, StateArguments, failure, print_json_line};
use super::database::DatabaseArguments;
use super::secrets::KeySource;
use crate::exit::{Failure, Status, print};
use clap::{Args, Subcommand};
use culvert_ids::AccountId;
use culvert_portal::{HandedOut, Home, OwnCertificates, Published};
use culvert_store::{Client, Gateway, Kind, ListFilter, PageLimit, Seen, Store, StoreError};
use culvert_wire::Timestamp;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

/// The time after which a machine that is connected has the next certificate. A portal looks for it every 5 s. It cuts a
/// session that has been silent for 12 s, and counts the machine as seen until then. The rest is for the way.
const TOLD_WITHIN_MS: u64 = 20_000;

/// Machines that are named to a person; the rest is a number.
const MAX_NAMED: usize = 20;

const EXAMPLES: &str = "\
Examples:
  culvert portal certificate
  culvert portal certificate rotate
  culvert portal certificate rotate --finish

Exit status:
  0  done
  1  something failed, or machines do not know the next certificate yet
  2  the command line is wrong";

/// Show the certificates of the portal, and exchange its own one for another
///
/// Tokens name the portal's own certificate, and so do machines. So machines are told of the next one before the portal
/// shows it. The portal may be running. Run it as the portal's user, on its machine.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    after_help = EXIT_STATUS,
    after_long_help = EXAMPLES
)]
pub(super) struct CertificateArguments {
    #[command(flatten)]
    place: PlaceArguments,
    #[command(subcommand)]
    command: Option<CertificateCommand>,
}

#[derive(Debug, Subcommand)]
enum CertificateCommand {
    /// Exchange the portal's own certificate, without a new token for any machine
    ///
    /// First it makes the next certificate, and the portal tells all machines of it: those that are connected and
    /// those that come. With --finish the portal then shows that one. A machine that was away all the time, and a token
    /// that no machine has used, do not know it: each needs a new token.
    #[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
    Rotate(RotateArguments),
}

#[derive(Debug, Args)]
struct RotateArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// Have the portal show the next certificate, if all machines know it
    ///
    /// Of several portals, run it on the machine of the one that leads (culvert admin portal list). Machines of a version
    /// that does not keep the portal's certificates count as if they knew it: update them first.
    #[arg(long)]
    finish: bool,
    /// With --finish: although some machines do not know it
    #[arg(long, requires = "finish")]
    force: bool,
    /// Forget the next certificate
    #[arg(long, conflicts_with = "finish")]
    cancel: bool,
}

#[derive(Debug, Args)]
struct PlaceArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    state: StateArguments,
    #[command(flatten)]
    database: DatabaseArguments,
    #[command(flatten)]
    secrets: KeySource,
}

/// The portal of a state directory, running or not.
struct Place {
    home: Home,
    store: Arc<dyn Store>,
    account: AccountId,
    published: Published,
    /// The portal's own certificates, unless it has others.
    own: Option<OwnCertificates>,
}

/// A machine that does not know the next certificate.
#[derive(Debug, Serialize)]
struct Machine {
    kind: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Timestamp>,
}

/// The certificates, for programs.
#[derive(Debug, Serialize)]
struct Told {
    url: String,
    also_urls: Vec<String>,
    /// The portal made it for itself.
    is_own: bool,
    /// It made the next one, too.
    is_next_own: bool,
    /// Absent where authorities vouch for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_pin: Option<String>,
    /// The time since which machines are told of the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    told_since: Option<Timestamp>,
    machines: usize,
    /// Those that do not know the next one.
    unaware: Vec<Machine>,
}

pub(super) async fn run(arguments: CertificateArguments) -> Result<ExitCode, Failure> {
    match arguments.command {
        None => {
            let place = Place::open(&arguments.place).await?;
            place.show(arguments.place.json).await
        }
        Some(CertificateCommand::Rotate(rotate)) => {
            let place = Place::open(&rotate.place).await?;
            place.rotate(&rotate).await
        }
    }
}

impl Place {
    async fn open(arguments: &PlaceArguments) -> Result<Self, Failure> {
        let not_begun = || {
            let reason = "no portal ever ran here: start it first (culvert portal run)";
            Failure::new(Status::Failed, reason)
        };
        let home = Home::open_beside(&arguments.state.state_dir).map_err(failure)?;
        let published = home.published().map_err(failure)?.ok_or_else(not_begun)?;
        let access = arguments.secrets.access()?;
        let store = arguments.database.open_with(&home, access).await?;
        let accounts = store.accounts(None, PageLimit::new(1)).await;
        let accounts = accounts.map_err(failed)?.items;
        let account = accounts.first().ok_or_else(not_begun)?.id;
        let own = match published.is_given {
            true => None,
            false => home
                .own_certificates(store.as_ref())
                .await
                .map_err(failure)?,
        };
        Ok(Self {
            home,
            store,
            account,
            published,
            own,
        })
    }

    async fn show(&self, json: bool) -> Result<ExitCode, Failure> {
        let told = self.told().await?;
        self.store.close().await;
        match json {
            true => print_json_line(&told)?,
            false => print(text(&told).as_bytes())?,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn rotate(mut self, arguments: &RotateArguments) -> Result<ExitCode, Failure> {
        if self.published.is_given {
            return Err(Failure::new(
                Status::Failed,
                "the certificate of this portal is that of --cert: name the one that comes after it by --next-cert FILE, \
                 wait until all machines know it (culvert portal certificate), and then put it in the place of --cert",
            ));
        }
        let store = Arc::clone(&self.store);
        if arguments.cancel {
            let dropped = self.home.drop_next_certificate(store.as_ref()).await;
            if !dropped.map_err(failure)? {
                return Err(nothing_prepared());
            }
        } else if arguments.finish {
            self.finish(arguments.force).await?;
        } else {
            let url = &self.published.portal;
            let prepared = self.home.prepare_certificate(store.as_ref(), url).await;
            prepared.map_err(failure)?;
        }
        if arguments.cancel || arguments.finish {
            self.published.next = None;
        }
        let own = self.home.own_certificates(store.as_ref()).await;
        self.own = own.map_err(failure)?;
        self.show(arguments.place.json).await
    }

    async fn finish(&self, force: bool) -> Result<(), Failure> {
        let told = self.told().await?;
        if !told.is_next_own {
            return Err(nothing_prepared());
        }
        if told.told_since.is_none() && !force {
            return Err(Failure::new(
                Status::Failed,
                "the portal of this state directory has not told machines of the next certificate: it does so within 5 s \
                 if it runs. Of several portals, the one that leads does: run this on its machine (culvert admin portal \
                 list). --force does without",
            ));
        }
        if !told.unaware.is_empty() && !force {
            let text = format!(
                "{} of {} machines do not know the next certificate, and would lose the portal:\n{}wait until they have \
                 been connected for a minute, revoke those that are gone, or repeat this with --force and give each a new \
                 token",
                told.unaware.len(),
                told.machines,
                named(&told.unaware),
            );
            return Err(Failure::new(Status::Failed, text));
        }
        let switched = self.home.switch_certificate(self.store.as_ref()).await;
        switched.map_err(failure).map(drop)
    }

    async fn told(&self) -> Result<Told, Failure> {
        let published = &self.published;
        // The portal's own, or that of --next-cert.
        let own_next = self.own.and_then(|own| own.next);
        let shown = self.own.map(|own| own.current);
        let told = published.next.map(|next| next.pin);
        let next = own_next.or(told).filter(|next| Some(*next) != shown);
        // The portal may not have told of this one yet.
        let handed_out = published.next.filter(|told| Some(told.pin) == next);
        let (mut machines, mut unaware) = (0, Vec::new());
        if next.is_some() {
            let clients = self.machines::<Client>("client", handed_out);
            let (count, some) = clients.await.map_err(failed)?;
            machines += count;
            unaware.extend(some);
            let gateways = self.machines::<Gateway>("gateway", handed_out);
            let (count, some) = gateways.await.map_err(failed)?;
            machines += count;
            unaware.extend(some);
        }
        let pin = shown.or(published.portal.pin);
        Ok(Told {
            url: published.portal.url.clone(),
            also_urls: published.also.clone(),
            is_own: !published.is_given,
            is_next_own: own_next.is_some(),
            pin: pin.map(|pin| pin.to_string()),
            next_pin: next.map(|pin| pin.to_string()),
            told_since: handed_out.and_then(|next| next.since),
            machines,
            unaware,
        })
    }

    /// The number of machines of a kind that are let in, and those that do not know the next certificate.
    async fn machines<M: Enrolled>(
        &self,
        kind: &'static str,
        told: Option<HandedOut>,
    ) -> Result<(usize, Vec<Machine>), StoreError> {
        let (mut count, mut unaware) = (0, Vec::new());
        let mut after = None;
        loop {
            let filter = ListFilter::default();
            let page = self
                .store
                .list(self.account, M::KIND, &filter, after, PageLimit::MAX)
                .await?;
            for machine in page.items.into_iter().filter_map(M::from_entity) {
                let (name, seen, is_revoked) = machine.facts();
                if is_revoked {
                    continue;
                }
                count += 1;
                if !knows(seen, told) {
                    unaware.push(Machine {
                        kind,
                        name: name.to_owned(),
                        seen: seen.map(|seen| seen.at),
                    });
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok((count, unaware));
            }
        }
    }
}

/// A machine that was seen after it was told, or came after that.
fn knows(seen: Option<&Seen>, told: Option<HandedOut>) -> bool {
    let told = told.and_then(|told| told.since);
    let told = told.map(|since| since.unix_ms().saturating_add(TOLD_WITHIN_MS));
    matches!((seen, told), (Some(seen), Some(told)) if seen.at.unix_ms() >= told)
}

/// Clients and gateways.
trait Enrolled: Kind {
    /// Its name, when it was last seen, and if it is not let in.
    fn facts(&self) -> (&str, Option<&Seen>, bool);
}

impl Enrolled for Client {
    fn facts(&self) -> (&str, Option<&Seen>, bool) {
        (&self.name, self.seen.as_ref(), self.revoked.is_some())
    }
}

impl Enrolled for Gateway {
    fn facts(&self) -> (&str, Option<&Seen>, bool) {
        (&self.name, self.seen.as_ref(), self.revoked.is_some())
    }
}

fn nothing_prepared() -> Failure {
    Failure::new(
        Status::Failed,
        "there is no next certificate: make one (culvert portal certificate rotate)",
    )
}

fn failed(error: StoreError) -> Failure {
    Failure::new(Status::Failed, error)
}

fn text(told: &Told) -> String {
    let mut text = format!("URL:                   {}\n", told.url);
    for url in &told.also_urls {
        line(&mut text, "Also at:", url);
    }
    match &told.pin {
        Some(pin) => line(&mut text, "Certificate (SHA-256):", pin),
        None => line(&mut text, "Certificate:", "an authority vouches for it"),
    }
    let Some(next) = &told.next_pin else {
        text += "No other one comes after it.\n";
        return text;
    };
    line(&mut text, "Next one (SHA-256):", next);
    match told.told_since {
        Some(since) => line(&mut text, "Machines told since:", &since.to_string()),
        None => {
            text += "This portal has not told machines of it yet. It does so within 5 s if it runs and leads.\n";
        }
    }
    let aware = told.machines - told.unaware.len();
    // A String takes all that is written to it.
    let _ = writeln!(text, "{aware} of {} machines know it.", told.machines);
    match (told.unaware.is_empty(), told.is_next_own) {
        (true, true) if told.told_since.is_some() => {
            text += "Have the portal show it:\n  culvert portal certificate rotate --finish\n";
        }
        (true, false) => {
            text += "Start the portal with it as --cert, or put it in the place of that file.\n";
        }
        (true, true) => {}
        (false, _) => {
            text += "These do not, or have not been connected for long enough:\n";
            text += &named(&told.unaware);
        }
    }
    text
}

fn line(text: &mut String, what: &str, value: &str) {
    // A String takes all that is written to it.
    let _ = writeln!(text, "{what:<22} {value}");
}

/// The machines, a line each.
fn named(machines: &[Machine]) -> String {
    let mut text = String::new();
    for machine in machines.iter().take(MAX_NAMED) {
        let seen = match machine.seen {
            Some(seen) => format!("last seen {seen}"),
            None => "never seen".to_owned(),
        };
        // A String takes all that is written to it.
        let _ = writeln!(text, "  {} {}: {seen}", machine.kind, machine.name);
    }
    if let Some(others) = machines.len().checked_sub(MAX_NAMED).filter(|it| *it > 0) {
        let _ = writeln!(text, "  and {others} more (--json has all)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::token::CertificatePin;

    #[test]
    fn a_machine_knows_what_it_was_told_if_it_was_there_twenty_seconds_later() {
        let told = Some(HandedOut {
            pin: CertificatePin::of(b"next"),
            since: Some(Timestamp::from_unix_ms(1_000_000)),
        });
        let seen = |unix_ms| Seen {
            at: Timestamp::from_unix_ms(unix_ms),
            address: None,
            software: String::new(),
        };
        assert!(!knows(None, told));
        assert!(!knows(Some(&seen(1_019_999)), told));
        assert!(knows(Some(&seen(1_020_000)), told));
        let untold = told.map(|told| HandedOut {
            since: None,
            ..told
        });
        assert!(!knows(Some(&seen(1_020_000)), untold));
        assert!(!knows(Some(&seen(1_020_000)), None));
    }

    #[test]
    fn machines_that_do_not_know_it_are_named_up_to_a_bound() {
        let machines: Vec<Machine> = (0..25)
            .map(|number| Machine {
                kind: "client",
                name: format!("laptop-{number}"),
                seen: None,
            })
            .collect();
        let text = named(&machines);
        assert!(text.contains("client laptop-19: never seen"), "{text}");
        assert!(!text.contains("laptop-20"), "{text}");
        assert!(text.contains("and 5 more"), "{text}");
    }
}
