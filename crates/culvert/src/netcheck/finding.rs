//! The finding of a check.

use serde::Serialize;

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// It works without, or may turn out to be in the way.
    Warning,
    /// It is in the way.
    Failed,
    /// It was not looked at.
    Skipped,
}

impl Verdict {
    /// For people.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The finding of a check, with the fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The subject of the check.
    pub(super) check: &'static str,
    /// The verdict of the check.
    pub(super) verdict: Verdict,
    /// The finding in one line.
    pub(super) found: String,
    /// The fix, if there is something to do.
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) const fn ok(check: &'static str, found: String) -> Self {
        Self {
            check,
            verdict: Verdict::Ok,
            found,
            fix: None,
        }
    }

    pub(super) const fn warns(check: &'static str, found: String, fix: String) -> Self {
        Self {
            check,
            verdict: Verdict::Warning,
            found,
            fix: Some(fix),
        }
    }

    pub(super) const fn fails(check: &'static str, found: String, fix: String) -> Self {
        Self {
            check,
            verdict: Verdict::Failed,
            found,
            fix: Some(fix),
        }
    }

    pub(super) const fn skips(check: &'static str, found: String, fix: String) -> Self {
        Self {
            check,
            verdict: Verdict::Skipped,
            found,
            fix: Some(fix),
        }
    }

    /// True if the finding is about an address family.
    pub(super) fn is_of_family(&self) -> bool {
        matches!(self.check, "ipv4" | "ipv6" | "nat64")
    }

    /// True if the finding is about the way to the portal.
    pub(super) fn is_of_portal(&self) -> bool {
        self.check.starts_with("portal")
    }
}
