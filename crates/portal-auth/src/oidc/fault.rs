//! The reasons for which nobody was signed in.

use culvert_portal_base::Fault;
use std::borrow::Cow;
use thiserror::Error;

/// Characters of what a provider says that a page repeats.
const MAX_REPEATED_CHARS: usize = 200;

/// Characters of a URL or name that people copy. Longer issuers than this are rare, and a page stays a page.
const MAX_COPIED_CHARS: usize = 400;

/// The reason for which nobody was signed in by a provider, as the page says it.
#[derive(Debug, Error)]
pub enum SignInFault {
    /// Nobody is on the way with this state.
    #[error(
        "This sign-in was used already, was begun too long ago, or was not begun here. Sign in once more."
    )]
    UnknownState,
    /// The state is good, but not in this browser.
    #[error("This sign-in was begun in another browser. Sign in once more.")]
    ForeignState,
    /// It took longer than a sign-in may.
    #[error("This sign-in took longer than ten minutes. Sign in once more.")]
    ExpiredState,
    /// The answer is from somebody else than was asked (RFC 9207).
    #[error(
        "The answer is not from the identity provider that was asked: {came} came as its issuer (iss), and {expected} was \
         expected. Sign in once more."
    )]
    WrongIssuer {
        /// In a form to copy.
        came: String,
        /// As it was configured.
        expected: String,
    },
    /// The provider did not let the person in.
    #[error("The identity provider refused: {0}")]
    Refused(String),
    /// The provider can't be asked.
    #[error("The identity provider can't be asked: {0}. Try again, or sign in with a password.")]
    Away(String),
    /// The provider does not answer as it must.
    #[error("The identity provider does not answer as OpenID Connect has it: {0}")]
    Wrong(String),
    /// Its token proves nothing.
    #[error("What the identity provider says of you is not accepted: {0}")]
    Token(Cow<'static, str>),
    /// None of the provider's keys has signed its token.
    #[error("What the identity provider says of you is not accepted: {0}")]
    Signature(&'static str),
    /// The userinfo endpoint and the ID token name two subjects.
    #[error(
        "What the identity provider says of you is not accepted: its userinfo endpoint and its ID token speak of two people"
    )]
    OtherSubject,
    /// It does not say which groups the person is in.
    #[error("The identity provider does not say which groups you are in: {0}")]
    Groups(String),
    /// It does not prove that the person has just signed in there.
    #[error("The identity provider does not say that you have just signed in there: {0}")]
    NotAnew(String),
    /// It is not used any more.
    #[error("Nobody signs in by this identity provider now.")]
    Disabled,
    /// Nobody has said who this is.
    #[error(
        "The identity provider knows you, but nobody has said who you are here. Give an administrator \
         this subject, to link it with your actor: {subject}"
    )]
    Unknown {
        /// The subject that it knows.
        subject: String,
    },
    /// The person may not sign in.
    #[error("You may not sign in here: an administrator has to let you.")]
    MayNot,
    /// The identity is another's.
    #[error("This identity is linked with another actor already.")]
    Taken,
    /// It is another person than the one who has signed in here.
    #[error(
        "The identity provider knows you as somebody else than the one who has signed in here."
    )]
    OtherPerson,
    /// It was begun in a session that is over.
    #[error("The session in which this was begun is over. Sign in, and link once more.")]
    OtherSession,
    /// Something else, which is not about the provider.
    #[error("{0:?}")]
    Portal(Fault),
}

impl SignInFault {
    /// The provider's own error, cut to the room that a page has.
    pub fn answered(error: &str, description: Option<&str>) -> Self {
        let said = match description {
            Some(description) => format!("{error}: {description}"),
            None => error.to_owned(),
        };
        Self::Refused(repeated(&said))
    }

    pub(super) const fn token(why: &'static str) -> Self {
        Self::Token(Cow::Borrowed(why))
    }
}

/// The words of a provider, as far as a page has room for them.
pub(super) fn repeated(said: &str) -> String {
    let said = said.chars().filter(|char| !char.is_control());
    said.take(MAX_REPEATED_CHARS).collect()
}

/// A provider's text, to be copied and compared: bounded in length, and escaped unless visible ASCII.
pub(super) fn copyable(said: &str) -> String {
    let mut shown = String::new();
    for (at, char) in said.chars().enumerate() {
        match char {
            _ if at == MAX_COPIED_CHARS => return shown + "…",
            ' ' | '!'..='~' => shown.push(char),
            char => shown.extend(char.escape_unicode()),
        }
    }
    shown
}

impl From<Fault> for SignInFault {
    fn from(fault: Fault) -> Self {
        Self::Portal(fault)
    }
}

impl From<SignInFault> for Fault {
    fn from(fault: SignInFault) -> Self {
        match fault {
            SignInFault::Portal(fault) => fault,
            SignInFault::Away(_) | SignInFault::Wrong(_) => Self::Unavailable(fault.to_string()),
            fault => Self::Forbidden(fault.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_copied_has_no_invisible_character_and_an_end() {
        let url = "https://id.example/realms/a?b=c&d";
        assert_eq!(copyable(url), url);
        assert_eq!(copyable("a\n\u{202e}é"), "a\\u{a}\\u{202e}\\u{e9}");
        let long = copyable(&"é".repeat(100_000));
        assert!(long.len() < 10 * MAX_COPIED_CHARS && long.ends_with('…'));
    }
}
