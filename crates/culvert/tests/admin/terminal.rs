//! The output at a terminal: questions and colours.

use crate::scene::{Portal, Shell};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

/// Runs a command on a terminal of its own, where somebody has typed `reply` ahead; what the terminal
/// showed, and the exit status.
pub(crate) fn on_terminal(command: Command, reply: &str) -> (String, Option<i32>) {
    let mut terminal = Terminal::begin(command);
    terminal.near.write_all(reply.as_bytes()).unwrap();
    terminal.end()
}

/// The same on a terminal of so many columns.
pub(crate) fn on_terminal_of(columns: u16, command: Command, reply: &str) -> (String, Option<i32>) {
    let mut terminal = Terminal::begin_with(Some(columns), command);
    terminal.near.write_all(reply.as_bytes()).unwrap();
    terminal.end()
}

/// The same, where somebody waits for a question and does something else before they answer it.
pub(crate) fn asked(
    command: Command,
    question: &str,
    before: impl FnOnce(),
    reply: &str,
) -> (String, Option<i32>) {
    let mut terminal = Terminal::begin(command);
    terminal.wait_for(question);
    before();
    terminal.near.write_all(reply.as_bytes()).unwrap();
    terminal.end()
}

/// A terminal with a command on it.
struct Terminal {
    child: Child,
    near: File,
    shown: Vec<u8>,
}

impl Terminal {
    fn begin(command: Command) -> Self {
        Self::begin_with(None, command)
    }

    fn begin_with(columns: Option<u16>, mut command: Command) -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap();
        let far = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        if let Some(columns) = columns {
            let size = Winsize {
                ws_row: 24,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            tcsetwinsize(&far, size).unwrap();
        }
        let copy = || Stdio::from(far.try_clone().unwrap());
        command.stdin(copy()).stdout(copy()).stderr(copy());
        // The command's ends are then the only ones: reading ends with it.
        Self {
            child: command.spawn().unwrap(),
            near: File::from(near),
            shown: Vec::new(),
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Reads on; false at the end. The end of a terminal that nobody holds any more is an error.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let Ok(count @ 1..) = self.near.read(&mut buffer) else {
            return false;
        };
        self.shown.extend_from_slice(&buffer[..count]);
        true
    }

    fn wait_for(&mut self, question: &str) {
        while !self.shown().contains(question) {
            assert!(self.read(), "{}", self.shown());
        }
    }

    fn end(mut self) -> (String, Option<i32>) {
        while self.read() {}
        let status = self.child.wait().unwrap();
        (self.shown(), status.code())
    }
}

fn sites(shell: &Shell) -> usize {
    shell.json(&["site", "list"])["items"]
        .as_array()
        .unwrap()
        .len()
}

#[test]
fn a_token_that_is_pasted_at_the_prompt_is_not_shown() {
    let (portal, shell) = Portal::set_up();
    let token = std::fs::read_to_string(shell.saved_token()).unwrap();
    let nobody = portal.shell("nobody");
    let login = nobody.command(&["login", "--token-file", "-"]);
    let reply = format!("{}\n", token.trim());
    let (shown, status) = asked(login, "press Enter:", || {}, &reply);
    assert_eq!(status, Some(0), "{shown}");
    assert!(!shown.contains(token.trim()), "{shown}");
}

#[test]
fn apply_shows_what_would_change_in_colour_and_asks() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'a'\n").unwrap();
    let apply = || shell.command(&["apply", "-f", file.to_str().unwrap()]);
    for no in ["n\n", "\n", "yeah\n", "\u{4}"] {
        let (shown, status) = on_terminal(apply(), no);
        assert_eq!(status, Some(1), "{shown}");
        assert!(
            shown.contains("\u{1b}[32m+ site \"a\"\u{1b}[0m"),
            "{shown:?}"
        );
        assert!(shown.contains("1 to create. Go on? [y/N]"), "{shown}");
        assert!(shown.contains("nothing was changed"), "{shown}");
        assert_eq!(sites(&shell), 0);
    }
    let mut plain = apply();
    plain.env("NO_COLOR", "1");
    let (shown, _) = on_terminal(plain, "n\n");
    assert!(
        shown.contains("+ site \"a\"") && !shown.contains('\u{1b}'),
        "{shown:?}"
    );

    let (shown, status) = on_terminal(apply(), "yes\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("1 created"), "{shown}");
    assert_eq!(sites(&shell), 1);
}

#[test]
fn ctrl_c_at_the_question_changes_nothing_and_ends_by_the_signal() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'a'\n").unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap()];
    for signal in [Signal::INT, Signal::TERM] {
        let mut terminal = Terminal::begin(shell.command(&apply));
        terminal.wait_for("Go on? [y/N]");
        let process = Pid::from_child(&terminal.child);
        kill_process(process, signal).unwrap();
        let status = terminal.child.wait().unwrap();
        assert_eq!(
            (status.code(), status.signal()),
            (None, Some(signal.as_raw()))
        );
        assert_eq!(sites(&shell), 0);
    }
}

#[test]
fn somebody_who_sees_a_token_is_told_that_it_is_shown_once() {
    let (_portal, shell) = Portal::set_up();
    let create = ["token", "create", "--kind", "client", "--actor", "ada"];
    let (shown, status) = on_terminal(shell.command(&create), "");
    assert_eq!(status, Some(0), "{shown}");
    assert!(
        shown.contains("cv_client_") && shown.contains("shown once"),
        "{shown}"
    );
}

#[test]
fn a_portal_that_goes_away_at_the_question_changes_nothing_and_a_second_time_all_is_done() {
    let (mut portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'a'\n[[site]]\nname = 'b'\n").unwrap();
    let path = file.to_str().unwrap();
    let apply = shell.command(&["apply", "-f", path]);
    let (shown, status) = asked(apply, "Go on? [y/N]", || portal.kill(), "y\n");
    assert_eq!(status, Some(4), "{shown}");
    assert!(!shown.contains("created"), "{shown}");
    portal.restart();
    let again = ["apply", "-f", path, "--yes", "--portal", &portal.url];
    let said = shell.run(&again).ok();
    assert!(said.ends_with("\n2 created\n"), "{said}");
    assert_eq!(shell.run(&again).ok(), "nothing to change\n");
}

#[test]
fn what_others_changed_at_the_question_is_done_anew_and_shown() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'a'\n[[site]]\nname = 'b'\n").unwrap();
    let apply = shell.command(&["apply", "-f", file.to_str().unwrap()]);
    let other = || drop(shell.line("site create a").ok());
    let (shown, status) = asked(apply, "2 to create. Go on?", other, "y\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(
        shown.contains("Others changed the configuration"),
        "{shown}"
    );
    assert!(shown.trim_end().ends_with("1 created"), "{shown}");
    assert_eq!(sites(&shell), 2);
}
