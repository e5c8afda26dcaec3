//! `culvert admin token`.

use super::api::{Api, Query};
use super::common::{Delete, Search, Seen, Which, usage, yes_or_no};
use super::credentials::SecretFile;
use super::interrupt::uninterrupted;
use super::output::{Format, instant, note, print_secret_json};
use super::shell::Shell;
use super::words::{Ahead, now, parse_ahead};
use crate::exit::{Failure, Status, print_once};
use clap::{Args, Subcommand, ValueEnum};
use culvert_base::quoted;
use culvert_wire::Timestamp;
use culvert_wire::api::{Actor, ApiRole, IssuedToken, NewToken, Site, Token};
use culvert_wire::token::TokenKind;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Tokens: what machines connect with, and what administrators and scripts use the API with
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum TokenCommand {
    /// List tokens; their secrets are known to nobody but their holders
    List(ListArguments),
    /// Show a token, without its secret
    Show(Which),
    /// Make a token, and print it this once
    ///
    /// It says where the portal is and how its certificate is known, so a machine needs nothing else.
    Create(CreateArguments),
    /// Refuse a token from now on, for good; clients, gateways and relays that connected with it are cut off
    Revoke(Seen),
    /// Delete a token
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    search: Search,
    /// Only those of this actor
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Only those of this site
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// Purpose of the token
    #[arg(long, value_enum)]
    kind: Kind,
    /// Actor that owns the token: for client and API tokens
    #[arg(long, value_name = "ACTOR", conflicts_with = "site")]
    actor: Option<String>,
    /// Site that owns the token: for gateway tokens
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Role that an API token gives
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// Display name [default: its kind, its owner and the time]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// When it ends: 4h, 30d, or an instant such as 2027-01-31T18:00:00Z [default: never]
    #[arg(long, value_name = "WHEN", value_parser = parse_ahead)]
    expires: Option<Ahead>,
    /// Let it enrol one machine and no second one
    #[arg(long)]
    one_time: bool,
    /// Write it to FILE, mode 0600, instead of printing it; FILE must not be there yet
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The purpose of a token, as the command line names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Connect a machine of an actor
    Client,
    /// Connect a gateway of a site
    Gateway,
    /// Connect a relay of the account
    Relay,
    /// Use the API as an actor
    Api,
}

/// The role that an API token gives, as the command line names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    /// See and give up the actor's own clients
    User,
    /// Read everything, change nothing
    Auditor,
    /// Change everything but owners and their tokens
    Admin,
    /// Everything
    Owner,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin token create --kind gateway --site office --out gateway.token
  culvert admin token create --kind relay --out relay.token
  culvert admin token create --kind client --actor ci --one-time \\
    | ssh ci 'umask 077; cat > /etc/culvert/token'
  culvert admin token create --kind api --actor backup --role auditor --expires 90d
  culvert admin token list --actor ci
  culvert admin token show tok_01jd7m2v9q8k4x0c5t3w6y1z2a
  culvert admin token revoke tok_01jd7m2v9q8k4x0c5t3w6y1z2a
  culvert admin token delete tok_01jd7m2v9q8k4x0c5t3w6y1z2a";

/// The outcome that is not known after Ctrl-C.
const UNKNOWN: &str = "whether the token was made is unknown: `culvert admin token list` shows it, and \
                       it can only be revoked";

/// A new token, where its secret went.
#[derive(Serialize)]
struct Written<'a> {
    token: &'a Token,
    file: &'a Path,
}

pub(super) async fn run(shell: &mut Shell, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::List(list) => self::list(shell, &list).await,
        TokenCommand::Show(which) => show(shell, &which).await,
        TokenCommand::Create(create) => self::create(shell, create).await,
        TokenCommand::Revoke(seen) => shell.act::<Token>(&seen, "revoke", "revoked").await,
        TokenCommand::Delete(delete) => shell.delete::<Token>(&delete).await,
    }
}

async fn create(shell: &mut Shell, create: CreateArguments) -> Result<(), Failure> {
    let new = new_token(shell, &create).await?;
    let Some(path) = create.out.as_deref() else {
        let IssuedToken { token, secret } =
            shell.api.post("/tokens", &Query::default(), &new).await?;
        let secret = Zeroizing::new(secret);
        return match print_secret(shell.format, &token, &secret) {
            Ok(()) => Ok(()),
            Err(failure) => Err(lost(&mut shell.api, &token, &failure).await),
        };
    };
    let (token, path) = issue(&mut shell.api, &new, SecretFile::create(path)?).await?;
    let written = Written {
        token: &token,
        file: &path,
    };
    let (id, name, shown) = (token.id, quoted(&token.name), path.display());
    shell.format.done(
        &written,
        format_args!("token {name} written to {shown} ({id})"),
    )
}

/// Makes a token into a file.
pub(super) async fn issue(
    api: &mut Api,
    new: &NewToken,
    file: SecretFile,
) -> Result<(Token, PathBuf), Failure> {
    // The file goes where nothing is written into it, and a signal would leave it.
    let nothing_else = Query::default();
    let issued = uninterrupted(api.post("/tokens", &nothing_else, new), UNKNOWN).await;
    let IssuedToken { token, secret } = issued?;
    match file.write(&Zeroizing::new(secret)) {
        Ok(path) => Ok((token, path)),
        Err(failure) => Err(lost(api, &token, &failure).await),
    }
}

/// Revokes a token that nobody got to see.
async fn lost(api: &mut Api, token: &Token, failure: &Failure) -> Failure {
    let revoked = api.act(token, None, "revoke").await;
    let id = token.id;
    let then = match revoked {
        Ok(_) => format!("the token ({id}) is revoked again: make another"),
        Err(_) => format!(
            "the token is lost: revoke it by `culvert admin token revoke {id}`, then make another"
        ),
    };
    Failure::new(Status::Failed, format_args!("{failure}; {then}"))
}

fn print_secret(format: Format, token: &Token, secret: &str) -> Result<(), Failure> {
    match format {
        Format::Json => {
            let secret = secret.to_owned();
            let token = token.clone();
            print_secret_json(IssuedToken { token, secret })
        }
        Format::Table => {
            print_once(format!("{secret}\n").as_bytes())?;
            if std::io::stdout().is_terminal() {
                note(format_args!(
                    "This is shown once. It is {} ({}); keep it in a file of mode 0600.",
                    quoted(&token.name),
                    token.id
                ));
            }
            Ok(())
        }
    }
}

/// Says what is missing or too much in the words of the command line, before anything is asked.
async fn new_token(shell: &mut Shell, create: &CreateArguments) -> Result<NewToken, Failure> {
    let (kind, word) = match create.kind {
        Kind::Client => (TokenKind::Client, "client"),
        Kind::Gateway => (TokenKind::Gateway, "gateway"),
        Kind::Relay => (TokenKind::Relay, "relay"),
        Kind::Api => (TokenKind::Api, "API"),
    };
    let is_gateway = kind == TokenKind::Gateway;
    if is_gateway && create.site.is_none() {
        return Err(usage("a gateway token is of a site: add --site SITE"));
    }
    let is_relay = kind == TokenKind::Relay;
    if is_relay && (create.site.is_some() || create.actor.is_some()) {
        return Err(usage(
            "a relay token is of the account: leave --site and --actor out",
        ));
    }
    if !is_gateway && !is_relay && create.actor.is_none() {
        let message = format_args!("a token of kind {kind} is of an actor: add --actor ACTOR");
        return Err(usage(message));
    }
    if (kind == TokenKind::Api) != create.role.is_some() {
        return Err(usage(
            "an API token, and no other, has a role: --role user, auditor, admin or owner",
        ));
    }
    let (actor, site, owner) = match (&create.actor, &create.site) {
        (None, None) => (None, None, String::new()),
        (Some(actor), _) => {
            let actor: Actor = shell.api.find(actor).await?;
            (Some(actor.id), None, actor.name)
        }
        (None, site) => {
            let site: Site = shell.api.find(site.as_deref().unwrap_or_default()).await?;
            (None, Some(site.id), site.name)
        }
    };
    let name = create.name.clone();
    Ok(NewToken {
        kind,
        actor,
        site,
        role: create.role.map(ApiRole::from),
        name: name.unwrap_or_else(|| default_name(word, &owner, now())),
        expires: create.expires.map(Ahead::timestamp),
        one_time: create.one_time,
    })
}

/// A name that no other token has. The owner's is cut, so that the whole is a name: 100 characters.
pub(super) fn default_name(kind: &str, owner: &str, now: Timestamp) -> String {
    let owner: String = owner.chars().take(60).collect();
    match &*owner {
        "" => format!("{kind} {now}"),
        owner => format!("{kind} {owner} {now}"),
    }
}

async fn list(shell: &mut Shell, list: &ListArguments) -> Result<(), Failure> {
    let actor = shell.api.id_of_some::<Actor>(list.actor.as_deref()).await?;
    let site = shell.api.id_of_some::<Site>(list.site.as_deref()).await?;
    let query = list
        .search
        .query()
        .with_some("actor", actor)
        .with_some("site", site);
    let tokens: Vec<Token> = shell.api.list(&query).await?;
    let columns = ["ID", "NAME", "KIND", "STATE", "USED"];
    shell.format.list(&tokens, &columns, |token| {
        vec![
            token.id.to_string(),
            token.name.clone(),
            kind(token),
            state(token),
            instant(token.last_used),
        ]
    })
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let token: Token = shell.api.find(&which.which).await?;
    let owner = match (token.actor, token.site) {
        (Some(id), _) => {
            let actor: Actor = shell.api.by_id(id).await?;
            ("actor", format!("{} ({id})", actor.name))
        }
        (None, Some(id)) => {
            let site: Site = shell.api.by_id(id).await?;
            ("site", format!("{} ({id})", site.name))
        }
        (None, None) => ("owner", "the account".to_owned()),
    };
    shell.format.record(&token, || {
        vec![
            ("id", token.id.to_string()),
            ("name", token.name.clone()),
            ("kind", kind(&token)),
            owner,
            ("state", state(&token)),
            ("one time", yes_or_no(token.one_time).to_owned()),
            ("expires", instant(token.expires)),
            ("revoked", instant(token.revoked)),
            ("last used", instant(token.last_used)),
            ("created", instant(Some(token.created))),
            ("version", token.version.to_string()),
        ]
    })
}

fn kind(token: &Token) -> String {
    let role = token.role.map(|role| match role {
        ApiRole::User => "user",
        ApiRole::Auditor => "auditor",
        ApiRole::Admin => "admin",
        ApiRole::Owner => "owner",
    });
    match role {
        Some(role) => format!("{}, {role}", token.kind),
        None => token.kind.to_string(),
    }
}

fn state(token: &Token) -> String {
    let now = now();
    match token.expires {
        _ if token.revoked.is_some() => "revoked".to_owned(),
        _ if token.used.is_some() => "used".to_owned(),
        Some(expires) if expires <= now => "expired".to_owned(),
        Some(expires) => format!("until {}", instant(Some(expires))),
        None => "active".to_owned(),
    }
}

impl From<Role> for ApiRole {
    fn from(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Auditor => Self::Auditor,
            Role::Admin => Self::Admin,
            Role::Owner => Self::Owner,
        }
    }
}
