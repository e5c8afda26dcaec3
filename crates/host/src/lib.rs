//! Set-up of a Linux host for client and gateway.
//!
//! Every set-up is described as a wanted state and reconciled: each step can be repeated, does
//! nothing if the state is already there, and can be undone after a crash.

#![deny(unsafe_code)]

mod addresses;
mod cgroup;
mod cgroup_watch;
mod command_group;
mod commanders;
mod config_file;
mod connections;
mod descriptor_store;
mod descriptors;
mod error;
mod file_check;
mod file_refusal;
mod firewall;
mod forwarding;
mod guests;
mod identity;
mod inotify;
mod interface_name;
mod log_dir;
mod name_services;
mod netlink;
mod notify;
mod observer;
mod peer_credentials;
mod peer_process;
mod privileges;
mod probe;
mod processor_time;
mod recent_log;
mod request_places;
mod resolver;
mod retry;
mod routing;
mod sandbox;
mod shutdown;
mod start_time;
mod state_dir;
mod status_socket;
mod sysctl;
mod system_helper;
mod table_claim;
mod token_file;
mod wake_up;
mod watch;
mod watch_stream;
mod watching;

pub use addresses::MAX_CANDIDATES;
pub use cgroup::ApplicationCgroups;
pub use cgroup_watch::CgroupWatch;
pub use command_group::COMMAND_GROUP;
pub use config_file::{MAX_CONFIG_FILE_BYTES, read_config_file};
pub use connections::{Connection, connections_from};
pub use culvert_base::Family;
pub use descriptor_store::DescriptorStore;
pub use descriptors::raise_descriptors;
pub use error::HostError;
pub use file_check::SecretBytes;
pub use file_refusal::{FileRefusal, FileRefused};
pub use firewall::{
    AddressGuard, ApplicationFirewall, ApplicationRules, Firewall, FirewallWatch, ForwardConflict,
    GatewayRules, HostAccess, MAX_RULED_RANGES, Refused, RepairPace, SourceAddress, TableState,
    forward_conflicts, remove_address_guard, remove_application_rules, remove_table,
};
pub use forwarding::{Forwarding, enable_forwarding, forwarding, require_forwarding};
pub use guests::Guests;
pub use identity::{Identity, PrivateKeyBytes, machine_id};
pub use interface_name::{InterfaceName, InvalidInterfaceName};
pub use log_dir::LogDir;
pub use name_services::keep_to_built_in_name_services;
pub use notify::{notify_ready, notify_status, notify_stopping};
pub use observer::{Health, Observed, Observer, observe};
pub use peer_credentials::PeerCredentials;
pub use peer_process::PeerProcess;
pub use privileges::{Capability, Confinement, User, confine};
pub use probe::{require_net_admin, require_nft, require_tun_device};
pub use processor_time::processor_time_ms;
pub use recent_log::RecentLog;
pub use resolver::{ResolverChoice, ResolverControl, ResolverMode, ResolverWanted, RoutedDomains};
pub use routing::{
    Applied, Exemption, MAX_ADDRESSES, MAX_EXEMPTIONS, MAX_PREFIXES, Mark, Network, Note,
    Preference, Routing, Table, Wanted,
};
pub use sandbox::{Barrier, Sandbox, SandboxNeeds};
pub use shutdown::Shutdown;
pub use state_dir::{MAX_STATE_FILE_BYTES, StateDir, StateLock};
pub use status_socket::{
    AnsweredCode, AnsweredError, ErrorCode, OnlyStatus, Request, Restricted, SocketError,
    SocketForm, StatusError, StatusRequest, StatusSocket, WatchRequest, ask, ask_log,
    parse_request,
};
pub use system_helper::{
    SYSTEM_HELPER, SystemFile, SystemHelper, look_up, open_system_file, run_system_helper,
};
pub use table_claim::TableClaim;
pub use token_file::{
    MAX_TOKEN_FILE_BYTES, TokenText, read_credential, read_password_credential, read_password_file,
    read_private_text, read_token_file,
};
pub use wake_up::WakeUp;
pub use watch::{DEBOUNCE, MAX_DESTINATIONS, NetworkChange, NetworkWatch, WatchOptions};
pub use watch_stream::WatchStream;
pub use watching::{MAX_WATCHERS, MAX_WATCHERS_PER_USER, MIN_INTERVAL_MS, Update, Watch, Watchers};

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails to compile where a future may not move between the threads of a runtime.
    fn may_move<F: Send>(_: impl FnOnce(Network, NetworkWatch, Firewall) -> F) {}

    #[test]
    fn all_work_may_move_between_threads() {
        may_move(|mut network, mut watch, firewall| async move {
            let interface = firewall.rules().interface.clone();
            let _conflicts = forward_conflicts(&interface).await;
            let _state = firewall.check().await;
            let _removed = firewall.remove().await;
            let _left = network.clean_up_leftovers(&Routing::CLIENT).await;
            let _change = watch.changed().await;
        });
        may_move(|mut network, _, _| async move {
            let wanted = Wanted {
                interface: "cv0".parse()?,
                mtu_bytes: 1280,
                addresses: Vec::new(),
                prefixes: Vec::new(),
                exemptions: Vec::new(),
                routing: Routing::CLIENT,
            };
            network.apply(&wanted).await
        });
    }
}
