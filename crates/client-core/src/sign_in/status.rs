//! The state of a sign-in with a browser, as the client's socket tells it.

use serde::{Deserialize, Serialize};

/// A sign-in with a browser that is under way, or that has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SignInStatus {
    /// The portal is asked for a code.
    Asking {
        /// The portal's URL.
        portal: String,
    },
    /// Somebody is to open the URL and to approve the code.
    Waiting {
        /// The portal's URL.
        portal: String,
        /// The page on which the code is typed in. This and the next two are told only to those who may command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The same with the code in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url_complete: Option<String>,
        /// The code that people compare.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The rest of the code's lifetime, in seconds.
        expires_in_s: u64,
    },
    /// It has failed.
    Failed {
        /// The portal's URL.
        portal: String,
        /// For programs.
        code_of_failure: SignInFailure,
        /// For people: a line with the fix.
        text: String,
    },
}

impl SignInStatus {
    /// Removes the parts that only those may see who may command.
    pub fn conceal(&mut self) {
        if let Self::Waiting {
            url,
            url_complete,
            code,
            ..
        } = self
        {
            (*url, *url_complete, *code) = (None, None, None);
        }
    }

    /// True if [`Self::conceal`] would remove something.
    #[must_use]
    pub const fn is_confidential(&self) -> bool {
        matches!(self, Self::Waiting { code: Some(_), .. })
    }
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignInFailure {
    /// Nobody approved the code in time.
    Expired,
    /// Somebody denied the machine, or the portal refuses.
    Refused,
    /// The portal does not answer.
    Unreachable,
    /// Its certificate is not the right one.
    Certificate,
    /// The answers are not those of a portal.
    NotAPortal,
    /// The portal has too much to do, or too many codes of this network.
    Busy,
}

impl SignInFailure {
    /// True if the next request may do better: another network, or a portal that starts again.
    pub(super) const fn may_pass(self) -> bool {
        match self {
            Self::Unreachable | Self::Certificate | Self::Busy => true,
            Self::Expired | Self::Refused | Self::NotAPortal => false,
        }
    }
}

/// The reason why a request brought no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInFault {
    /// Its kind.
    pub code: SignInFailure,
    /// A line for people.
    pub text: String,
}
