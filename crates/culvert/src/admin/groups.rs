//! `culvert admin group`.

use super::api::{MAX_LIST_LEN, Query};
use super::common::{Delete, Rename, Search, Which};
use super::output::instant;
use super::shell::Shell;
use crate::exit::{Failure, Status};
use clap::{Args, Subcommand};
use culvert_base::quoted;
use culvert_ids::{ActorId, GroupId};
use culvert_wire::api::{Actor, Group, GroupPatch, Member, NewGroup, NewMember};
use serde::Serialize;

/// Groups: sets of actors
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum GroupCommand {
    /// List groups
    List(Search),
    /// Show a group and its members
    Show(Which),
    /// Make a group
    Create(CreateArguments),
    /// Rename a group
    Set(Rename),
    /// Delete a group; its policies and memberships go with it
    Delete(Delete),
    /// Add actors to a group
    AddMember(MemberArguments),
    /// Remove actors from a group; access that they had by it ends at once
    RemoveMember(MemberArguments),
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// Its name
    name: String,
    /// An actor to add to it; may be repeated
    #[arg(long, value_name = "ACTOR", value_delimiter = ',')]
    member: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct MemberArguments {
    /// The group's name or id
    #[arg(value_name = "GROUP")]
    group: String,
    /// The actors' names or ids
    #[arg(value_name = "ACTOR", required = true)]
    actors: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin group create developers --member ada --member build-server
  culvert admin group add-member developers grace
  culvert admin group remove-member developers ada
  culvert admin group list
  culvert admin group show developers
  culvert admin group set developers --name engineers
  culvert admin group delete engineers";

/// A group with who is in it.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    group: Group,
    members: Vec<Member>,
}

pub(super) async fn run(shell: &mut Shell, command: GroupCommand) -> Result<(), Failure> {
    match command {
        GroupCommand::List(search) => {
            let groups: Vec<Group> = shell.api.list(&search.query()).await?;
            shell.format.list(&groups, &["ID", "NAME"], |group| {
                vec![group.id.to_string(), group.name.clone()]
            })
        }
        GroupCommand::Show(which) => show(shell, &which).await,
        GroupCommand::Create(create) => self::create(shell, create).await,
        GroupCommand::Set(rename) => {
            let name = Some(rename.name);
            let patch = |_: &Group| Ok(GroupPatch { name });
            shell.change(&rename.seen, patch).await
        }
        GroupCommand::Delete(delete) => shell.delete::<Group>(&delete).await,
        GroupCommand::AddMember(members) => add(shell, &members).await,
        GroupCommand::RemoveMember(members) => remove(shell, &members).await,
    }
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let group: Group = shell.api.find(&which.which).await?;
    let path = members_path(group.id);
    let all = Query::default();
    let members = shell.api.list_of(&path, &all, MAX_LIST_LEN);
    let members: Vec<Member> = members.await?;
    let shown = Shown { group, members };
    shell.format.record(&shown, || {
        let group = &shown.group;
        let members = shown.members.iter();
        let members = members.map(|member| format!("{} ({})", member.actor_name, member.actor));
        let members: Vec<String> = members.collect();
        vec![
            ("id", group.id.to_string()),
            ("name", group.name.clone()),
            (
                "members",
                match members.is_empty() {
                    true => "none".to_owned(),
                    false => members.join("\n"),
                },
            ),
            ("created", instant(Some(group.created))),
            ("changed", instant(Some(group.updated))),
            ("version", group.version.to_string()),
        ]
    })
}

async fn create(shell: &mut Shell, create: CreateArguments) -> Result<(), Failure> {
    // Members that do not exist are found out before the group is there.
    let actors = actors(shell, &create.member).await?;
    let name = create.name;
    let group: Group = shell.api.create(&NewGroup { name }).await?;
    let mut missing = Missing::default();
    for (actor, which) in actors.into_iter().zip(&create.member) {
        missing.note(which, add_one(shell, group.id, actor).await)?;
    }
    let fix = format!(
        "; the group is there without them: add them by `culvert admin group add-member {}`",
        group.id
    );
    missing.into_result(&fix)?;
    shell.say("created", &group)
}

async fn add(shell: &mut Shell, members: &MemberArguments) -> Result<(), Failure> {
    let group: Group = shell.api.find(&members.group).await?;
    let actors = actors(shell, &members.actors).await?;
    let mut missing = Missing::default();
    let mut added: Vec<Member> = Vec::new();
    for (actor, which) in actors.into_iter().zip(&members.actors) {
        added.extend(missing.note(which, add_one(shell, group.id, actor).await)?);
    }
    let sentence = |member: &Member| {
        let (name, group) = (quoted(&member.actor_name), quoted(&group.name));
        format!("{name} is in group {group} now")
    };
    shell.format.done_to_each(&added, sentence)?;
    missing.into_result("")
}

async fn remove(shell: &mut Shell, members: &MemberArguments) -> Result<(), Failure> {
    let group: Group = shell.api.find(&members.group).await?;
    let actors = actors(shell, &members.actors).await?;
    let mut missing = Missing::default();
    let mut removed = Vec::new();
    for (actor, which) in actors.iter().zip(&members.actors) {
        let path = format!("{}/{actor}", members_path(group.id));
        let done = missing.note(which, shell.api.remove(&path).await)?;
        removed.extend(done.map(|()| Removed {
            deleted: *actor,
            which,
        }));
    }
    let sentence = |removed: &Removed<'_>| {
        let (which, group) = (quoted(removed.which), quoted(&group.name));
        format!("{which} is in group {group} no longer")
    };
    shell.format.done_to_each(&removed, sentence)?;
    missing.into_result("")
}

/// An actor that is in a group no longer.
#[derive(Serialize)]
struct Removed<'a> {
    deleted: ActorId,
    #[serde(skip)]
    which: &'a str,
}

/// Actors with whom it did not work, and why. The others are done all the same, so that the command
/// need not be given again for them.
#[derive(Default)]
struct Missing(Vec<String>);

impl Missing {
    /// Returns the result, or nothing if it failed for this actor alone.
    fn note<T>(&mut self, which: &str, done: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(failure) if failure.status == Status::Failed => {
                self.0.push(format!("{}: {failure}", quoted(which)));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    fn into_result(self, fix: &str) -> Result<(), Failure> {
        match self.0.is_empty() {
            true => Ok(()),
            false => {
                let all = self.0.join("; ");
                Err(Failure::new(Status::Failed, format_args!("{all}{fix}")))
            }
        }
    }
}

async fn actors(shell: &mut Shell, which: &[String]) -> Result<Vec<ActorId>, Failure> {
    let mut ids = Vec::new();
    for which in which {
        ids.push(shell.api.id_of::<Actor>(which).await?);
    }
    Ok(ids)
}

async fn add_one(shell: &mut Shell, group: GroupId, actor: ActorId) -> Result<Member, Failure> {
    let new = NewMember { actor };
    let path = members_path(group);
    Ok(shell.api.post(&path, &Query::default(), &new).await?)
}

fn members_path(group: GroupId) -> String {
    format!("/groups/{group}/members")
}
