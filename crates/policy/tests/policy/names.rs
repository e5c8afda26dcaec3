//! Names and their patterns.

use culvert_policy::{DomainName, NamePattern, TargetError};

fn name(text: &str) -> DomainName {
    text.parse().unwrap()
}

fn pattern(text: &str) -> NamePattern {
    text.parse().unwrap()
}

#[test]
fn wildcards_stand_for_whole_labels() {
    let table: &[(&str, &[&str], &[&str])] = &[
        (
            "db.corp.example",
            &["db.corp.example", "DB.Corp.Example", "db.corp.example."],
            &[
                "a.db.corp.example",
                "corp.example",
                "dbb.corp.example",
                "db.corp.examples",
            ],
        ),
        (
            "*.corp.example",
            &[
                "a.corp.example",
                "_sip.corp.example",
                "xn--bcher-kva.corp.example",
            ],
            &[
                "corp.example",
                "a.b.corp.example",
                "acorp.example",
                "a.corp.example.org",
            ],
        ),
        (
            "**.corp.example",
            &["a.corp.example", "a.b.corp.example", "a.b.c.d.corp.example"],
            &["corp.example", "xcorp.example", "a.corp.example.org"],
        ),
        (
            "*.*.corp.example",
            &["a.b.corp.example"],
            &["a.corp.example", "a.b.c.corp.example"],
        ),
        (
            "db.*.corp.example",
            &["db.eu.corp.example"],
            &[
                "db.corp.example",
                "web.eu.corp.example",
                "db.a.b.corp.example",
            ],
        ),
        (
            "db.**.corp.example",
            &[
                "db.a.corp.example",
                "db.a.b.corp.example",
                "db.db.corp.example",
            ],
            &["db.corp.example", "a.db.corp.example", "x.a.corp.example"],
        ),
        (
            "*.**.example",
            &["a.b.example", "a.b.c.example"],
            &["a.example", "example"],
        ),
        (
            "corp.*",
            &["corp.example", "corp.test"],
            &["corp", "corp.co.uk", "a.corp.example"],
        ),
        (
            "corp.**",
            &["corp.example", "corp.co.uk"],
            &["corp", "a.corp.example"],
        ),
    ];
    for (text, inside, outside) in table {
        for inside in *inside {
            assert!(
                pattern(text).matches(&name(inside)),
                "{text} holds {inside}"
            );
        }
        for outside in *outside {
            assert!(
                !pattern(text).matches(&name(outside)),
                "{text} does not hold {outside}"
            );
        }
    }
}

#[test]
fn what_is_no_pattern_is_refused_with_the_reason() {
    let long_label = "a".repeat(64);
    let long_name = format!("{}.example", "abcdefg.".repeat(31));
    let table = [
        ("", TargetError::EmptyLabel),
        (".", TargetError::EmptyLabel),
        ("a..b", TargetError::EmptyLabel),
        (".a", TargetError::EmptyLabel),
        ("a..", TargetError::EmptyLabel),
        ("db*.corp.example", TargetError::PartialWildcard),
        ("***.corp.example", TargetError::PartialWildcard),
        ("*", TargetError::OnlyWildcards),
        ("**", TargetError::OnlyWildcards),
        ("*.**", TargetError::OnlyWildcards),
        ("**.a.**", TargetError::Wildcards),
        ("*.*.*.*.*.a", TargetError::Wildcards),
        ("bücher.example", TargetError::NameCharacter('ü')),
        ("a b.example", TargetError::NameCharacter(' ')),
        ("a/b", TargetError::NameCharacter('/')),
        ("a\0.example", TargetError::NameCharacter('\0')),
        ("-a.example", TargetError::Hyphen),
        ("a-.example", TargetError::Hyphen),
        ("10.0.0.256", TargetError::Number("10.0.0.256".to_owned())),
        ("1.2.3", TargetError::Number("1.2.3".to_owned())),
        ("1.2.3.", TargetError::Number("1.2.3".to_owned())),
        ("0x7f.1", TargetError::Number("0x7f.1".to_owned())),
        ("a.0x7F", TargetError::Number("a.0x7F".to_owned())),
        ("a.0X", TargetError::Number("a.0X".to_owned())),
        ("*.1", TargetError::Number("*.1".to_owned())),
        ("010.0.0.1", TargetError::Number("010.0.0.1".to_owned())),
        ("10.0.0.1.5", TargetError::Number("10.0.0.1.5".to_owned())),
        ("127.1", TargetError::Number("127.1".to_owned())),
        ("2130706433", TargetError::Number("2130706433".to_owned())),
        ("0x7f000001", TargetError::Number("0x7f000001".to_owned())),
        ("0xa.0.0.1", TargetError::Number("0xa.0.0.1".to_owned())),
        ("web.08", TargetError::Number("web.08".to_owned())),
        (
            "**.0xDEADbeef",
            TargetError::Number("**.0xDEADbeef".to_owned()),
        ),
        ("10.0.0.\u{ff11}", TargetError::NameCharacter('\u{ff11}')),
        (
            "10\u{3002}0\u{3002}0\u{3002}1",
            TargetError::NameCharacter('\u{3002}'),
        ),
        (&long_label, TargetError::NameLength),
        (&long_name, TargetError::NameLength),
    ];
    for (text, error) in table {
        assert_eq!(text.parse::<NamePattern>(), Err(error), "{text}");
    }
    // Digits elsewhere are no number.
    for text in [
        "10.0.0.1a",
        "0x7g",
        "1e3.example",
        "4.in-addr.arpa",
        "10.0.0.1x0",
        "x0x7f",
    ] {
        assert!(text.parse::<NamePattern>().is_ok(), "{text}");
    }
    // A name is a pattern without wildcards.
    assert_eq!(
        "*.a".parse::<DomainName>(),
        Err(TargetError::NameCharacter('*'))
    );
}

#[test]
fn a_name_of_the_longest_length_is_accepted() {
    let longest = format!("{}a.example", "abcdefg.".repeat(30) + "abc.");
    assert_eq!(longest.len(), 253);
    assert_eq!(name(&format!("{longest}.")).as_str(), longest);
    assert_eq!(
        format!("a{longest}").parse::<DomainName>(),
        Err(TargetError::NameLength)
    );
    assert_eq!(
        "a".repeat(63).parse::<DomainName>().unwrap().as_str().len(),
        63
    );
}

#[test]
fn a_name_that_is_asked_for_may_have_any_bytes_and_its_text_is_one_of_a_kind() {
    let of = |labels: &[&[u8]]| DomainName::from_labels(labels.iter().copied());
    let printer = of(&[b"My Printer", b"_ipp", b"Corp", b"example"]).unwrap();
    assert_eq!(printer.as_str(), "my\\032printer._ipp.corp.example");
    assert_eq!(DomainName::shown(printer.as_str()), Ok(printer.clone()));
    assert_eq!(printer.labels().next().unwrap(), b"my printer");
    assert!(pattern("**.corp.example").matches(&printer));
    // A dot inside a label makes no other label.
    let dotted = of(&[b"db.corp", b"example"]).unwrap();
    assert!(!pattern("db.corp.example").matches(&dotted));
    assert!(pattern("*.example").matches(&dotted));
    for other in [
        "Db.corp.example",
        "db.corp.example.",
        "a b.example",
        "b\u{fc}cher.example",
        "a\\046.b\\065.example",
        "a\\+12.example",
        "a\\.example",
        "a\\256.example",
        "a..example",
        "",
    ] {
        assert!(DomainName::shown(other).is_err(), "{other}");
    }
    assert_eq!(of(&[]), Err(TargetError::EmptyLabel));
    assert_eq!(of(&[&[b'a'; 64]]), Err(TargetError::NameLength));
    let long: Vec<&[u8]> = vec![b"abcdefg"; 32];
    assert_eq!(of(&long), Err(TargetError::NameLength));
    assert!(of(&long[1..]).is_ok());
}
