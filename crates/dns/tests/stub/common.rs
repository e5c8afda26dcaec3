//! A stub with a clock, queries written byte by byte, and answers taken apart.

use culvert_base::BootTime;
use culvert_dns::{
    Addresses, Config, DropReason, Families, ForwardId, Outcome, Output, Ranges, Stub, Transport,
    Via,
};
use culvert_ids::ResourceId;
use culvert_policy::{DomainName, NamePattern};
use domain::base::iana::{ExtendedErrorCode, OptRcode, Rtype};
use domain::base::opt::ExtendedError;
use domain::base::{Message, ToName};
use domain::rdata::{A, Aaaa, Cname, Ptr, Soa};
use std::net::{IpAddr, SocketAddr};

pub(crate) const A_TYPE: u16 = 1;
pub(crate) const PTR_TYPE: u16 = 12;
pub(crate) const TXT_TYPE: u16 = 16;
pub(crate) const AAAA_TYPE: u16 = 28;
pub(crate) const ANY_TYPE: u16 = 255;
pub(crate) const BOTH: Families = Families { v4: true, v6: true };

/// The resource `**.corp.example`.
pub(crate) const CORP: ResourceId = ResourceId::from_bytes([1; 16]);
/// The resource `db.corp.example`, which is more specific.
pub(crate) const DATABASE: ResourceId = ResourceId::from_bytes([2; 16]);

pub(crate) const UPSTREAMS: [&str; 2] = ["192.0.2.53:53", "[2001:db8::53]:53"];

pub(crate) fn name(text: &str) -> DomainName {
    text.parse().unwrap()
}

pub(crate) fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn resource_of(name: &DomainName) -> Option<ResourceId> {
    let pattern: NamePattern = "**.corp.example".parse().unwrap();
    match name.as_str() {
        "db.corp.example" => Some(DATABASE),
        _ => pattern.matches(name).then_some(CORP),
    }
}

/// The EDNS options of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edns {
    pub(crate) version: u8,
    pub(crate) payload: u16,
}

pub(crate) const EDNS: Option<Edns> = Some(Edns {
    version: 0,
    payload: 1232,
});

/// A query with one question of class IN.
pub(crate) fn query(id: u16, name: &str, qtype: u16, edns: Option<Edns>) -> Vec<u8> {
    let mut bytes = header(id, 0x0100, [1, 0, 0, u16::from(edns.is_some())]);
    bytes.extend(question(name, qtype, 1));
    if let Some(edns) = edns {
        bytes.extend(opt(edns));
    }
    bytes
}

pub(crate) fn header(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    let fields = [id, flags].into_iter().chain(counts);
    fields.flat_map(u16::to_be_bytes).collect()
}

pub(crate) fn question(name: &str, qtype: u16, class: u16) -> Vec<u8> {
    let mut bytes = wire_name(name);
    bytes.extend([qtype, class].into_iter().flat_map(u16::to_be_bytes));
    bytes
}

pub(crate) fn wire_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

pub(crate) fn opt(edns: Edns) -> Vec<u8> {
    let [high, low] = edns.payload.to_be_bytes();
    vec![0, 0, 41, high, low, 0, edns.version, 0x80, 0, 0, 0]
}

/// A record whose owner is the name of the question.
pub(crate) fn record(rtype: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xc0, 12];
    bytes.extend([rtype, 1].into_iter().flat_map(u16::to_be_bytes));
    bytes.extend(60_u32.to_be_bytes());
    bytes.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A record of any owner.
pub(crate) fn record_of(owner: &str, rtype: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = wire_name(owner);
    bytes.extend([rtype, 1].into_iter().flat_map(u16::to_be_bytes));
    bytes.extend(60_u32.to_be_bytes());
    bytes.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

/// An upstream's answer to a forwarded query, with these records.
pub(crate) fn upstream_answer(query: &[u8], records: &[Vec<u8>]) -> Vec<u8> {
    let id = u16::from_be_bytes([query[0], query[1]]);
    let count = u16::try_from(records.len()).unwrap();
    let mut bytes = header(id, 0x8180, [1, count, 0, 0]);
    let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    bytes.extend(&query[12..end]);
    bytes.extend(records.concat());
    bytes
}

/// An answer taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) to: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) id: u16,
    pub(crate) code: OptRcode,
    pub(crate) is_truncated: bool,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) pointers: Vec<String>,
    /// From the first to the last.
    pub(crate) aliases: Vec<String>,
    pub(crate) ttl_s: Vec<u32>,
    pub(crate) negative_ttl_s: Option<u32>,
    pub(crate) error: Option<(ExtendedErrorCode, String)>,
    pub(crate) has_edns: bool,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn read(bytes: Vec<u8>, to: SocketAddr, transport: Transport) -> Answer {
    let message = Message::from_octets(bytes.clone()).unwrap();
    let header = message.header();
    assert!(header.qr() && header.ra() && !header.aa());
    let (mut addresses, mut pointers, mut ttl_s) = (Vec::new(), Vec::new(), Vec::new());
    let mut aliases = Vec::new();
    for record in message.answer().unwrap() {
        let record = record.unwrap();
        ttl_s.push(record.ttl().as_secs());
        match record.rtype() {
            Rtype::A => addresses.push(
                record
                    .to_record::<A>()
                    .unwrap()
                    .unwrap()
                    .data()
                    .addr()
                    .into(),
            ),
            Rtype::AAAA => {
                addresses.push(
                    record
                        .to_record::<Aaaa>()
                        .unwrap()
                        .unwrap()
                        .data()
                        .addr()
                        .into(),
                );
            }
            Rtype::PTR => {
                let pointer = record.to_record::<Ptr<_>>().unwrap().unwrap();
                pointers.push(pointer.data().ptrdname().to_vec().to_string());
            }
            Rtype::CNAME => {
                let alias = record.to_record::<Cname<_>>().unwrap().unwrap();
                aliases.push(alias.data().cname().to_vec().to_string().to_lowercase());
            }
            _ => {}
        }
    }
    let mut authority = message.authority().unwrap().limit_to::<Soa<_>>();
    let soa = authority.next().map(|record| record.unwrap());
    let negative_ttl_s = soa.map(|soa| soa.ttl().as_secs().min(soa.data().minimum().as_secs()));
    let opt = message.opt();
    let error = opt
        .as_ref()
        .and_then(|opt| opt.opt().iter::<ExtendedError<_>>().next());
    let error = error.map(|error| {
        let error = error.unwrap();
        let text = String::from_utf8(error.text_slice().unwrap_or_default().to_vec()).unwrap();
        (error.code(), text)
    });
    Answer {
        to,
        transport,
        id: header.id(),
        code: message.opt_rcode(),
        is_truncated: header.tc(),
        addresses,
        pointers,
        aliases,
        ttl_s,
        negative_ttl_s,
        error,
        has_edns: opt.is_some(),
        bytes,
    }
}

/// A query that is to be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) id: ForwardId,
    pub(crate) query: Vec<u8>,
    pub(crate) upstream: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) via: Via,
}

/// A stub with a clock and what came out of it.
pub(crate) struct Clocked {
    pub(crate) stub: Stub,
    pub(crate) now_ms: u64,
    pub(crate) answers: Vec<Answer>,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) wanted: Vec<(DomainName, ResourceId, Addresses)>,
    pub(crate) released: Vec<DomainName>,
    pub(crate) not_persisted: Vec<(SocketAddr, bool)>,
}

impl Clocked {
    pub(crate) fn new() -> Self {
        Self::with(Config {
            upstreams: UPSTREAMS.map(socket).to_vec(),
            ..Config::default()
        })
    }

    /// Names have 254 addresses.
    pub(crate) fn small() -> Self {
        let ranges = Ranges::new("10.9.8.0/24".parse().unwrap(), "fd00::/64".parse().unwrap());
        Self::with(Config {
            ranges: ranges.unwrap(),
            ..Config::default()
        })
    }

    pub(crate) fn with(config: Config) -> Self {
        Self {
            stub: Stub::new(config, [7; 32]).unwrap(),
            now_ms: 1_000_000,
            answers: Vec::new(),
            forwards: Vec::new(),
            wanted: Vec::new(),
            released: Vec::new(),
            not_persisted: Vec::new(),
        }
    }

    pub(crate) fn end_access(&mut self, resource: ResourceId) {
        self.stub.handle_access_ended(resource, self.now());
        self.drain();
    }

    pub(crate) fn now(&self) -> BootTime {
        BootTime::from_millis(self.now_ms)
    }

    /// A query over UDP from port `id`.
    pub(crate) fn ask(&mut self, id: u16, name: &str, qtype: u16) {
        self.send(&query(id, name, qtype, EDNS), id, Transport::Udp)
            .unwrap();
    }

    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        port: u16,
        transport: Transport,
    ) -> Result<(), DropReason> {
        let from = SocketAddr::from(([127, 0, 0, 1], port));
        let result = self
            .stub
            .handle_query(bytes, transport, from, self.now(), resource_of);
        self.drain();
        result
    }

    pub(crate) fn resolve(&mut self, text: &str, outcome: Outcome) {
        self.stub.handle_resolved(&name(text), outcome, self.now());
        self.drain();
    }

    /// Asks for a name that access is granted to, until it is answered.
    pub(crate) fn grant(&mut self, text: &str) -> Addresses {
        self.ask(1, text, A_TYPE);
        self.resolve(text, Outcome::Families(BOTH));
        self.answers.clear();
        self.wanted.clear();
        self.stub.addresses_of(&name(text)).unwrap()
    }

    pub(crate) fn answer_upstream(&mut self, bytes: &[u8], from: &str) -> Result<(), DropReason> {
        self.answer_upstream_by(Transport::Udp, bytes, from)
    }

    pub(crate) fn answer_upstream_by(
        &mut self,
        transport: Transport,
        bytes: &[u8],
        from: &str,
    ) -> Result<(), DropReason> {
        let result = self.stub.handle_upstream_answer(
            bytes,
            transport,
            socket(from),
            self.now(),
            resource_of,
        );
        self.drain();
        result
    }

    /// Lets time pass, stopping at every deadline.
    pub(crate) fn pass(&mut self, duration_ms: u64) {
        let end = self.now_ms + duration_ms;
        while let Some(deadline) = self.stub.poll_timeout().filter(|it| it.as_millis() <= end) {
            self.now_ms = self.now_ms.max(deadline.as_millis());
            self.stub.handle_timeout(self.now());
            self.drain();
            assert!(
                self.stub.poll_timeout() != Some(deadline),
                "a deadline is met once"
            );
        }
        self.now_ms = end;
    }

    /// The only answer since this was last asked.
    pub(crate) fn answer(&mut self) -> Answer {
        let answers = std::mem::take(&mut self.answers);
        let [answer] = <[Answer; 1]>::try_from(answers).unwrap();
        answer
    }

    /// The only query that was forwarded since this was last asked.
    pub(crate) fn forward(&mut self) -> Forward {
        let forwards = std::mem::take(&mut self.forwards);
        let [forward] = <[Forward; 1]>::try_from(forwards).unwrap();
        forward
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.stub.poll_output() {
            match output {
                Output::Answer {
                    bytes,
                    to,
                    transport,
                } => {
                    self.answers.push(read(bytes, to, transport));
                }
                Output::Forward {
                    id,
                    query,
                    upstream,
                    transport,
                    via,
                } => {
                    self.forwards.push(Forward {
                        id,
                        query,
                        upstream,
                        transport,
                        via,
                    });
                }
                Output::Wanted {
                    name,
                    resource,
                    addresses,
                } => {
                    self.wanted.push((name, resource, addresses));
                }
                Output::Released { name, .. } => self.released.push(name),
                Output::CaseNotPreserved {
                    upstream,
                    answers_tcp,
                } => self.not_persisted.push((upstream, answers_tcp)),
            }
        }
    }
}
