//! `culvert admin` against a real portal: both are the program itself, as people start it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod apply;
mod backup;
mod conflicts;
mod deleting;
mod dns;
mod explaining;
mod first_start;
mod hostile;
mod invitations;
mod logs;
mod machines;
mod output;
mod passwords;
mod plain_clients;
mod providers;
mod quick_start;
mod readme;
mod recovery;
mod scene;
mod secrets;
mod statuses;
mod terminal;
mod tokens;
