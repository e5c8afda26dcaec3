//! The exit status of every command: one table of commands with the case of each.

use crate::scene::{Portal, Said, Shell, enrol_client, enrol_gateway, enrol_relay};

/// Commands that read, about things that [`filled`] makes.
const READING: &[&str] = &[
    "account show",
    "actor list",
    "actor show ci",
    "group list",
    "group show build",
    "site list",
    "site show office",
    "resource list --site office",
    "resource show db",
    "policy list --group build --resource db",
    "policy show p",
    "token list --actor ci",
    "token list --site office",
    "token show t",
    "client list --actor ci",
    "client show laptop",
    "gateway list --site office",
    "gateway show gate",
    "relay list",
    "relay show hub",
    "log changes --actor ada --entity policy",
    "log access --client laptop --resource db --gateway gate",
    "log flows --client laptop --end closed",
    "dns show",
    "portal list",
    "provider list",
    "retention show",
    "sink list",
    "status",
];

/// Commands that change something, in an order in which each of them works.
const CHANGING: &[&str] = &[
    "account set --name Example --grant-lifetime 30m",
    "actor create grace --kind user",
    "actor set grace --name hopper",
    "actor set hopper --disable",
    "group create staff --member ci,hopper",
    "group set staff --name people",
    "group remove-member people ci hopper",
    "group add-member people ci hopper",
    "site create cellar",
    "site set cellar --name attic",
    "resource create net --site attic --address 10.0.0.0/8 --allow none",
    "resource set net --allow tcp:80",
    "policy create q --group people --resource net --country DE",
    "policy set q --without country --disable",
    "policy delete q --yes",
    "resource delete net --yes",
    "group delete people --yes",
    "site delete attic --yes",
    "actor delete hopper --yes",
    "token create --kind client --actor ci --name u",
    "token revoke u",
    "token delete u --yes",
    "client set laptop --name thinkpad",
    "client verify thinkpad",
    "client unverify thinkpad",
    "client revoke thinkpad",
    "client delete thinkpad --yes",
    "gateway set gate --name door",
    "gateway verify door",
    "gateway unverify door",
    "gateway drain door",
    "gateway undrain door",
    "gateway revoke door",
    "gateway delete door --yes",
    "account set --paths any",
    "site set office --relays hub",
    "site set office --relays any",
    "relay set hub --name centre",
    "relay drain centre",
    "relay undrain centre",
    "relay revoke centre",
    "relay delete centre --yes",
];

/// Commands about something that is not there.
const MISSING: &[&str] = &[
    "actor show no",
    "actor set no --disable",
    "actor delete no --yes",
    "group show no",
    "group set no --name x",
    "group delete no --yes",
    "group add-member no ci",
    "group add-member build no",
    "group remove-member build no",
    "group create x --member no",
    "site show no",
    "site set no --name x",
    "site delete no --yes",
    "resource show no",
    "resource create x --site no --address 10.0.0.1 --allow any",
    "resource set no --name x",
    "resource set db --site no",
    "resource delete no --yes",
    "resource list --site no",
    "policy show no",
    "policy create --group no --resource db",
    "policy create --group build --resource no",
    "policy set no --disable",
    "policy delete no --yes",
    "policy list --group no",
    "token show no",
    "token create --kind client --actor no",
    "token create --kind gateway --site no",
    "token revoke no",
    "token delete no --yes",
    "token list --actor no",
    "client show no",
    "client set no --name x",
    "client verify no",
    "client unverify no",
    "client revoke no",
    "client delete no --yes",
    "client list --actor no",
    "plain-client file no",
    "plain-client rekey no --public-key xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=",
    "plain-client add x --actor no --public-key xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=",
    "gateway show no",
    "gateway set no --name x",
    "gateway verify no",
    "gateway unverify no",
    "gateway drain no",
    "gateway undrain no",
    "gateway revoke no",
    "gateway delete no --yes",
    "gateway list --site no",
    "relay show no",
    "relay set no --name x",
    "relay drain no",
    "relay undrain no",
    "relay revoke no",
    "relay delete no --yes",
    "site set office --relays no",
    "log changes --actor no",
    "log access --client no",
    "log access --resource no",
    "log access --gateway no",
    "explain --client no --resource db",
    "explain --client laptop --resource no",
];

/// An id of each kind that nothing has.
const UNKNOWN: &[(&str, &str)] = &[
    ("actor", "act_"),
    ("group", "grp_"),
    ("site", "site_"),
    ("resource", "res_"),
    ("policy", "pol_"),
    ("token", "tok_"),
    ("client", "cli_"),
    ("gateway", "gw_"),
    ("relay", "rly_"),
];

/// Commands that need more than [`filled`] makes, each with what it needs. `src/json/tests.rs` sees to it that
/// their JSON is made where that of the others is.
const APART: &[(&str, &str)] = &[
    ("actor end-sessions", "somebody who signs in"),
    ("actor invite", "it prints a secret once"),
    ("actor reset-second-factor", "a second factor"),
    ("actor withdraw-invitation", "somebody who was invited"),
    ("dns remove", "servers for names"),
    ("dns search", "a list of domains"),
    ("dns set", "servers for names"),
    ("explain", "it ends with the verdict"),
    ("login", "a token in a file"),
    ("logout", "a saved token"),
    ("password", "a password on standard input"),
    ("plain-client add", "its notes are on standard error"),
    ("plain-client file", "a plain WireGuard device"),
    ("plain-client rekey", "a plain WireGuard device"),
    ("provider create", "an identity provider"),
    ("provider delete", "an identity provider"),
    ("provider link", "an identity provider"),
    ("provider set", "an identity provider"),
    ("provider show", "an identity provider"),
    ("provider unlink", "an identity provider"),
    ("retention set", "a portal that prunes"),
    ("setup", "a portal without an owner"),
    ("sink create", "a receiver"),
    ("sink delete", "a receiver"),
    ("sink pause", "a receiver"),
    ("sink resume", "a receiver"),
    ("sink test", "a receiver"),
    ("token create", "it prints a secret once"),
];

/// The commands below `path`, as `--help` lists them.
fn commands_below(shell: &Shell, path: &str) -> Vec<String> {
    let help = shell.line(format!("{path} --help").trim_start()).ok();
    let listed = help.split_once("\nCommands:\n");
    let Some((_, listed)) = listed else {
        return vec![path.to_owned()];
    };
    let lines = listed.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        let name = line
            .strip_prefix("  ")
            .filter(|name| !name.starts_with(' '))?;
        name.split_whitespace().next()
    });
    let below = names.flat_map(|name| commands_below(shell, format!("{path} {name}").trim_start()));
    below.collect()
}

#[test]
fn the_json_of_no_command_goes_untested() {
    let (_portal, shell) = Portal::set_up();
    let apply = ["apply"];
    let tested: Vec<_> = READING.iter().chain(CHANGING).chain(&apply).collect();
    let commands = commands_below(&shell, "");
    assert!(commands.len() > 70, "{commands:?}");
    let untested = commands.iter().filter(|command| {
        let is_of = |line: &str| {
            let rest = line.strip_prefix(command.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        !tested.iter().any(|line| is_of(line)) && !APART.iter().any(|(line, _)| is_of(line))
    });
    assert_eq!(untested.collect::<Vec<_>>(), Vec::<&String>::new());
}

fn filled() -> (Portal, Shell) {
    let (portal, shell) = Portal::with_office();
    shell
        .line("policy create p --group build --resource db")
        .ok();
    let token = shell.line("token create --kind client --actor ci --name t");
    enrol_client(&token.ok(), "laptop");
    let token = shell.line("token create --kind gateway --site office").ok();
    enrol_gateway(&token, "gate");
    let token = shell.line("token create --kind relay").ok();
    enrol_relay(&token, "hub");
    (portal, shell)
}

fn with_apply(portal: &Portal) -> Vec<String> {
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'annex'\n").unwrap();
    let apply = format!("apply -f {} --yes", file.display());
    let lines = CHANGING.iter().map(|line| (*line).to_owned());
    lines.chain([apply]).collect()
}

/// The one line of a command that failed with the status, and with nothing else said.
#[track_caller]
fn refused(line: &str, said: Said, status: i32) -> String {
    assert!(said.0.stdout.is_empty(), "{line}: {said:?}");
    assert_eq!(said.0.status.code(), Some(status), "{line}: {said:?}");
    said.fails(status)
}

#[test]
fn every_command_works_and_its_json_is_one_line_with_a_schema_version() {
    let (portal, shell) = filled();
    for line in READING {
        assert!(!shell.line(line).ok().is_empty(), "{line}");
        let words: Vec<&str> = line.split(' ').collect();
        shell.json(&words);
    }
    for line in with_apply(&portal) {
        let words: Vec<&str> = line.split(' ').collect();
        shell.json(&words);
    }
}

#[test]
fn every_change_is_said_in_words() {
    let (portal, shell) = filled();
    for line in with_apply(&portal) {
        let said = shell.line(&line);
        // This portal has no database of countries, and warns of what needs one.
        match line.contains("--country") {
            true => {
                let warning = "warning: it never holds: it asks for a country";
                let told = String::from_utf8_lossy(&said.0.stderr);
                assert!(told.starts_with(warning), "{line}: {said:?}");
                assert_eq!(told.lines().count(), 1, "{line}: {said:?}");
            }
            false => assert!(said.0.stderr.is_empty(), "{line}: {said:?}"),
        }
        assert!(!said.ok().is_empty(), "{line}");
    }
}

#[test]
fn what_is_not_there_is_status_1_and_named() {
    let (_portal, shell) = filled();
    for line in MISSING {
        let error = refused(line, shell.line(line), 1);
        assert!(error.contains("\"no\""), "{line}: {error}");
        assert!(error.contains(" list"), "{line}: {error}");
    }
    for (kind, prefix) in UNKNOWN {
        let id = format!("{prefix}{}", "0".repeat(26));
        for word in ["show", "delete --yes"] {
            let line = format!("{kind} {word} {id}");
            let error = refused(&line, shell.line(&line), 1);
            assert!(error.contains(&id), "{line}: {error}");
        }
    }
}

#[test]
fn a_role_that_is_too_low_is_status_5_and_changes_nothing() {
    let (portal, shell) = filled();
    let file = portal.path("auditor.token");
    let path = file.display();
    shell
        .line(&format!(
            "token create --kind api --actor ada --role auditor --out {path}"
        ))
        .ok();
    let count = || shell.json(&["log", "changes", "--limit", "1000"])["items"].clone();
    let before = count();
    let auditor = |line: &str| shell.line(&format!("{line} --token-file {path}"));
    for line in READING {
        auditor(line).ok();
    }
    // The first commands create nothing that the later ones would find.
    let found = [
        "actor create grace --kind user",
        "actor set ci --disable",
        "actor delete ci --yes",
        "group create staff",
        "group set build --name people",
        "group add-member build ada",
        "group remove-member build ci",
        "group delete build --yes",
        "site create cellar",
        "site set office --name attic",
        "site delete office --cascade --yes",
        "resource create net --site office --address 10.0.0.0/8 --allow none",
        "resource set db --allow any",
        "resource delete db --yes",
        "policy create q --group build --resource db",
        "policy set p --disable",
        "policy delete p --yes",
        "token create --kind client --actor ci --name u",
        "token revoke t",
        "token delete t --yes",
        "client set laptop --name thinkpad",
        "client verify laptop",
        "client unverify laptop",
        "client revoke laptop",
        "client delete laptop --yes",
        "gateway set gate --name door",
        "gateway verify gate",
        "gateway unverify gate",
        "gateway drain gate",
        "gateway undrain gate",
        "gateway revoke gate",
        "gateway delete gate --yes",
    ];
    for line in found {
        let error = refused(line, auditor(line), 5);
        assert!(error.contains("auditor"), "{line}: {error}");
    }
    assert_eq!(count(), before);
}

#[test]
fn without_a_token_every_command_is_status_3() {
    let (portal, _shell) = filled();
    let nobody = portal.shell("nobody");
    let changing = with_apply(&portal);
    for line in READING
        .iter()
        .copied()
        .chain(changing.iter().map(|line| &**line))
    {
        let error = refused(line, nobody.line(line), 3);
        assert!(error.contains("culvert admin login"), "{line}: {error}");
    }
}

#[test]
fn a_portal_that_is_away_is_status_4_for_every_command_and_named() {
    let (mut portal, shell) = filled();
    let out = portal.path("t.token");
    portal.kill();
    let changing = with_apply(&portal);
    for line in READING
        .iter()
        .copied()
        .chain(changing.iter().map(|line| &**line))
    {
        let error = refused(line, shell.line(line), 4);
        let host = portal.url.trim_start_matches("https://");
        assert!(error.contains(host), "{line}: {error}");
    }
    let line = format!(
        "token create --kind client --actor ci --out {}",
        out.display()
    );
    refused(&line, shell.line(&line), 4);
    assert!(!out.exists());
}

#[test]
fn a_version_that_has_passed_is_refused_by_every_change_of_one_thing() {
    let (_portal, shell) = filled();
    for (line, fits) in [
        ("actor set ci --disable", true),
        ("group set build --name people", true),
        ("site set office --name attic", true),
        ("resource set db --allow any", true),
        ("policy set p --disable", true),
        ("client set laptop --name thinkpad", true),
        ("client verify thinkpad", false),
        ("client revoke thinkpad", false),
        ("gateway set gate --name door", true),
        ("gateway drain door", false),
        ("gateway revoke door", false),
        ("token revoke t", false),
        ("policy delete p --yes", false),
        ("resource delete db --yes", false),
        ("group delete people --yes", false),
        ("client delete thinkpad --yes", false),
        ("gateway delete door --yes", false),
        ("actor delete ci --cascade --yes", false),
        ("site delete attic --cascade --yes", false),
    ] {
        let error = shell.line(&format!("{line} --if-version 77")).fails(1);
        assert!(error.contains("changed in the meantime"), "{line}: {error}");
        assert!(error.contains("is at version "), "{line}: {error}");
        let version = error.split("is at version ").nth(1).unwrap();
        let version = version.split(' ').next().unwrap();
        // The renames and changes here are what the next lines build on.
        if fits {
            shell.line(&format!("{line} --if-version {version}")).ok();
        }
    }
}
