//! TLS streams to relays that give no answer by UDP.

use super::EventLoop;
use crate::shell::clock::Now;
use culvert_ids::{GatewayId, RelayId};
use culvert_path::TlsPlace;
use culvert_relay_tls::{BridgeSettings, StreamEvent, StreamNews};

impl EventLoop<'_> {
    pub(super) fn open_stream(&mut self, gateway: GatewayId, relay: RelayId, place: TlsPlace) {
        // None while the interface is down.
        let Some(tunnel_port) = self.host_wish.port() else {
            let why = "the tunnel's socket is not open yet".to_owned();
            let now = Now::read().boot;
            return self.core.handle_tls_ended(gateway, relay, why, now);
        };
        let settings = BridgeSettings {
            addresses: place.addresses,
            pin: place.pin,
            gateway_port: place.gateway_port,
            tunnel_port,
            proxy: self.base.settings.proxy.clone(),
            mark: Some(self.base.settings.routing.mark.get()),
            look_up: |host, port| Box::pin(culvert_host::look_up(host, port)),
        };
        self.devices.streams.open(gateway, relay, settings);
        self.exempt_streams();
    }

    pub(super) fn close_stream(&mut self, gateway: GatewayId, relay: RelayId) {
        self.devices.streams.close(gateway, relay);
        self.exempt_streams();
    }

    pub(super) fn handle_stream(&mut self, news: StreamNews<GatewayId>) {
        let (gateway, relay) = (news.owner, news.relay);
        let now = Now::read().boot;
        match news.event {
            StreamEvent::Opened(local) => {
                tracing::debug!(%gateway, %relay, %local, "the stream to a relay is open");
                self.core.handle_tls_opened(gateway, relay, local, now);
            }
            StreamEvent::Ended(why) => {
                tracing::debug!(%gateway, %relay, why, "the stream to a relay has ended");
                self.exempt_streams();
                self.core.handle_tls_ended(gateway, relay, why, now);
            }
        }
    }

    /// The streams stay out of the tunnel, whatever mark a firewall gives them.
    fn exempt_streams(&mut self) {
        let addresses = self.devices.streams.addresses().collect();
        if self.host_wish.set_relays(addresses) {
            self.want_host();
        }
    }
}
