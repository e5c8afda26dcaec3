//! Resources, filters, conditions, rules about applications and about names, as people and programs write them: in the API, in
//! `access.toml`, in the database's JSON columns and in the sessions' messages.

mod applications;
mod convert;
mod dns;
mod filter;
mod logs;
mod target;
mod told;

pub use applications::{Applications, ToldApplications, Unread};
pub use convert::{conditions, filters, within, written_filters};
pub use culvert_policy::Weekday;
pub use culvert_policy::conditions::{
    WrittenCondition as Condition, WrittenCountries, WrittenExpires, WrittenPublicAddresses,
    WrittenTimes, WrittenVerified, WrittenWindow as TimeWindow,
};
pub use dns::{Dns, DnsDomain};
pub use filter::{Filter, PortRange};
pub use logs::{
    FILE_MIB, FILES_RETAINED, Keep, Log, LogSettings, MAX_LOG_DAYS, MAX_LOG_ENTRIES,
    MAX_SINK_NAME_LEN, MAX_SINKS, MIN_CHANGE_DAYS, MIN_LOG_ENTRIES, Sink, SinkTarget,
};
pub use target::{Target, TargetKind};
pub(crate) use told::understood;
pub use told::{ToldTarget, Understood};

use culvert_ids::{ResourceId, SiteId};
use serde::{Deserialize, Serialize};

/// A resource, as the portal tells clients of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// The id.
    pub id: ResourceId,
    /// The resource's name, for people.
    pub name: String,
    /// The site of the resource.
    pub site: SiteId,
    /// The addresses or names of the resource.
    #[serde(flatten)]
    pub target: ToldTarget,
    /// The protocols and ports that may be used; an empty list allows nothing.
    pub filters: Understood<Filter>,
    /// The protocols and ports of the client's own host that its addresses may use. Nothing if the portal does not say.
    #[serde(default, skip_serializing_if = "Understood::is_nothing")]
    pub inbound: Understood<Filter>,
    /// The programs that may reach it; every one if the portal does not say.
    #[serde(default, skip_serializing_if = "ToldApplications::is_any")]
    pub applications: ToldApplications,
}
