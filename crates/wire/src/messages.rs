//! The sessions' messages. `docs/access.md` tells their order.

mod client;
mod devices;
mod flows;
mod gateway;
mod portals;
mod relay;
mod shared;
mod site_names;

pub use client::{ClientFeature, FromClient, MAX_CLIENT_MESSAGE_LEN, ToClient};
pub use devices::{AdmittedDevice, DeviceEndpoint, MAX_DEVICES_PER_MESSAGE};
pub use flows::{EndedFlow, FlowEnd, FlowReport, GatewayFeature, MAX_FLOWS_PER_REPORT};
pub use gateway::{FromGateway, GRANTS_PER_PAGE, GatewayLoad, GrantLabels, ToGateway};
pub use portals::{MAX_PORTAL_PINS, MAX_PORTAL_URLS, MAX_STORED_PORTALS_LEN, PortalSet};
pub use relay::{
    FromRelay, MAX_RELAY_ADDRESSES, MAX_RELAY_PLACES, NatMapping, PathKind, RELAYS_PER_GATEWAY,
    RelayAccess, RelayClaims, RelayLoad, RelayPlace, RelayPort, RelayReach, RelayTls, ToRelay,
};
pub use shared::{
    Existence, Interface, MAX_NAMES, OWNER_DISABLED, PLAIN_DNS_PORT, Ranges, Reason, ReasonCode,
    ResolvedName, SITE_DNS_PORT, Sequenced, WantedName, decode_sequenced,
};
pub use site_names::{NAME_ASK_BURST, NAME_ASKS_PER_S, NAME_SHARES, NameElsewhere, SiteAnswer};
