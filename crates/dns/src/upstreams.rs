//! Queries that are forwarded, and what makes an answer to one believable.

use crate::ids::Ids;
use crate::letters::{self, CaseRules, Way};
use crate::output::{ForwardId, Output, Via};
use crate::query::{self, Asked, Asker};
use crate::ranges::{Offset, Ranges};
use crate::rebinding;
use crate::zones::{Of, Pool, Zones};
use crate::{
    DropReason, Error, FORWARDS_MAX, SITE_SILENCE, Transport, UPSTREAM_TRIES, UPSTREAM_WAIT,
    UPSTREAMS_MAX,
};
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::DnsZone;
use domain::base::Message;
use domain::base::iana::Rcode;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A forwarded query.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) of: Of,
    pub(crate) asked: Asked,
    pub(crate) asker: Asker,
    pub(crate) purpose: Purpose,
    /// As it is sent, under an id and in letters of ours.
    query: Vec<u8>,
    upstream: SocketAddr,
    way: Way,
    tries: usize,
    deadline: BootTime,
    refusals: Refusals,
}

/// The receiver of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The program that asked.
    Asker,
    /// The name at this place: it may be the name in question with a search domain behind it.
    Search(Offset),
}

/// The servers that have refused a query. Each is asked once.
#[derive(Debug, Default)]
struct Refusals {
    by: Vec<SocketAddr>,
    /// The answer of the last of them. The asker gets it if all refuse.
    answer: Option<Vec<u8>>,
}

impl Pending {
    /// The answer of the last upstream that refused.
    pub(crate) fn refusal(&self) -> Option<&[u8]> {
        self.refusals.answer.as_deref()
    }
}

/// An upstream's answer to a query that waited.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) query: Pending,
    /// The answer under the id, and with the letters, of who asked. None if it hands out addresses
    /// of ours.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// The upstreams and the queries that wait for them.
pub(crate) struct Upstreams {
    zones: Zones,
    pending: BTreeMap<ForwardId, Pending>,
    ids: Ids,
    cases: CaseRules,
    /// Outputs of a call besides its return value.
    pub(crate) outputs: Vec<Output>,
}

impl Upstreams {
    pub(crate) fn new(zones: Zones, seed: [u8; 32]) -> Self {
        Self {
            zones,
            pending: BTreeMap::new(),
            ids: Ids::from_seed(seed),
            cases: CaseRules::default(),
            outputs: Vec::new(),
        }
    }

    /// The table of the servers for each zone.
    pub(crate) const fn zones(&self) -> &Zones {
        &self.zones
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Other upstreams for names in no zone from now on; what waits for such is sent to them at once.
    /// Returns what is to be sent, and what can no longer be.
    pub(crate) fn replace(
        &mut self,
        servers: Vec<SocketAddr>,
        now: BootTime,
    ) -> (Vec<Output>, Vec<Pending>) {
        self.zones.set_others(servers);
        for pending in self.pending.values_mut() {
            if matches!(&pending.of, Of::Name(name) if !self.zones.hold(name)) {
                pending.begin_anew(now);
            }
        }
        self.handle_due(now)
    }

    /// Other zones from now on; what waits for a server that its name is no longer asked of is sent to
    /// another at once.
    pub(crate) fn replace_zones(
        &mut self,
        zones: BTreeMap<DnsZone, Vec<SocketAddr>>,
        now: BootTime,
    ) -> (Vec<Output>, Vec<Pending>) {
        self.zones.set_zones(zones);
        for pending in self.pending.values_mut() {
            let pool = self.zones.pool(&pending.of);
            if !pool.servers.contains(&pending.upstream) {
                pending.begin_anew(now);
            }
        }
        self.handle_due(now)
    }

    /// Sets the server for a resource's names. Queries that wait for another one are sent to it at once.
    pub(crate) fn set_site(
        &mut self,
        resource: ResourceId,
        server: Option<SocketAddr>,
        now: BootTime,
    ) -> (Vec<Output>, Vec<Pending>) {
        self.zones.set_site(resource, server);
        let of = Of::Site(resource);
        for pending in self.pending.values_mut().filter(|it| it.of == of) {
            if server != Some(pending.upstream) {
                pending.begin_anew(now);
            }
        }
        self.handle_due(now)
    }

    /// Forwards a query. One that waits already and was only sent again goes to the next upstream.
    /// `None` if there are too many.
    pub(crate) fn forward(
        &mut self,
        query: &[u8],
        of: &Of,
        asked: &Asked,
        asker: Asker,
        purpose: Purpose,
        now: BootTime,
    ) -> Option<Output> {
        let waiting = self.pending.iter().find(|(_, pending)| {
            (pending.asker, pending.purpose) == (asker, purpose) && pending.asked.is_same(asked)
        });
        if let Some((id, _)) = waiting {
            let id = *id;
            let pending = self.pending.get_mut(&id)?;
            // The asker waits anew.
            pending.tries = 0;
            pending.refusals = Refusals::default();
            return try_next(self.zones.pool_mut(of), &self.cases, id, pending, now);
        }
        let pool = self.zones.pool(of);
        let upstream = *pool.servers.get(pool.preferred)?;
        let id = self.free_id()?;
        let mut query = query.to_vec();
        query.get_mut(..2)?.copy_from_slice(&id.0.to_be_bytes());
        if let (Some(question), Transport::Udp) = (&asked.question, asker.transport) {
            letters::mix(&mut query, question, &mut self.ids)?;
        }
        let pending = Pending {
            of: of.clone(),
            asked: asked.clone(),
            asker,
            purpose,
            query,
            upstream,
            way: self.cases.way(upstream, asker.transport, now),
            tries: 1,
            deadline: now.saturating_add(UPSTREAM_WAIT),
            refusals: Refusals::default(),
        };
        let output = pending.output(id);
        self.pending.insert(id, pending);
        Some(output)
    }

    /// Sends what has waited too long to the next upstream. Returns what is to be sent, and what
    /// was tried often enough.
    pub(crate) fn handle_due(&mut self, now: BootTime) -> (Vec<Output>, Vec<Pending>) {
        let is_due =
            |(id, pending): (&ForwardId, &Pending)| (pending.deadline <= now).then_some(*id);
        let due: Vec<ForwardId> = self.pending.iter().filter_map(is_due).collect();
        let (mut outputs, mut failed) = (Vec::new(), Vec::new());
        for id in due {
            match self.time_out_query(id, now) {
                Some(Ok(output)) => outputs.push(output),
                Some(Err(pending)) => failed.push(pending),
                None => {}
            }
        }
        (outputs, failed)
    }

    /// The upstream of this query does not answer: the next is to be asked, or, if there were
    /// enough, the query is taken out.
    pub(crate) fn time_out_query(
        &mut self,
        id: ForwardId,
        now: BootTime,
    ) -> Option<Result<Output, Pending>> {
        let pending = self.pending.get_mut(&id)?;
        if pending.is_asked_by_tcp_for_its_case() && self.cases.learn(pending.upstream, false, now)
        {
            let upstream = pending.upstream;
            let answers_tcp = false;
            self.outputs.push(Output::CaseNotPreserved {
                upstream,
                answers_tcp,
            });
        }
        let pool = self.zones.pool_mut(&pending.of);
        let next = try_next(pool, &self.cases, id, pending, now);
        if next.is_none() && matches!(pending.of, Of::Site(_)) {
            pool.silent_until = Some(now.saturating_add(SITE_SILENCE));
        }
        match next {
            Some(output) => Some(Ok(output)),
            None => self.pending.remove(&id).map(Err),
        }
    }

    /// Judges an upstream's answer. RFC 5452, §9.1: it counts only if it comes from where the query
    /// went, has its id, and its question, by UDP in the letters in which it was asked.
    ///
    /// None where the upstream refuses, and the next one is asked at once, as the resolvers of C libraries do.
    pub(crate) fn handle_answer(
        &mut self,
        bytes: &[u8],
        from: SocketAddr,
        transport: Transport,
        ranges: &Ranges,
        now: BootTime,
    ) -> Result<Option<Answered>, DropReason> {
        let message = Message::from_slice(bytes).map_err(|_| DropReason::TooShort)?;
        if !message.header().qr() {
            return Err(DropReason::NotAResponse);
        }
        let id = ForwardId(message.header().id());
        let pending = self.pending.get_mut(&id).ok_or(DropReason::UnknownId)?;
        if canonical(pending.upstream) != canonical(from) || pending.way.transport != transport {
            return Err(DropReason::WrongSource);
        }
        let same_opcode = message.header().opcode() == pending.asked.opcode;
        if !same_opcode || query::question(message) != pending.asked.question {
            return Err(DropReason::WrongQuestion);
        }
        let question = pending.asked.question.as_ref();
        let is_same = |question| letters::are_same(bytes, &pending.query, question);
        if pending.way.is_compared && !question.is_some_and(is_same) {
            pending.way = Way {
                transport: Transport::Tcp,
                is_compared: false,
            };
            self.outputs.push(pending.output(id));
            return Err(DropReason::WrongCase);
        }
        let hands_out_ours = rebinding::hands_out(message, |address| ranges.contains(address))
            .map_err(|_| DropReason::Malformed)?;
        let upstream = pending.upstream;
        if pending.is_asked_by_tcp_for_its_case() && self.cases.learn(upstream, true, now) {
            let answers_tcp = true;
            self.outputs.push(Output::CaseNotPreserved {
                upstream,
                answers_tcp,
            });
        }
        let is_refused = is_refusal(message);
        if is_refused && self.ask_after_refusal(id, bytes, now) {
            return Ok(None);
        }
        let query = self.pending.remove(&id).ok_or(DropReason::UnknownId)?;
        let pool = self.zones.pool_mut(&query.of);
        if let Some(index) = pool.servers.iter().position(|it| *it == upstream)
            && !is_refused
        {
            pool.preferred = index;
        }
        pool.silent_until = None;
        let bytes = (!hands_out_ours).then(|| given_back(bytes, &query));
        Ok(Some(Answered { query, bytes }))
    }

    /// Notes that an upstream refuses a query, and asks one that has not. False where all have.
    fn ask_after_refusal(&mut self, id: ForwardId, answer: &[u8], now: BootTime) -> bool {
        let Some(pending) = self.pending.get_mut(&id) else {
            return false;
        };
        pending.refusals.by.push(pending.upstream);
        pending.refusals.answer = Some(given_back(answer, pending));
        // A server that answers costs no time: this try does not count.
        pending.tries = pending.tries.saturating_sub(1);
        let pool = self.zones.pool_mut(&pending.of);
        let next = try_next(pool, &self.cases, id, pending, now);
        let is_asked = next.is_some();
        self.outputs.extend(next);
        is_asked
    }

    pub(crate) fn next_deadline(&self) -> Option<BootTime> {
        self.pending.values().map(|pending| pending.deadline).min()
    }

    /// At most one id in 128 is taken, so 16 draws fail once in 10^33 times.
    fn free_id(&mut self) -> Option<ForwardId> {
        const DRAWS_MAX: usize = 16;
        const { assert!(FORWARDS_MAX <= 1 << 9) };
        if self.pending.len() >= FORWARDS_MAX {
            return None;
        }
        for _ in 0..DRAWS_MAX {
            let id = ForwardId(self.ids.draw()?);
            if !self.pending.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }
}

impl Pending {
    /// Its time is up, and all servers are still to be tried.
    fn begin_anew(&mut self, now: BootTime) {
        self.tries = 0;
        self.refusals = Refusals::default();
        self.deadline = now;
    }

    fn output(&self, id: ForwardId) -> Output {
        Output::Forward {
            id,
            query: self.query.clone(),
            upstream: self.upstream,
            transport: self.way.transport,
            via: match self.of {
                Of::Name(_) => Via::Network,
                Of::Site(_) => Via::Tunnel,
            },
        }
    }

    /// True if the question came by UDP and is asked by TCP, because the server's answers
    /// by UDP have other letters, or had them before.
    fn is_asked_by_tcp_for_its_case(&self) -> bool {
        (self.asker.transport, self.way.transport) == (Transport::Udp, Transport::Tcp)
    }
}

/// The addresses that can be upstreams.
pub(crate) fn usable(
    servers: &[SocketAddr],
    listens_on: &[SocketAddr],
    ranges: &Ranges,
) -> Result<(), Error> {
    if servers.len() > UPSTREAMS_MAX {
        return Err(Error::TooManyUpstreams(servers.len()));
    }
    for server in servers {
        let address = server.ip().to_canonical();
        let is_broadcast = address == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
        if server.port() == 0 || address.is_unspecified() || address.is_multicast() || is_broadcast
        {
            return Err(Error::NotAnUpstream(*server));
        }
        let is_ours = |own: &SocketAddr| canonical(*own) == canonical(*server);
        if ranges.contains(address) || listens_on.iter().any(is_ours) {
            return Err(Error::Loop(*server));
        }
    }
    Ok(())
}

/// True if the next upstream is to be asked after such an answer, because it may know more. Every code but those about
/// the name itself shows that the upstream did not look it up. So does a referral: the resolver of glibc (res_send)
/// passes over such servers as well.
fn is_refusal(message: &Message<[u8]>) -> bool {
    let header = message.header();
    match header.rcode() {
        Rcode::NXDOMAIN => false,
        Rcode::NOERROR => !header.ra() && !header.aa() && message.header_counts().ancount() == 0,
        _ => true,
    }
}

/// Sends a query to the upstream after the one that it waits for, of those that have not refused it; `None` if it was
/// tried often enough. The one that did not answer is no longer asked first.
fn try_next(
    pool: &mut Pool,
    cases: &CaseRules,
    id: ForwardId,
    pending: &mut Pending,
    now: BootTime,
) -> Option<Output> {
    let Pool {
        servers, preferred, ..
    } = pool;
    if pending.tries >= UPSTREAM_TRIES || servers.is_empty() {
        return None;
    }
    let first = servers
        .iter()
        .position(|server| *server == pending.upstream)
        .map_or(*preferred, |index| index + 1);
    let mut others = (first..first + servers.len()).map(|index| index % servers.len());
    let next = others.find(|index| !pending.refusals.by.contains(&servers[*index]));
    if servers.get(*preferred) == Some(&pending.upstream) {
        *preferred = next.unwrap_or(first % servers.len());
    }
    pending.upstream = *servers.get(next?)?;
    pending.way = cases.way(pending.upstream, pending.asker.transport, now);
    pending.tries += 1;
    pending.deadline = now.saturating_add(UPSTREAM_WAIT);
    Some(pending.output(id))
}

/// An upstream's answer as an answer to who asked: their id, and their letters in the question.
fn given_back(bytes: &[u8], query: &Pending) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(id) = bytes.get_mut(..2) {
        id.copy_from_slice(&query.asked.id.to_be_bytes());
    }
    if let Some(question) = &query.asked.question {
        letters::restore(&mut bytes, question);
    }
    bytes
}

fn canonical(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}
