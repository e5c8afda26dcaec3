//! The grants that a restart of a gateway would find.

use culvert_gateway_core::read_log;
use culvert_lab::product::Gateway;

/// Each as it is written down.
pub(crate) fn kept_grants(gateway: &Gateway) -> Vec<serde_json::Value> {
    let log = std::fs::read(gateway.state_dir().join("grants.log")).unwrap_or_default();
    let grants = read_log(&log, None)
        .map(|log| log.grants)
        .unwrap_or_default();
    let grants = grants.into_values().map(serde_json::to_value);
    grants.filter_map(Result::ok).collect()
}

/// The secret of the first of them and its client.
pub(crate) fn kept_secret(gateway: &Gateway) -> Option<String> {
    let grants = kept_grants(gateway);
    Some(grants.first()?["preshared_key"].as_str()?.to_owned())
}
