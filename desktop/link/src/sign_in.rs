//! The process `culvert sign-in`, which gets a code from the portal and hands the token to the service.

use crate::mailbox::{Event, Mailbox};
use crate::program::{Program, ProgramError, last_line, stderr_of};
use culvert_desktop_core::sign_in::{MAX_LINE_BYTES, Progress, parse_code};
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A sign-in as the person asked for it.
#[derive(Clone, Debug)]
pub struct SignInRequest {
    /// Its number, which its events carry.
    pub number: u64,
    /// The URL of the portal.
    pub portal: String,
    /// SHA-256 of the portal's certificate, if no authority has issued it.
    pub certificate: Option<String>,
}

/// A sign-in that is under way. It is given up when this is dropped.
#[derive(Debug)]
pub struct SignInProcess {
    child: Arc<Mutex<Child>>,
}

impl SignInProcess {
    /// Begins to sign in. The progress goes into `mailbox`; `now_ms` tells the time of the window's clock.
    ///
    /// # Errors
    /// If the program does not start.
    pub fn start(
        program: &Program,
        request: SignInRequest,
        mailbox: Arc<Mailbox>,
        now_ms: impl Fn() -> u64 + Send + 'static,
    ) -> Result<Self, ProgramError> {
        let mut options = vec!["--no-browser", "--portal", &request.portal];
        if let Some(certificate) = &request.certificate {
            options.extend(["--certificate", certificate]);
        }
        let mut child = program.start("sign-in", &options)?;
        let stdout = child.stdout.take();
        let stderr = stderr_of(&mut child);
        let child = Arc::new(Mutex::new(child));
        let waited = Arc::clone(&child);
        thread::spawn(move || {
            let lines = stdout.map(|stdout| BufReader::new(stdout).take(MAX_LINE_BYTES));
            for line in lines
                .into_iter()
                .flat_map(BufRead::lines)
                .map_while(Result::ok)
            {
                // A line without a code is the state after the token was handed over.
                let progress = match parse_code(&line, &request.portal, now_ms()) {
                    Some(code) => Progress::Code(code),
                    None => Progress::HandedOver,
                };
                mailbox.put(Event::SignIn(request.number, progress));
            }
            // Its output is closed: it has ended, or does within moments.
            let status = waited.lock().unwrap_or_else(PoisonError::into_inner).wait();
            let said = stderr.join().unwrap_or_default();
            let result = match status {
                Ok(status) if status.success() => Ok(()),
                Ok(_) => Err(last_line(&said)),
                Err(error) => Err(error.to_string()),
            };
            mailbox.put(Event::SignInEnded(request.number, result));
        });
        Ok(Self { child })
    }
}

impl Drop for SignInProcess {
    fn drop(&mut self) {
        // The thread holds the lock only while it waits for a process that has closed its output.
        if let Ok(mut child) = self.child.try_lock() {
            let _ended = child.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    /// Runs a sign-in by a script in the program's place, and returns its events.
    fn run(name: &str, script: &str) -> Vec<Event> {
        let path = std::env::temp_dir().join(format!(
            "culvert-desktop-sign-in-{}-{name}",
            std::process::id()
        ));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let program = Program {
            path: path.clone(),
            socket: "/nonexistent".into(),
        };
        let mailbox = Arc::new(Mailbox::new(|| {}));
        let request = SignInRequest {
            number: 3,
            portal: "https://p.example".to_owned(),
            certificate: None,
        };
        let process = SignInProcess::start(&program, request, Arc::clone(&mailbox), || 0).unwrap();
        let mut events = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !matches!(events.last(), Some(Event::SignInEnded(..))) {
            assert!(Instant::now() < deadline, "{events:?}");
            events.extend(mailbox.take().1);
            thread::sleep(Duration::from_millis(5));
        }
        drop(process);
        std::fs::remove_file(path).unwrap();
        events
    }

    #[test]
    fn a_sign_in_tells_its_code_and_its_end() {
        let events = run(
            "good",
            r#"[ "$*" = "sign-in --json --socket /nonexistent --no-browser --portal https://p.example" ] || exit 9
            echo '{"sign_in":{"user_code":"A-B","url":"https://p.example/d","url_with_code":"https://p.example/d?code=A-B","expires_in_s":600}}'
            echo '{"schema_version":1}'"#,
        );
        let [Event::SignIn(3, Progress::Code(code)), rest @ ..] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(code.user_code, "A-B");
        assert_eq!(
            rest,
            [
                Event::SignIn(3, Progress::HandedOver),
                Event::SignInEnded(3, Ok(()))
            ]
        );
    }

    #[test]
    fn a_sign_in_that_fails_says_why() {
        let events = run(
            "bad",
            "echo 'culvert: the sign-in was denied in the console' >&2; exit 5",
        );
        let why = "the sign-in was denied in the console".to_owned();
        assert_eq!(events, [Event::SignInEnded(3, Err(why))]);
    }
}
