//! The stub resolver: where a query goes, and what becomes of it.

mod forwarded;
mod lent;
mod silence;

use crate::answer::{self, Records, Reply};
use crate::names::{Decision, Names, NoPlace};
use crate::private::is_private;
use crate::query::{self, Asked, Asker, Question};
use crate::ranges::Offset;
use crate::sites::Sites;
use crate::upstreams::{self, Upstreams};
use crate::waiting::Waiting;
use crate::zones::Zones;
use crate::{
    Addresses, Assigned, Config, DropReason, Error, LEASE_IDLE, OUTPUTS_MAX, Outcome, Output,
    Transport, name, reverse,
};
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::DomainName;
use domain::base::Name;
use domain::base::iana::{Class, ExtendedErrorCode, OptRcode, Rtype};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// The sizes of a [`Stub`]'s tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Names with addresses, of at most [`NAMES_MAX`](crate::NAMES_MAX).
    pub names: usize,
    /// Queries that wait for access, of at most [`WAITING_MAX`](crate::WAITING_MAX).
    pub waiting: usize,
    /// Queries that wait for an upstream, of at most [`FORWARDS_MAX`](crate::FORWARDS_MAX).
    pub forwarded: usize,
}

/// The stub resolver. See the [crate] for what it answers and how it is driven.
pub struct Stub {
    names: Names,
    waiting: Waiting,
    sites: Sites,
    /// The search domains of the machine, the longest first.
    search: Vec<Name<Vec<u8>>>,
    upstreams: Upstreams,
    /// Names that are no resource's.
    fixed: Vec<DomainName>,
    listens_on: Vec<SocketAddr>,
    /// See [`Stub::withhold_private`].
    withholds_private: bool,
    outputs: VecDeque<Output>,
}

/// The place where a question is answered.
enum Route {
    /// Here, at once, and not with data.
    Refuse,
    /// Here: it is about an address of ours.
    Reverse(IpAddr),
    /// Here: there is no such name, as far as the asker is told.
    Withheld,
    /// Here, if access is granted.
    Resource(DomainName, ResourceId),
    /// Elsewhere.
    Upstream,
}

impl Stub {
    /// `seed` is 32 random bytes, for the ids of forwarded queries.
    ///
    /// # Errors
    ///
    /// Upstreams that cannot be upstreams; see [`Stub::set_upstreams`].
    pub fn new(config: Config, seed: [u8; 32]) -> Result<Self, Error> {
        upstreams::usable(&config.upstreams, &config.listens_on, &config.ranges)?;
        Ok(Self {
            names: Names::new(config.ranges),
            waiting: Waiting::default(),
            sites: Sites::default(),
            search: Vec::new(),
            upstreams: Upstreams::new(
                Zones::new(
                    config.upstreams,
                    config.fixed.iter().filter_map(name::write).collect(),
                ),
                seed,
            ),
            fixed: config.fixed,
            listens_on: config.listens_on,
            withholds_private: false,
            outputs: VecDeque::new(),
        })
    }

    /// A query came in. `resource_of` says which resource a name belongs to.
    ///
    /// # Errors
    ///
    /// The reason why it gets no answer. Everything else gets one, now or later.
    pub fn handle_query(
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
        let asker = Asker { from, transport };
        let reading = query::read(bytes)?;
        let (None, Some(question)) = (reading.fault, &reading.asked.question) else {
            let code = reading.fault.unwrap_or(OptRcode::FORMERR);
            self.answer(&reading.asked, asker, &Reply::code(code));
            return Ok(());
        };
        match self.route(question, &resource_of) {
            Route::Refuse => {
                self.answer(&reading.asked, asker, &Reply::code(OptRcode::REFUSED));
            }
            Route::Reverse(address) => self.answer_reverse(&reading.asked, asker, address),
            Route::Withheld => self.answer(&reading.asked, asker, &WITHHELD),
            Route::Resource(name, resource) => {
                let plain = self.plain(question.qname(), resource_of);
                self.handle_name(&name, resource, &reading.asked, asker, plain, now);
            }
            Route::Upstream => {
                let name = question.qname();
                self.forward(bytes, name, &reading.asked, asker, now);
            }
        }
        Ok(())
    }

    /// Takes the outcome of a request for access to a name, or of a repeated request. Queries that
    /// wait for it are answered. Nothing happens for a name that was not wanted.
    ///
    /// A good outcome stays good until [`Stub::handle_access_ended`]. A later
    /// [`Outcome::Unreachable`] does not change it, so that names resolve on while the portal is
    /// gone.
    pub fn handle_resolved(&mut self, name: &DomainName, outcome: Outcome, now: BootTime) {
        let Some(offset) = self.names.offset_of(name) else {
            return;
        };
        self.note_outcome(offset, &outcome, now);
        self.names.resolved(offset, outcome, now);
        for waiter in self.waiting.take(offset) {
            self.answer_name(&waiter.asked, waiter.asker, offset, now);
        }
    }

    /// No grant for `resource` is left: its names are asked for again by the next query. They keep
    /// their addresses, which applications remember.
    pub fn handle_access_ended(&mut self, resource: ResourceId, now: BootTime) {
        self.names.forget(resource);
        self.set_site(resource, None, now);
    }

    /// A packet to or from an address of a name was seen: the name keeps it for another
    /// [`LEASE_IDLE`]. Calling this once a minute for each address with a flow is enough.
    pub fn handle_used(&mut self, address: IpAddr, now: BootTime) {
        if let Some(offset) = self.names.offset_at(address) {
            self.names.extend(offset, now.saturating_add(LEASE_IDLE));
        }
    }

    /// Time has passed: queries that waited long enough are answered, forwarded ones are sent again.
    pub fn handle_timeout(&mut self, now: BootTime) {
        for waiter in self.waiting.take_due(now) {
            self.handle_waited(waiter, now);
        }
        self.handle_upstream_timeout(now);
    }

    /// The time at which [`Stub::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let deadlines = [self.waiting.next_deadline(), self.upstreams.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Returns the next output, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The name that has an address.
    pub fn at(&self, address: IpAddr) -> Option<Assigned<'_>> {
        self.names.assigned(self.names.offset_at(address)?)
    }

    /// The addresses of a name, if it has been asked for.
    pub fn addresses_of(&self, name: &DomainName) -> Option<Addresses> {
        let offset = self.names.offset_of(name)?;
        self.names
            .assigned(offset)
            .map(|assigned| assigned.addresses)
    }

    /// The sizes of its tables.
    pub fn counts(&self) -> Counts {
        Counts {
            names: self.names.len(),
            waiting: self.waiting.len(),
            forwarded: self.upstreams.len(),
        }
    }

    fn route(
        &self,
        question: &Question,
        resource_of: impl Fn(&DomainName) -> Option<ResourceId>,
    ) -> Route {
        if question.qclass() != Class::IN || is_meta(question.qtype()) {
            return Route::Refuse;
        }
        let address = reverse::address(question.qname());
        if let Some(address) = address.filter(|it| self.names.ranges().contains(*it)) {
            return Route::Reverse(address);
        }
        if address.is_some_and(|address| self.withholds_private && is_private(address)) {
            return Route::Withheld;
        }
        let Some(name) = name::read(question.qname()) else {
            return Route::Upstream;
        };
        if self.fixed.contains(&name) {
            return Route::Upstream;
        }
        match resource_of(&name) {
            Some(resource) => Route::Resource(name, resource),
            None => Route::Upstream,
        }
    }

    /// A question about a name of a resource: answered from what is known, or it waits.
    fn handle_name(
        &mut self,
        name: &DomainName,
        resource: ResourceId,
        asked: &Asked,
        asker: Asker,
        plain: Option<Name<Vec<u8>>>,
        now: BootTime,
    ) {
        let (offset, gone) = match self.names.place(name, resource, now) {
            Ok(placed) => placed,
            Err(NoPlace::Full) => return self.answer(asked, asker, &FULL),
            Err(NoPlace::TooSoon) => return self.answer(asked, asker, &TOO_SOON),
        };
        if let Some((offset, entry)) = gone {
            let addresses = self.names.ranges().addresses(offset);
            let name = entry.name;
            self.outputs.push_back(Output::Released { name, addresses });
            // Their deadlines have passed, but the name's place is no longer theirs.
            for waiter in self.waiting.take(offset) {
                self.answer(&waiter.asked, waiter.asker, &UNREACHABLE);
            }
        }
        self.names.set_plain(offset, plain);
        let (wants_access, can_answer) = match self.names.entry(offset).map(|it| &it.decision) {
            None | Some(Decision::Unknown) => (true, false),
            Some(Decision::Asked { again_at }) => (*again_at <= now, false),
            Some(Decision::Made { outcome, until }) => {
                let is_over = *until <= now;
                (is_over, !is_over || matches!(outcome, Outcome::Families(_)))
            }
        };
        // The existence of a name does not depend on the type: a query of any type for a missing name gets
        // NXDOMAIN.
        if wants_access {
            self.ask_for_access(offset, now);
        }
        if can_answer {
            self.answer_name(asked, asker, offset, now);
        } else {
            self.wait(asked, asker, offset, now);
        }
    }

    fn ask_for_access(&mut self, offset: Offset, now: BootTime) {
        self.names.asked(offset, now);
        if let Some(assigned) = self.names.assigned(offset) {
            self.outputs.push_back(Output::Wanted {
                name: assigned.name.clone(),
                resource: assigned.resource,
                addresses: assigned.addresses,
            });
        }
    }

    /// Answers from what is known of a name.
    fn answer_name(&mut self, asked: &Asked, asker: Asker, offset: Offset, now: BootTime) {
        let Some(question) = &asked.question else {
            return;
        };
        let (v4, v6) = wanted_families(question.qtype());
        if !v4 && !v6 && self.is_of_site(offset, asked) {
            let resource = self
                .names
                .assigned(offset)
                .map(|assigned| assigned.resource);
            if resource.is_some_and(|resource| self.ask_site(resource, asked, asker, now)) {
                return;
            }
        }
        let addresses = self.names.ranges().addresses(offset);
        let decision = self.names.entry(offset).map(|entry| &entry.decision);
        let mut is_leased = false;
        let reply = match decision {
            Some(Decision::Made { outcome, .. }) => match outcome {
                Outcome::Families(families) => {
                    let v4 = (v4 && families.v4).then_some(addresses.v4);
                    let v6 = (v6 && families.v6).then_some(addresses.v6);
                    is_leased = v4.is_some() || v6.is_some();
                    if is_leased {
                        Reply::records(Records::Addresses(v4, v6))
                    } else {
                        Reply::absent(OptRcode::NOERROR)
                    }
                }
                Outcome::NoAddress => Reply::absent(OptRcode::NOERROR),
                Outcome::NxDomain => Reply::absent(OptRcode::NXDOMAIN),
                Outcome::Denied { brief } => {
                    Reply::error(OptRcode::REFUSED, ExtendedErrorCode::PROHIBITED, brief)
                }
                Outcome::Unanswered | Outcome::Unreachable => {
                    return self.answer_without_site(asked, asker, offset, now);
                }
            },
            _ => UNREACHABLE,
        };
        let bytes = answer::write(asked, asker, &reply);
        self.push_answer(bytes, asker);
        if is_leased {
            self.names.told(offset, now);
        }
    }

    /// True if the site can be asked for records of the name. An alias of another resolver is followed to addresses
    /// alone.
    fn is_of_site(&self, offset: Offset, asked: &Asked) -> bool {
        let decision = self.names.entry(offset).map(|entry| &entry.decision);
        let exists = matches!(
            decision,
            Some(Decision::Made {
                outcome: Outcome::Families(_) | Outcome::NoAddress,
                ..
            })
        );
        exists && asked.aliases.is_empty()
    }

    fn answer_reverse(&mut self, asked: &Asked, asker: Asker, address: IpAddr) {
        let qtype = asked.question.as_ref().map(Question::qtype);
        let reply = match (self.at(address), qtype) {
            (Some(assigned), Some(Rtype::PTR | Rtype::ANY)) => {
                Reply::records(Records::Pointer(assigned.name))
            }
            (Some(_), _) => Reply::absent(OptRcode::NOERROR),
            (None, _) => Reply::absent(OptRcode::NXDOMAIN),
        };
        let bytes = answer::write(asked, asker, &reply);
        self.push_answer(bytes, asker);
    }

    fn answer(&mut self, asked: &Asked, asker: Asker, reply: &Reply<'_>) {
        self.push_answer(answer::write(asked, asker, reply), asker);
    }

    fn push_answer(&mut self, bytes: Vec<u8>, asker: Asker) {
        self.outputs.push_back(Output::Answer {
            bytes,
            to: asker.from,
            transport: asker.transport,
        });
    }
}

/// The same for each name that is withheld, whatever is known of it.
const WITHHELD: Reply<'static> = Reply {
    code: OptRcode::NXDOMAIN,
    records: Records::Absent,
    error: None,
};

const UNREACHABLE: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: Records::None,
    error: Some((
        ExtendedErrorCode::NO_REACHABLE_AUTHORITY,
        "no gateway gives access to this name at the moment",
    )),
};

const FULL: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: Records::None,
    error: Some((
        ExtendedErrorCode::NOT_READY,
        "too many names of resources are in use at once",
    )),
};

const TOO_SOON: Reply<'static> = Reply {
    code: OptRcode::SERVFAIL,
    records: Records::None,
    error: Some((
        ExtendedErrorCode::NOT_READY,
        "too many new names of this resource were asked for at once",
    )),
};

/// The families of addresses that a question asks for; neither for all other types.
fn wanted_families(qtype: Rtype) -> (bool, bool) {
    match qtype {
        Rtype::A => (true, false),
        Rtype::AAAA => (false, true),
        Rtype::ANY => (true, true),
        _ => (false, false),
    }
}

/// Types that are no data (RFC 6895, §3.1), but ANY: transfers, keys of transactions, OPT.
fn is_meta(qtype: Rtype) -> bool {
    qtype == Rtype::OPT || (128..255).contains(&qtype.to_int())
}
