//! The conditions of a policy as texts, one list of texts a field: from forms, files and the command line.

use super::{Conditions, FIELDS, Field, WrittenCondition};
use std::collections::BTreeMap;

/// The texts of each field. A field without texts asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionTexts(BTreeMap<&'static str, Vec<String>>);

impl ConditionTexts {
    /// The texts that ask for these conditions; none where no texts do, as of two conditions of one kind.
    #[must_use]
    pub fn of(conditions: &[WrittenCondition]) -> Option<Self> {
        let mut texts = Self::default();
        for condition in conditions {
            let field = condition.field();
            if !texts.of_field(field).is_empty() {
                return None;
            }
            texts.set(field, condition.texts());
        }
        // An empty list never holds; a field that is left empty asks for nothing.
        let again = texts.conditions().ok()?;
        let is_same = again.len() == conditions.len()
            && conditions.iter().all(|condition| again.contains(condition));
        is_same.then_some(texts)
    }

    /// The texts of a field.
    #[must_use]
    pub fn of_field(&self, field: &Field) -> &[String] {
        self.0.get(field.name).map_or(&[], Vec::as_slice)
    }

    /// Sets the texts of a field.
    pub fn set(&mut self, field: &Field, texts: Vec<String>) {
        match texts.is_empty() {
            true => self.0.remove(field.name),
            false => self.0.insert(field.name, texts),
        };
    }

    /// True if nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The conditions, all of which are to hold.
    ///
    /// # Errors
    /// The text says what is wrong, for people.
    pub fn conditions(&self) -> Result<Vec<WrittenCondition>, String> {
        let mut conditions = Vec::new();
        for field in FIELDS {
            conditions.extend(WrittenCondition::read(field, self.of_field(field))?);
        }
        Conditions::understand(&conditions).map_err(|error| error.to_string())?;
        Ok(conditions)
    }
}

/// All conditions of a policy, for people.
#[must_use]
pub fn in_words(conditions: &[WrittenCondition]) -> String {
    if conditions.is_empty() {
        return "always".to_owned();
    }
    let each: Vec<_> = conditions.iter().map(ToString::to_string).collect();
    each.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{WrittenCountries, WrittenVerified};

    fn texts<const N: usize>(fields: [(&str, &[&str]); N]) -> ConditionTexts {
        let mut all = ConditionTexts::default();
        for (name, texts) in fields {
            let field = FIELDS.iter().find(|field| field.name == name).unwrap();
            all.set(field, texts.iter().map(|text| (*text).to_owned()).collect());
        }
        all
    }

    #[test]
    fn every_condition_is_asked_for_and_shown() {
        let asked = texts([
            ("expires", &["2027-01-31T18:00:00Z"]),
            (
                "time",
                &[
                    "mon-fri 08:00-18:00 Europe/Berlin",
                    "sat 10:00-12:00 Europe/Berlin",
                ],
            ),
            ("from_address", &["203.0.113.0/24", "2001:db8::7"]),
            ("country", &["Germany", "at"]),
            ("verified", &["yes"]),
        ]);
        let made = asked.conditions().unwrap();
        assert_eq!(
            in_words(&made),
            "mon-fri 08:00-18:00 Europe/Berlin or sat 10:00-12:00 Europe/Berlin; \
             from 203.0.113.0/24 or 2001:db8::7/128; in DE or AT; verified; \
             until 2027-01-31T18:00:00Z"
        );
        let shown = ConditionTexts::of(&made).unwrap();
        assert_eq!(shown.conditions().unwrap(), made);
        assert_eq!(ConditionTexts::of(&[]), Some(ConditionTexts::default()));
        let twice = [(); 2].map(|()| WrittenVerified {}.into());
        assert_eq!(ConditionTexts::of(&twice), None);
        let never = WrittenCountries { countries: vec![] };
        assert_eq!(ConditionTexts::of(&[never.into()]), None);
        assert_eq!(ConditionTexts::default().conditions().unwrap(), []);
        assert_eq!(in_words(&[]), "always");
    }

    #[test]
    fn conditions_that_cannot_be_are_refused() {
        for (name, wrong) in [
            ("time", &["mon-fri 08:00-18:00 Europe/Atlantis"] as &[&str]),
            ("time", &["mon-fri 08:00-25:00 UTC"]),
            (
                "time",
                &["mon 08:00-18:00 UTC", "tue 08:00-18:00 Europe/Berlin"],
            ),
            ("from_address", &["203.0.113.0/33"]),
            ("country", &["Atlantis"]),
            ("expires", &["tomorrow"]),
            ("expires", &["2027-01-31T18:00:00Z", "2028-01-31T18:00:00Z"]),
        ] {
            let asked = texts([(name, wrong)]);
            assert!(asked.conditions().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_form_has_the_texts_of_a_field_in_one() {
        for field in FIELDS {
            let input = field.input;
            for one in ["yes", " yes "] {
                let texts = input.split(one);
                assert_eq!(texts, ["yes"], "{field:?}");
                assert_eq!(input.split(&input.join(&texts)), texts, "{field:?}");
            }
            for nothing in ["", " \n \n"] {
                assert!(input.split(nothing).is_empty(), "{field:?}");
            }
            assert!(input.split(&input.join(&[])).is_empty(), "{field:?}");
        }
    }

    #[test]
    fn every_field_has_a_name_of_its_own_and_sentences() {
        for (at, field) in FIELDS.iter().enumerate() {
            let is_plain = |char: char| char.is_ascii_lowercase() || char == '_';
            assert!(field.name.chars().all(is_plain), "{field:?}");
            assert!(
                !field.label.is_empty() && !field.help.is_empty(),
                "{field:?}"
            );
            let others = &FIELDS[at + 1..];
            assert!(others.iter().all(|other| other.name != field.name));
        }
    }
}
