//! The console in a real browser, against a real portal (docs/adr/0021-browser-tests-and-site.md).

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bad_input;
mod choosing;
mod console;
mod crawl;
mod driver;
mod first_run;
mod follow;
mod fresh_proof;
mod hand;
mod invitation;
mod jobs;
mod live;
mod openid;
mod overview;
mod page;
mod pages;
mod passkeys;
mod sizes;
mod ways;
mod wireguard;
