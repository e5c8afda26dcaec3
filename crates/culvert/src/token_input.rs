//! A token that a person hands over: in a file, on standard input, or at a prompt.

use crate::exit::{Failure, Status};
use culvert_host::{MAX_TOKEN_FILE_BYTES, read_token_file};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::Path;
use zeroize::Zeroizing;

/// The text that names standard input in the place of a file.
pub(crate) const STANDARD_INPUT: &str = "-";

/// The token in a file, or on standard input where that is named.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<String>, Failure> {
    if path == Path::new(STANDARD_INPUT) {
        return from_input();
    }
    match read_token_file(path) {
        Ok(token) => Ok(Zeroizing::new(token.expose().to_owned())),
        // Neither printed nor taken: it is now in the list of processes and in the shell's history.
        Err(_) if path.to_string_lossy().starts_with("cv_") => Err(Failure::new(
            Status::Usage,
            "--token-file takes the name of a file, not a token; others may have seen this one: \
             revoke it",
        )),
        Err(error) => Err(not_enrolled(error)),
    }
}

/// That there is no good token.
pub(crate) fn not_enrolled(message: impl std::fmt::Display) -> Failure {
    Failure::new(Status::NotEnrolled, message)
}

/// One line, so that a person can end it by a line break. A terminal does not show it.
fn from_input() -> Result<Zeroizing<String>, Failure> {
    let text = line_of_input("Paste the token, then press Enter: ")
        .map_err(|error| not_enrolled(format_args!("standard input: {error}")))?;
    if text.trim().is_empty() {
        return Err(not_enrolled(
            "there is no token on standard input; give it one line with the token",
        ));
    }
    Ok(text)
}

/// A line of standard input, its end included. A terminal is shown the prompt, and nothing of the line.
pub(crate) fn line_of_input(prompt: &str) -> std::io::Result<Zeroizing<String>> {
    let silence = std::io::stdin()
        .is_terminal()
        .then(|| Silence::begin(prompt));
    let mut text = Zeroizing::new(String::with_capacity(MAX_TOKEN_FILE_BYTES));
    let limit = u64::try_from(MAX_TOKEN_FILE_BYTES).unwrap_or(u64::MAX);
    let mut input = std::io::stdin().lock().take(limit);
    let read = input.read_line(&mut text);
    drop(silence);
    read.map(|_| text)
}

/// A terminal that shows nothing of what is typed, until this is dropped. If the process is killed
/// before, the shell sets its terminal up again.
struct Silence {
    before: Option<Termios>,
}

impl Silence {
    fn begin(prompt: &str) -> Self {
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(before) = &before {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            let _shown = tcsetattr(std::io::stdin(), OptionalActions::Now, &silent);
        }
        // A prompt that can't be shown is no reason to stop.
        let _unseen = write!(std::io::stderr(), "{prompt}");
        Self { before }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _left = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
        // The line break that was typed was not shown either.
        let _unseen = writeln!(std::io::stderr());
    }
}
