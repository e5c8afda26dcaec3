//! A country by its code.

use crate::ConditionError;
use culvert_base::quotable;
use std::fmt;
use std::str::FromStr;

/// A country: two letters of ISO 3166-1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Country([u8; 2]);

impl Country {
    /// The two letters in upper case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Two ASCII letters.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The codes that ISO 3166-1 has assigned, as its maintenance agency lists them (www.iso.org/obp, November 2026: 249),
/// and `XK`, by which databases of addresses know Kosovo: ISO leaves it to users.
const ASSIGNED: &str = "\
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ \
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR \
    GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP \
    KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT \
    MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW \
    SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ \
    UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW";

impl Country {
    /// Accepts a code that stands for a country. One that does not is in no database, so a condition that names it never holds.
    ///
    /// # Errors
    /// [`ConditionError::Entry`].
    pub fn check_assigned(self) -> Result<(), ConditionError> {
        if ASSIGNED.split(' ').any(|code| code == self.as_str()) {
            return Ok(());
        }
        let instead = match self.as_str() {
            "UK" => "; write GB for the United Kingdom",
            "EL" => "; write GR for Greece",
            _ => "",
        };
        Err(ConditionError::Entry(format!(
            "`{self}` is the code of no country: write one that ISO 3166-1 assigns, as DE{instead}"
        )))
    }
}

impl FromStr for Country {
    type Err = ConditionError;

    /// Reads two letters of either case.
    fn from_str(text: &str) -> Result<Self, ConditionError> {
        match *text.as_bytes() {
            [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                Ok(Self([a, b].map(|letter| letter.to_ascii_uppercase())))
            }
            _ => Err(ConditionError::Entry(format!(
                "`{}` is no country: write two letters of ISO 3166, as DE",
                quotable(text)
            ))),
        }
    }
}

impl fmt::Display for Country {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_stands_for_no_country_is_refused_with_the_right_one() {
        let check = |text: &str| text.parse::<Country>().unwrap().check_assigned();
        for assigned in ["DE", "at", "GB", "XK", "TW", "AQ", "ZW", "AD"] {
            assert_eq!(check(assigned), Ok(()), "{assigned}");
        }
        for (text, says) in [
            ("XX", "`XX`"),
            ("ZZ", "`ZZ`"),
            ("AA", "ISO 3166-1"),
            ("EU", "ISO 3166-1"),
            ("AN", "ISO 3166-1"),
            ("UK", "write GB"),
            ("EL", "write GR"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn every_assigned_code_is_there_once_and_in_order() {
        let codes: Vec<&str> = ASSIGNED.split(' ').collect();
        assert_eq!(codes.len(), 249 + 1, "and `XK`");
        assert!(codes.is_sorted_by(|a, b| a < b));
        assert!(codes.iter().all(|code| code.parse::<Country>().is_ok()));
    }
}
