//! A sign-in with a browser: a person approves a code in the console, on whatever machine (RFC 8628;
//! docs/sign-in.md). The client's service carries it out; this shows URL and code. For a token that goes into a
//! file, this process carries it out itself.

use crate::exit::{Failure, Status, print};
use crate::host_name::host_name;
use crate::json;
use crate::visible::visible;
use culvert_client::status::{SignInFailure, SignInStatus, Status as ClientStatus};
use culvert_client::{DeviceSignIn, Request, SignIn, SignInEvent, StatusError, ask, ask_status};
use culvert_link::{Way, system_look_up};
use culvert_wire::token::Portal;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

/// Interval between two requests for the service's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The longest wait for an event: timers stand still while the machine sleeps, and codes expire all the same.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// A token, and its owner.
pub(crate) struct Obtained {
    pub(crate) token: Zeroizing<String>,
    pub(crate) actor: String,
}

/// The manner in which the person is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// A line of JSON for programs.
    pub(crate) json: bool,
    /// Nothing is opened on this machine.
    pub(crate) no_browser: bool,
}

/// Has the client at `socket` sign in, and waits until somebody has approved it. Ctrl-C gives it up.
///
/// # Errors
/// The reason why there is no token.
pub(crate) async fn by_service(
    socket: &Path,
    portal: &Portal,
    manner: Manner,
) -> Result<(), Failure> {
    let failed = |error: StatusError| Failure::new(Status::Failed, error);
    let watch = |kind| signal(kind).map_err(|error| Failure::io("watching for signals", &error));
    let mut interrupt = watch(SignalKind::interrupt())?;
    let mut terminate = watch(SignalKind::terminate())?;
    let request = Request::SignIn(SignIn::Portal(portal.into()));
    let status = ask(socket, request).await.map_err(failed)?;
    tokio::select! {
        followed = follow(socket, status, manner) => return followed,
        () = next(&mut interrupt) => {}
        () = next(&mut terminate) => {}
    }
    ask(socket, Request::CancelSignIn).await.map_err(failed)?;
    let text = "interrupted; the sign-in is given up";
    Err(Failure::new(Status::Failed, text))
}

async fn next(signal: &mut Signal) {
    let _heard = signal.recv().await;
}

/// Follows the sign-in that has just begun.
async fn follow(socket: &Path, first: ClientStatus, manner: Manner) -> Result<(), Failure> {
    let before = first.service.sign_ins;
    let mut told = Told::new(manner);
    let mut answer: Result<_, StatusError> = Ok(first);
    loop {
        match answer {
            // It is busy with going up or down.
            Err(error) if error.is_timeout() => {}
            Err(error) => return Err(Failure::new(Status::Failed, error)),
            Ok(status) => match &status.service.sign_in {
                Some(sign_in) => told.tell(sign_in)?,
                None if status.service.sign_ins > before => return Ok(()),
                None => {
                    let text = "the sign-in was given up: somebody has cancelled it, or the client has started again; \
                                run `culvert sign-in` again";
                    return Err(Failure::new(Status::Failed, text));
                }
            },
        }
        sleep(POLL_INTERVAL).await;
        answer = ask_status(socket).await;
    }
}

/// Carries out a sign-in in this process.
///
/// # Errors
/// The reason why there is no token.
pub(crate) async fn obtain(portal: Portal, manner: Manner) -> Result<Obtained, Failure> {
    let way = Way {
        proxy: None,
        mark: None,
        look_up: system_look_up,
    };
    let mut sign_in = DeviceSignIn::new(&host_name(), way);
    sign_in.begin(portal);
    let mut told = Told::new(manner);
    loop {
        let event = timeout(LONGEST_REST, sign_in.next()).await;
        if let Ok(SignInEvent::Approved(approved)) = event {
            return Ok(Obtained {
                token: approved.token,
                actor: approved.actor,
            });
        }
        if let Some(status) = sign_in.status() {
            told.tell(&status)?;
        }
    }
}

/// The person, and the code that they were told.
struct Told {
    manner: Manner,
    code: Option<String>,
}

/// The JSON that programs are told.
#[derive(Serialize)]
struct ToldJson<'a> {
    sign_in: Code<'a>,
}

#[derive(Serialize)]
struct Code<'a> {
    user_code: &'a str,
    url: &'a str,
    url_with_code: &'a str,
    expires_in_s: u64,
}

impl Told {
    const fn new(manner: Manner) -> Self {
        Self { manner, code: None }
    }

    /// Tells the code once.
    ///
    /// # Errors
    /// The failure of the sign-in, and that another one has replaced it.
    fn tell(&mut self, sign_in: &SignInStatus) -> Result<(), Failure> {
        match (sign_in, &self.code) {
            (
                SignInStatus::Failed {
                    code_of_failure,
                    text,
                    ..
                },
                _,
            ) => Err(Failure::new(exit(*code_of_failure), text)),
            (
                SignInStatus::Waiting {
                    url: Some(url),
                    url_complete,
                    code: Some(code),
                    expires_in_s,
                    ..
                },
                None,
            ) => {
                self.code = Some(code.clone());
                show(
                    Code {
                        user_code: code,
                        url,
                        url_with_code: url_complete.as_deref().unwrap_or(url),
                        expires_in_s: *expires_in_s,
                    },
                    self.manner,
                )
            }
            (
                SignInStatus::Waiting {
                    code: Some(code), ..
                },
                Some(told),
            ) if code == told => Ok(()),
            (SignInStatus::Waiting { .. } | SignInStatus::Asking { .. }, Some(_)) => {
                let text =
                    "another sign-in has taken the place of this one: run `culvert sign-in` again";
                Err(Failure::new(Status::Failed, text))
            }
            (SignInStatus::Waiting { .. } | SignInStatus::Asking { .. }, None) => Ok(()),
        }
    }
}

const fn exit(failure: SignInFailure) -> Status {
    match failure {
        SignInFailure::Expired => Status::NotEnrolled,
        SignInFailure::Refused => Status::Denied,
        SignInFailure::Unreachable
        | SignInFailure::Certificate
        | SignInFailure::NotAPortal
        | SignInFailure::Busy => Status::PortalUnreachable,
    }
}

/// Tells the person where to go and what to compare. A browser is opened where there is a desktop, and the
/// person is not root: nobody browses as root.
fn show(code: Code<'_>, manner: Manner) -> Result<(), Failure> {
    let url = code.url_with_code;
    if manner.json {
        return print(json::line(&ToldJson { sign_in: code })?.as_bytes());
    }
    let text = format!(
        "To sign this machine in, open\n\n  {}\n\non any machine, sign in there, and compare the code:\n\n  {}\n\n\
         It is good for {} minutes. Waiting …\n",
        visible(url),
        visible(code.user_code),
        code.expires_in_s.div_ceil(60),
    );
    // The caller may have closed standard error.
    let _unseen = std::io::stderr().write_all(text.as_bytes());
    if !manner.no_browser && has_desktop() {
        let opened = Command::new("xdg-open")
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // Without it, the person types the URL in.
        drop(opened);
    }
    Ok(())
}

fn has_desktop() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal()
        && (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
        && !rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(code: &str) -> SignInStatus {
        SignInStatus::Waiting {
            portal: "https://portal.example.com".to_owned(),
            url: Some("https://portal.example.com/device".to_owned()),
            url_complete: None,
            code: Some(code.to_owned()),
            expires_in_s: 599,
        }
    }

    #[test]
    fn the_code_is_told_once_and_another_one_is_another_sign_in() {
        let manner = Manner {
            json: false,
            no_browser: true,
        };
        let mut told = Told::new(manner);
        let asking = SignInStatus::Asking {
            portal: "https://portal.example.com".to_owned(),
        };
        told.tell(&asking).unwrap();
        assert_eq!(told.code, None);
        told.tell(&waiting("BCDF-GHJK")).unwrap();
        assert_eq!(told.code.as_deref(), Some("BCDF-GHJK"));
        told.tell(&waiting("BCDF-GHJK")).unwrap();
        for other in [waiting("LMNP-QRST"), asking] {
            let error = told.tell(&other).unwrap_err();
            assert!(error.to_string().contains("another sign-in"), "{error}");
        }
    }

    #[test]
    fn a_failure_ends_with_its_text_and_status() {
        let manner = Manner {
            json: true,
            no_browser: true,
        };
        for (code_of_failure, status) in [
            (SignInFailure::Expired, Status::NotEnrolled),
            (SignInFailure::Refused, Status::Denied),
            (SignInFailure::Unreachable, Status::PortalUnreachable),
            (SignInFailure::NotAPortal, Status::PortalUnreachable),
        ] {
            let failed = SignInStatus::Failed {
                portal: "https://portal.example.com".to_owned(),
                code_of_failure,
                text: "because".to_owned(),
            };
            let failure = Told::new(manner).tell(&failed).unwrap_err();
            assert_eq!(
                (failure.status, failure.to_string()),
                (status, "because".to_owned())
            );
        }
    }
}
