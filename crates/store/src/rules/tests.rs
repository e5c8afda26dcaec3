use super::*;
use crate::{Client, Gateway, Seen, Site, Stamp};
use culvert_ids::{ActorId, ClientId, GatewayId, SiteId, TokenId};
use culvert_wire::PublicKey;
use proptest::prelude::*;

fn site(name: &str) -> Entity {
    Entity::Site(Site {
        id: SiteId::from_bytes([1; 16]),
        name: name.to_owned(),
        relays: None,
        stamp: Stamp::default(),
    })
}

fn client(machine: &str) -> Client {
    Client {
        id: ClientId::from_bytes([1; 16]),
        actor: ActorId::from_bytes([1; 16]),
        machine: machine.to_owned(),
        name: "laptop".to_owned(),
        public_key: PublicKey::from_bytes([1; 32]),
        ipv4: [100, 64, 0, 1].into(),
        ipv6: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        gateways: Vec::new(),
        name_shares: false,
        verified: None,
        revoked: None,
        seen: None,
        stamp: Stamp::default(),
    }
}

fn gateway(machine: &str) -> Gateway {
    Gateway {
        id: GatewayId::from_bytes([1; 16]),
        site: SiteId::from_bytes([1; 16]),
        machine: machine.to_owned(),
        name: "gateway".to_owned(),
        public_key: PublicKey::from_bytes([1; 32]),
        ipv4: [100, 64, 0, 1].into(),
        ipv6: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        verified: None,
        enrolled_with: Some(TokenId::from_bytes([1; 16])),
        draining: false,
        revoked: None,
        seen: None,
        stamp: Stamp::default(),
    }
}

#[test]
fn a_machine_says_which_it_is_in_as_many_bytes_as_it_may() {
    for (len, is_good) in [
        (0, false),
        (1, true),
        (MAX_MACHINE_LEN, true),
        (MAX_MACHINE_LEN + 1, false),
        (2 * MAX_MACHINE_LEN, false),
    ] {
        let machine = "x".repeat(len);
        for row in [client(&machine).into(), gateway(&machine).into()] {
            assert_eq!(check(None, &row).is_ok(), is_good, "{len} bytes: {row:?}");
        }
    }
    for (len, is_good) in [
        (0, true),
        (MAX_SOFTWARE_LEN, true),
        (MAX_SOFTWARE_LEN + 1, false),
    ] {
        let checked = check_software(EntityKind::Client, &"x".repeat(len));
        assert_eq!(checked.is_ok(), is_good, "{len} bytes");
    }
}

#[test]
fn of_a_gateway_its_name_and_state_are_changed_and_nothing_that_it_enrolled_with() {
    let seen = Seen {
        at: Timestamp::from_unix_ms(1),
        address: None,
        software: "1.0".to_owned(),
    };
    let before = Gateway {
        seen: Some(seen),
        ..gateway("a")
    };
    let change = |change: fn(&mut Gateway)| {
        let mut wanted = before.clone();
        change(&mut wanted);
        merge(&before.clone().into(), wanted.into())
    };
    type Change = fn(&mut Gateway);
    let changes: [(&str, Change); 6] = [
        ("site", |row| row.site = SiteId::from_bytes([2; 16])),
        ("machine", |row| row.machine = "b".to_owned()),
        ("public_key", |row| {
            row.public_key = PublicKey::from_bytes([2; 32]);
        }),
        ("enrolled_with", |row| row.enrolled_with = None),
        ("ipv4", |row| row.ipv4 = [100, 64, 0, 2].into()),
        ("ipv6", |row| {
            row.ipv6 = [0xfd00, 0, 0, 0, 0, 0, 0, 2].into();
        }),
    ];
    for (expected, to) in changes {
        let refused = change(to);
        assert!(
            matches!(&refused, Err(StoreError::Invalid { field, .. }) if *field == expected),
            "{expected}: {refused:?}"
        );
    }
    // No administrator says when it was seen last.
    assert_eq!(change(|row| row.seen = None).unwrap(), None);
    let changed = change(|row| {
        row.seen = None;
        row.name = "other".to_owned();
        row.draining = true;
    });
    let expected = Gateway {
        name: "other".to_owned(),
        draining: true,
        ..before.clone()
    };
    assert_eq!(changed.unwrap(), Some(expected.into()));
}

#[test]
fn a_row_from_before_a_rule_of_names_keeps_its_name_and_gets_no_other_such() {
    let before = site("a\u{202e}b");
    assert!(check(Some(&before), &before).is_ok());
    for name in ["a\u{202d}b", "a\u{200b}", "e\u{301}"] {
        assert!(check(Some(&before), &site(name)).is_err(), "{name:?}");
    }
    assert!(check(None, &before).is_err());
    assert!(check(Some(&before), &site("ab")).is_ok());
}

#[test]
fn a_name_with_the_end_of_an_id_is_as_long_as_a_name_may_be() {
    let id: EntityId = ClientId::from_bytes([0x5a; 16]).into();
    let id_text = id.to_string();
    let (_, end) = id_text.split_at(id_text.len() - 8);
    assert_eq!(name_with_id("laptop", id), format!("laptop-{end}"));
    let longest = "\u{e4}".repeat(MAX_NAME_CHARS);
    let named = name_with_id(&longest, id);
    assert_eq!(named.chars().count(), MAX_NAME_CHARS);
    assert!(named.ends_with(&format!("\u{e4}-{end}")));
}

#[test]
fn a_numbered_name_is_as_long_as_a_name_may_be() {
    assert_eq!(numbered_name("laptop", 0), "laptop");
    assert_eq!(numbered_name("laptop", 1), "laptop-2");
    let longest = "\u{e4}".repeat(MAX_NAME_CHARS);
    let numbered = numbered_name(&longest, 9);
    assert_eq!(numbered.chars().count(), MAX_NAME_CHARS);
    assert!(numbered.ends_with("\u{e4}-10"));
}

/// Small letters of one character, each with its capital of several in Normalization Form C.
const LETTERS: [(&str, &str); 7] = [
    ("\u{1f0}", "J\u{30c}"),
    ("\u{1e96}", "H\u{331}"),
    ("\u{1e97}", "T\u{308}"),
    ("\u{1e98}", "W\u{30a}"),
    ("\u{1e99}", "Y\u{30a}"),
    ("\u{390}", "\u{3aa}\u{301}"),
    ("\u{3b0}", "\u{3ab}\u{301}"),
];

#[test]
fn a_letter_whose_capital_has_several_characters_has_one_key_and_is_found_by_both() {
    for (small, capital) in LETTERS {
        assert!(is_normalized(small) && is_normalized(capital));
        // Beside a letter that is one character in both cases, the whole key has neither form.
        for (small, capital) in [
            (small.to_owned(), capital.to_owned()),
            (format!("{small}\u{e9}"), format!("{capital}\u{c9}")),
        ] {
            assert_eq!(name_key(&capital), name_key(&small), "{small}");
            for text in [&small, &capital, &decomposed(&small), &decomposed(&capital)] {
                let keys = lookup_keys(text);
                assert!(keys.contains(&name_key(&small)), "{text}: {keys:?}");
            }
        }
        // From before keys were normalised.
        assert!(lookup_keys(capital).contains(&spelled_key(capital)));
    }
}

#[test]
fn names_from_before_the_rule_that_differ_in_their_form_have_two_keys() {
    assert_ne!(name_key("e\u{301}"), name_key("\u{e9}"));
    assert!(lookup_keys("\u{c9}").contains(&name_key("e\u{301}")));
}

proptest! {
    #[test]
    fn a_name_that_is_kept_is_found_in_every_form(name in "[a-zA-ZJǰẖẗẘẙΐΰΪΫΣéÉİ\u{30c}\u{331}\u{308}\u{30a}\u{301}\u{307}]{1,8}|\\PC{1,8}") {
        let unchanged = composed(&name);
        let key = name_key(&unchanged);
        prop_assert!(is_normalized(&key));
        prop_assert_eq!(&name_key(&key), &key);
        for text in [decomposed(&name), key.clone(), decomposed(&key), spelled_key(&unchanged), name] {
            prop_assert!(lookup_keys(&text).contains(&key), "{text:?}");
        }
    }
}
