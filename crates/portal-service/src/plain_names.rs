//! Names for plain WireGuard devices: the gateway answers their DNS queries, if it can (ADR 0056).

use super::{Caller, Service};
use culvert_ids::{GatewayId, SiteId};
use culvert_policy::Prefix;
use culvert_portal_base::Fault;
use culvert_store as store;
use culvert_wire::model::TargetKind;
use std::net::IpAddr;

/// Names that a device can't find with a DNS server in its file, and the price of that server.
const LIMITS: [&str; 3] = [
    "The device asks its first gateway for all names, public ones too. While that is away, or the device has no access there, it \
     finds no name until its tunnel is switched off.",
    "Names of resources at the sites of other gateways are not found. Neither are other hosts of private networks: answers with their \
     addresses are withheld.",
    "The gateway passes no DNSSEC signatures on, so a device that insists on them finds no name.",
];

const NONE_BY_NAME: &str = "The file has no DNS server, because no policy gives the owner a resource by name at the site of \
                            the first gateway. One that is added later needs a new file.";

const EARLIER_VERSION: &str = "Resources by name are refused, because the first gateway is of an earlier version and answers \
                               no device: update it, and give the device a new file.";

const NOT_CONNECTED: &str = "The file has no DNS server, because the first gateway is not connected and may be of a \
                             version that answers no device. For resources by name, ask for the file when it is connected.";

/// The part of a device's file that is about names.
#[derive(Clone, Debug, Default)]
pub(super) struct NamesOfDevice {
    /// The site whose resources the device finds by name.
    pub(super) site: Option<SiteId>,
    pub(super) dns: Vec<IpAddr>,
    /// The networks that lead to the gateway there for the sake of names.
    pub(super) networks: Vec<Prefix>,
    pub(super) limits: Vec<String>,
}

/// The ability of a gateway to answer devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Yes,
    No,
    /// It is not connected.
    Unknown,
}

impl Service {
    /// The DNS server for a device that may use these resources at the sites of its gateways. It is the first of them, as the
    /// hub has it.
    pub(super) async fn names_of_device(
        &self,
        caller: &Caller,
        gateways: &[store::Gateway],
        usable: &[store::Resource],
    ) -> Result<NamesOfDevice, Fault> {
        let without = |limit: &str| {
            let limits = vec![limit.to_owned()];
            Ok(NamesOfDevice {
                limits,
                ..NamesOfDevice::default()
            })
        };
        let first = gateways.iter().find(|row| row.revoked.is_none());
        let is_there = |row: &&store::Resource| first.is_some_and(|first| first.site == row.site);
        let mut by_name = usable
            .iter()
            .filter(|row| row.target.kind == TargetKind::Dns);
        let Some(gateway) = first.filter(|_| by_name.any(|row| is_there(&row))) else {
            return without(NONE_BY_NAME);
        };
        match self.answers_devices(caller, gateway.id).await {
            Answers::Yes => {}
            Answers::No => return without(EARLIER_VERSION),
            Answers::Unknown => return without(NOT_CONNECTED),
        }
        let account: store::Account = self.get(caller.account(), caller.account()).await?;
        let ranges = account.settings.ranges;
        let server = IpAddr::from(gateway.ipv4);
        // The store has checked them.
        let of_names = [ranges.names_ipv4, ranges.names_ipv6];
        let of_names = of_names.iter().filter_map(|text| text.parse().ok());
        Ok(NamesOfDevice {
            site: Some(gateway.site),
            dns: vec![server],
            networks: of_names.chain([Prefix::host(server)]).collect(),
            limits: LIMITS.map(str::to_owned).to_vec(),
        })
    }

    async fn answers_devices(&self, caller: &Caller, gateway: GatewayId) -> Answers {
        let sessions = self.served.gateways(caller.account()).await;
        let session = sessions.unwrap_or_default();
        match session.into_iter().find(|it| it.gateway == gateway) {
            Some(session) if session.answers_plain => Answers::Yes,
            Some(_) => Answers::No,
            None => Answers::Unknown,
        }
    }
}
