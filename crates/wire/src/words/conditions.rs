//! When a policy holds.

use super::window::{self, Window};
use crate::Timestamp;
use crate::model::{self, Condition};

/// Conditions as they are asked for, one field a kind; an empty field asks for none of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Until when.
    pub expires: Option<Timestamp>,
    /// `mon-fri 08:00-18:00 Europe/Berlin`, any of which is enough.
    pub time: Vec<String>,
    /// Addresses or networks, any of which is enough.
    pub from_address: Vec<String>,
    /// Codes of two letters, any of which is enough.
    pub country: Vec<String>,
    /// Only clients that an administrator vouches for.
    pub is_verified: bool,
}

impl Wanted {
    /// What asks for these conditions; none where there is no such thing, as of two conditions of one kind.
    #[must_use]
    pub fn of(conditions: &[Condition]) -> Option<Self> {
        let mut wanted = Self::default();
        for condition in conditions {
            match condition {
                Condition::Time { zone, windows } if wanted.time.is_empty() => {
                    let windows = windows.iter().map(|each| window::text(each, zone));
                    wanted.time = windows.collect();
                }
                Condition::PublicAddress { cidrs } if wanted.from_address.is_empty() => {
                    wanted.from_address.clone_from(cidrs);
                }
                Condition::Country { countries } if wanted.country.is_empty() => {
                    wanted.country.clone_from(countries);
                }
                Condition::Verified if !wanted.is_verified => wanted.is_verified = true,
                Condition::Expires { at } if wanted.expires.is_none() => wanted.expires = Some(*at),
                _ => return None,
            }
        }
        // An empty list never holds; a field that is left empty asks for nothing.
        let again = wanted.conditions().ok()?;
        let is_same = again.len() == conditions.len()
            && conditions.iter().all(|condition| again.contains(condition));
        is_same.then_some(wanted)
    }

    /// The conditions, all of which are to hold.
    ///
    /// # Errors
    /// What is wrong, for who wrote it.
    pub fn conditions(&self) -> Result<Vec<Condition>, String> {
        let mut conditions = Vec::new();
        if let Some(condition) = time(&self.time)? {
            conditions.push(condition);
        }
        if !self.from_address.is_empty() {
            let cidrs = self.from_address.iter().map(|address| network(address));
            let cidrs = cidrs.collect();
            conditions.push(Condition::PublicAddress { cidrs });
        }
        if !self.country.is_empty() {
            let codes = self.country.iter().map(|code| code.to_ascii_uppercase());
            let countries = codes.collect();
            conditions.push(Condition::Country { countries });
        }
        if self.is_verified {
            conditions.push(Condition::Verified);
        }
        if let Some(at) = self.expires {
            conditions.push(Condition::Expires { at });
        }
        model::conditions(&conditions).map_err(|error| error.to_string())?;
        Ok(conditions)
    }
}

/// One condition that holds in any of the windows: they share its time zone.
fn time(windows: &[String]) -> Result<Option<Condition>, String> {
    let parsed = windows.iter().map(|text| window::parse(text));
    let parsed: Vec<Window> = parsed.collect::<Result<_, String>>()?;
    let Some(first) = parsed.first() else {
        return Ok(None);
    };
    let zone = first.zone.clone();
    if let Some(other) = parsed.iter().find(|window| window.zone != zone) {
        return Err(format!(
            "the windows of one policy are in one time zone, not in {zone} and {}: make a policy for \
             each",
            other.zone
        ));
    }
    let windows = parsed.into_iter().map(|window| window.window).collect();
    Ok(Some(Condition::Time { zone, windows }))
}

/// A single address is a network of one.
pub(super) fn network(address: &str) -> String {
    match address.parse() {
        Ok(std::net::IpAddr::V4(address)) => format!("{address}/32"),
        Ok(std::net::IpAddr::V6(address)) => format!("{address}/128"),
        Err(_) => address.to_owned(),
    }
}

/// All conditions of a policy, for people.
pub fn conditions(conditions: &[Condition]) -> String {
    if conditions.is_empty() {
        return "always".to_owned();
    }
    let each: Vec<String> = conditions.iter().map(condition).collect();
    each.join("; ")
}

/// One condition, for people.
pub fn condition(condition: &Condition) -> String {
    match condition {
        Condition::Time { zone, windows } => {
            let windows = windows.iter().map(|each| window::text(each, zone));
            windows.collect::<Vec<_>>().join(" or ")
        }
        Condition::PublicAddress { cidrs } => format!("from {}", cidrs.join(" or ")),
        Condition::Country { countries } => format!("in {}", countries.join(" or ")),
        Condition::Verified => "verified".to_owned(),
        Condition::Expires { at } => format!("until {at}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn every_condition_is_asked_for_and_shown() {
        let wanted = Wanted {
            expires: Some("2027-01-31T18:00:00Z".parse().unwrap()),
            time: words(&[
                "mon-fri 08:00-18:00 Europe/Berlin",
                "sat 10:00-12:00 Europe/Berlin",
            ]),
            from_address: words(&["203.0.113.0/24", "2001:db8::7"]),
            country: words(&["DE", "at"]),
            is_verified: true,
        };
        let made = wanted.conditions().unwrap();
        assert_eq!(
            conditions(&made),
            "mon-fri 08:00-18:00 Europe/Berlin or sat 10:00-12:00 Europe/Berlin; \
             from 203.0.113.0/24 or 2001:db8::7/128; in DE or AT; verified; \
             until 2027-01-31T18:00:00Z"
        );
        let shown = Wanted::of(&made).unwrap();
        assert_eq!(shown.conditions().unwrap(), made);
        assert_eq!(Wanted::of(&[]), Some(Wanted::default()));
        let twice = [Condition::Verified, Condition::Verified];
        assert_eq!(Wanted::of(&twice), None);
        let never = [Condition::Country { countries: vec![] }];
        assert_eq!(Wanted::of(&never), None);
        assert_eq!(Wanted::default().conditions().unwrap(), []);
        assert_eq!(conditions(&[]), "always");
    }

    #[test]
    fn conditions_that_cannot_be_are_refused() {
        let time = |windows: &[&str]| Wanted {
            time: words(windows),
            ..Wanted::default()
        };
        for wanted in [
            time(&["mon-fri 08:00-18:00 Europe/Atlantis"]),
            time(&["mon-fri 08:00-25:00 UTC"]),
            time(&["mon 08:00-18:00 UTC", "tue 08:00-18:00 Europe/Berlin"]),
            Wanted {
                from_address: words(&["203.0.113.0/33"]),
                ..Wanted::default()
            },
            Wanted {
                country: words(&["Germany"]),
                ..Wanted::default()
            },
        ] {
            assert!(wanted.conditions().is_err(), "{wanted:?}");
        }
    }
}
