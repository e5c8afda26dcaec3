//! TLS streams to relays that give no answer by UDP.

use super::Shell;
use crate::GatewayError;
use culvert_base::BootTime;
use culvert_ids::RelayId;
use culvert_path::{SILENCE, TlsPlace};
use culvert_relay_tls::{BridgeSettings, StreamEvent, StreamNews};
use std::time::Duration;

/// A client that has not answered for this long has gone. It says nothing of the gateway's own network.
const GONE_AFTER: Duration = Duration::from_secs(10);

impl Shell {
    pub(super) fn open_stream(&mut self, relay: RelayId, place: TlsPlace) {
        let settings = &self.base.settings;
        let settings = BridgeSettings {
            addresses: place.addresses,
            pin: place.pin,
            gateway_port: place.gateway_port,
            tunnel_port: settings.listen_port,
            proxy: settings.proxy.clone(),
            mark: Some(settings.routing.mark.get()),
            look_up: |host, port| Box::pin(culvert_host::look_up(host, port)),
        };
        self.devices.streams.open((), relay, settings);
    }

    pub(super) fn handle_stream(&mut self, news: StreamNews<()>, now: BootTime) {
        match news.event {
            StreamEvent::Opened(local) => self.core.handle_tls_opened(news.relay, local, now),
            StreamEvent::Ended(why) => self.core.handle_tls_ended(news.relay, why, now),
        }
    }

    /// A client that falls silent may mean that the gateway's own network has begun to block UDP.
    pub(super) fn watch_for_silence(&mut self, now: BootTime) -> Result<(), GatewayError> {
        if self.core.watches_for_silence()
            && self.devices.tunnel.has_silent_peer(SILENCE..GONE_AFTER)?
        {
            self.core.handle_silent_client(now);
        }
        Ok(())
    }
}
