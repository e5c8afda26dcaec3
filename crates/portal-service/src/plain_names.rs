//! Names for plain WireGuard devices: the first gateway answers their DNS queries, if it can (ADR 0056), and has names of other
//! sites resolved by the gateways there (ADR 0061). It does so whatever the device may use now, so that resources by name that
//! are added later need no other file (ADR 0067).

use super::{Caller, Service};
use culvert_base::quoted;
use culvert_hub::GatewayView;
use culvert_ids::SiteId;
use culvert_policy::Prefix;
use culvert_portal_base::Fault;
use culvert_store::{self as store, MAX_PLAIN_CLIENT_GATEWAYS};
use culvert_wire::messages::{NAME_SHARES, Ranges};
use culvert_wire::model::TargetKind;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const _: () = assert!(NAME_SHARES as usize == MAX_PLAIN_CLIENT_GATEWAYS);

/// The price of the DNS server in a file.
const ALL_NAMES: &str = "The device asks its first gateway for all names, public ones too. While that is away, it finds no name until \
                         its tunnel is switched off. Without the line `DNS` in its file, it goes on asking its own servers and finds \
                         no resource by name.";

/// The same where the first gateway answers nobody without a grant.
const ALL_NAMES_BY_GRANT: &str = "The device asks its first gateway for all names, public ones too. While that is away, or the device \
                                  has no access there, it finds no name until its tunnel is switched off.";

/// Names that a device can't find with a DNS server in its file.
const LIMITS: [&str; 2] = [
    "Other hosts of private networks are not found by name: answers with their addresses are withheld.",
    "The gateway passes no DNSSEC signatures on, so a device that insists on them finds no name.",
];

/// The price of names at other sites.
const AT_OTHER_SITES: &str = "Names of resources at the sites of other gateways are found while the portal and those gateways are \
                         connected. The device gets their addresses, and no other records (MX, TXT, SRV).";

const EARLIER_FILE: &str = "Names of resources at the sites of other gateways are not found, because the device has a file of an \
                            earlier version: give it a new key and file.";

const NONE_BY_NAME: &str = "The file has no DNS server, because no policy gives the owner a resource by name. One that is added \
                            later needs a new file.";

const NO_ACCESS_AT_FIRST: &str = "The file has no DNS server, and resources by name are not found: the first gateway is of an earlier \
                                  version, which answers devices that have access there, and no policy gives the owner a resource \
                                  at its site. Update it, and give the device a new file.";

const EARLIER_VERSION: &str = "Resources by name are refused, because the first gateway is of an earlier version and answers \
                               no device with such a file: update it, and give the device a new file.";

const NOT_CONNECTED: &str = "The file has no DNS server, because the first gateway is not connected and may be of a \
                             version that answers no device. For resources by name, ask for the file when it is connected.";

/// The part of a device's file that is about names.
#[derive(Clone, Debug, Default)]
pub(super) struct NamesOfDevice {
    /// The sites whose resources the device finds by name, each with the networks that lead to its gateway for the sake of names.
    pub(super) networks: BTreeMap<SiteId, Vec<Prefix>>,
    pub(super) dns: Vec<IpAddr>,
    pub(super) limits: Vec<String>,
}

/// The ability of a gateway to answer devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// The same as [`Self::OfAllSites`], and devices without a grant too.
    WithoutGrant,
    /// With names of other sites, and addresses of shares.
    OfAllSites,
    /// With names of its own site, and addresses of all of the ranges.
    OfItsSite,
    No,
    /// It is not connected.
    Unknown,
}

impl Answers {
    fn of(sessions: &[GatewayView], gateway: &store::Gateway) -> Self {
        let session = sessions.iter().find(|it| it.gateway == gateway.id);
        match session {
            None => Self::Unknown,
            Some(session) if !session.answers_plain => Self::No,
            Some(session) if !session.knows_site_names => Self::OfItsSite,
            Some(session) if !session.answers_admitted => Self::OfAllSites,
            Some(_) => Self::WithoutGrant,
        }
    }
}

impl Service {
    /// True if a new file with these gateways has shares of the ranges for names. A first gateway that gives addresses of all of
    /// the ranges needs a file without.
    pub(super) async fn has_name_shares(
        &self,
        caller: &Caller,
        gateways: &[store::Gateway],
    ) -> bool {
        let Some(first) = gateways.iter().find(|row| row.revoked.is_none()) else {
            return true;
        };
        let sessions = self.served.gateways(caller.account()).await;
        Answers::of(&sessions.unwrap_or_default(), first) != Answers::OfItsSite
    }

    /// The DNS server for a device that may use these resources at the sites of its gateways. It is the first of them, as the
    /// hub has it.
    pub(super) async fn names_of_device(
        &self,
        caller: &Caller,
        device: &store::Client,
        gateways: &[store::Gateway],
        usable: &[store::Resource],
    ) -> Result<NamesOfDevice, Fault> {
        let sessions = self.served.gateways(caller.account()).await;
        let sessions = sessions.unwrap_or_default();
        let account: store::Account = self.get(caller.account(), caller.account()).await?;
        let ranges = account.settings.ranges;
        Ok(names_of(device, gateways, usable, &sessions, &ranges))
    }
}

fn names_of(
    device: &store::Client,
    gateways: &[store::Gateway],
    usable: &[store::Resource],
    sessions: &[GatewayView],
    ranges: &Ranges,
) -> NamesOfDevice {
    let without = |limit: &str| NamesOfDevice {
        limits: vec![limit.to_owned()],
        ..NamesOfDevice::default()
    };
    let by_name = usable
        .iter()
        .filter(|row| row.target.kind == TargetKind::Dns);
    let by_name: BTreeSet<SiteId> = by_name.map(|row| row.site).collect();
    let mut live = gateways.iter().filter(|row| row.revoked.is_none());
    let Some(first) = live.next() else {
        return NamesOfDevice::default();
    };
    let answers = Answers::of(sessions, first);
    let has_shares = device.name_shares;
    let whatever_is_used = has_shares && answers == Answers::WithoutGrant;
    if !whatever_is_used && let Err(limit) = may_answer(device, first, usable, &by_name, answers) {
        return without(limit);
    }
    let others = live.filter(|row| whatever_is_used || by_name.contains(&row.site));
    let others: Vec<_> = others.collect();
    let mut limits = vec![match whatever_is_used {
        true => ALL_NAMES.to_owned(),
        false => ALL_NAMES_BY_GRANT.to_owned(),
    }];
    limits.extend(LIMITS.map(str::to_owned));
    if !others.is_empty() {
        limits.push(match has_shares {
            true => AT_OTHER_SITES.to_owned(),
            false => EARLIER_FILE.to_owned(),
        });
    }
    let mut networks = BTreeMap::new();
    // The store has checked the ranges.
    if has_shares {
        for row in others {
            networks.insert(row.site, share_of(device, row, ranges));
            limits.extend(
                earlier_at_other_site(sessions, row).filter(|_| by_name.contains(&row.site)),
            );
        }
    }
    let server = IpAddr::from(first.ipv4);
    let mut at_server = match (
        whatever_is_used || by_name.contains(&first.site),
        has_shares,
    ) {
        (true, true) => share_of(device, first, ranges),
        (true, false) => {
            let whole = [&ranges.names_ipv4, &ranges.names_ipv6];
            whole.iter().filter_map(|text| text.parse().ok()).collect()
        }
        (false, _) => Vec::new(),
    };
    at_server.push(Prefix::host(server));
    networks.insert(first.site, at_server);
    NamesOfDevice {
        networks,
        dns: vec![server],
        limits,
    }
}

/// The reason for which a first gateway that answers nobody without a grant is no DNS server, or a device with an earlier file
/// has none.
fn may_answer(
    device: &store::Client,
    first: &store::Gateway,
    usable: &[store::Resource],
    by_name: &BTreeSet<SiteId>,
    answers: Answers,
) -> Result<(), &'static str> {
    if answers == Answers::Unknown {
        return Err(NOT_CONNECTED);
    }
    if by_name.is_empty() {
        return Err(NONE_BY_NAME);
    }
    if !device.name_shares && !by_name.contains(&first.site) {
        return Err(EARLIER_FILE);
    }
    if !usable.iter().any(|row| row.site == first.site) {
        return Err(NO_ACCESS_AT_FIRST);
    }
    match answers {
        Answers::OfItsSite if !device.name_shares => Ok(()),
        Answers::WithoutGrant | Answers::OfAllSites => Ok(()),
        Answers::OfItsSite | Answers::No | Answers::Unknown => Err(EARLIER_VERSION),
    }
}

/// Names of another site are refused where its gateway is known to be of an earlier version.
fn earlier_at_other_site(sessions: &[GatewayView], row: &store::Gateway) -> Option<String> {
    let answers = Answers::of(sessions, row);
    let is_earlier = matches!(answers, Answers::OfItsSite | Answers::No);
    is_earlier.then(|| {
        let name = quoted(&row.name);
        format!(
            "Resources by name at the site of {name} are refused, because this gateway is of an earlier version: \
             update it."
        )
    })
}

/// The share of the ranges for names that a gateway of the device has by its place in the file.
fn share_of(device: &store::Client, gateway: &store::Gateway, ranges: &Ranges) -> Vec<Prefix> {
    let mut places = (0_u8..).zip(&device.gateways);
    let place = places.find(|(_, id)| **id == gateway.id);
    let share = place.and_then(|(place, _)| ranges.name_share(place));
    share.map(Vec::from).unwrap_or_default()
}
