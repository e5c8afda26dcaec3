use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// The ids of a file with the values that each message takes.
fn messages_of(source: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut messages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut current = String::new();
    for line in source.lines().filter(|line| !line.starts_with('#')) {
        if let Some((id, _)) = line.split_once(" = ").filter(|_| !line.starts_with(' ')) {
            id.clone_into(&mut current);
            assert!(!messages.contains_key(id), "{id} is there twice");
            messages.insert(id.to_owned(), BTreeSet::new());
        }
        for part in line.split('$').skip(1) {
            let name = part.chars().take_while(char::is_ascii_alphabetic).collect();
            messages.get_mut(&current).unwrap().insert(name);
        }
    }
    messages
}

#[test]
fn each_message_exists_in_each_language_and_no_other_does() {
    let expected: BTreeSet<String> = Message::ALL
        .iter()
        .map(|message| message.id().to_owned())
        .collect();
    assert_eq!(expected.len(), Message::ALL.len());
    for language in Language::ALL {
        assert!(
            FluentResource::try_new(language.source().to_owned()).is_ok(),
            "{language:?} can't be read"
        );
        let found: BTreeSet<String> = messages_of(language.source()).into_keys().collect();
        assert_eq!(found, expected, "{language:?}");
    }
}

#[test]
fn each_language_takes_the_same_values() {
    let english = messages_of(Language::English.source());
    assert_eq!(messages_of(Language::German.source()), english);
}

#[test]
fn each_message_is_complete_with_its_values() {
    for language in Language::ALL {
        let words = Words::new(language);
        let values = messages_of(language.source());
        for &message in Message::ALL {
            for number in [0, 1, 2] {
                let is_number = |name: &str| matches!(name, "count" | "more" | "shown" | "total");
                let arguments: Vec<(&str, Value<'_>)> = values[message.id()]
                    .iter()
                    .map(|name| match is_number(name) {
                        true => (name.as_str(), Value::Number(number)),
                        false => (name.as_str(), Value::Text("VALUE")),
                    })
                    .collect();
                let text = words.with(message, &arguments);
                assert!(
                    !text.is_empty() && text != message.id(),
                    "{message:?} has no text"
                );
                assert!(!text.contains(['{', '}', '$']), "{message:?}: {text}");
            }
        }
    }
}

/// Words that both languages have.
const ALIKE: [Message; 14] = [
    Message::AppName,
    Message::Token,
    Message::Through,
    Message::RowLabel,
    Message::ResourcesCount,
    Message::ReasonWithText,
    Message::Gateways,
    Message::Portal,
    Message::CheckIpv4,
    Message::CheckIpv6,
    Message::CheckPortal,
    Message::CheckNat64,
    Message::CheckRelay,
    Message::CheckGateway,
];

#[test]
fn german_is_german() {
    let (english, german) = (Words::new(Language::English), Words::new(Language::German));
    for &message in Message::ALL {
        let is_alike = english.get(message) == german.get(message);
        assert!(
            !is_alike || ALIKE.contains(&message) || message == Message::CheckKernel,
            "{message:?}"
        );
    }
}

#[test]
fn plurals_follow_the_number() {
    let of = |language, number| {
        Words::new(language).with(Message::TimeMinutes, &[("count", Value::Number(number))])
    };
    assert_eq!(of(Language::English, 1), "\u{2068}1\u{2069} minute");
    assert_eq!(of(Language::English, 0), "\u{2068}0\u{2069} minutes");
    assert_eq!(of(Language::German, 1), "\u{2068}1\u{2069} Minute");
    assert_eq!(of(Language::German, 5), "\u{2068}5\u{2069} Minuten");
}

#[test]
fn a_value_is_isolated_and_cannot_leave() {
    let words = Words::new(Language::English);
    let text = words.with(
        Message::OpenOf,
        &[("name", Value::Text("\u{202e}<b>\u{2069} שרת"))],
    );
    assert_eq!(text, "Open \u{2068}\u{fffd}<b>\u{fffd} שרת\u{2069}");
}

#[test]
fn the_language_comes_from_the_environment() {
    let of = Language::of_environment;
    assert_eq!(of(None, Some("de_AT.UTF-8")), Language::German);
    assert_eq!(of(Some("fr:de"), Some("en_GB.UTF-8")), Language::German);
    assert_eq!(of(Some("en:de"), Some("de_DE.UTF-8")), Language::English);
    assert_eq!(of(Some(""), Some("C.UTF-8")), Language::English);
    assert_eq!(of(None, Some("delta")), Language::English);
    assert_eq!(of(None, None), Language::English);
}

/// Calls of the window's source that set a text which a person reads.
const SETTERS: [&str; 14] = [
    ".title(\"",
    ".set_title(\"",
    ".subtitle(\"",
    ".set_subtitle(\"",
    ".label(\"",
    ".set_label(\"",
    ".set_text(\"",
    ".description(\"",
    ".set_description(Some(\"",
    ".placeholder_text(\"",
    "tooltip_text(\"",
    "tooltip_text(Some(\"",
    "Toast::new(\"",
    "Notification::new(\"",
];

#[test]
fn the_window_has_no_text_that_is_no_message() {
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../app/src/ui")).unwrap();
    let mut lines = 0;
    for source in sources {
        let path = source.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        for line in source.lines() {
            lines += 1;
            for setter in SETTERS {
                let text = line
                    .split_once(setter)
                    .and_then(|(_, rest)| rest.split('"').next());
                let has_words = text.is_some_and(|text| text.contains(char::is_alphabetic));
                assert!(!has_words, "{}: {}", path.display(), line.trim());
            }
        }
    }
    assert!(lines > 1_000, "{lines} lines are not the window");
}
