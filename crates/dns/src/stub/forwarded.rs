//! Questions that are none of ours.

use super::{Stub, WITHHELD};
use crate::answer::{self, Reply};
use crate::private::is_private;
use crate::query::{self, Asked, Asker};
use crate::rebinding;
use crate::upstreams::{self, Pending, Purpose};
use crate::zones::Of;
use crate::{DropReason, Error, ForwardId, OUTPUTS_MAX, Output, Transport};
use crate::{aliases, real_addresses};
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::{DnsZone, DomainName};
use domain::base::iana::{ExtendedErrorCode, OptRcode, Rcode};
use domain::base::{Message, Name};
use std::collections::BTreeMap;
use std::net::SocketAddr;

impl Stub {
    /// Other upstreams from now on: the network has changed. Queries that wait go to the new ones.
    ///
    /// # Errors
    ///
    /// More than [`UPSTREAMS_MAX`](crate::UPSTREAMS_MAX), addresses that cannot be sent to, this
    /// resolver itself and addresses of names. The upstreams stay what they were.
    pub fn set_upstreams(&mut self, servers: Vec<SocketAddr>, now: BootTime) -> Result<(), Error> {
        upstreams::usable(&servers, &self.listens_on, self.names.ranges())?;
        let (outputs, failed) = self.upstreams.replace(servers, now);
        self.push_forwards(outputs, &failed, now);
        Ok(())
    }

    /// Names in these zones are asked of these servers from now on, and of nobody else; the smallest zone
    /// that holds a name counts. Servers that lead back here are left out: a zone that has no other is
    /// answered by SERVFAIL.
    pub fn set_zones(&mut self, zones: BTreeMap<DnsZone, Vec<SocketAddr>>, now: BootTime) {
        let usable = zones.into_iter().map(|(zone, servers)| {
            let servers = self.usable_upstreams(&servers);
            (zone, servers)
        });
        let usable = usable.collect();
        let (outputs, failed) = self.upstreams.replace_zones(usable, now);
        self.push_forwards(outputs, &failed, now);
    }

    /// Of these servers, those that can be upstreams, as many as there may be.
    #[must_use]
    pub fn usable_upstreams(&self, servers: &[SocketAddr]) -> Vec<SocketAddr> {
        let is_usable = |server: &&SocketAddr| {
            let one = std::slice::from_ref(*server);
            upstreams::usable(one, &self.listens_on, self.names.ranges()).is_ok()
        };
        let usable = servers.iter().filter(is_usable);
        usable.copied().take(crate::UPSTREAMS_MAX).collect()
    }

    /// An upstream's answer came in, by `transport`, from `from`. `resource_of` says which resource a name belongs
    /// to: where an alias leads to such a name, the answer is that resource's.
    ///
    /// # Errors
    ///
    /// The reason why it is not believed. The query goes on waiting.
    pub fn handle_upstream_answer(
        &mut self,
        bytes: &[u8],
        transport: Transport,
        from: SocketAddr,
        now: BootTime,
        resource_of: impl Fn(&DomainName) -> Option<ResourceId>,
    ) -> Result<(), DropReason> {
        if self.outputs.len() >= OUTPUTS_MAX {
            return Err(DropReason::Busy);
        }
        let ranges = self.names.ranges();
        let judged = self
            .upstreams
            .handle_answer(bytes, from, transport, ranges, now);
        self.outputs.extend(self.upstreams.outputs.drain(..));
        let Some(answered) = judged? else {
            return Ok(());
        };
        if let Purpose::Search(offset) = answered.query.purpose {
            let told = answered.bytes.as_deref();
            let message = told.and_then(|bytes| Message::from_slice(bytes).ok());
            let exists = match message.map(|message| message.header().rcode()) {
                Some(Rcode::NOERROR) => Some(true),
                Some(Rcode::NXDOMAIN) => Some(false),
                _ => None,
            };
            self.plain_told(offset, &answered.query, exists, now);
            return Ok(());
        }
        match answered.bytes {
            Some(bytes) => self.answer_as_upstream(&answered.query, bytes, now, resource_of),
            None => self.answer(&answered.query.asked, answered.query.asker, &REBOUND),
        }
        Ok(())
    }

    /// Passes an upstream's answer on, but what it says of names of resources.
    fn answer_as_upstream(
        &mut self,
        query: &Pending,
        bytes: Vec<u8>,
        now: BootTime,
        resource_of: impl Fn(&DomainName) -> Option<ResourceId>,
    ) {
        let (fixed, asker) = (self.fixed.clone(), query.asker);
        // The portal is asked for elsewhere, whatever its name matches.
        let resource_of = |name: &DomainName| match fixed.contains(name) {
            true => None,
            false => resource_of(name),
        };
        let (Ok(message), Some(question)) = (Message::from_slice(&bytes), &query.asked.question)
        else {
            return self.pass_on(query, bytes);
        };
        // The site's own answer has the chain to its end.
        if matches!(query.of, Of::Name(_))
            && let Ok(Some(chain)) = aliases::to_resource(message, question, resource_of)
        {
            let mut asked = query.asked.clone();
            asked.aliases = chain.aliases;
            return self.handle_name(&chain.name, chain.resource, &asked, asker, None, now);
        }
        let bytes = match real_addresses::taken_out(message, |name| resource_of(name).is_some()) {
            Ok(None) => bytes,
            Ok(Some(bytes)) => bytes,
            Err(_) => return self.answer(&query.asked, asker, &UNREADABLE),
        };
        // A site's records are told to those who may use the resource.
        let is_of_others = matches!(query.of, Of::Name(_));
        match self.withholds_private && is_of_others && has_private(&bytes) {
            true => self.answer(&query.asked, asker, &WITHHELD),
            false => self.pass_on(query, bytes),
        }
    }

    /// Passes an upstream's answer on, or says that it is too long for who asked.
    fn pass_on(&mut self, query: &Pending, bytes: Vec<u8>) {
        let Pending { asked, asker, .. } = query;
        let bytes = match bytes.len() <= asked.answer_len_max(asker.transport) {
            true => bytes,
            false => answer::write_truncated(asked),
        };
        self.push_answer(bytes, *asker);
    }

    /// A query could not be sent, or was refused by the upstream's host: the next upstream is asked
    /// at once.
    pub fn handle_upstream_unreachable(&mut self, id: ForwardId, now: BootTime) {
        match self.upstreams.time_out_query(id, now) {
            Some(Ok(output)) => self.push_forwards(vec![output], &[], now),
            Some(Err(pending)) => self.push_forwards(Vec::new(), &[pending], now),
            None => {}
        }
    }

    pub(super) fn forward(
        &mut self,
        bytes: &[u8],
        name: &Name<Vec<u8>>,
        asked: &Asked,
        asker: Asker,
        now: BootTime,
    ) {
        let zones = self.upstreams.zones();
        let of = Of::Name(name.clone());
        if zones.pool(&of).servers.is_empty() {
            let reply = match zones.hold(name) {
                true => &NO_SERVER,
                false => &NOT_OURS,
            };
            self.answer(asked, asker, reply);
            return;
        }
        self.forward_to(&of, bytes, asked, asker, now);
    }

    /// Sets the server for records of a resource's names that are no addresses; `None` removes it. Access to the
    /// resource has to lead there.
    pub fn set_site(&mut self, resource: ResourceId, server: Option<SocketAddr>, now: BootTime) {
        let (outputs, failed) = self.upstreams.set_site(resource, server, now);
        self.push_forwards(outputs, &failed, now);
    }

    /// Asks the site of a resource. False where nobody can be asked.
    pub(super) fn ask_site(
        &mut self,
        resource: ResourceId,
        asked: &Asked,
        asker: Asker,
        now: BootTime,
    ) -> bool {
        let of = Of::Site(resource);
        let pool = self.upstreams.zones().pool(&of);
        if pool.servers.is_empty() {
            return false;
        }
        if pool.silent_until.is_some_and(|until| now < until) {
            self.answer(asked, asker, &SITE_SILENT);
            return true;
        }
        match query::write(asked) {
            Some(bytes) => self.forward_to(&of, &bytes, asked, asker, now),
            None => self.answer(asked, asker, &BUSY),
        }
        true
    }

    fn forward_to(&mut self, of: &Of, bytes: &[u8], asked: &Asked, asker: Asker, now: BootTime) {
        match self
            .upstreams
            .forward(bytes, of, asked, asker, Purpose::Asker, now)
        {
            Some(output) => self.outputs.push_back(output),
            None => self.answer(asked, asker, &BUSY),
        }
    }

    pub(super) fn handle_upstream_timeout(&mut self, now: BootTime) {
        let (outputs, failed) = self.upstreams.handle_due(now);
        self.push_forwards(outputs, &failed, now);
    }

    fn push_forwards(&mut self, outputs: Vec<Output>, failed: &[Pending], now: BootTime) {
        self.outputs.extend(self.upstreams.outputs.drain(..));
        self.outputs.extend(outputs);
        for pending in failed {
            if let Purpose::Search(offset) = pending.purpose {
                self.plain_told(offset, pending, None, now);
                continue;
            }
            match pending.refusal() {
                Some(answer) => self.pass_on(pending, answer.to_vec()),
                None => {
                    let reply = match pending.of {
                        Of::Name(_) => &SILENT,
                        Of::Site(_) => &SITE_SILENT,
                    };
                    self.answer(&pending.asked, pending.asker, reply);
                }
            }
        }
    }
}

/// True if an answer has an address of a private network, or can't be read.
fn has_private(bytes: &[u8]) -> bool {
    let message = Message::from_slice(bytes);
    message.map_or(true, |message| {
        rebinding::hands_out(message, is_private).unwrap_or(true)
    })
}

const NOT_OURS: Reply<'static> = Reply {
    code: OptRcode::REFUSED,
    records: answer::Records::None,
    error: Some((
        ExtendedErrorCode::NOT_AUTHORITATIVE,
        "not a name of a resource",
    )),
};

const NO_SERVER: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: answer::Records::None,
    error: Some((
        ExtendedErrorCode::NO_REACHABLE_AUTHORITY,
        "no server of this domain can be asked",
    )),
};

const BUSY: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: answer::Records::None,
    error: Some((
        ExtendedErrorCode::NOT_READY,
        "too many queries wait for upstream resolvers",
    )),
};

const SILENT: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: answer::Records::None,
    error: Some((
        ExtendedErrorCode::NETWORK_ERROR,
        "no upstream resolver answered",
    )),
};

const SITE_SILENT: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: answer::Records::None,
    error: Some((
        ExtendedErrorCode::NETWORK_ERROR,
        "the resource's gateway did not answer for records of this name",
    )),
};

const UNREADABLE: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: answer::Records::None,
    error: Some((
        ExtendedErrorCode::BLOCKED,
        "the upstream's answer has addresses of a resource's name, and can't be read",
    )),
};

const REBOUND: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: answer::Records::None,
    error: Some((
        ExtendedErrorCode::BLOCKED,
        "the upstream's answer has an address that is reserved for resources",
    )),
};
