//! The client is in one of some countries.

use super::{Country, Entries, Fact, Field, Input, Kind, Subject};
use crate::{ConditionError, PolicyError};
use culvert_base::UnixTime;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Countries of one condition: ISO 3166 has 249.
pub const MAX_COUNTRIES: usize = 249;

/// The client's address is in one of the countries. Without a database it never is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Countries(pub Vec<Country>);

/// The client's address belongs to one of the countries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WrittenCountries {
    /// ISO 3166-1 codes of two letters; an empty list never holds.
    pub countries: Vec<String>,
}

/// The country where the client is, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InNone {
    seen: Option<Country>,
}

impl Kind for Countries {
    type Written = WrittenCountries;
    type Unmet = InNone;

    const FIELD: Field = Field {
        name: "country",
        label: "Only from these countries",
        hint: "Names or codes with commas between: Germany, Austria. The portal needs a database of countries.",
        input: Input::Countries,
        value_name: "COUNTRY",
        help: "From this country, such as DE or Germany; of several, from any",
    };
    const NEEDS: &'static [Fact] = &[Fact::Country];
    const ADVICE: &'static str = "access is not allowed from this country";

    fn read(texts: &[String]) -> Result<Option<WrittenCountries>, String> {
        let codes = texts.iter().map(|text| Country::code_of(text));
        let countries = codes.collect::<Result<Vec<String>, String>>()?;
        Ok((!texts.is_empty()).then_some(WrittenCountries { countries }))
    }

    fn texts(written: &WrittenCountries) -> Vec<String> {
        written.countries.clone()
    }

    fn in_words(written: &WrittenCountries) -> String {
        format!("in {}", written.countries.join(" or "))
    }

    fn understand(written: &WrittenCountries) -> Result<Self, PolicyError> {
        let countries = written.countries.iter().map(|country| country.parse());
        let countries = countries.collect::<Result<_, ConditionError>>()?;
        Ok(Self(countries))
    }

    fn check_new(written: &WrittenCountries) -> Result<(), PolicyError> {
        for country in Self::understand(written)?.0 {
            country.check_assigned()?;
        }
        Ok(())
    }

    fn entries(&self) -> Option<Entries> {
        let (count, max) = (self.0.len(), MAX_COUNTRIES);
        Some(Entries { count, max })
    }

    fn hold(&self, subject: &Subject, _now: UnixTime) -> Result<Option<UnixTime>, InNone> {
        let seen = subject.client.country;
        match seen.is_some_and(|country| self.0.contains(&country)) {
            true => Ok(None),
            false => Err(InNone { seen }),
        }
    }
}

impl fmt::Display for InNone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seen {
            Some(seen) => write!(
                out,
                "the client is in {seen}, which is none of the countries"
            ),
            None => out.write_str("the client's country is unknown"),
        }
    }
}
