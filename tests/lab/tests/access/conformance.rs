//! Programs of a client's machine hear the site's answers about a resource's names: every type, existing or not, asked in
//! either order, by each resolver that programs have.
//!
//! The same program asks the site's DNS itself on the gateway's machine, and the client on the client's. Both must hear the
//! same, but for addresses: those of the client stand for the site's.

use crate::common::{SOON, access};
use crate::resolver_scene::{PUBLIC_DNS, Scene};
use culvert_lab::product::{PRIVATE_NAME, RecordKind};
use culvert_lab::{peer_program, wait_until};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The address of the site's DNS, for the gateway's machine.
const SITE_DNS: &str = "10.50.0.53";

const TYPES: [RecordKind; 17] = [
    RecordKind::A,
    RecordKind::Aaaa,
    RecordKind::Mx,
    RecordKind::Txt,
    RecordKind::Srv,
    RecordKind::Naptr,
    RecordKind::Sshfp,
    RecordKind::Tlsa,
    RecordKind::Svcb,
    RecordKind::Https,
    RecordKind::Uri,
    RecordKind::Caa,
    RecordKind::Ptr,
    RecordKind::Hinfo,
    RecordKind::Loc,
    RecordKind::OpenPgpKey,
    RecordKind::Private,
];

/// Those that Go's resolver can ask for.
const TYPES_OF_GO: [RecordKind; 5] = [
    RecordKind::A,
    RecordKind::Aaaa,
    RecordKind::Mx,
    RecordKind::Txt,
    RecordKind::Srv,
];

/// The last type that musl's resolver asks for: of others it says whatever it said before.
const MAX_TYPE_OF_MUSL: u16 = 255;

/// The ways in which a name may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existence {
    /// With addresses and a record of the type.
    Whole,
    /// With a record of another type alone.
    Other,
    /// Since there is a name below it.
    Inner,
    /// Without any record.
    Bare,
    /// As an alias of one that exists whole.
    Alias,
    /// As an alias of such an alias.
    Chain,
    /// As an alias of one that does not exist.
    Dangling,
    /// As an alias of one with a record of another type alone.
    AliasOfOther,
    /// Not at all.
    Missing,
    /// Nobody knows: the server says SERVFAIL.
    Broken,
}

const EXISTENCES: [Existence; 10] = [
    Existence::Whole,
    Existence::Other,
    Existence::Inner,
    Existence::Bare,
    Existence::Alias,
    Existence::Chain,
    Existence::Dangling,
    Existence::AliasOfOther,
    Existence::Missing,
    Existence::Broken,
];

/// The options of a program's resolver. That of musl waits to the end after a failure that it hears of; the others wait for
/// an answer alone, which a busy machine may hold back.
fn options(program: &str) -> &'static str {
    match program {
        "ask-musl" => "options timeout:1 attempts:1\n",
        _ => "options timeout:10 attempts:1\n",
    }
}

const SERVFAIL: u8 = 2;

/// Data of a record of the type, such as resolvers take; names in them are no resource's.
fn data_of(kind: RecordKind) -> Vec<u8> {
    let host: &[u8] = b"\x04host\x04test\x00";
    match kind {
        RecordKind::A | RecordKind::Aaaa => Vec::new(),
        RecordKind::Mx => [&[0, 10], host].concat(),
        RecordKind::Txt => b"\x05hello".to_vec(),
        RecordKind::Srv => [&[0, 1, 0, 2, 0x1f, 0x90], host].concat(),
        RecordKind::Naptr => [&b"\x00\x0a\x00\x14\x01u\x07E2U+sip\x04!^.!"[..], b"\x00"].concat(),
        RecordKind::Sshfp => [&[4, 2][..], &[0xab; 32]].concat(),
        RecordKind::Tlsa => [&[3, 1, 1][..], &[0xcd; 32]].concat(),
        RecordKind::Svcb | RecordKind::Https => [&[0, 1], host].concat(),
        RecordKind::Uri => [&[0, 10, 0, 1][..], b"https://host.test/"].concat(),
        RecordKind::Caa => b"\x00\x05issueca.test".to_vec(),
        RecordKind::Ptr => host.to_vec(),
        RecordKind::Hinfo => b"\x03VAX\x04Unix".to_vec(),
        // Version 0, one metre in size, at the prime meridian and the equator.
        RecordKind::Loc => vec![
            0, 0x12, 0x16, 0x13, 0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0x98, 0x96, 0x80,
        ],
        RecordKind::OpenPgpKey => vec![0x99; 40],
        RecordKind::Private => b"whatever".to_vec(),
    }
}

/// A name for each case: none is asked for in two of them.
fn name(kind: RecordKind, existence: Existence, is_type_first: bool) -> String {
    let order = if is_type_first { "first" } else { "second" };
    format!("{existence:?}-{kind:?}-{order}.corp.example").to_ascii_lowercase()
}

/// Tells the site's DNS of a name.
fn declare(scene: &Scene, name: &str, kind: RecordKind, existence: Existence) {
    let names = &scene.product.names;
    let whole = |name: &str| {
        names.set(
            name,
            &["10.50.0.10".parse().unwrap(), "fd50::10".parse().unwrap()],
        );
        if !data_of(kind).is_empty() {
            names.set_record(name, kind, &data_of(kind));
        }
    };
    let other = |name: &str| {
        let other = match kind {
            RecordKind::Txt => RecordKind::Mx,
            _ => RecordKind::Txt,
        };
        names.set_record(name, other, &data_of(other));
    };
    let target = format!("target-of-{name}");
    match existence {
        Existence::Whole => whole(name),
        Existence::Other => other(name),
        Existence::Inner => whole(&format!("below.{name}")),
        Existence::Bare => names.set(name, &[]),
        Existence::Alias => {
            whole(&target);
            names.set_alias(name, &target);
        }
        Existence::Chain => {
            let end = format!("end-of-{name}");
            whole(&end);
            names.set_alias(&target, &end);
            names.set_alias(name, &target);
        }
        Existence::Dangling => names.set_alias(name, &target),
        Existence::AliasOfOther => {
            other(&target);
            names.set_alias(name, &target);
        }
        Existence::Missing => {}
        Existence::Broken => names.set_fault(name, SERVFAIL),
    }
}

/// Each question with its answer, a line each. Addresses are counted only.
fn heard(questions: &str, said: &str) -> Vec<String> {
    let lines = questions.lines().zip(said.lines());
    let heard = lines.map(|(question, answer)| {
        let is_addresses = question.starts_with("1 ") || question.starts_with("28 ");
        match answer.split_once(' ') {
            Some((what, addresses)) if is_addresses => {
                format!("{question}: {what} {}", addresses.split(',').count())
            }
            _ => format!("{question}: {answer}"),
        }
    });
    heard.collect()
}

/// Has the site's DNS know the names of a type in all ways; returns the questions about them.
fn questions_of(scene: &Scene, kind: RecordKind) -> String {
    let mut questions = String::new();
    for existence in EXISTENCES {
        for is_type_first in [true, false] {
            let name = name(kind, existence, is_type_first);
            declare(scene, &name, kind, existence);
            let mut pair = [kind, RecordKind::A];
            if !is_type_first {
                pair.reverse();
            }
            for kind in pair {
                writeln!(questions, "{} {name}", kind as u16).unwrap();
            }
        }
    }
    questions
}

/// Asks for everything with a program, on the gateway's machine and then on the client's.
fn conforms(scene: &mut Scene, program: &str, types: &[RecordKind]) {
    let options = options(program);
    let (program, all) = (peer_program(program).unwrap(), scene.etc.join("questions"));
    fs::create_dir(&all).unwrap();
    let mut questions = String::new();
    for (number, kind) in types.iter().enumerate() {
        let of_type = questions_of(scene, *kind);
        fs::write(all.join(format!("{number:02}")), &of_type).unwrap();
        questions += &of_type;
    }
    // A resolver that hears of a failure waits before it asks again. So the types are asked side by side, fewer of them
    // than the gateway looks up for one client at once.
    let ask = |dir: &Path| {
        format!(
            "cd {}; ls ?? | xargs -P 12 -I @ sh -c '{} <@ >@.said'; cat ??.said",
            dir.display(),
            program.display()
        )
    };
    let resolv_conf = scene.etc.join("site.conf");
    fs::write(&resolv_conf, format!("nameserver {SITE_DNS}\n{options}")).unwrap();
    let gateway = &scene.product.gateways[0].namespace;
    let bind = format!("mount --bind {} /etc/resolv.conf", resolv_conf.display());
    let site = gateway.shell(&format!("{bind}; {}", ask(&all))).unwrap();
    scene.begin_with(&access().replace(PRIVATE_NAME, "**.corp.example"));
    scene.comes_to_be_applied();
    // Access, path and session are there before impatient programs ask: what is said counts, not how soon.
    wait_until("a name of the site", SOON, || {
        !scene.addresses(PRIVATE_NAME).is_empty()
    })
    .unwrap();
    let script = ask(Path::new("/etc/questions"));
    fs::write(scene.etc.join("ask"), script).unwrap();
    let client = scene.product.client.run("sh /etc/ask").unwrap();
    let (site, client) = (heard(&questions, &site), heard(&questions, &client));
    assert_eq!(site.len(), questions.lines().count());
    assert_eq!(client.len(), site.len(), "{client:?}");
    let differ = site
        .iter()
        .zip(&client)
        .filter(|(site, client)| site != client);
    let differ: Vec<String> = differ
        .map(|(site, client)| format!("site {site}\nhere {client}"))
        .collect();
    assert!(
        differ.is_empty(),
        "{} of {} differ:\n{}",
        differ.len(),
        site.len(),
        differ.join("\n")
    );
    // Two machines that find nothing hear the same as well.
    let whole = site.iter().filter(|line| line.contains(": DATA"));
    assert!(whole.count() >= types.len() * 4, "{site:?}");
}

/// A machine whose only resolver in the file is one of its network.
fn with_file(program: &str) -> Scene {
    let scene = Scene::new("--dns file");
    scene.write(&format!("nameserver {PUBLIC_DNS}\n{}", options(program)));
    scene
}

#[test]
fn glibc_hears_of_a_resources_names_what_the_site_says() {
    conforms(&mut with_file("ask-glibc"), "ask-glibc", &TYPES);
}

#[test]
fn musl_hears_of_a_resources_names_what_the_site_says() {
    let types = TYPES.into_iter();
    let types: Vec<RecordKind> = types
        .filter(|kind| *kind as u16 <= MAX_TYPE_OF_MUSL)
        .collect();
    conforms(&mut with_file("ask-musl"), "ask-musl", &types);
}

#[test]
fn go_hears_of_a_resources_names_what_the_site_says() {
    conforms(&mut with_file("ask-go"), "ask-go", &TYPES_OF_GO);
}

#[test]
fn systemd_resolved_hears_of_a_resources_names_what_the_site_says() {
    let (mut scene, _bus) = Scene::with_bus("--dns resolved");
    let _resolved = scene.start_resolved();
    conforms(&mut scene, "ask-glibc", &TYPES);
}
