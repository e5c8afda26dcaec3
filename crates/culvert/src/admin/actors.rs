//! `culvert admin actor`.

use super::common::{DeleteWithOthers, Search, Seen, Which, something, usage};
use super::invitations::{self, InviteArguments};
use super::output::instant;
use super::passwords::Role;
use super::shell::Shell;
use crate::exit::Failure;
use clap::{Args, Subcommand, ValueEnum};
use culvert_base::quoted;
use culvert_wire::api::{Actor, ActorKind, ActorPatch, ApiRole, NewActor, NewSignIn, SignIn};

/// Actors: admins, users, and service accounts, which are machines
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum ActorCommand {
    /// List actors
    List(Search),
    /// Show an actor
    Show(Which),
    /// Make an actor
    Create(CreateArguments),
    /// Invite a person by a link, or make another link for a person
    ///
    /// The link is printed once. The person who opens it within seven days sets the password, once, and is signed in. An earlier
    /// link is void. Of a person who forgot the password, the new one replaces it when the link is used, and the sessions
    /// end.
    Invite(InviteArguments),
    /// Withdraw the link of a person
    WithdrawInvitation(Which),
    /// Rename, disable or enable an actor, or change the role of a person
    ///
    /// The tokens of a disabled actor are refused, and the live connections of its clients end. Its clients wait, and
    /// come back by themselves within 30 s after it is enabled. Another role ends the sessions that the person has;
    /// password, second factor, groups and clients stay. Only an owner makes another owner, and changes one.
    Set(SetArguments),
    /// Remove the second factor of a person who has lost it
    ///
    /// The person signs in to the console by password alone then, and sets up another. The sessions that
    /// there are end.
    ResetSecondFactor(Which),
    /// Delete an actor
    ///
    /// Its memberships go with it; its tokens and clients only with --cascade.
    Delete(DeleteWithOthers),
    /// End all sessions of a person, in whatever browser
    EndSessions(Which),
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// Its name
    name: String,
    /// Kind of actor; it can't be changed later
    #[arg(long, value_enum)]
    kind: Kind,
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    #[command(flatten)]
    seen: Seen,
    /// Its new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Role of a person who signs in
    #[arg(long, value_enum, conflicts_with_all = ["name", "disable", "enable"])]
    role: Option<Role>,
    /// Refuse its tokens and clients from now on
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Accept its tokens and clients again
    #[arg(long)]
    enable: bool,
}

/// The kind of an actor, as the command line names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Kind {
    /// A person who is to administer
    Admin,
    /// A person
    User,
    /// A machine
    #[value(alias = "service_account")]
    ServiceAccount,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin actor create ada --kind user
  culvert admin actor create build-server --kind service-account
  culvert admin actor invite grace@example.com --role user --group developers
  culvert admin actor withdraw-invitation grace@example.com
  culvert admin actor list --search build
  culvert admin actor show ada
  culvert admin actor set ada --disable
  culvert admin actor set ada --role admin
  culvert admin actor end-sessions ada
  culvert admin actor reset-second-factor ada
  culvert admin actor delete ada --cascade";

pub(super) async fn run(shell: &mut Shell, command: ActorCommand) -> Result<(), Failure> {
    match command {
        ActorCommand::List(search) => {
            let actors: Vec<Actor> = shell.api.list(&search.query()).await?;
            let columns = ["ID", "NAME", "KIND", "STATE"];
            shell.format.list(&actors, &columns, |actor| {
                vec![
                    actor.id.to_string(),
                    actor.name.clone(),
                    kind(actor.kind).to_owned(),
                    state(actor).to_owned(),
                ]
            })
        }
        ActorCommand::Show(which) => {
            let actor: Actor = shell.api.find(&which.which).await?;
            shell.format.record(&actor, || {
                vec![
                    ("id", actor.id.to_string()),
                    ("name", actor.name.clone()),
                    ("kind", kind(actor.kind).to_owned()),
                    ("state", state(&actor).to_owned()),
                    ("signs in", signs_in(&actor)),
                    ("invited", invited(&actor)),
                    ("created", instant(Some(actor.created))),
                    ("changed", instant(Some(actor.updated))),
                    ("version", actor.version.to_string()),
                ]
            })
        }
        ActorCommand::Create(create) => {
            let new = NewActor {
                kind: create.kind.into(),
                name: create.name,
            };
            shell.create::<Actor>(&new).await.map(drop)
        }
        ActorCommand::Invite(invite) => invitations::invite(shell, invite).await,
        ActorCommand::WithdrawInvitation(which) => invitations::withdraw(shell, &which.which).await,
        ActorCommand::Set(SetArguments {
            seen,
            role: Some(role),
            ..
        }) => set_role(shell, &seen, role.into()).await,
        ActorCommand::Set(set) => {
            let disabled = (set.disable || set.enable).then_some(set.disable);
            let patch = something(ActorPatch {
                name: set.name,
                disabled,
            })?;
            shell.change(&set.seen, |_: &Actor| Ok(patch)).await
        }
        ActorCommand::EndSessions(which) => {
            let actor: Actor = shell.api.find(&which.which).await?;
            let path = format!("/actors/{}/sessions", actor.id);
            shell.api.remove(&path).await?;
            let sentence = format!("the sessions of {} have ended", quoted(&actor.name));
            shell.format.done(&actor, sentence)
        }
        ActorCommand::ResetSecondFactor(which) => {
            let found: Actor = shell.api.find(&which.which).await?;
            let actor = shell.api.take_away(&found, "second-factor").await?;
            let sentence = format!("{} signs in by password alone now", quoted(&actor.name));
            shell.format.done(&actor, sentence)
        }
        ActorCommand::Delete(delete) => shell.delete_with_others::<Actor>(&delete).await,
    }
}

async fn set_role(shell: &mut Shell, seen: &Seen, role: ApiRole) -> Result<(), Failure> {
    let actor: Actor = shell.api.find(&seen.which.which).await?;
    if actor.sign_in.is_none() {
        return Err(usage(format_args!(
            "{} does not sign in: let them by `culvert admin password NAME --role ROLE`",
            quoted(&actor.name)
        )));
    }
    let new = NewSignIn {
        role,
        password: None,
    };
    let expected = seen.if_version;
    let actor = shell
        .api
        .act_with(&actor, expected, "sign-in", &new)
        .await?;
    let sentence = format!(
        "{} signs in as {} now; sessions from before have ended",
        quoted(&actor.name),
        role_name(role)
    );
    shell.format.done(&actor, sentence)
}

impl From<Kind> for ActorKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Admin => Self::Admin,
            Kind::User => Self::User,
            Kind::ServiceAccount => Self::ServiceAccount,
        }
    }
}

const fn role_name(role: ApiRole) -> &'static str {
    match role {
        ApiRole::User => "user",
        ApiRole::Auditor => "auditor",
        ApiRole::Admin => "admin",
        ApiRole::Owner => "owner",
    }
}

const fn kind(kind: ActorKind) -> &'static str {
    match kind {
        ActorKind::Admin => "admin",
        ActorKind::User => "user",
        ActorKind::ServiceAccount => "service-account",
    }
}

/// The link of a person.
fn invited(actor: &Actor) -> String {
    let ends = actor.sign_in.and_then(|sign_in| sign_in.invitation_ends);
    ends.map_or_else(
        || "no".to_owned(),
        |ends| format!("until {}", instant(Some(ends))),
    )
}

fn signs_in(actor: &Actor) -> String {
    match actor.sign_in {
        None => "no".to_owned(),
        Some(sign_in) => match (sign_in.second_factor, sign_in.passkeys) {
            (None, 0) => "by password alone".to_owned(),
            (None, 1) => "with a passkey".to_owned(),
            (None, count) => format!("with {count} passkeys"),
            (Some(since), 0) => format!("with a second factor since {}", instant(Some(since))),
            (Some(since), count) => {
                let since = instant(Some(since));
                format!("with a second factor since {since}, {count} passkeys")
            }
        },
    }
}

const fn state(actor: &Actor) -> &'static str {
    match actor.sign_in {
        _ if actor.disabled => "disabled",
        Some(SignIn {
            password_set: None,
            invitation_ends: Some(_),
            ..
        }) => "invited",
        _ => "active",
    }
}
