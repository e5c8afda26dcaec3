//! The field of a condition, as forms, files and the command line show it.

/// A field. Everything that shows conditions makes its inputs of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in forms and in `access.toml`: lower case, with `_` between words.
    pub name: &'static str,
    /// Its label in forms.
    pub label: &'static str,
    /// The sentence beside it in forms.
    pub hint: &'static str,
    /// The shape of its texts.
    pub input: Input,
    /// The placeholder of its value on the command line.
    pub value_name: &'static str,
    /// The sentence beside its option.
    pub help: &'static str,
}

/// The shape of a field's texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Any number of texts: one a line in forms; on the command line one an option.
    Lines,
    /// Any number of words: one a line in forms; with commas between on the command line.
    WordLines,
    /// Any number of words: with spaces between in forms, with commas on the command line.
    Words,
    /// [`Input::YES`], or nothing.
    Choice {
        /// The label of the choice that asks for nothing.
        no: &'static str,
        /// The label of the choice that asks for the condition.
        yes: &'static str,
    },
    /// One instant; on the command line also a time from now.
    Timestamp,
}

impl Input {
    /// The text of a choice that asks for the condition.
    pub const YES: &'static str = "yes";
    /// The text of a choice that asks for nothing.
    pub const NO: &'static str = "no";

    /// The texts in a field of a form. Empty ones are left out.
    #[must_use]
    pub fn split(self, field: &str) -> Vec<String> {
        let texts: Box<dyn Iterator<Item = &str>> = match self {
            Self::Lines | Self::WordLines => Box::new(field.lines()),
            Self::Words => Box::new(field.split_whitespace()),
            Self::Choice { .. } | Self::Timestamp => Box::new(std::iter::once(field)),
        };
        let texts = texts.map(str::trim).filter(|text| !text.is_empty());
        texts
            .filter(|text| !matches!(self, Self::Choice { .. }) || *text == Self::YES)
            .map(str::to_owned)
            .collect()
    }

    /// The text in a field of a form.
    #[must_use]
    pub fn join(self, texts: &[String]) -> String {
        match self {
            Self::Lines | Self::WordLines => texts.join("\n"),
            Self::Choice { .. } if texts.is_empty() => Self::NO.to_owned(),
            Self::Words | Self::Choice { .. } | Self::Timestamp => texts.join(" "),
        }
    }

    /// True if the command line takes several words with commas between.
    #[must_use]
    pub const fn splits_at_commas(self) -> bool {
        matches!(self, Self::WordLines | Self::Words)
    }
}
