//! DNS questions of clients, as the gateway takes them.

use super::Gateway;
use crate::network::Network;
use crate::site_dns::NotAsked;
use culvert_base::BootTime;
use culvert_ids::ClientId;
use culvert_policy::{DomainName, Target};
use std::net::{IpAddr, SocketAddr};

impl Gateway {
    /// The address for clients' questions, once the gateway has an address in the tunnel.
    #[must_use]
    pub fn site_dns(&self) -> Option<SocketAddr> {
        self.network.as_ref().map(Network::site_dns)
    }

    /// A question about a name came from an address in the tunnel: it is under way until
    /// [`Self::handle_question_answered`] names its client.
    ///
    /// # Errors
    /// [`NotAsked`].
    pub fn handle_question(
        &mut self,
        from: IpAddr,
        name: &DomainName,
        now: BootTime,
    ) -> Result<ClientId, NotAsked> {
        let client = self
            .data_plane
            .table()
            .owner(from)
            .and_then(|owner| self.data_plane.clients().of_gate_key(owner.peer()))
            .ok_or(NotAsked::NotGranted)?;
        let may_ask = self.grants.of_client(client).any(|held| {
            now < held.expires
                && matches!(&held.target, Target::Name(pattern) if pattern.matches(name))
        });
        if !may_ask {
            return Err(NotAsked::NotGranted);
        }
        match self.dns.site_questions.begin(client) {
            true => Ok(client),
            false => {
                self.journal.counters.questions_refused += 1;
                Err(NotAsked::TooMany)
            }
        }
    }

    /// A client's question has its answer, or will have none.
    pub fn handle_question_answered(&mut self, client: ClientId) {
        self.dns.site_questions.end(client);
    }
}
