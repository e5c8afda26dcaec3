//! The programs of a client that may reach something.
//!
//! The portal keeps these rules and passes them on; the client's kernel is who obeys them, since no
//! packet tells a gateway which program sent it (`docs/adr/0010-applications-by-cgroup.md`).

use crate::ApplicationError;
use culvert_base::quotable;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Characters of an application's name: with what systemd puts around it, the name of a unit and a
/// directory stays far below 255 bytes.
pub const MAX_APPLICATION_NAME_CHARS: usize = 32;

/// Names in one rule: each is looked for in turn on a packet's way out.
pub const MAX_APPLICATIONS: usize = 32;

/// The name of an application: what administrators write in rules and users after
/// `culvert run --app`. Lower-case letters, digits and `_`; the first is a letter. It becomes a part
/// of a systemd slice's name, where `-` would mean a slice inside another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationName(Box<str>);

impl ApplicationName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApplicationName {
    type Err = ApplicationError;

    fn from_str(text: &str) -> Result<Self, ApplicationError> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let fits = (1..=MAX_APPLICATION_NAME_CHARS).contains(&text.len());
        let begins = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if !fits || !begins || !text.bytes().all(is_plain) {
            let shown = quotable(text).replace(char::is_control, "?");
            return Err(ApplicationError::Name(shown));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for ApplicationName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for ApplicationName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The programs that may reach something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Applications {
    /// Those of the named applications, and no other program. Without names: none.
    Only(BTreeSet<ApplicationName>),
    /// Every program but those of the named applications.
    Except(BTreeSet<ApplicationName>),
}

impl Applications {
    /// Every program.
    pub const ANY: Self = Self::Except(BTreeSet::new());

    /// Those named, and no others.
    ///
    /// # Errors
    /// [`ApplicationError::TooMany`].
    pub fn only(names: BTreeSet<ApplicationName>) -> Result<Self, ApplicationError> {
        few(names).map(Self::Only)
    }

    /// All but those named.
    ///
    /// # Errors
    /// [`ApplicationError::TooMany`].
    pub fn except(names: BTreeSet<ApplicationName>) -> Result<Self, ApplicationError> {
        few(names).map(Self::Except)
    }

    /// True if every program may: there is nothing to enforce.
    #[must_use]
    pub fn is_any(&self) -> bool {
        matches!(self, Self::Except(names) if names.is_empty())
    }

    /// The names in it.
    #[must_use]
    pub const fn names(&self) -> &BTreeSet<ApplicationName> {
        match self {
            Self::Only(names) | Self::Except(names) => names,
        }
    }

    /// True if a program of this application, or of none, may.
    #[must_use]
    pub fn admit(&self, application: Option<&ApplicationName>) -> bool {
        let is_named = application.is_some_and(|name| self.names().contains(name));
        match self {
            Self::Only(_) => is_named,
            Self::Except(_) => !is_named,
        }
    }

    /// The programs that may by both rules. It may have as many names as both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Only(these), Self::Only(those)) => Self::Only(these & those),
            (Self::Only(only), Self::Except(except)) | (Self::Except(except), Self::Only(only)) => {
                Self::Only(only - except)
            }
            (Self::Except(these), Self::Except(those)) => Self::Except(these | those),
        }
    }
}

impl Default for Applications {
    fn default() -> Self {
        Self::ANY
    }
}

impl fmt::Display for Applications {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().iter().map(ApplicationName::as_str).collect();
        let names = names.join(", ");
        match self {
            Self::Only(all) if all.is_empty() => out.write_str("no program"),
            Self::Only(_) => write!(out, "only programs of {names}"),
            Self::Except(all) if all.is_empty() => out.write_str("every program"),
            Self::Except(_) => write!(out, "every program but those of {names}"),
        }
    }
}

fn few(names: BTreeSet<ApplicationName>) -> Result<BTreeSet<ApplicationName>, ApplicationError> {
    match names.len() {
        0..=MAX_APPLICATIONS => Ok(names),
        count => Err(ApplicationError::TooMany { count }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> ApplicationName {
        text.parse().unwrap()
    }

    fn names(texts: &[&str]) -> BTreeSet<ApplicationName> {
        texts.iter().map(|text| name(text)).collect()
    }

    #[test]
    fn a_name_fits_a_cgroup_and_a_unit() {
        for text in [
            "backup",
            "a",
            "git_2",
            &"x".repeat(MAX_APPLICATION_NAME_CHARS),
        ] {
            assert_eq!(name(text).as_str(), text);
            assert_eq!(name(text).to_string(), text);
            assert_eq!(format!("{:?}", name(text)), text);
        }
        let long = "x".repeat(MAX_APPLICATION_NAME_CHARS + 1);
        for text in [
            "", "_a", "2a", "A", "a-b", "a.b", "a/b", "..", "a b", "ä", "a\n", &long,
        ] {
            let error = text.parse::<ApplicationName>().unwrap_err();
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_rule_is_bounded_and_empty_lists_are_the_two_ends() {
        let many: BTreeSet<_> = (0..=MAX_APPLICATIONS)
            .map(|number| name(&format!("a{number}")))
            .collect();
        assert!(Applications::only(many.clone()).is_err());
        assert!(Applications::except(many).is_err());
        assert!(Applications::ANY.is_any() && Applications::ANY.admit(None));
        let none = Applications::only(BTreeSet::new()).unwrap();
        assert!(!none.is_any() && !none.admit(None) && !none.admit(Some(&name("a"))));
    }

    #[test]
    fn a_program_of_no_application_is_none_of_those_named() {
        let only = Applications::Only(names(&["backup"]));
        let except = Applications::Except(names(&["backup"]));
        assert!(!only.admit(None) && except.admit(None));
        assert!(only.admit(Some(&name("backup"))) && !except.admit(Some(&name("backup"))));
        assert!(!only.admit(Some(&name("sync"))) && except.admit(Some(&name("sync"))));
    }

    fn rule() -> impl Strategy<Value = Applications> {
        let some = prop::collection::btree_set("[a-d]", 0..4)
            .prop_map(|texts| texts.iter().map(|text| name(text)).collect());
        (any::<bool>(), some).prop_map(|(only, names)| match only {
            true => Applications::Only(names),
            false => Applications::Except(names),
        })
    }

    proptest! {
        #[test]
        fn who_may_by_both_rules_may_by_each(one in rule(), other in rule()) {
            let both = one.and(&other);
            let each = ["a", "b", "c", "d", "e"].map(|text| Some(name(text)));
            for program in each.iter().map(Option::as_ref).chain([None]) {
                prop_assert_eq!(both.admit(program), one.admit(program) && other.admit(program));
            }
        }
    }
}
