//! `culvert admin actor invite`.

use super::api::Query;
use super::common::usage;
use super::output::{Format, instant, note, print_secret_json};
use super::passwords::Role;
use super::shell::Shell;
use crate::exit::{Failure, print_once};
use clap::Args;
use culvert_base::quoted;
use culvert_wire::api::{Actor, ApiRole, Group, IssuedInvitation, NewInvitation, NewPerson};
use std::io::IsTerminal;
use zeroize::Zeroizing;

#[derive(Debug, Args)]
pub(super) struct InviteArguments {
    /// The person's name; a person who exists gets another link
    name: String,
    /// Role of a new person [default: user]
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// A group that a new person is in from now on; may be repeated
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    group: Vec<String>,
}

pub(super) async fn invite(shell: &mut Shell, invite: InviteArguments) -> Result<(), Failure> {
    let by_name = Query::default().with("name", &invite.name);
    let found: Vec<Actor> = shell.api.list(&by_name).await?;
    let role = invite.role.map(ApiRole::from);
    let issued: IssuedInvitation = match found.first() {
        Some(actor) if !invite.group.is_empty() => {
            return Err(usage(format_args!(
                "{} exists: add them to groups by `culvert admin group add-member`",
                quoted(&actor.name)
            )));
        }
        Some(actor) => {
            let path = format!("/actors/{}/invitation", actor.id);
            let new = NewInvitation { role };
            shell.api.post(&path, &Query::default(), &new).await?
        }
        None => {
            let mut groups = Vec::new();
            for group in &invite.group {
                groups.push(shell.api.id_of::<Group>(group).await?);
            }
            let new = NewPerson {
                name: invite.name,
                role: role.unwrap_or(ApiRole::User),
                groups,
            };
            let path = "/invitations";
            shell.api.post(path, &Query::default(), &new).await?
        }
    };
    print_link(shell.format, issued)
}

/// Prints a link that is shown this once.
fn print_link(format: Format, issued: IssuedInvitation) -> Result<(), Failure> {
    if format == Format::Json {
        return print_secret_json(issued);
    }
    let line = Zeroizing::new(format!("{}\n", issued.link));
    print_once(line.as_bytes())?;
    if std::io::stdout().is_terminal() {
        note(format_args!(
            "This is shown once. {} sets a password by it, once, until {}.",
            quoted(&issued.actor.name),
            instant(Some(issued.ends))
        ));
    }
    Ok(())
}

pub(super) async fn withdraw(shell: &mut Shell, which: &str) -> Result<(), Failure> {
    let found: Actor = shell.api.find(which).await?;
    let actor = shell.api.take_away(&found, "invitation").await?;
    let sentence = format!("the link of {} is withdrawn", quoted(&actor.name));
    shell.format.done(&actor, sentence)
}
