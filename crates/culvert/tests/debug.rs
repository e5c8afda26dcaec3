//! `culvert debug bundle`. Needs root: it runs in a namespace whose firewall has something to hide.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_lab::Namespace;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const CULVERT: &str = env!("CARGO_BIN_EXE_culvert");

/// A token as the portal shows it.
const PLANTED: &str = "cv_client_01m7zbz7jg3sg2yzr4y94kprs5_c2VjcmV0-c2VjcmV0_Zm9v.aHR0cHM6Ly9h";

fn write(path: &Path, content: &str) {
    std::fs::write(path, content).unwrap();
}

#[test]
fn a_bundle_has_what_helps_and_no_token_wherever_it_was_planted() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    std::fs::create_dir(dir.join("log")).unwrap();
    write(
        &dir.join("log/client.2026-11-22.log"),
        &format!("INFO began\nWARN pasted {PLANTED} here\n"),
    );
    write(
        &dir.join("client.toml"),
        &format!("# {PLANTED}\nmtu = 1380\n"),
    );
    let nft = format!("nft 'add table inet planted {{ comment \"{PLANTED}\"; }}'");
    namespace.shell(&nft).unwrap();
    let bundle = dir.join("bundle");
    let line = format!(
        "{CULVERT} debug bundle --out {0}/bundle --log-dir {0}/log --config {0}/client.toml \
         --client-socket {0}/none --gateway-socket {0}/none",
        dir.display()
    );
    let said = namespace.run(&line).unwrap();
    assert_eq!(said.trim(), bundle.to_str().unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bundle), 0o700);

    for (name, holds) in [
        ("culvert.txt", env!("CARGO_PKG_VERSION")),
        ("client-status.json", "no client answers"),
        ("gateway-status.json", "no gateway answers"),
        ("client.toml", "mtu = 1380"),
        ("client.2026-11-22.log", "WARN pasted cv_REDACTED here"),
        ("links.txt", "lo:"),
        ("rules.txt", "lookup main"),
        ("routes.txt", "# ip -6 route show table all"),
        ("nftables.txt", "table inet planted"),
        ("versions.txt", "nftables v"),
    ] {
        let text = std::fs::read_to_string(bundle.join(name)).unwrap();
        assert!(text.contains(holds), "{name}:\n{text}");
    }
    for entry in std::fs::read_dir(&bundle).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(mode(&path), 0o600, "{path:?}");
        for part in PLANTED.split('_').filter(|part| part.len() > 6) {
            assert!(!text.contains(part), "{path:?} has {part}:\n{text}");
        }
    }
    // A second one does not write over the first.
    let again = namespace.outcome(&line).unwrap();
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("--out"),
        "{again:?}"
    );
}
