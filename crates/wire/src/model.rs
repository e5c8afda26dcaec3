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
    Keep, Log, LogSettings, MAX_LOG_DAYS, MAX_LOG_ENTRIES, MAX_SINK_NAME_LEN, MAX_SINKS,
    MIN_CHANGE_DAYS, MIN_LOG_ENTRIES, Sink, SinkTarget,
};
pub use target::{Target, TargetKind};
pub(crate) use told::understood;
pub use told::{ToldTarget, Understood};

use culvert_ids::{ResourceId, SiteId};
use serde::{Deserialize, Serialize};

/// A resource, as the portal tells clients of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Which one.
    pub id: ResourceId,
    /// What people call it.
    pub name: String,
    /// Where it lies.
    pub site: SiteId,
    /// Which addresses or names it is.
    #[serde(flatten)]
    pub target: ToldTarget,
    /// What of it may be used; an empty list is nothing.
    pub filters: Understood<Filter>,
    /// Which programs may reach it; every one where the portal does not say.
    #[serde(default, skip_serializing_if = "ToldApplications::is_any")]
    pub applications: ToldApplications,
}
