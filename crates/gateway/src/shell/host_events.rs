//! Changes of the machine's network, and of the kernel's table.

use super::Shell;
use crate::GatewayError;
use culvert_base::BootTime;
use culvert_wire::messages::Interface;
use std::net::IpAddr;

impl Shell {
    pub(super) async fn handle_network(&mut self, now: BootTime) -> Result<(), GatewayError> {
        self.take_host_addresses(now);
        self.leave_a_lost_address(now);
        self.devices.nat64.begin_again();
        self.set_candidates(now);
        self.devices.host.restore().await
    }

    pub(super) fn take_host_addresses(&mut self, now: BootTime) {
        let addresses = self.devices.addresses.unserved();
        self.core.handle_host_addresses(addresses, now);
    }

    pub(super) fn set_candidates(&mut self, now: BootTime) {
        let candidates = self.devices.addresses.candidates();
        self.core.handle_candidates(candidates, now);
    }

    /// Looks at the kernel's table, which was perhaps changed by the program `by`, and puts it back.
    pub(super) async fn check_guard(
        &mut self,
        by: Option<&str>,
        now: BootTime,
    ) -> Result<(), GatewayError> {
        let mut is_guarded = self.devices.host.guard.is_guarded(by).await?;
        if !is_guarded {
            self.core.handle_guard(false, now);
            self.execute().await?;
            is_guarded = self.devices.host.guard.put_back().await?;
        }
        if is_guarded {
            self.core.handle_guard(true, culvert_engine::boot_time());
        }
        Ok(())
    }

    /// Sets the host up for the tunnel's addresses, and answers DNS questions at them.
    pub(super) async fn set_up(&mut self, interface: Interface) -> Result<(), GatewayError> {
        let addresses: [IpAddr; 2] = [interface.ipv4.into(), interface.ipv6.into()];
        let ranges: Vec<_> = self
            .core
            .machine_ranges()
            .into_iter()
            .filter_map(|range| ipnet::IpNet::new(range.address(), range.len()).ok())
            .collect();
        self.devices.host.set_up(addresses, &ranges).await?;
        if let Some(at) = self.core.site_dns() {
            let now = culvert_engine::boot_time();
            self.devices.site_dns.answer_at(at, now).await;
        }
        Ok(())
    }
}
