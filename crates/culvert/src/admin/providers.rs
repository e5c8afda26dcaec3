//! `culvert admin provider`.

use super::api::{MAX_LIST_LEN, Query};
use super::common::{Delete, Search, Seen, Which, something, usage, yes_or_no};
use super::output::instant;
use super::shell::Shell;
use crate::exit::{Failure, Status};
use crate::token_input;
use clap::{Args, Subcommand, ValueEnum};
use culvert_base::quoted;
use culvert_ids::IdentityId;
use culvert_wire::api::{
    Actor, Group, Identity, NewIdentity, NewProvider, Provider, ProviderGroup, ProviderPatch,
    UnknownPeople,
};
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Bytes of a file with certificates that are read: twice what the portal takes.
const MAX_CA_FILE_BYTES: u64 = 64 * 1024;

/// Identity providers: who vouches for people who sign in (OpenID Connect)
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum ProviderCommand {
    /// List identity providers
    List(Search),
    /// Show an identity provider, and whom it knows
    Show(Which),
    /// Make an identity provider
    Create(Box<CreateArguments>),
    /// Change an identity provider; its issuer stays what it is
    Set(Box<SetArguments>),
    /// Delete an identity provider: whom it knows, the groups that it brought and their sessions go
    Delete(Delete),
    /// Let an actor sign in as whom the provider knows under a subject
    Link(LinkArguments),
    /// Take that back; the actor's sessions end
    Unlink {
        /// The id of the identity, as "show" prints it
        identity: IdentityId,
    },
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// Its name, which people read where they sign in
    name: String,
    /// Its URL, exactly as it says it
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// Client ID of this portal at the provider
    #[arg(long, value_name = "ID")]
    client_id: String,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    #[command(flatten)]
    seen: Seen,
    /// Its new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// New client ID of this portal at the provider
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// The portal has no secret there any more
    #[arg(long, conflicts_with = "client_secret_file")]
    no_client_secret: bool,
    /// It brings no groups any more
    #[arg(long, conflicts_with = "group")]
    no_groups: bool,
    /// Nobody signs in by it from now on
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// People may sign in by it again
    #[arg(long)]
    enable: bool,
}

/// Settings that say how the provider is used.
#[derive(Debug, Args)]
struct Settings {
    /// The file with the portal's secret there, mode 0600; "-" is standard input
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
    /// The file with authorities that vouch for its certificate, in PEM, beside those of the portal's system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Scope to ask for beside "openid"; may be repeated [default: profile, email]
    #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
    scope: Vec<String>,
    /// The claim that names a person's groups
    #[arg(long, value_name = "CLAIM")]
    groups_claim: Option<String>,
    /// A value of that claim, and the group here that it stands for; may be repeated, and replaces all
    #[arg(long, value_name = "VALUE=GROUP")]
    group: Vec<String>,
    /// Treatment of people who are not known yet
    #[arg(long, value_enum)]
    unknown_people: Option<Unknown>,
}

#[derive(Debug, Args)]
pub(super) struct LinkArguments {
    /// The provider's name or id
    provider: String,
    /// Person at the provider: the claim "sub"
    #[arg(long, value_name = "SUBJECT")]
    subject: String,
    /// Person here: the actor's name or id
    #[arg(long, value_name = "ACTOR")]
    actor: String,
}

/// The treatment of unknown people, as the command line names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unknown {
    /// They are not let in until they are linked with an actor
    Refuse,
    /// They become actors of kind user
    Make,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin provider create Example --issuer https://id.example.com \\
      --client-id culvert --client-secret-file client.secret
  culvert admin provider set Example --groups-claim groups --scope profile,groups \\
      --group staff=Staff --unknown-people make
  culvert admin provider link Example --subject 00u1a2b3 --actor ada
  culvert admin provider list
  culvert admin provider show Example
  culvert admin provider unlink idn_01k2e4f5g6h7j8k9m0n1p2q3r4
  culvert admin provider set Example --disable
  culvert admin provider delete Example";

/// A provider with whom it knows.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    provider: Provider,
    identities: Vec<Identity>,
}

pub(super) async fn run(shell: &mut Shell, command: ProviderCommand) -> Result<(), Failure> {
    match command {
        ProviderCommand::List(search) => {
            let providers: Vec<Provider> = shell.api.list(&search.query()).await?;
            let columns = ["ID", "NAME", "ISSUER", "STATE"];
            shell.format.list(&providers, &columns, |provider| {
                vec![
                    provider.id.to_string(),
                    provider.name.clone(),
                    provider.issuer.clone(),
                    state(provider).to_owned(),
                ]
            })
        }
        ProviderCommand::Show(which) => show(shell, &which).await,
        ProviderCommand::Create(create) => self::create(shell, *create).await,
        ProviderCommand::Set(set) => self::set(shell, *set).await,
        ProviderCommand::Delete(delete) => shell.delete::<Provider>(&delete).await,
        ProviderCommand::Link(link) => self::link(shell, &link).await,
        ProviderCommand::Unlink { identity } => {
            shell.api.remove(&format!("/identities/{identity}")).await?;
            let sentence = format!("identity {identity} is linked with nobody now");
            shell.format.deleted(identity, sentence)
        }
    }
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let provider: Provider = shell.api.find(&which.which).await?;
    let of_provider = Query::default().with("provider", provider.id);
    let identities = shell
        .api
        .list_of("/identities", &of_provider, MAX_LIST_LEN)
        .await?;
    let actors = shell.api.names::<Actor>().await?;
    let groups = shell.api.names::<Group>().await?;
    let shown = Shown {
        provider,
        identities,
    };
    let lines = |lines: Vec<String>| match lines.is_empty() {
        true => "none".to_owned(),
        false => lines.join("\n"),
    };
    shell.format.record(&shown, || {
        let provider = &shown.provider;
        let mapped = provider.groups.iter();
        let mapped = mapped.map(|mapped| format!("{}={}", mapped.value, groups.of(&mapped.group)));
        let known = shown.identities.iter().map(|identity| {
            let actor = actors.of(&identity.actor);
            format!("{} is {actor} ({})", identity.subject, identity.id)
        });
        vec![
            ("id", provider.id.to_string()),
            ("name", provider.name.clone()),
            ("issuer", provider.issuer.clone()),
            ("client id", provider.client_id.clone()),
            ("redirect URI", provider.redirect_uri.clone()),
            ("secret set", instant(provider.secret_set)),
            (
                "own authorities",
                yes_or_no(provider.ca.is_some()).to_owned(),
            ),
            ("scopes", provider.scopes.join(" ")),
            (
                "groups' claim",
                provider
                    .groups_claim
                    .clone()
                    .unwrap_or_else(|| "none".to_owned()),
            ),
            ("groups", lines(mapped.collect())),
            (
                "unknown people",
                match provider.unknown_people {
                    UnknownPeople::Refuse => "refuse",
                    UnknownPeople::Make => "make",
                }
                .to_owned(),
            ),
            ("state", state(provider).to_owned()),
            ("identities", lines(known.collect())),
            ("created", instant(Some(provider.created))),
            ("changed", instant(Some(provider.updated))),
            ("version", provider.version.to_string()),
        ]
    })
}

async fn create(shell: &mut Shell, create: CreateArguments) -> Result<(), Failure> {
    let settings = create.settings;
    let new = NewProvider {
        name: create.name,
        issuer: create.issuer,
        client_id: create.client_id,
        client_secret: settings.client_secret()?,
        ca: settings.ca()?,
        scopes: settings.scopes(),
        groups: settings.groups(shell).await?.unwrap_or_default(),
        groups_claim: settings.groups_claim,
        unknown_people: settings
            .unknown_people
            .map_or_else(UnknownPeople::default, Into::into),
    };
    shell.create::<Provider>(&new).await.map(drop)
}

async fn set(shell: &mut Shell, set: SetArguments) -> Result<(), Failure> {
    let settings = set.settings;
    let nothing = |is_so: bool| is_so.then(String::new);
    let groups = match set.no_groups {
        true => Some(Vec::new()),
        false => settings.groups(shell).await?,
    };
    let patch = something(ProviderPatch {
        name: set.name,
        client_id: set.client_id,
        client_secret: settings.client_secret()?.or(nothing(set.no_client_secret)),
        ca: settings.ca()?,
        scopes: settings.scopes(),
        groups_claim: settings.groups_claim.or(nothing(set.no_groups)),
        groups,
        unknown_people: settings.unknown_people.map(Into::into),
        disabled: (set.disable || set.enable).then_some(set.disable),
    })?;
    shell.change(&set.seen, |_: &Provider| Ok(patch)).await
}

async fn link(shell: &mut Shell, link: &LinkArguments) -> Result<(), Failure> {
    let new = NewIdentity {
        provider: shell.api.id_of::<Provider>(&link.provider).await?,
        subject: link.subject.clone(),
        actor: shell.api.id_of::<Actor>(&link.actor).await?,
    };
    let nothing_else = Query::default();
    let identity: Identity = shell.api.post("/identities", &nothing_else, &new).await?;
    let (subject, actor, id) = (quoted(&link.subject), quoted(&link.actor), identity.id);
    let sentence = format!("{subject} signs in as {actor} now ({id})");
    shell.format.done(&identity, sentence)
}

impl Settings {
    fn client_secret(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.client_secret_file else {
            return Ok(None);
        };
        let secret: Zeroizing<String> = token_input::read(path)?;
        Ok(Some(secret.trim().to_owned()))
    }

    fn ca(&self) -> Result<Option<String>, Failure> {
        self.ca_file.as_deref().map(read_certificates).transpose()
    }

    fn scopes(&self) -> Option<Vec<String>> {
        Some(self.scope.clone()).filter(|scopes| !scopes.is_empty())
    }

    async fn groups(&self, shell: &mut Shell) -> Result<Option<Vec<ProviderGroup>>, Failure> {
        let mut groups = Vec::with_capacity(self.group.len());
        for mapped in &self.group {
            let Some((value, group)) = mapped.rsplit_once('=') else {
                return Err(usage(format_args!(
                    "--group {mapped}: expected VALUE=GROUP"
                )));
            };
            groups.push(ProviderGroup {
                value: value.to_owned(),
                group: shell.api.id_of::<Group>(group).await?,
            });
        }
        Ok(Some(groups).filter(|groups| !groups.is_empty()))
    }
}

fn read_certificates(path: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        let path = path.display();
        Failure::new(Status::Failed, format_args!("{path}: {error}"))
    };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_CA_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}

impl From<Unknown> for UnknownPeople {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::Refuse => Self::Refuse,
            Unknown::Make => Self::Make,
        }
    }
}

const fn state(provider: &Provider) -> &'static str {
    if provider.disabled {
        "disabled"
    } else {
        "active"
    }
}
