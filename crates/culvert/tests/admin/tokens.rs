//! Tokens: where they come from, where they go, and who gets to see them.

use crate::scene::{Portal, mode, write_secret};
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn without_a_good_token_the_status_is_3_and_the_error_names_the_fix() {
    let (portal, shell) = Portal::set_up();
    let good = std::fs::read_to_string(shell.saved_token()).unwrap();
    let good = good.trim();
    let nobody = portal.shell("nobody");
    let error = nobody.line("site list").fails(3);
    assert!(error.contains("culvert admin login"), "{error}");

    let file = portal.path("api.token");
    let path = file.to_str().unwrap();
    let list = ["site", "list", "--token-file", path];
    let cut = &good[..60];
    let client = shell.line("token create --kind client --actor ada").ok();
    for (content, permissions, holds) in [
        (good, 0o644, "chmod 600"),
        (cut, 0o600, "copy"),
        ("", 0o600, "empty"),
        (client.trim(), 0o600, "`client`"),
        (portal.setup_token.as_str(), 0o600, "`setup`"),
    ] {
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(permissions)).unwrap();
        let error = nobody.run(&list).fails(3);
        assert!(error.contains(holds), "{holds}: {error}");
        assert!(
            !error.contains("cv_api_") && !error.contains("cv_client_"),
            "{error}"
        );
    }
    let link = portal.path("link.token");
    write_secret(&file, good);
    symlink(&file, &link).unwrap();
    let error = nobody
        .run(&["site", "list", "--token-file", link.to_str().unwrap()])
        .fails(3);
    assert!(error.contains("symbolic link"), "{error}");
    nobody.run(&list).ok();

    // Well-formed, and none of the portal's.
    let forged = good.replace(&good[36..40], "AAAA");
    write_secret(&file, &forged);
    let error = nobody.run(&list).fails(3);
    assert!(error.contains("does not accept the token"), "{error}");
}

#[test]
fn a_token_comes_from_a_file_then_the_environment_then_where_it_was_saved() {
    let (portal, shell) = Portal::set_up();
    let good = std::fs::read_to_string(shell.saved_token()).unwrap();
    let nobody = portal.shell("nobody");
    let list = |variables: &[(&str, &str)]| {
        let mut command = nobody.command(&["site", "list"]);
        command.envs(variables.iter().copied());
        command.output().unwrap().status.code()
    };
    let file = portal.path("api.token");
    write_secret(&file, &good);
    let bad = "cv_api_nonsense";
    let good = good.trim();
    assert_eq!(list(&[("CULVERT_ADMIN_TOKEN", good)]), Some(0));
    assert_eq!(list(&[("CULVERT_ADMIN_TOKEN", bad)]), Some(3));
    let named = ("CULVERT_ADMIN_TOKEN_FILE", file.to_str().unwrap());
    assert_eq!(list(&[("CULVERT_ADMIN_TOKEN", bad), named]), Some(0));
    nobody
        .given(&["site", "list", "--token-file", "-"], good)
        .ok();

    nobody.given(&["login", "--token-file", "-"], good).ok();
    assert_eq!(mode(&nobody.saved_token()), 0o600);
    assert_eq!(list(&[]), Some(0));
    nobody.line("logout").ok();
    assert_eq!(list(&[]), Some(3));
    nobody.given(&["login", "--token-file", "-"], bad).fails(3);
    assert!(!nobody.saved_token().exists());
}

#[test]
fn a_token_on_the_command_line_is_neither_taken_nor_repeated() {
    let (portal, shell) = Portal::set_up();
    let good = std::fs::read_to_string(shell.saved_token()).unwrap();
    let nobody = portal.shell("nobody");
    let error = nobody
        .run(&["site", "list", "--token-file", good.trim()])
        .fails(2);
    assert!(error.contains("revoke it"), "{error}");
    assert!(!error.contains("cv_api_"), "{error}");
}

#[test]
fn a_new_token_is_alone_on_standard_output_or_in_a_file_of_mode_0600() {
    let (portal, shell) = Portal::set_up();
    shell.line("actor create ci --kind service-account").ok();
    let said = shell.line("token create --kind client --actor ci");
    assert!(said.0.stderr.is_empty(), "{said:?}");
    let token = said.ok();
    assert!(
        token.starts_with("cv_client_") && token.lines().count() == 1,
        "{token}"
    );

    let file = portal.path("ci.token");
    let create = [
        "token", "create", "--kind", "client", "--actor", "ci", "--name", "second",
    ];
    let out = [&create[..], &["--out", file.to_str().unwrap()]].concat();
    let said = shell.run(&out).ok();
    assert!(!said.contains("cv_client_"), "{said}");
    assert_eq!(mode(&file), 0o600);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.starts_with("cv_client_"));

    // The file that is there is not touched, and no token is made that nobody gets.
    let third = [
        "token", "create", "--kind", "client", "--actor", "ci", "--name", "third",
    ];
    let out = [&third[..], &["--out", file.to_str().unwrap()]].concat();
    let error = shell.run(&out).fails(1);
    assert!(error.contains("remove it first"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    shell.line("token show third").fails(1);

    // A file for a token that the portal does not make is removed again.
    let other = portal.path("other.token");
    let out = [&create[..], &["--out", other.to_str().unwrap()]].concat();
    shell.run(&out).fails(1);
    assert!(!other.exists());
}

#[test]
fn a_revoked_token_is_refused_and_its_name_is_free() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("auditor.token");
    let path = file.to_str().unwrap();
    let create = [
        "token", "create", "--kind", "api", "--actor", "ada", "--role", "auditor",
    ];
    let create = [
        &create[..],
        &["--name", "t", "--expires", "1d", "--out", path],
    ]
    .concat();
    shell.run(&create).ok();
    let auditor = ["site", "list", "--token-file", path];
    shell.run(&auditor).ok();
    let error = shell
        .run(&["site", "create", "x", "--token-file", path])
        .fails(5);
    assert!(!error.is_empty());
    shell.line("token revoke t").ok();
    shell.run(&auditor).fails(3);
    std::fs::remove_file(&file).unwrap();
    shell.run(&create).ok();
    // The name is of the one that is good.
    assert!(shell.json(&["token", "show", "t"])["revoked"].is_null());
    let list = shell.line("token list").ok();
    assert!(list.contains("revoked"), "{list}");
}

#[test]
fn the_only_owner_cannot_revoke_the_own_token() {
    let (_portal, shell) = Portal::set_up();
    let tokens = shell.json(&["token", "list"]);
    let tokens = tokens["items"].as_array().unwrap();
    let own = tokens
        .iter()
        .find(|token| token["role"] == "owner")
        .unwrap();
    let id = own["id"].as_str().unwrap();
    shell.run(&["token", "revoke", id]).fails(1);
    shell.line("site list").ok();
}
