//! `culvert portal run --set-up FILE`: a new portal that knows at once who may use what.

use crate::scene::{Background, CULVERT, mode};
use culvert_wire::token::{Token, TokenKind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that the README shows.
const ACCESS: &str = r#"
[[site]]
name = "head office"

[[actor]]
name = "laptop"
kind = "service_account"

[[actor]]
name = "grace"
kind = "user"

[[group]]
name = "staff"
members = ["laptop"]

[[resource]]
name = "web"
site = "head office"
address = "10.50.0.10"
allow = "tcp:80"

[[policy]]
group = "staff"
resource = "web"
"#;

/// Somebody's directory, in which they type commands.
struct WorkingDirectory {
    dir: tempfile::TempDir,
}

impl WorkingDirectory {
    fn new(access: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("access.toml"), access).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(CULVERT);
        command
            .args(line.split(' '))
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env("USER", "ada")
            .env("CULVERT_PORTAL_LOG_LEVEL", "error")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("CULVERT_ADMIN_TOKEN");
        command
    }

    fn portal(&self) -> Command {
        self.command("portal run --listen 127.0.0.1:0 --state-dir portal --set-up access.toml")
    }

    /// Starts the portal, and reads what it prints up to the line that holds `last`.
    fn starts(&self, last: &str) -> (Background, String) {
        Background::start(self.portal(), last)
    }

    /// Starts a portal that ends by itself. Returns its status and its error.
    fn fails(&self) -> (Option<i32>, String) {
        let output = self.portal().output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), error)
    }

    /// The output of an administrator's command.
    fn admin(&self, line: &str) -> String {
        let output = self.command(&format!("admin {line}")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn token(file: &Path, kind: TokenKind) -> Token {
    assert_eq!(mode(file), 0o600);
    let text = std::fs::read_to_string(file).unwrap();
    Token::parse_as(text.trim(), kind).unwrap()
}

#[test]
fn a_first_start_with_a_file_declares_it_and_writes_the_tokens_that_machines_need() {
    let workstation = WorkingDirectory::new(ACCESS);
    let (_portal, said) = workstation.starts("Each token");
    assert!(said.contains("\"ada\" owns account"), "{said}");
    let url = said.lines().find_map(|line| line.strip_prefix("Portal: "));
    for (file, kind, command) in [
        (
            "gateway-head-office.token",
            TokenKind::Gateway,
            "gateway run --enable-forwarding",
        ),
        ("client-laptop.token", TokenKind::Client, "client run"),
    ] {
        let token = token(&workstation.path(file), kind);
        assert_eq!(token.portal.unwrap().url, url.unwrap());
        let command = format!("sudo culvert {command} --token-file {file}");
        assert!(said.contains(&command), "{said}");
    }
    // A user signs in; nobody hands them a file.
    assert!(!workstation.path("client-grace.token").exists());
    // The saved token is the owner's, and everything was declared.
    assert!(workstation.admin("policy list").contains("web"));
    let tokens = workstation.admin("token list --output json");
    let machines = tokens.split("{\"id\"");
    let machines = machines.filter(|token| token.contains("gateway") || token.contains("client"));
    let one_time = machines.map(|token| token.contains("\"one_time\":true"));
    assert_eq!(one_time.collect::<Vec<_>>(), [true, true], "{tokens}");
}

#[test]
fn a_portal_that_has_an_owner_is_left_as_it_is() {
    let workstation = WorkingDirectory::new(ACCESS);
    drop(workstation.starts("Each token"));
    std::fs::write(workstation.path("access.toml"), "not even a configuration").unwrap();
    let (_portal, said) = workstation.starts("culvert admin apply -f access.toml");
    assert!(said.contains("--set-up does nothing"), "{said}");
}

#[test]
fn what_this_machine_refuses_is_refused_before_anything_is_made() {
    let workstation = WorkingDirectory::new("[[site]]\nname = 1\n");
    let (status, error) = workstation.fails();
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("access.toml:2"), "{error}");
    assert!(!workstation.path(".config/culvert/admin.token").exists());

    std::fs::write(workstation.path("access.toml"), ACCESS).unwrap();
    std::fs::write(workstation.path("client-laptop.token"), "somebody's").unwrap();
    let (status, error) = workstation.fails();
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("client-laptop.token"), "{error}");
    assert!(error.contains("remove it first"), "{error}");
    // The file that was made before it is gone again.
    assert!(!workstation.path("gateway-head-office.token").exists());

    // Mended, the same command does it all.
    std::fs::remove_file(workstation.path("client-laptop.token")).unwrap();
    let (_portal, said) = workstation.starts("Each token");
    assert!(said.contains("client-laptop.token"), "{said}");
}

#[test]
fn what_the_portal_refuses_is_said_with_the_way_on() {
    let workstation =
        WorkingDirectory::new(&ACCESS.replace("resource = \"web\"", "resource = \"wiki\""));
    let (status, error) = workstation.fails();
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("wiki"), "{error}");
    assert!(
        error.contains("culvert admin apply -f access.toml"),
        "{error}"
    );
    assert!(!workstation.path("client-laptop.token").exists());
    assert!(workstation.path(".config/culvert/admin.token").exists());
}
