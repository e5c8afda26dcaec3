//! The wording, in English and German, by Fluent (`locales/`). A value that comes into a message is isolated, so that its
//! writing direction does not reorder the message.

use crate::text;
use fluent_bundle::{FluentArgs, FluentBundle, FluentResource, FluentValue};
use std::fmt;
use unic_langid::LanguageIdentifier;

mod messages;
pub use messages::Message;

/// A language of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// English.
    English,
    /// German.
    German,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::English, Self::German];

    /// The first known language of a list as `LANGUAGE` has it (`de_AT:en`), otherwise of the locale (`de_AT.UTF-8`),
    /// otherwise English.
    #[must_use]
    pub fn of_environment(language: Option<&str>, locale: Option<&str>) -> Self {
        let list = language.into_iter().flat_map(|list| list.split(':'));
        let known = |name: &str| match name.split(['_', '-', '.', '@']).next() {
            Some("de") => Some(Self::German),
            Some("en" | "C" | "POSIX") => Some(Self::English),
            _ => None,
        };
        list.chain(locale).find_map(known).unwrap_or(Self::English)
    }

    const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::English => include_str!("../locales/en.ftl"),
            Self::German => include_str!("../locales/de.ftl"),
        }
    }
}

/// A value in a message.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A text that others chose; it is cleaned.
    Text(&'a str),
    /// A number, which also chooses the plural.
    Number(u64),
}

/// The messages of one language.
pub struct Words {
    language: Language,
    bundle: FluentBundle<FluentResource>,
}

impl fmt::Debug for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Words")
            .field("language", &self.language)
            .finish_non_exhaustive()
    }
}

impl Words {
    /// The messages of `language`. The tests read both files, so a message that can't be read is a fault of the build.
    #[must_use]
    pub fn new(language: Language) -> Self {
        let id: LanguageIdentifier = language.code().parse().unwrap_or_default();
        let mut bundle = FluentBundle::new(vec![id]);
        // Faulty messages are left out and shown by their ids.
        let resource =
            FluentResource::try_new(language.source().to_owned()).unwrap_or_else(|(read, _)| read);
        bundle.add_resource_overriding(resource);
        Self { language, bundle }
    }

    /// The language.
    #[must_use]
    pub const fn language(&self) -> Language {
        self.language
    }

    /// The text of a message without values.
    #[must_use]
    pub fn get(&self, message: Message) -> String {
        self.with(message, &[])
    }

    /// The text of a message with values, by their names.
    #[must_use]
    pub fn with(&self, message: Message, values: &[(&str, Value<'_>)]) -> String {
        let mut arguments = FluentArgs::new();
        for &(name, value) in values {
            let value: FluentValue<'_> = match value {
                Value::Text(value) => text::clean(value).into(),
                Value::Number(number) => number.into(),
            };
            arguments.set(name.to_owned(), value);
        }
        let pattern = self
            .bundle
            .get_message(message.id())
            .and_then(|message| message.value());
        let Some(pattern) = pattern else {
            return message.id().to_owned();
        };
        let mut faults = Vec::new();
        self.bundle
            .format_pattern(pattern, Some(&arguments), &mut faults)
            .into_owned()
    }
}

#[cfg(test)]
mod tests;
