//! The load and the flows of the tunnel, and the questions that clients send through it.

use super::Shell;
use super::site_dns::Question;
use crate::GatewayError;
use culvert_base::BootTime;
use culvert_gateway_core::NotAsked;
use hickory_resolver::proto::op::ResponseCode;

/// Questions of clients that are looked at in one turn of the event loop, at some 10 µs each.
const QUESTIONS_PER_TURN: usize = 16;

impl Shell {
    pub(super) async fn handle_load(&mut self, now: BootTime) -> Result<(), GatewayError> {
        // Not every change of them is told, such as that of a bridge for containers.
        self.take_host_addresses(now);
        self.devices.site_dns.try_again(now).await;
        let traffic = self.devices.tunnel.traffic()?;
        self.core.handle_load(self.meter.read(&traffic, now));
        for drop in traffic.drops {
            let what = format!("{} {}", drop.stage, drop.reason);
            tracing::debug!(what, count = drop.count, "dropped so far");
        }
        Ok(())
    }

    pub(super) fn handle_flows(&mut self, now: BootTime) -> Result<(), GatewayError> {
        let taken = self.devices.tunnel.take_flows(false)?;
        self.core.handle_flows(taken.records, taken.lost, now);
        Ok(())
    }

    /// Tells the core which names have flows. Those that have ended come along, and are told of as always.
    pub(super) fn look_at_names(&mut self) -> Result<(), GatewayError> {
        let taken = self.devices.tunnel.take_flows(true)?;
        let (lasting, ended): (Vec<_>, Vec<_>) = taken
            .records
            .into_iter()
            .partition(|flow| flow.ended.is_none());
        let in_use = lasting.iter().map(|flow| (flow.client, flow.visible));
        let in_use = in_use.collect();
        let now = culvert_engine::boot_time();
        self.core.handle_flows(ended, taken.lost, now);
        self.core.handle_names_in_use(&in_use, now);
        Ok(())
    }

    /// Takes what has come from clients and waits, some of it where much waits.
    pub(super) fn serve_clients(&mut self, now: BootTime) {
        for message in self.devices.tunnel.take_path_messages() {
            let (source, datagram) = (message.source, message.datagram());
            self.core.handle_path_message(source, datagram, now);
        }
        for _ in 0..QUESTIONS_PER_TURN {
            let Ok(question) = self.devices.site_dns.questions.try_recv() else {
                break;
            };
            self.take_question(question, now);
        }
    }

    pub(super) fn take_question(&mut self, question: Question, now: BootTime) {
        if let Some(client) = self.core.plain_client_at(question.from.ip()) {
            let from = question.from;
            let (query, transport) = question.hand_over(&mut self.devices.site_dns.plain);
            self.core
                .handle_plain_query(client, &query, (from, transport), now);
            return;
        }
        let name = match question.name() {
            Ok(name) => name,
            Err(code) => return question.refuse(code),
        };
        match self.core.handle_question(question.from.ip(), &name, now) {
            Ok(client) => {
                let resolver = self.devices.resolver.current();
                self.devices.site_dns.look_up(question, client, resolver);
            }
            Err(NotAsked::NotGranted) => question.refuse(ResponseCode::Refused),
            Err(NotAsked::TooMany) => question.refuse(ResponseCode::ServFail),
        }
    }
}
