//! The client runs one of some operating systems, of a least version. The client says so itself.

use super::operating_system::{LINUX, is_word};
use super::{Entries, Fact, Field, Input, Kind, OperatingSystem, Subject};
use crate::{ConditionError, PolicyError};
use culvert_base::UnixTime;
use culvert_base::quotable;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Systems of one condition: a company keeps a few, and os-release knows about 200.
pub const MAX_SYSTEMS: usize = 32;
/// Numbers of one version: `22.04` has two, `37.20230101.3.0` four.
const MAX_NUMBERS: usize = 8;
/// Digits of one number: a date has 8, and 18 fit into 64 bits.
const MAX_DIGITS: usize = 18;

/// Dotted numbers. Numbers that are missing are zero: 12 is 12.0, and less than 12.1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Vec<u64>);

impl FromStr for Version {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let number = |part: &str| {
            let is_number = (1..=MAX_DIGITS).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse::<u64>().ok()).flatten()
        };
        let numbers: Option<Vec<_>> = text.split('.').map(number).collect();
        let numbers = numbers.filter(|numbers| numbers.len() <= MAX_NUMBERS);
        let mut numbers = numbers.ok_or_else(|| {
            ConditionError::Entry(format!(
                "`{}` is no version: write numbers with dots between, as 12 or 22.04",
                quotable(text)
            ))
        })?;
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        Ok(Self(numbers))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.0.split_first() else {
            return out.write_str("0");
        };
        write!(out, "{first}")?;
        others
            .iter()
            .try_for_each(|number| write!(out, ".{number}"))
    }
}

/// An operating system, and the least version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    id: String,
    min_version: Option<Version>,
}

impl System {
    fn holds(&self, told: &OperatingSystem) -> bool {
        if self.id == told.family {
            return true;
        }
        let told_version = || told.version.as_ref()?.parse::<Version>().ok();
        let is_new_enough = |least: &Version| told_version().is_some_and(|told| told >= *least);
        told.id.as_ref() == Some(&self.id) && self.min_version.as_ref().is_none_or(is_new_enough)
    }
}

impl fmt::Display for System {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.min_version {
            Some(version) => write!(out, "{} {version} or later", self.id),
            None => out.write_str(&self.id),
        }
    }
}

/// The client runs one of the systems, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSystems(pub Vec<System>);

/// The client says that it runs one of the operating systems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WrittenClientSystems {
    /// An empty list never holds.
    pub systems: Vec<WrittenSystem>,
}

/// An operating system, and the least version of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ClientSystem))]
#[serde(deny_unknown_fields)]
pub struct WrittenSystem {
    /// `linux`, or the `ID` of a distribution in `os-release`, such as `debian`.
    pub id: String,
    /// The least `VERSION_ID` of a distribution, such as `12` or `22.04`, by its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<String>,
}

impl WrittenSystem {
    fn understand(&self) -> Result<System, ConditionError> {
        let Self { id, min_version } = self;
        if !is_word(id) {
            return Err(ConditionError::Entry(format!(
                "`{}` is no operating system: write linux, or an id of os-release as debian",
                quotable(id)
            )));
        }
        if id == LINUX && min_version.is_some() {
            return Err(ConditionError::Entry(
                "linux has the versions of its distributions: name one of them, as debian:12"
                    .to_owned(),
            ));
        }
        Ok(System {
            id: id.clone(),
            min_version: min_version.as_ref().map(|it| it.parse()).transpose()?,
        })
    }

    /// `debian:12`.
    fn text(&self) -> String {
        match &self.min_version {
            Some(version) => format!("{}:{version}", self.id),
            None => self.id.clone(),
        }
    }
}

/// The client says something else, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunsNone {
    told: Option<OperatingSystem>,
    systems: Vec<System>,
}

impl Kind for ClientSystems {
    type Written = WrittenClientSystems;
    type Unmet = RunsNone;

    const FIELD: Field = Field {
        name: "client_os",
        label: "Only on these operating systems",
        hint: "With spaces between, a least version behind a colon: debian:12 ubuntu:22.04. The client says \
               itself which one it runs.",
        input: Input::Words,
        value_name: "ID[:VERSION]",
        help: "On this operating system, such as linux or debian:12 (12 or later), as the client itself says; of \
               several, on any",
    };
    const NEEDS: &'static [Fact] = &[Fact::OperatingSystem];
    const ADVICE: &'static str =
        "access is not allowed from this operating system or this version of it";

    fn read(texts: &[String]) -> Result<Option<WrittenClientSystems>, String> {
        let systems = texts.iter().map(|text| {
            let (id, version) = match text.split_once(':') {
                Some((id, version)) => (id, Some(version)),
                None => (text.as_str(), None),
            };
            WrittenSystem {
                id: id.to_ascii_lowercase(),
                min_version: version.map(str::to_owned),
            }
        });
        let systems = systems.collect();
        Ok((!texts.is_empty()).then_some(WrittenClientSystems { systems }))
    }

    fn texts(written: &WrittenClientSystems) -> Vec<String> {
        written.systems.iter().map(WrittenSystem::text).collect()
    }

    fn in_words(written: &WrittenClientSystems) -> String {
        let each = written.systems.iter().map(|system| {
            let WrittenSystem { id, min_version } = system;
            match min_version {
                Some(version) => format!("{id} {version}+"),
                None => id.clone(),
            }
        });
        format!("on {}", each.collect::<Vec<_>>().join(" or "))
    }

    fn understand(written: &WrittenClientSystems) -> Result<Self, PolicyError> {
        let systems = written.systems.iter().map(WrittenSystem::understand);
        Ok(Self(systems.collect::<Result<_, _>>()?))
    }

    fn entries(&self) -> Option<Entries> {
        let (count, max) = (self.0.len(), MAX_SYSTEMS);
        Some(Entries { count, max })
    }

    fn hold(&self, subject: &Subject, _now: UnixTime) -> Result<Option<UnixTime>, RunsNone> {
        let told = subject.client.os.as_ref();
        let holds = |told| self.0.iter().any(|system| system.holds(told));
        match told.is_some_and(holds) {
            true => Ok(None),
            false => Err(RunsNone {
                told: told.cloned(),
                systems: self.0.clone(),
            }),
        }
    }

    fn advice(unmet: &RunsNone) -> &'static str {
        match unmet.told {
            Some(_) => Self::ADVICE,
            None => "this client does not tell its operating system: update culvert on it",
        }
    }
}

impl fmt::Display for RunsNone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.told {
            Some(told) => write!(out, "the client says that it runs {told}")?,
            None => out.write_str(
                "the client has not told its operating system (its culvert is too old, or it has not come \
                 since the portal's start)",
            )?,
        }
        let systems: Vec<_> = self.systems.iter().map(ToString::to_string).collect();
        write!(out, "; the policy asks for {}", systems.join(", or "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::operating_system::MAX_CHARS;
    use super::*;
    use crate::ClientFacts;
    use proptest::prelude::*;

    fn systems(texts: &[&str]) -> ClientSystems {
        let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
        let written = ClientSystems::read(&texts).unwrap().unwrap();
        ClientSystems::understand(&written).unwrap()
    }

    fn runs(os: Option<OperatingSystem>) -> Subject {
        let client = ClientFacts {
            os,
            ..ClientFacts::default()
        };
        Subject {
            client,
            ..Subject::default()
        }
    }

    fn os(id: &str, version: &str) -> OperatingSystem {
        OperatingSystem {
            id: Some(id.to_owned()).filter(|id| !id.is_empty()),
            version: Some(version.to_owned()).filter(|version| !version.is_empty()),
            ..OperatingSystem::linux()
        }
    }

    #[test]
    fn a_system_holds_by_its_family_or_its_id_and_version() {
        for (asked, id, version, holds) in [
            ("linux", "", "", true),
            ("linux", "debian", "12", true),
            ("debian", "debian", "", true),
            ("debian", "ubuntu", "22.04", false),
            ("debian:12", "debian", "12", true),
            ("debian:12", "debian", "12.5", true),
            ("debian:12", "debian", "9", false),
            ("debian:12", "debian", "11.99", false),
            ("debian:12.0", "debian", "12", true),
            ("ubuntu:22.04", "ubuntu", "22.10", true),
            ("ubuntu:22.04", "ubuntu", "22.4", true),
            ("ubuntu:22.10", "ubuntu", "22.9", false),
            ("arch:1", "arch", "", false),
            ("alpine:3.19", "alpine", "3.21_alpha20240807", false),
            ("debian:0", "debian", "0.0", true),
            ("Debian:12", "debian", "12", true),
        ] {
            let held = systems(&[asked]).hold(&runs(Some(os(id, version))), UnixTime::EPOCH);
            assert_eq!(held.is_ok(), holds, "{asked}: {id} {version}");
        }
        let any = systems(&["fedora:40", "debian:12"]);
        assert!(
            any.hold(&runs(Some(os("debian", "13"))), UnixTime::EPOCH)
                .is_ok()
        );
    }

    #[test]
    fn a_client_that_does_not_say_is_denied_and_told_why() {
        let asked = systems(&["debian:12", "linux"]);
        let unmet = asked.hold(&runs(None), UnixTime::EPOCH).unwrap_err();
        assert_eq!(
            unmet.to_string(),
            "the client has not told its operating system (its culvert is too old, or it has not come since \
             the portal's start); the policy asks for debian 12 or later, or linux"
        );
        assert!(ClientSystems::advice(&unmet).contains("update culvert"));
        let unmet = systems(&["debian:12"])
            .hold(&runs(Some(os("debian", "11"))), UnixTime::EPOCH)
            .unwrap_err();
        assert_eq!(
            unmet.to_string(),
            "the client says that it runs debian 11; the policy asks for debian 12 or later"
        );
        assert_eq!(ClientSystems::advice(&unmet), ClientSystems::ADVICE);
    }

    #[test]
    fn systems_that_can_not_be_are_refused() {
        let long = "a".repeat(MAX_CHARS + 1);
        let digits = format!("debian:{}", "1".repeat(MAX_DIGITS + 1));
        let numbers = format!("debian:1{}", ".1".repeat(MAX_NUMBERS));
        for wrong in [
            "",
            ":",
            ":12",
            "de bian",
            "debian;",
            &long,
            "debian:",
            "debian:twelve",
            "debian:12.",
            "debian:.1",
            "debian:-1",
            "debian:+1",
            "debian:1:2",
            "linux:6.1",
            &digits,
            &numbers,
        ] {
            let written = ClientSystems::read(&[wrong.to_owned()]).unwrap().unwrap();
            let error = ClientSystems::understand(&written);
            assert!(error.is_err(), "{wrong:?}");
        }
        let most = format!("debian:1{}", ".1".repeat(MAX_NUMBERS - 1));
        assert_eq!(systems(&[&most]).0.len(), 1);
    }

    #[test]
    fn words_that_os_release_does_not_allow_are_not_known() {
        let told = |family: &str, id: &str, version: &str| OperatingSystem {
            family: family.to_owned(),
            ..os(id, version)
        };
        let long = "1".repeat(MAX_CHARS + 1);
        for (said, known) in [
            (told("linux", "debian", "12"), Some(os("debian", "12"))),
            (told("linux", "debian", "1 2"), Some(os("debian", ""))),
            (told("linux", "debian", &long), Some(os("debian", ""))),
            (told("linux", "Debian\n", "12"), Some(os("", ""))),
            (told("linux", &long, "12"), Some(os("", ""))),
            (told("L", "debian", "12"), None),
            (told(&long, "debian", "12"), None),
        ] {
            assert_eq!(said.clone().checked(), known, "{said:?}");
        }
    }

    proptest! {
        #[test]
        fn versions_are_compared_as_numbers_with_zeros_behind(
            a in prop::collection::vec(0_u64..30, 1..5),
            b in prop::collection::vec(0_u64..30, 1..5),
        ) {
            let text = |numbers: &[u64]| {
                let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
                texts.join(".")
            };
            let padded = |numbers: &[u64]| {
                let mut all = numbers.to_vec();
                all.resize(5, 0);
                all
            };
            let [left, right] = [&a, &b].map(|it| text(it).parse::<Version>().unwrap());
            prop_assert_eq!(left.cmp(&right), padded(&a).cmp(&padded(&b)));
            prop_assert_eq!(left.to_string().parse::<Version>().unwrap(), left);
        }

        #[test]
        fn a_condition_is_read_as_its_texts(
            texts in prop::collection::vec("[a-z][a-z0-9._-]{0,9}(:[0-9]{1,4}(\\.[0-9]{1,2}){0,2})?", 1..5),
        ) {
            let written = ClientSystems::read(&texts).unwrap().unwrap();
            prop_assert_eq!(ClientSystems::texts(&written), texts);
            let json = serde_json::to_string(&written).unwrap();
            prop_assert_eq!(serde_json::from_str::<WrittenClientSystems>(&json).unwrap(), written);
        }

        #[test]
        fn whatever_a_client_says_is_known_in_words_alone(family in ".{0,9}", id in ".{0,70}", version in ".{0,70}") {
            let told = OperatingSystem { family, id: Some(id), version: Some(version) };
            if let Some(known) = told.checked() {
                let words = [Some(known.family), known.id, known.version];
                prop_assert!(words.iter().flatten().all(|word| is_word(word)));
            }
        }
    }
}
