//! The field of a condition, as forms, files and the command line show it.

use super::Country;

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
    /// Any number of windows of time: one a line in forms; on the command line one an option.
    Windows,
    /// Any number of words: one a line in forms; with commas between on the command line.
    WordLines,
    /// Any number of words: with spaces between in forms, with commas on the command line.
    Words,
    /// Any number of countries: by names and codes with commas between, in forms and on the command line.
    Countries,
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
            Self::Windows | Self::WordLines => Box::new(field.lines()),
            Self::Words => Box::new(field.split_whitespace()),
            Self::Countries => Box::new(field.split([',', ';', '\n']).flat_map(countries)),
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
            Self::Windows | Self::WordLines => texts.join("\n"),
            Self::Countries => {
                let names = texts.iter().map(|text| name_of(text));
                names.collect::<Vec<_>>().join(", ")
            }
            Self::Choice { .. } if texts.is_empty() => Self::NO.to_owned(),
            Self::Words | Self::Choice { .. } | Self::Timestamp => texts.join(" "),
        }
    }

    /// True if the command line takes several words with commas between.
    #[must_use]
    pub const fn splits_at_commas(self) -> bool {
        matches!(self, Self::WordLines | Self::Words | Self::Countries)
    }
}

/// One country, or several codes with spaces between.
fn countries(text: &str) -> Box<dyn Iterator<Item = &str> + '_> {
    match text.split_whitespace().all(|word| word.len() == 2) {
        true => Box::new(text.split_whitespace()),
        false => Box::new(std::iter::once(text)),
    }
}

/// The name of the country with this code; the code itself if no country has it.
fn name_of(code: &str) -> &str {
    let country = code.parse::<Country>().ok();
    country.and_then(Country::name).unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_are_names_and_codes_with_commas_or_codes_with_spaces() {
        for (text, countries) in [
            ("DE AT", &["DE", "AT"] as &[&str]),
            ("Germany, South Korea", &["Germany", "South Korea"]),
            (
                "Germany,at\nfr ch; Isle of Man",
                &["Germany", "at", "fr", "ch", "Isle of Man"],
            ),
            (" , ", &[]),
        ] {
            assert_eq!(Input::Countries.split(text), countries, "{text:?}");
        }
        let codes = ["DE", "KR", "XX"].map(str::to_owned);
        assert_eq!(Input::Countries.join(&codes), "Germany, South Korea, XX");
    }
}
