//! The state that a client that takes commands keeps over restarts: its token, and the wish to be
//! up.

use super::destinations_file::DESTINATIONS_FILE;
use super::portals_file::PORTALS_FILE;
use crate::{ClientError, Enrolment, Request, SettingsChange, SignIn};
use culvert_host::{HostError, StateDir};

/// The file with the token.
const TOKEN_FILE: &str = "token";

/// The file that says whether the client is to be up.
const WISH_FILE: &str = "wish";

/// Its content if the client is to be up. With any other content the client is to be down.
const UP: &[u8] = b"up\n";

/// Its content if the client is to be down.
const DOWN: &[u8] = b"down\n";

/// The file that says whether the system is to ask the client for names.
const DNS_FILE: &str = "dns";

/// Its content if the system is not to. With any other content it is.
const DNS_OFF: &[u8] = b"off\n";

/// Its content otherwise.
const DNS_ON: &[u8] = b"on\n";

/// The state that is kept.
#[derive(Debug)]
pub(super) struct PersistedState {
    state: StateDir,
    enrolment: Option<Enrolment>,
    wants_up: bool,
    wants_dns: bool,
}

impl PersistedState {
    /// Reads it. A token that can't be used is as none.
    pub(super) fn read(state: StateDir) -> Result<Self, HostError> {
        let enrolment = match state.read(TOKEN_FILE)? {
            None => None,
            Some(content) => {
                let text = std::str::from_utf8(content.expose()).unwrap_or_default();
                let enrolment = Enrolment::from_token(text.trim());
                enrolment
                    .inspect_err(|error| tracing::error!("what was signed in with: {error}"))
                    .ok()
            }
        };
        let wish = state.read(WISH_FILE)?;
        let dns = state.read(DNS_FILE)?;
        Ok(Self {
            state,
            enrolment,
            wants_up: wish.is_some_and(|wish| wish.expose() == UP),
            wants_dns: dns.is_none_or(|dns| dns.expose() != DNS_OFF),
        })
    }

    /// The client's enrolment, if it is signed in.
    pub(super) const fn enrolment(&self) -> Option<&Enrolment> {
        self.enrolment.as_ref()
    }

    /// True if it is to be up.
    pub(super) const fn wants_up(&self) -> bool {
        self.wants_up && self.enrolment.is_some()
    }

    /// True if the system is to ask the client for names.
    pub(super) const fn wants_dns(&self) -> bool {
        self.wants_dns
    }

    /// Keeps what a request asks for. The part that is written before a failure is the safer half:
    /// a token without the wish to be up, or no such wish and a token yet to be forgotten.
    ///
    /// # Errors
    /// The reason why it can't be done; the kept state is as before.
    pub(super) fn take(&mut self, request: &Request) -> Result<(), ClientError> {
        match request {
            Request::Status
            | Request::Watch(_)
            | Request::Ask(_)
            | Request::Join(_)
            | Request::SignIn(SignIn::Portal(_))
            | Request::CancelSignIn
            | Request::Log => {}
            Request::Up if self.enrolment.is_none() => return Err(ClientError::SignedOut),
            Request::Up => self.want(true)?,
            Request::Down => self.want(false)?,
            Request::SignIn(SignIn::Token(token)) => {
                let text = token.expose().trim();
                let enrolment = Enrolment::from_token(text)?;
                self.state.write(TOKEN_FILE, text.as_bytes())?;
                self.enrolment = Some(enrolment);
                self.want(true)?;
            }
            Request::Settings(SettingsChange { dns }) => {
                if let Some(on) = *dns {
                    let content = if on { DNS_ON } else { DNS_OFF };
                    self.state.write(DNS_FILE, content)?;
                    self.wants_dns = on;
                }
            }
            Request::SignOut => {
                self.want(false)?;
                self.state.remove(TOKEN_FILE)?;
                self.state.remove(PORTALS_FILE)?;
                self.state.remove(DESTINATIONS_FILE)?;
                self.enrolment = None;
            }
        }
        Ok(())
    }

    fn want(&mut self, up: bool) -> Result<(), HostError> {
        self.state.write(WISH_FILE, if up { UP } else { DOWN })?;
        self.wants_up = up;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretText;
    use culvert_ids::TokenId;
    use culvert_wire::token::{Bearer, Portal, Secret, Token, TokenKind};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn sign_in(kind: TokenKind) -> Request {
        let token = Token {
            bearer: Bearer {
                kind,
                id: TokenId::from_bytes([7; 16]),
                secret: Secret::new([9; 32]),
            },
            portal: Some(Portal::new("https://portal.example", None).unwrap()),
        };
        Request::SignIn(SignIn::Token(SecretText::new(token.expose())))
    }

    fn read(directory: &Path) -> PersistedState {
        PersistedState::read(StateDir::open(&directory.join("state")).unwrap()).unwrap()
    }

    #[test]
    fn token_and_wish_outlive_the_process_and_the_token_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let mut persisted_state = read(dir);
        assert!(persisted_state.enrolment().is_none() && !persisted_state.wants_up());
        persisted_state.take(&sign_in(TokenKind::Client)).unwrap();
        assert!(read(dir).wants_up());
        let file = std::fs::metadata(dir.join("state/token")).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        persisted_state.take(&Request::Down).unwrap();
        let down = read(dir);
        assert!(down.enrolment().is_some() && !down.wants_up());
        persisted_state.take(&Request::Up).unwrap();
        assert!(read(dir).wants_up());
        persisted_state.take(&Request::SignOut).unwrap();
        let signed_out = read(dir);
        assert!(signed_out.enrolment().is_none() && !signed_out.wants_up());
        assert!(!dir.join("state/token").exists());
    }

    #[test]
    fn signing_out_forgets_where_access_has_led() {
        let directory = tempfile::tempdir().unwrap();
        let mut persisted_state = read(directory.path());
        persisted_state.take(&sign_in(TokenKind::Client)).unwrap();
        let state = StateDir::open(&directory.path().join("state")).unwrap();
        state.write(DESTINATIONS_FILE, b"{}").unwrap();
        persisted_state.take(&Request::Down).unwrap();
        assert!(state.read(DESTINATIONS_FILE).unwrap().is_some());
        persisted_state.take(&Request::SignOut).unwrap();
        assert!(state.read(DESTINATIONS_FILE).unwrap().is_none());
    }

    #[test]
    fn what_is_no_token_of_a_client_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        let mut persisted_state = read(dir);
        persisted_state.take(&sign_in(TokenKind::Client)).unwrap();
        persisted_state.take(&Request::Down).unwrap();
        assert!(persisted_state.take(&sign_in(TokenKind::Gateway)).is_err());
        assert!(persisted_state.enrolment().is_some() && !persisted_state.wants_up());
        assert!(read(dir).enrolment().is_some() && !read(dir).wants_up());
    }

    #[test]
    fn the_wish_for_names_outlives_the_process_and_the_account() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        assert!(read(dir).wants_dns());
        let change = |dns| Request::Settings(SettingsChange { dns });
        read(dir).take(&change(Some(false))).unwrap();
        read(dir).take(&change(None)).unwrap();
        read(dir).take(&Request::SignOut).unwrap();
        assert!(!read(dir).wants_dns());
        read(dir).take(&change(Some(true))).unwrap();
        assert!(read(dir).wants_dns());
    }

    #[test]
    fn nobody_goes_up_who_is_signed_out() {
        let directory = tempfile::tempdir().unwrap();
        let mut persisted_state = read(directory.path());
        let error = persisted_state.take(&Request::Up).unwrap_err();
        assert!(error.to_string().contains("culvert sign-in"), "{error}");
        assert!(!read(directory.path()).wants_up());
    }

    #[test]
    fn a_wish_that_is_not_understood_and_a_token_that_is_none_are_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        read(dir).take(&sign_in(TokenKind::Client)).unwrap();
        let state = StateDir::open(&dir.join("state")).unwrap();
        state.write(WISH_FILE, b"upwards\n").unwrap();
        assert!(!read(dir).wants_up());
        state.write(WISH_FILE, UP).unwrap();
        state.write(TOKEN_FILE, b"cv_client_nonsense").unwrap();
        assert!(!read(dir).wants_up() && read(dir).enrolment().is_none());
    }
}
