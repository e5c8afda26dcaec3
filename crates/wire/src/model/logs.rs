//! The settings of the portal's logs (docs/logs.md).

use crate::{AuthorityError, check_authority};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Days that a log may be told to be kept: ten years, beyond what an audit asks for.
pub const MAX_LOG_DAYS: u32 = 3_650;

/// Fewest days that changes are kept, where they are not kept for good: a quarter, so that who did
/// something can't have it forgotten before anybody looks.
pub const MIN_CHANGE_DAYS: u32 = 90;

/// Entries that a log may be told to keep: at 300 bytes each, 30 GB.
pub const MAX_LOG_ENTRIES: u64 = 100_000_000;

/// Fewest entries that a log may be told to keep: some pages to look at.
pub const MIN_LOG_ENTRIES: u64 = 1_000;

/// Sinks of an account: each costs a task and a place in every log.
pub const MAX_SINKS: usize = 8;

/// Bytes of a sink's name and of its file's.
pub const MAX_SINK_NAME_LEN: usize = 64;

/// Bytes of a sink's URL.
const MAX_SINK_URL_LEN: usize = 2_048;

/// The size in MiB that a file of a sink may be told to have.
pub const FILE_MIB: std::ops::RangeInclusive<u32> = 1..=10_240;

/// The number of older files that a sink may be told to keep.
pub const FILES_RETAINED: std::ops::RangeInclusive<u32> = 1..=1_000;

/// A log of the portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Log {
    /// The decisions about access, and their reasons.
    Access,
    /// The changes, and the actors that made them.
    Changes,
    /// The traffic: flows that have ended.
    Flows,
}

impl Log {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Access, Self::Changes, Self::Flows];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Changes => "changes",
            Self::Flows => "flows",
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Log {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|log| log.as_str() == text);
        known.ok_or_else(|| format!("`{text}` is none of access, changes, flows"))
    }
}

/// The retention of a log, by age and by size. Entries beyond either limit are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Days, 1 to 3650.
    pub days: u32,
    /// Entries, 1000 to 100,000,000.
    pub entries: u64,
}

/// The settings of an account's logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogSettings {
    /// True if there is a flow log. It records the activity of each person, so it is off unless an
    /// administrator turns it on.
    pub flow_log: bool,
    /// The retention of the access log.
    pub access: Keep,
    /// The retention of the flow log.
    pub flows: Keep,
    /// The retention of the change log in days, at least 90; if absent, it is kept for good.
    pub change_days: Option<u32>,
    /// Further destinations of the logs, each sink with a name of its own.
    pub sinks: Vec<Sink>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            flow_log: false,
            // Three months, which an audit asks for; 3 GB at most.
            access: Keep {
                days: 92,
                entries: 10_000_000,
            },
            // Personal data, for as long as somebody may still ask what happened last month.
            flows: Keep {
                days: 30,
                entries: 10_000_000,
            },
            change_days: None,
            sinks: Vec::new(),
        }
    }
}

/// A further destination of log entries, as JSON lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// The sink's name: lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// The logs that it gets.
    pub logs: BTreeSet<Log>,
    /// The destination of the entries.
    pub target: SinkTarget,
    /// It gets nothing for now; its place in the logs is kept.
    #[serde(default)]
    pub paused: bool,
}

/// The destination of a sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SinkTarget {
    /// A file in the directory `logs` of the portal's state directory.
    File {
        /// Its name there, without a directory.
        file: String,
        /// The size in MiB at which another file is begun, 1 to 10240.
        max_mib: u32,
        /// The number of old files that are kept beside the one that is written, 1 to 1000.
        keep: u32,
    },
    /// An endpoint that takes `POST`.
    Http {
        /// `https://…` or `http://…`, without user and password.
        url: String,
    },
}

impl LogSettings {
    /// Checks the settings. An error has the field and the reason.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check(&self) -> Result<(), (String, String)> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// All that is wrong, each with the field and the reason.
    #[must_use]
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (name, keep) in [("access", &self.access), ("flows", &self.flows)] {
            let wrong = keep.problems().into_iter();
            found.extend(wrong.map(|(field, why)| (format!("{name}.{field}"), why)));
        }
        let mut note = |field: &str, why: String| found.push((field.to_owned(), why));
        if let Some(days) = self.change_days
            && !(MIN_CHANGE_DAYS..=MAX_LOG_DAYS).contains(&days)
        {
            let why = format!("expected {MIN_CHANGE_DAYS} to {MAX_LOG_DAYS} days, or nothing");
            note("change_days", why);
        }
        if self.sinks.len() > MAX_SINKS {
            note("sinks", format!("there are at most {MAX_SINKS}"));
        }
        let mut names = BTreeSet::new();
        let mut files = BTreeSet::new();
        for sink in &self.sinks {
            sink.note_problems(&mut note);
            if !names.insert(&sink.name) {
                note("name", format!("there is a sink `{}` already", sink.name));
            }
            if let SinkTarget::File { file, .. } = &sink.target
                && !files.insert(file)
            {
                note("file", format!("another sink writes `{file}`"));
            }
        }
        found
    }
}

impl Keep {
    fn problems(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if !(1..=MAX_LOG_DAYS).contains(&self.days) {
            found.push(("days", format!("expected 1 to {MAX_LOG_DAYS} days")));
        }
        if !(MIN_LOG_ENTRIES..=MAX_LOG_ENTRIES).contains(&self.entries) {
            let why = format!("expected {MIN_LOG_ENTRIES} to {MAX_LOG_ENTRIES} entries");
            found.push(("entries", why));
        }
        found
    }
}

impl Sink {
    fn note_problems(&self, note: &mut impl FnMut(&str, String)) {
        let mut wrong = |field: &str, why: &str| note(field, why.to_owned());
        let is_plain = |text: &str| {
            let allowed = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)
            };
            !text.is_empty() && text.len() <= MAX_SINK_NAME_LEN && text.bytes().all(allowed)
        };
        if !is_plain(&self.name) {
            wrong(
                "name",
                "1 to 64 lower-case letters, digits, hyphens and underscores",
            );
        }
        if self.logs.is_empty() {
            wrong("logs", "choose one at least");
        }
        match &self.target {
            SinkTarget::File {
                file,
                max_mib,
                keep,
            } => {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                let is_name = !file.is_empty()
                    && file.len() <= MAX_SINK_NAME_LEN
                    && !file.starts_with('.')
                    && file.bytes().all(allowed);
                if !is_name {
                    wrong(
                        "file",
                        "a name without a directory: 1 to 64 letters, digits, `-`, `_` and `.`, \
                         and no `.` in front",
                    );
                }
                if !FILE_MIB.contains(max_mib) {
                    wrong("max_mib", "expected 1 to 10240 MiB");
                }
                if !FILES_RETAINED.contains(keep) {
                    wrong("keep", "expected 1 to 1000 files");
                }
            }
            SinkTarget::Http { url } => {
                if let Err((field, why)) = check_url(url) {
                    wrong(&field, &why);
                }
            }
        }
    }
}

/// The rest of a URL is for whoever connects to judge; what could hold a secret is refused, since
/// URLs are shown.
fn check_url(url: &str) -> Result<(), (String, String)> {
    let wrong = |why: &str| Err(("url".to_owned(), why.to_owned()));
    if url.len() > MAX_SINK_URL_LEN {
        return wrong("it has at most 2048 bytes");
    }
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else {
        return wrong("it begins with https:// or http://");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong("it has spaces or other signs that a URL has not");
    }
    match check_authority(authority) {
        Err(AuthorityError::User) => {
            wrong("a user and a password do not go into the URL: give a token")
        }
        Err(error) => wrong(&error.to_string()),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, file: &str) -> Sink {
        Sink {
            name: name.to_owned(),
            logs: BTreeSet::from([Log::Access]),
            target: SinkTarget::File {
                file: file.to_owned(),
                max_mib: 1,
                keep: 1,
            },
            paused: false,
        }
    }

    fn http(url: &str) -> Sink {
        Sink {
            target: SinkTarget::Http {
                url: url.to_owned(),
            },
            ..file("http", "x")
        }
    }

    fn problem(sinks: Vec<Sink>) -> Option<String> {
        let settings = LogSettings {
            sinks,
            ..LogSettings::default()
        };
        settings.check().err().map(|(field, _)| field)
    }

    #[test]
    fn what_is_set_unless_somebody_says_otherwise_is_allowed() {
        assert_eq!(LogSettings::default().check(), Ok(()));
        let text = "{}";
        let read: LogSettings = serde_json::from_str(text).unwrap_or_default();
        assert_eq!(read, LogSettings::default());
        assert!(!read.flow_log);
    }

    #[test]
    fn a_file_of_a_sink_lies_in_the_directory_of_sinks_and_nowhere_else() {
        assert_eq!(problem(vec![file("a", "access.jsonl")]), None);
        for name in [
            "",
            "..",
            ".hidden",
            "a/b",
            "/etc/passwd",
            "a\\b",
            "a b",
            "ä",
        ] {
            assert_eq!(
                problem(vec![file("a", name)]).as_deref(),
                Some("file"),
                "{name}"
            );
        }
    }

    #[test]
    fn two_sinks_have_neither_one_name_nor_one_file() {
        let twice = vec![file("a", "a"), file("a", "b")];
        assert_eq!(problem(twice).as_deref(), Some("name"));
        let twice = vec![file("a", "a"), file("b", "a")];
        assert_eq!(problem(twice).as_deref(), Some("file"));
        let many = (0..=MAX_SINKS).map(|n| file(&format!("s{n}"), &format!("f{n}")));
        assert_eq!(problem(many.collect()).as_deref(), Some("sinks"));
    }

    #[test]
    fn a_url_has_a_host_and_no_secret() {
        assert_eq!(
            problem(vec![http("https://siem.example/in?source=culvert")]),
            None
        );
        assert_eq!(problem(vec![http("http://[::1]:8080")]), None);
        for url in [
            "ftp://a",
            "https://",
            "https:///x",
            "https://me:pw@a/",
            "https://a b",
            "https://id.test:99999/",
            "http://id.test:0",
            "https://:443/",
            "https://10.0.0.300/",
            "http://2001:db8::1/",
            "https://id.test:/",
            "https://id.test:65536/in",
            "https://id.test:+443/",
            "https://id.test:44x/",
            "https://id.test:-1/",
            "https://[::1/",
            "https://[::1]:99999/",
        ] {
            assert_eq!(problem(vec![http(url)]).as_deref(), Some("url"), "{url}");
        }
    }

    #[test]
    fn logs_are_kept_for_a_while_at_least() {
        let check = |change: fn(&mut LogSettings)| {
            let mut settings = LogSettings::default();
            change(&mut settings);
            settings.check().err().map(|(field, _)| field)
        };
        assert_eq!(
            check(|it| it.access.days = 0).as_deref(),
            Some("access.days")
        );
        assert_eq!(
            check(|it| it.flows.entries = 1).as_deref(),
            Some("flows.entries")
        );
        assert_eq!(
            check(|it| it.change_days = Some(1)).as_deref(),
            Some("change_days")
        );
        assert_eq!(check(|it| it.change_days = Some(90)), None);
    }
}
