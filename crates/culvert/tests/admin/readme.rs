//! The road that the README shows a newcomer, word by word.

use crate::scene::{Background, CULVERT, Portal, mode};
use crate::terminal::on_terminal;
use culvert_wire::token::{Token, TokenKind};
use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../../../../README.md");

/// The text between the heading of the first connection and that of the next section.
fn road() -> &'static str {
    let from = README.find("## From nothing to the first").unwrap();
    let rest = &README[from + 3..];
    &rest[..rest.find("\n## ").unwrap()]
}

/// The blocks of that kind.
fn blocks(kind: &str) -> Vec<&'static str> {
    let begin = format!("```{kind}\n");
    let blocks = road().split(&*begin).collect::<Vec<_>>();
    let ended = blocks[1..].iter().map(|block| block.split("```").next());
    ended.map(Option::unwrap).collect()
}

/// Every command line, without its prompt and its comment.
fn commands() -> Vec<String> {
    let lines = blocks("console").into_iter().flat_map(str::lines);
    let commands = lines.filter_map(|line| {
        let command = line
            .strip_prefix("$ ")
            .or_else(|| line.strip_prefix("# "))?;
        Some(command.split(" # ").next().unwrap().trim().to_owned())
    });
    commands.collect()
}

/// A shell in which somebody types a line, in a directory of their own.
fn typed(line: &str, dir: &Path) -> Command {
    let mut command = Command::new("sh");
    let programs = Path::new(CULVERT).parent().unwrap().display();
    command.args(["-c", line]).current_dir(dir);
    command.env("PATH", format!("{programs}:/usr/bin:/bin"));
    command.env("HOME", dir).env_remove("XDG_CONFIG_HOME");
    command
        .env_remove("CULVERT_ADMIN_TOKEN")
        .env("NO_COLOR", "1");
    command
}

/// The command without `sudo`, which makes no difference here.
fn unprivileged(line: &str) -> &str {
    line.strip_prefix("sudo ").unwrap_or(line)
}

#[test]
fn every_line_of_the_road_that_an_administrator_types_works() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    std::fs::write(dir.join("access.toml"), blocks("toml")[0]).unwrap();
    let commands = commands();
    let first = commands.iter().find(|line| line.contains("portal run"));
    // At a place of the test's own; everything else is as it is typed.
    let first = format!(
        "exec {} --listen 127.0.0.1:0 --state-dir ./portal",
        unprivileged(first.unwrap())
    );
    let (_portal, _) = Background::start(typed(&first, dir), "Each token");
    for (name, kind) in [
        ("gateway-office.token", TokenKind::Gateway),
        ("client-laptop.token", TokenKind::Client),
    ] {
        let file = dir.join(name);
        assert_eq!(mode(&file), 0o600);
        let text = std::fs::read_to_string(&file).unwrap();
        Token::parse_as(text.trim(), kind).unwrap();
        let used = format!("--token-file {name}");
        assert!(commands.iter().any(|line| line.contains(&used)), "{name}");
    }
    let administrators = commands.iter().map(|line| unprivileged(line));
    let administrators = administrators.filter(|line| line.starts_with("culvert admin"));
    let mut tried = 0;
    for line in administrators {
        let reply = if line.contains(" apply ") { "y\n" } else { "" };
        let (shown, status) = on_terminal(typed(line, dir), reply);
        assert_eq!(status, Some(0), "{line}\n{shown}");
        tried += 1;
    }
    assert_eq!(tried, 3, "{commands:#?}");
}

#[test]
fn whoever_is_asked_for_a_token_is_told_so() {
    let portal = Portal::start();
    let dir = portal.path("newcomer");
    std::fs::create_dir(&dir).unwrap();
    let setup = typed("culvert admin setup --token-file - --owner ada", &dir);
    let (shown, status) = on_terminal(setup, &format!("{}\n", portal.setup_token));
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("Paste the token"), "{shown}");
    assert!(shown.contains("\"ada\" owns account"), "{shown}");
}
