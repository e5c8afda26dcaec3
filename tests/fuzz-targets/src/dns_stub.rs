use crate::input::Input;
use culvert_base::BootTime;
use culvert_dns::{
    Config, FORWARDS_MAX, Families, ForwardId, Outcome, Output, Ranges, Stub, Transport,
    WAITING_MAX,
};
use culvert_ids::ResourceId;
use culvert_policy::{DnsZone, DomainName};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Steps of one script.
const MAX_STEPS: usize = 200;

/// Bytes of a header.
const HEADER_LEN: usize = 12;

const UPSTREAM: ([u8; 4], u16) = ([192, 0, 2, 53], 53);

/// A resolver and what it owes.
struct Story {
    stub: Stub,
    now_ms: u64,
    /// Queries that were taken and not yet answered, by the port that they came from.
    owed: BTreeMap<u16, Vec<u8>>,
    next_port: u16,
    wanted: Vec<DomainName>,
    forwarded: Vec<(ForwardId, Vec<u8>, Transport)>,
}

/// A resolver gets whatever programs, upstreams and the portal bring: arbitrary bytes and damaged
/// messages. Every query that is taken gets exactly one answer, in time, under its id, to its
/// question, and whole; what is held is bounded.
///
/// # Panics
/// If a property does not hold.
pub fn dns_stub(data: &[u8]) {
    let mut input = Input::new(data);
    let ranges = Ranges::new(
        "10.9.8.0/24".parse().expect("a range"),
        "fd00::/64".parse().expect("a range"),
    );
    let config = Config {
        ranges: ranges.expect("ranges for names"),
        upstreams: vec![UPSTREAM.into(), ([192, 0, 2, 54], 53).into()],
        ..Config::default()
    };
    let mut story = Story {
        stub: Stub::new(config, [9; 32]).expect("upstreams"),
        now_ms: 1,
        owed: BTreeMap::new(),
        next_port: 1,
        wanted: Vec::new(),
        forwarded: Vec::new(),
    };
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        story.step(&mut input);
        let counts = story.stub.counts();
        assert!(counts.names <= 254);
        assert!(counts.waiting <= WAITING_MAX && counts.forwarded <= FORWARDS_MAX);
    }
    story.pass(Duration::from_secs(20));
    assert!(story.owed.is_empty(), "never answered: {:?}", story.owed);
    assert_eq!(story.stub.poll_timeout(), None);
}

fn resource_of(name: &DomainName) -> Option<ResourceId> {
    name.as_str().ends_with("corp").then_some(RESOURCE)
}

impl Story {
    fn now(&self) -> BootTime {
        BootTime::from_millis(self.now_ms)
    }

    /// One thing happens.
    fn step(&mut self, input: &mut Input<'_>) {
        let choice = input.u8();
        let transport = match choice & 0x80 {
            0 => Transport::Udp,
            _ => Transport::Tcp,
        };
        // A gateway lends it to a plain WireGuard device.
        if choice & 0x20 != 0 {
            self.stub.withhold_private();
            self.stub.set_names_max(usize::from(choice));
            self.stub.forget_access();
        }
        match choice % 8 {
            0 | 1 => {
                let len = usize::from(input.u16());
                let bytes = input.take(len);
                self.query(bytes, transport);
            }
            2 => {
                let len = usize::from(input.u8());
                let bytes = input.take(len);
                // An answer to nobody's question.
                let from = SocketAddr::from(UPSTREAM);
                let _ = self.stub.handle_upstream_answer(
                    bytes,
                    transport,
                    from,
                    self.now(),
                    resource_of,
                );
                self.drain(false);
            }
            3 => self.answer_upstream(input),
            4 => self.resolve(input),
            5 => self.pass(Duration::from_millis(u64::from(input.u16()))),
            6 => {
                if let Some((id, ..)) = pick(&self.forwarded, input.u8()) {
                    self.stub.handle_upstream_unreachable(*id, self.now());
                    self.drain(false);
                }
            }
            _ if choice & 0x40 == 0 => self.end_access(),
            _ => self.set_zones(input.u8()),
        }
    }

    fn end_access(&mut self) {
        self.stub.handle_access_ended(RESOURCE, self.now());
        self.drain(false);
    }

    fn query(&mut self, bytes: &[u8], transport: Transport) {
        let port = self.next_port;
        self.next_port += 1;
        let from = SocketAddr::from(([127, 0, 0, 1], port));
        let now = self.now();
        let taken = self
            .stub
            .handle_query(bytes, transport, from, now, resource_of);
        if taken.is_ok() {
            self.owed.insert(port, bytes.to_vec());
        }
        self.drain(false);
    }

    /// A part of some zones, each with one server, is all that there are from now on.
    fn set_zones(&mut self, which: u8) {
        let zones = [".", "a", "b.a", "corp"].into_iter().zip(0..);
        let chosen = zones.filter(|(_, bit)| which & (1 << bit) != 0);
        let zones = chosen.map(|(zone, host)| {
            let zone: DnsZone = zone.parse().expect("a zone");
            let server = match which & 0x80 {
                0 => UPSTREAM,
                _ => ([192, 0, 2, 60 + host], 53),
            };
            (zone, vec![server.into()])
        });
        let zones = zones.collect();
        self.stub.set_zones(zones, self.now());
        self.drain(false);
    }

    /// An answer with the right id and question, with anything behind it, and damaged.
    fn answer_upstream(&mut self, input: &mut Input<'_>) {
        let Some((_, query, transport)) = pick(&self.forwarded, input.u8()).cloned() else {
            return;
        };
        let question = question(&query).expect("a forwarded query has a question");
        let counts = [
            0,
            1,
            0,
            input.u8() % 4,
            0,
            input.u8() % 2,
            0,
            input.u8() % 2,
        ];
        let len = usize::from(input.u16());
        let flags = [0x81, 0x80];
        let mut bytes = [&query[..2], &flags, &counts, question, input.take(len)].concat();
        input.damage(&mut bytes);
        let from = SocketAddr::from(UPSTREAM);
        let _ = self
            .stub
            .handle_upstream_answer(&bytes, transport, from, self.now(), resource_of);
        self.drain(true);
    }

    fn resolve(&mut self, input: &mut Input<'_>) {
        let Some(name) = pick(&self.wanted, input.u8()).cloned() else {
            return;
        };
        let outcome = match input.u8() {
            0 => Outcome::NxDomain,
            1 => Outcome::Unreachable,
            2 => {
                let len = usize::from(input.u16());
                let brief = String::from_utf8_lossy(input.take(len)).into_owned();
                Outcome::Denied { brief }
            }
            3 => Outcome::NoAddress,
            4 => Outcome::Unanswered,
            bits => Outcome::Families(Families {
                v4: bits & 1 != 0,
                v6: bits & 2 != 0,
            }),
        };
        self.stub.handle_resolved(&name, outcome, self.now());
        self.drain(false);
    }

    fn pass(&mut self, duration: Duration) {
        let end = self.now().saturating_add(duration);
        while let Some(deadline) = self.stub.poll_timeout().filter(|it| *it <= end) {
            self.now_ms = self.now_ms.max(deadline.as_millis());
            self.stub.handle_timeout(self.now());
            self.drain(false);
            assert_ne!(self.stub.poll_timeout(), Some(deadline), "met once");
        }
        self.now_ms = end.as_millis();
    }

    /// `is_upstreams`: an answer may be what an upstream sent, behind its question.
    fn drain(&mut self, is_upstreams: bool) {
        while let Some(output) = self.stub.poll_output() {
            match output {
                Output::Answer { bytes, to, .. } => {
                    let query = self.owed.remove(&to.port()).expect("an answer to nobody");
                    assert_answers(&bytes, &query, is_upstreams);
                }
                Output::Forward {
                    id,
                    query,
                    transport,
                    ..
                } => {
                    self.forwarded.retain(|(other, ..)| *other != id);
                    self.forwarded.push((id, query, transport));
                }
                Output::Wanted { name, .. } => self.wanted.push(name),
                Output::Released { .. } | Output::CaseNotPreserved { .. } => {}
            }
        }
    }
}

const RESOURCE: ResourceId = ResourceId::from_bytes([1; 16]);

fn assert_answers(answer: &[u8], query: &[u8], is_upstreams: bool) {
    assert!(answer.len() >= HEADER_LEN && query.len() >= HEADER_LEN);
    assert_eq!(answer[..2], query[..2], "the id");
    assert_eq!(answer[2] & 0x80, 0x80, "a response");
    assert_eq!(answer[2] & 0x78, query[2] & 0x78, "the operation");
    match u16::from_be_bytes([answer[4], answer[5]]) {
        0 => assert_ne!(
            answer[3] & 0x0F,
            0,
            "only a failure can be without question"
        ),
        1 => assert_eq!(
            question(answer),
            question(query),
            "the question, letter by letter"
        ),
        count => panic!("{count} questions in an answer"),
    }
    if !is_upstreams {
        assert_eq!(end(answer), Some(answer.len()), "whole and nothing behind");
    }
}

/// The question of a message that has one, without compression, as bytes.
fn question(message: &[u8]) -> Option<&[u8]> {
    let mut at = HEADER_LEN;
    loop {
        match *message.get(at)? {
            0 => return message.get(HEADER_LEN..at + 5),
            len @ 1..64 => at += 1 + usize::from(len),
            _ => return None,
        }
    }
}

/// The end of a message, by its own account.
fn end(message: &[u8]) -> Option<usize> {
    let count = |at: usize| {
        Some(u16::from_be_bytes([
            *message.get(at)?,
            *message.get(at + 1)?,
        ]))
    };
    let mut at = HEADER_LEN;
    for _ in 0..count(4)? {
        at = name_end(message, at)? + 4;
    }
    for _ in 0..count(6)? + count(8)? + count(10)? {
        at = name_end(message, at)?;
        at += 10 + usize::from(count(at + 8)?);
    }
    Some(at)
}

/// The end of a name. A pointer must lead backwards.
fn name_end(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            len @ 1..64 => at += 1 + usize::from(len),
            high @ 192.. => {
                let target = usize::from(high & 0x3F) << 8 | usize::from(*message.get(at + 1)?);
                return (HEADER_LEN..at).contains(&target).then_some(at + 2);
            }
            _ => return None,
        }
    }
}

fn pick<T>(list: &[T], choice: u8) -> Option<&T> {
    list.get(usize::from(choice) % list.len().max(1))
}

/// Queries of every kind about names of resources, of addresses and of others, with each outcome,
/// and answers of upstreams.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const EDNS: [u8; 11] = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];
    let query = |name: &[u8], qtype: u8, has_edns: bool| {
        let head = [7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(has_edns)];
        let edns: &[u8] = if has_edns { &EDNS } else { &[] };
        let message = [&head[..], name, &[0, qtype, 0, 1], edns].concat();
        [&[0, 0, message.len() as u8][..], &message].concat()
    };
    let ours = b"\x02Db\x04corp\0";
    let other = b"\x03www\x07example\0";
    let reverse = b"\x011\x018\x019\x0210\x07in-addr\x04arpa\0";
    let mut scripts = Vec::new();
    for name in [&ours[..], other, reverse, b"\0"] {
        for qtype in [1, 28, 255, 12, 16, 65, 41, 252] {
            for has_edns in [true, false] {
                let ask = query(name, qtype, has_edns);
                scripts.push(ask.clone());
                scripts.push([&ask[..], &[128], &ask[1..]].concat());
            }
        }
    }
    let asked = [query(ours, 1, true), query(ours, 28, false)].concat();
    for outcome in [
        &[0][..],
        &[1],
        &[2, 0, 3, b'n', b'o', b'!'],
        &[3],
        &[5],
        &[4],
    ] {
        // Resolved, asked again, given up, asked once more, waited for in vain.
        let resolved = [&asked[..], &[4, 0], outcome, &asked].concat();
        scripts.push(
            [
                &resolved[..],
                &[5, 0x20, 0],
                &asked,
                &[7],
                &asked,
                &[5, 0xFF, 0xFF],
            ]
            .concat(),
        );
    }
    let asked = query(other, 1, true);
    let address = |bytes: [u8; 4]| {
        let record = [&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4][..], &bytes].concat();
        [&[3, 0, 1, 0, 0, 0, record.len() as u8][..], &record, &[0]].concat()
    };
    let alias = [
        3, 0, 1, 0, 0, 0, 14, 0xC0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xC0, 16, 0,
    ];
    for answer in [
        address([192, 0, 2, 1]),
        address([10, 9, 8, 1]),
        alias.to_vec(),
    ] {
        scripts.push([&asked[..], &answer].concat());
        scripts.push([&asked[..], &[6, 0, 5, 6, 0], &answer, &[6, 0, 6, 0]].concat());
    }
    scripts
}
