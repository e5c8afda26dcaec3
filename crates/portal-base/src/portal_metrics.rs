//! Metrics of the portals that share a database.

use culvert_wire::api::PortalOfDatabase;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: &'static str,
}

/// The lead of the portals of a database, as one of them knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// True while it leads.
    pub leads: bool,
    /// The epoch of the leader that it is, or that it has a link to; none while it knows none.
    pub epoch: Option<u64>,
}

/// The state of the portals, set before it is shown.
#[derive(Debug, Default)]
pub struct PortalMetrics {
    portals: Family<InState, Gauge>,
    leads: Gauge,
    has_leader: Gauge,
    epoch: Gauge,
    clock_ahead: Gauge<f64, AtomicU64>,
    database_size: Gauge,
}

impl PortalMetrics {
    /// Notes who leads the portals of the database.
    pub fn set_leadership(&self, leadership: Leadership) {
        self.leads.set(i64::from(leadership.leads));
        self.has_leader.set(i64::from(leadership.epoch.is_some()));
        if let Some(epoch) = leadership.epoch {
            self.epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
        }
    }

    /// Notes the portals of the database.
    pub fn set_portals(&self, all: &[PortalOfDatabase]) {
        let in_state = |state: &str| {
            all.iter()
                .filter(|portal| state_of(portal) == state)
                .count()
        };
        for state in ["leads", "follows", "silent"] {
            let gauge = self.portals.get_or_create(&InState { state });
            gauge.set(i64::try_from(in_state(state)).unwrap_or(i64::MAX));
        }
        if let Some(own) = all.iter().find(|portal| portal.answers) {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a clock that is off by 285,000 years may be told roughly"
            )]
            self.clock_ahead.set(own.clock_ahead_ms as f64 / 1_000.0);
        }
    }

    /// Notes the space that the database takes.
    pub fn set_database_size(&self, bytes: u64) {
        self.database_size
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub(crate) fn register(&self, to: &mut Registry) {
        to.register(
            "portals",
            "Portals of the database within the last day, by state: leads, follows, silent",
            self.portals.clone(),
        );
        to.register("leads", "1 where this portal leads", self.leads.clone());
        to.register(
            "has_leader",
            "1 where this portal leads, or has a link to the one that does",
            self.has_leader.clone(),
        );
        to.register(
            "leader_epoch",
            "Changes of the leader up to the last one that this portal knows",
            self.epoch.clone(),
        );
        to.register_with_unit(
            "clock_ahead",
            "Time by which this portal's clock is ahead of the database's",
            Unit::Seconds,
            self.clock_ahead.clone(),
        );
        to.register_with_unit(
            "database_size",
            "Space that the database takes",
            Unit::Bytes,
            self.database_size.clone(),
        );
    }
}

fn state_of(portal: &PortalOfDatabase) -> &'static str {
    match (portal.leads, portal.runs) {
        (true, _) => "leads",
        (false, true) => "follows",
        (false, false) => "silent",
    }
}
