//! `culvert admin resource`.

use super::common::{Delete, Search, Seen, Which, something, usage};
use super::output::{self, instant};
use super::shell::Shell;
use super::words::{
    Allowed, allowed, applications, filters, parse_allowed, parse_applications, target_kind, within,
};
use crate::exit::Failure;
use clap::{Args, Subcommand};
use culvert_wire::api::{NewResource, Resource, ResourcePatch, Site};
use culvert_wire::model::{Applications, Filter};

/// Resources: networks, addresses and names that can be used
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum ResourceCommand {
    /// List resources
    List(ListArguments),
    /// Show a resource
    Show(Which),
    /// Make a resource
    Create(CreateArguments),
    /// Change a resource; live connections that it no longer allows end at once
    Set(SetArguments),
    /// Delete a resource; its policies go with it
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    search: Search,
    /// Only those of this site
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// Its name
    name: String,
    /// Site of the resource
    #[arg(long, value_name = "SITE")]
    site: String,
    /// Address: 10.0.0.0/8, 10.1.2.3, db.corp.example or *.corp.example
    ///
    /// In a name, * stands for one label and ** for one or more.
    #[arg(long, value_name = "ADDRESS")]
    address: String,
    /// Traffic that is allowed: tcp, tcp:80,443, udp:8000-8100, icmp, any, none; may be repeated
    #[arg(long, value_name = "WHAT", required = true, value_parser = parse_allowed)]
    allow: Vec<Allowed>,
    /// The programs of a client that may reach it: any, only:backup,sync or except:browser
    ///
    /// The names are those after "culvert run --app". The client's machine sees to it.
    #[arg(long, value_name = "WHICH", value_parser = parse_applications, default_value = "any")]
    applications: Applications,
    /// Only of names: a network that their addresses must be in, or "anywhere"; may be repeated
    ///
    /// Without it, anyone who may change a record of the zone can point names to any host that the
    /// site's gateways reach.
    #[arg(long, value_name = "NETWORK")]
    within: Vec<String>,
    /// Only of addresses: services of a client's own host that they may use: tcp:22, udp:161, icmp, any; may be repeated
    ///
    /// They are open while the client has access. Without it, nothing begins a connection to a client.
    #[arg(long, value_name = "WHAT", value_parser = parse_allowed)]
    inbound: Vec<Allowed>,
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    #[command(flatten)]
    seen: Seen,
    /// Its new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Another site
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Another address
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Traffic that is allowed, in the place of the present list; may be repeated
    #[arg(long, value_name = "WHAT", value_parser = parse_allowed)]
    allow: Vec<Allowed>,
    /// The programs of a client that may reach it, instead: any, only:backup,sync or except:browser
    #[arg(long, value_name = "WHICH", value_parser = parse_applications)]
    applications: Option<Applications>,
    /// A network that the addresses of its names must be in, instead, or "anywhere"; may be repeated
    #[arg(long, value_name = "NETWORK")]
    within: Vec<String>,
    /// Services of a client's own host that its addresses may use, instead, or "none"; may be repeated
    #[arg(long, value_name = "WHAT", value_parser = parse_allowed)]
    inbound: Vec<Allowed>,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin resource create intranet --site office --address 10.0.0.0/8 \\
    --allow tcp:80,443 --allow icmp
  culvert admin resource create wiki --site office --address wiki.corp.example \\
    --allow tcp:443 --within 10.0.0.0/8
  culvert admin resource list --site office
  culvert admin resource show wiki
  culvert admin resource set wiki --allow tcp:443,8443
  culvert admin resource set wiki --applications except:browser
  culvert admin resource set monitoring --inbound tcp:9100 --inbound icmp
  culvert admin resource delete wiki";

pub(super) async fn run(shell: &mut Shell, command: ResourceCommand) -> Result<(), Failure> {
    match command {
        ResourceCommand::List(list) => self::list(shell, &list).await,
        ResourceCommand::Show(which) => show(shell, &which).await,
        ResourceCommand::Create(create) => {
            let new = NewResource {
                site: shell.api.id_of::<Site>(&create.site).await?,
                name: create.name,
                kind: target_kind(&create.address),
                address: create.address,
                filters: allowed(&create.allow).map_err(usage)?,
                applications: create.applications,
                within: given(create.within),
                inbound: allowed(&create.inbound).map_err(usage)?,
            };
            shell.create::<Resource>(&new).await.map(drop)
        }
        ResourceCommand::Set(set) => {
            let filters = match set.allow.is_empty() {
                true => None,
                false => Some(allowed(&set.allow).map_err(usage)?),
            };
            let inbound = match set.inbound.is_empty() {
                true => None,
                false => Some(allowed(&set.inbound).map_err(usage)?),
            };
            let patch = something(ResourcePatch {
                site: shell.api.id_of_some::<Site>(set.site.as_deref()).await?,
                name: set.name,
                kind: set.address.as_deref().map(target_kind),
                address: set.address,
                filters,
                applications: set.applications,
                within: given(set.within),
                inbound,
            })?;
            shell.change(&set.seen, |_: &Resource| Ok(patch)).await
        }
        ResourceCommand::Delete(delete) => shell.delete::<Resource>(&delete).await,
    }
}

async fn list(shell: &mut Shell, list: &ListArguments) -> Result<(), Failure> {
    let site = shell.api.id_of_some::<Site>(list.site.as_deref()).await?;
    let query = list.search.query().with_some("site", site);
    let resources: Vec<Resource> = shell.api.list(&query).await?;
    let sites = shell.api.names::<Site>().await?;
    let columns = ["ID", "NAME", "SITE", "ADDRESS", "ALLOWS"];
    shell.format.list(&resources, &columns, |resource| {
        vec![
            resource.id.to_string(),
            resource.name.clone(),
            sites.of(&resource.site),
            resource.address.clone(),
            filters(&resource.filters),
        ]
    })
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let id = shell.api.id_of::<Resource>(&which.which).await?;
    // By its id, since a list leaves out that others have the same address.
    let resource: Resource = shell.api.by_id(id).await?;
    let site: Site = shell.api.by_id(resource.site).await?;
    shell.format.record(&resource, || {
        vec![
            ("id", resource.id.to_string()),
            ("name", resource.name.clone()),
            ("site", format!("{} ({})", site.name, site.id)),
            ("address", resource.address.clone()),
            ("kind", resource.kind.to_string()),
            ("allows", shown(&resource.filters)),
            ("applications", applications(&resource.applications)),
            ("within", within(resource.within.as_deref())),
            ("inbound", filters(&resource.inbound)),
            ("created", instant(Some(resource.created))),
            ("changed", instant(Some(resource.updated))),
            ("version", resource.version.to_string()),
        ]
    })?;
    resource.warnings.iter().for_each(|text| output::warn(text));
    Ok(())
}

/// The values of an option that may be repeated; none where it is not there.
fn given(texts: Vec<String>) -> Option<Vec<String>> {
    (!texts.is_empty()).then_some(texts)
}

fn shown(written: &[Filter]) -> String {
    match written {
        [] => "none: nobody can use it".to_owned(),
        written => filters(written),
    }
}
