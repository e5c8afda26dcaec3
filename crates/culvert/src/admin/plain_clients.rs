//! `culvert admin plain-client`: devices without Culvert, which speak WireGuard.

mod delivery;
mod key_arguments;
mod qr;

use super::api::{Api, Query};
use super::common::{Seen, Which, usage};
use super::interrupt::uninterrupted;
use super::shell::Shell;
use crate::exit::{Failure, Status};
use clap::{Args, Subcommand};
use culvert_base::quoted;
use culvert_ids::GatewayId;
use culvert_wire::api::{
    Actor, Client, Gateway, NewPlainClient, PREFIX, PlainClientFile, PlainClientRekey,
};
use delivery::{Delivery, Key, print_file};
use key_arguments::KeyArguments;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Plain WireGuard devices: phones with the official app, routers, servers with the kernel's WireGuard
///
/// A device gets a file, and the access of its owner. It is listed, shown, renamed, verified, revoked and deleted as a
/// client ("culvert admin client").
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum PlainClientCommand {
    /// Add a device, and write its file
    ///
    /// Without --public-key, this command makes the key pair. The private key goes into the file or the QR code alone: the
    /// portal never has it.
    Add(AddArguments),
    /// Print the file of a device as of now, without its private key
    File(FileArguments),
    /// Give a device another key, or other gateways; access by the earlier key ends at once
    Rekey(RekeyArguments),
}

#[derive(Debug, Args)]
pub(super) struct AddArguments {
    /// The name of the device
    name: String,
    /// Its owner [default: you]
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    #[command(flatten)]
    through: Through,
    #[command(flatten)]
    key: KeyArguments,
}

#[derive(Debug, Args)]
pub(super) struct FileArguments {
    #[command(flatten)]
    which: Which,
    /// Write it to FILE, mode 0600, instead of printing it; FILE must not be there yet
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Host and port of the gateway, of one of several as GATEWAY=HOST:PORT [default: an address that the gateway reports]
    ///
    /// The portal does not keep the one that the device was added with: it is for that file.
    #[arg(long = "endpoint", value_name = "HOST:PORT")]
    endpoints: Vec<String>,
    #[command(flatten)]
    dns: DnsArguments,
}

#[derive(Debug, Args)]
pub(super) struct RekeyArguments {
    #[command(flatten)]
    seen: Seen,
    #[command(flatten)]
    through: Through,
    #[command(flatten)]
    key: KeyArguments,
}

/// The DNS server in the file.
#[derive(Clone, Copy, Debug, Args)]
struct DnsArguments {
    /// Leave the DNS server out of the file: the device goes on asking its own, and finds no resource by name
    #[arg(long)]
    no_dns: bool,
}

impl DnsArguments {
    fn apply(self, file: PlainClientFile) -> PlainClientFile {
        match self.no_dns {
            true => delivery::without_dns(file),
            false => file,
        }
    }
}

/// The ways to the gateways.
#[derive(Debug, Args)]
struct Through {
    /// A gateway that the device uses; again for a gateway of another site [default: the only one, or those that it has]
    #[arg(long = "gateway", value_name = "GATEWAY")]
    gateways: Vec<String>,
    /// Host and port of the gateway for the file, of one of several as GATEWAY=HOST:PORT [default: an address that the
    /// gateway reports]
    #[arg(long = "endpoint", value_name = "HOST:PORT")]
    endpoints: Vec<String>,
    #[command(flatten)]
    dns: DnsArguments,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin plain-client add phone --actor ada --qr
  culvert admin plain-client add router --actor ada --out router.conf \\
    --endpoint vpn.example.com:51820 --no-dns
  culvert admin plain-client add backup --actor backup --out backup.conf \\
    --gateway gate-1 --endpoint gate-1=vpn.example.com:51820 \\
    --gateway depot --endpoint depot=depot.example.com:51820
  culvert admin plain-client add tablet --actor ada \\
    --public-key xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=
  culvert admin plain-client file phone --endpoint vpn.example.com:51820
  culvert admin plain-client rekey phone --qr";

/// The outcome that is not known after Ctrl-C.
const UNKNOWN: &str = "whether the device was added is unknown: `culvert admin client list` shows it, and `culvert \
                       admin client delete` takes it away";

/// The same of another key.
const UNKNOWN_KEY: &str = "whether the device has the new key is unknown: give it another";

pub(super) async fn run(shell: &mut Shell, command: PlainClientCommand) -> Result<(), Failure> {
    match command {
        PlainClientCommand::Add(arguments) => add(shell, arguments).await,
        PlainClientCommand::File(arguments) => file(shell, &arguments).await,
        PlainClientCommand::Rekey(arguments) => rekey(shell, arguments).await,
    }
}

async fn add(shell: &mut Shell, add: AddArguments) -> Result<(), Failure> {
    let delivery = Delivery::prepare(shell.format, &add.key)?;
    let key = Key::given_or_new(add.key.public_key)?;
    let (gateways, endpoints) = add.through.resolve(&mut shell.api, &[]).await?;
    let new = NewPlainClient {
        name: add.name,
        public_key: key.public(),
        actor: shell.api.id_of_some::<Actor>(add.actor.as_deref()).await?,
        gateways,
        endpoints,
    };
    let nothing_else = Query::default();
    let added = shell.api.post("/plain-clients", &nothing_else, &new);
    let file: PlainClientFile = uninterrupted(added, UNKNOWN).await?;
    let file = add.through.dns.apply(file);
    match delivery.deliver("added", &file, &key) {
        Err(failure) if key.is_new() => Err(lost(&mut shell.api, &file.client, &failure).await),
        delivered => delivered,
    }
}

async fn file(shell: &mut Shell, arguments: &FileArguments) -> Result<(), Failure> {
    let client: Client = shell.api.find(&arguments.which.which).await?;
    let path = format!("/plain-clients/{}", client.id);
    let endpoints = resolve_endpoints(
        &mut shell.api,
        &arguments.endpoints,
        (&[], &client.gateways),
    )
    .await?;
    let endpoints = endpoints.iter();
    let endpoints: Vec<_> = endpoints.map(|(id, to)| format!("{id}={to}")).collect();
    let given = (!endpoints.is_empty()).then(|| endpoints.join(","));
    let query = Query::default().with_some("endpoints", given);
    let file: PlainClientFile = shell.api.get(&path, &query).await?;
    let file = arguments.dns.apply(file);
    match &arguments.out {
        Some(out) => print_file(shell.format, &file, out),
        None => delivery::print(shell.format, &file),
    }
}

async fn rekey(shell: &mut Shell, rekey: RekeyArguments) -> Result<(), Failure> {
    let delivery = Delivery::prepare(shell.format, &rekey.key)?;
    let key = Key::given_or_new(rekey.key.public_key)?;
    let client: Client = shell.api.find(&rekey.seen.which.which).await?;
    let resolved = rekey.through.resolve(&mut shell.api, &client.gateways);
    let (gateways, endpoints) = resolved.await?;
    let body = PlainClientRekey {
        public_key: key.public(),
        gateways,
        endpoints,
    };
    let path = format!("{PREFIX}/plain-clients/{}/key", client.id);
    let changed = shell.api.post_at(&path, rekey.seen.if_version, &body);
    let file: PlainClientFile = uninterrupted(changed, UNKNOWN_KEY).await?;
    let file = rekey.through.dns.apply(file);
    delivery.deliver("changed", &file, &key).map_err(|failure| {
        let (name, id) = (quoted(&file.client.name), file.client.id);
        let text = match key.is_new() {
            true => format!("; nobody has the new key of {name}: rekey it once more ({id})"),
            false => String::new(),
        };
        Failure::new(Status::Failed, format_args!("{failure}{text}"))
    })
}

/// Deletes a device whose private key nobody got.
async fn lost(api: &mut Api, client: &Client, failure: &Failure) -> Failure {
    let deleted = api.delete(client, None, &Query::default(), "").await;
    let (name, id) = (quoted(&client.name), client.id);
    let then = match deleted {
        Ok(()) => format!("the device {name} is deleted again: add it once more"),
        Err(_) => format!(
            "nobody has its private key: delete it by `culvert admin client delete {id}`, then add it once more"
        ),
    };
    Failure::new(Status::Failed, format_args!("{failure}; {then}"))
}

impl Through {
    /// The gateways, and the endpoints of each. `own` are those that the device has so far.
    async fn resolve(
        &self,
        api: &mut Api,
        own: &[GatewayId],
    ) -> Result<(Vec<GatewayId>, BTreeMap<GatewayId, String>), Failure> {
        let mut gateways = Vec::new();
        for which in &self.gateways {
            gateways.push(api.id_of::<Gateway>(which).await?);
        }
        let endpoints = resolve_endpoints(api, &self.endpoints, (&gateways, own)).await?;
        Ok((gateways, endpoints))
    }
}

/// The endpoints of each gateway. `named` are the gateways of the command, and `own` those that the device has.
async fn resolve_endpoints(
    api: &mut Api,
    given: &[String],
    (named, own): (&[GatewayId], &[GatewayId]),
) -> Result<BTreeMap<GatewayId, String>, Failure> {
    let mut endpoints = BTreeMap::new();
    for given in given {
        // Neither a host nor a port has a `=`. A name may have one.
        let (gateway, endpoint) = match given.rsplit_once('=') {
            Some((which, endpoint)) => (api.id_of::<Gateway>(which).await?, endpoint),
            None => (only_gateway(api, named, own).await?, given.as_str()),
        };
        if endpoints.insert(gateway, endpoint.to_owned()).is_some() {
            return Err(usage(
                "a gateway has one endpoint in a file: name one of them",
            ));
        }
    }
    Ok(endpoints)
}

/// The gateway of an endpoint that names none.
async fn only_gateway(
    api: &mut Api,
    named: &[GatewayId],
    own: &[GatewayId],
) -> Result<GatewayId, Failure> {
    let known = if named.is_empty() { own } else { named };
    let known = match known.is_empty() {
        false => known.to_vec(),
        true => {
            let all: Vec<Gateway> = api.list(&Query::default()).await?;
            let live = all.into_iter().filter(|gateway| gateway.revoked.is_none());
            live.map(|gateway| gateway.id).collect()
        }
    };
    match known[..] {
        [only] => Ok(only),
        _ => Err(usage(
            "say of which gateway the endpoint is: --endpoint GATEWAY=HOST:PORT",
        )),
    }
}
