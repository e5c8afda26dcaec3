//! `culvert admin policy`.

use super::common::{Delete, Search, Seen, Which, something, usage, yes_or_no};
use super::condition_arguments::{ConditionArguments, FieldName};
use super::output::{self, instant};
use super::shell::Shell;
use super::words::{conditions, policy_name};
use crate::exit::Failure;
use clap::{Args, Subcommand};
use culvert_wire::api::{Group, NewPolicy, Policy, PolicyPatch, Resource};
use culvert_wire::model::Condition;

/// Policies: groups that may use resources, and when
///
/// Without a policy nobody may use anything. Of several policies for one group and resource, any that
/// allows is enough; all conditions of one policy must hold.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum PolicyCommand {
    /// List policies
    List(ListArguments),
    /// Show a policy
    Show(Which),
    /// Let a group use a resource
    Create(CreateArguments),
    /// Change a policy; access that it no longer allows ends at once
    ///
    /// A condition that is given takes the place of the policy's condition of that kind; the others
    /// stay.
    Set(SetArguments),
    /// Delete a policy; access that nothing else allows ends at once
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    search: Search,
    /// Only those for this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only those for this resource
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// Its name [default: GROUP may use RESOURCE]
    name: Option<String>,
    /// Group that gets access
    #[arg(long, value_name = "GROUP")]
    group: String,
    /// Resource that the group may use
    #[arg(long, value_name = "RESOURCE")]
    resource: String,
    /// Make it without effect, until "set --enable"
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    conditions: ConditionArguments,
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    #[command(flatten)]
    seen: Seen,
    /// Its new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Group that gets access instead
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Resource that the group may use instead
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Let it allow nothing for now
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Let it allow again
    #[arg(long)]
    enable: bool,
    /// Drop the condition of this kind; may be repeated
    #[arg(long, value_name = "KIND", value_parser = FieldName::parser(), value_delimiter = ',')]
    without: Vec<FieldName>,
    #[command(flatten)]
    conditions: ConditionArguments,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin policy create --group developers --resource intranet
  culvert admin policy create --group on-call --resource db --expires 4h
  culvert admin policy create \"office hours\" --group support --resource crm \\
    --time \"mon-fri 08:00-18:00 Europe/Berlin\" --verified
  culvert admin policy set \"office hours\" --without verified
  culvert admin policy set \"office hours\" --group sales --resource shop
  culvert admin policy set \"office hours\" --disable
  culvert admin policy list --group support
  culvert admin policy show \"office hours\"
  culvert admin policy delete \"office hours\"";

pub(super) async fn run(shell: &mut Shell, command: PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::List(list) => self::list(shell, &list).await,
        PolicyCommand::Show(which) => show(shell, &which).await,
        PolicyCommand::Create(create) => self::create(shell, create).await,
        PolicyCommand::Set(set) => self::set(shell, set).await,
        PolicyCommand::Delete(delete) => shell.delete::<Policy>(&delete).await,
    }
}

async fn create(shell: &mut Shell, create: CreateArguments) -> Result<(), Failure> {
    let conditions = create.conditions.conditions().map_err(usage)?;
    let group: Group = shell.api.find(&create.group).await?;
    let resource: Resource = shell.api.find(&create.resource).await?;
    let name = create
        .name
        .unwrap_or_else(|| policy_name(&group.name, &resource.name));
    let new = NewPolicy {
        name,
        group: group.id,
        resource: resource.id,
        disabled: create.disabled,
        conditions,
    };
    shell.create::<Policy>(&new).await.map(drop)
}

async fn set(shell: &mut Shell, set: SetArguments) -> Result<(), Failure> {
    let given = set.conditions.conditions().map_err(usage)?;
    let group = shell.api.id_of_some::<Group>(set.group.as_deref()).await?;
    let resource = set.resource.as_deref();
    let resource = shell.api.id_of_some::<Resource>(resource).await?;
    let plain = PolicyPatch {
        name: set.name,
        group,
        resource,
        disabled: (set.disable || set.enable).then_some(set.disable),
        conditions: None,
    };
    let is_plain = given.is_empty() && set.without.is_empty();
    let plain = if is_plain { something(plain)? } else { plain };
    let patch = |policy: &Policy| {
        if is_plain {
            return Ok(plain);
        }
        let conditions = Some(replaced(&policy.conditions, given, &set.without));
        Ok(PolicyPatch {
            conditions,
            ..plain
        })
    };
    shell.change(&set.seen, patch).await
}

/// The conditions with those that are given in the places of those of their kinds.
fn replaced(present: &[Condition], given: Vec<Condition>, without: &[FieldName]) -> Vec<Condition> {
    let is_given = |name| given.iter().any(|other| FieldName::of(other) == name);
    let stays = |condition: &&Condition| {
        let name = FieldName::of(condition);
        !without.contains(&name) && !is_given(name)
    };
    let mut conditions: Vec<Condition> = present.iter().filter(stays).cloned().collect();
    conditions.extend(given);
    conditions
}

async fn list(shell: &mut Shell, list: &ListArguments) -> Result<(), Failure> {
    let group = shell.api.id_of_some::<Group>(list.group.as_deref()).await?;
    let resource = list.resource.as_deref();
    let resource = shell.api.id_of_some::<Resource>(resource).await?;
    let query = list
        .search
        .query()
        .with_some("group", group)
        .with_some("resource", resource);
    let policies: Vec<Policy> = shell.api.list(&query).await?;
    let groups = shell.api.names::<Group>().await?;
    let resources = shell.api.names::<Resource>().await?;
    let columns = ["ID", "NAME", "GROUP", "RESOURCE", "WHEN"];
    shell.format.list(&policies, &columns, |policy| {
        vec![
            policy.id.to_string(),
            policy.name.clone(),
            groups.of(&policy.group),
            resources.of(&policy.resource),
            when(policy),
        ]
    })
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let policy: Policy = shell.api.find(&which.which).await?;
    let group: Group = shell.api.by_id(policy.group).await?;
    let resource: Resource = shell.api.by_id(policy.resource).await?;
    shell.format.record(&policy, || {
        vec![
            ("id", policy.id.to_string()),
            ("name", policy.name.clone()),
            ("group", format!("{} ({})", group.name, group.id)),
            ("resource", format!("{} ({})", resource.name, resource.id)),
            ("when", conditions(&policy.conditions).replace("; ", "\n")),
            ("disabled", yes_or_no(policy.disabled).to_owned()),
            ("created", instant(Some(policy.created))),
            ("changed", instant(Some(policy.updated))),
            ("version", policy.version.to_string()),
        ]
    })?;
    policy.warnings.iter().for_each(|text| output::warn(text));
    Ok(())
}

fn when(policy: &Policy) -> String {
    match policy.disabled {
        true => "disabled".to_owned(),
        false => conditions(&policy.conditions).replace("; ", "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::words::CONDITION_FIELDS;
    use culvert_wire::model::{WrittenExpires, WrittenVerified};

    #[test]
    fn a_given_condition_takes_the_place_of_its_kind_alone() {
        let expires = |text: &str| {
            Condition::Expires(WrittenExpires {
                at: text.parse().unwrap(),
            })
        };
        let named = |name: &str| {
            let found = CONDITION_FIELDS.iter().find(|field| field.name == name);
            FieldName::from(found.unwrap())
        };
        let present = [
            Condition::Verified(WrittenVerified {}),
            expires("2027-01-01T00:00:00Z"),
        ];
        let given = vec![expires("2028-01-01T00:00:00Z")];
        assert_eq!(
            replaced(&present, given.clone(), &[]),
            [
                Condition::Verified(WrittenVerified {}),
                expires("2028-01-01T00:00:00Z")
            ]
        );
        assert_eq!(
            replaced(&present, given.clone(), &[named("verified")]),
            given
        );
        assert_eq!(
            replaced(&present, vec![], &[named("expires")]),
            [Condition::Verified(WrittenVerified {})]
        );
    }
}
