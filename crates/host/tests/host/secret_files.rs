//! Files with secrets: which are read, which are refused, and what a refusal says. Needs root, to give
//! files to other users.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use culvert_host::{
    FileRefusal, FileRefused, HostError, MAX_STATE_FILE_BYTES, MAX_TOKEN_FILE_BYTES, StateDir,
    read_credential, read_token_file,
};
use proptest::prelude::*;
use tempfile::TempDir;

const NOBODY: u32 = 65_534;
const TOKEN: &str = "cv_client_abc.c2VjcmV0";

fn temporary_dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A token file of this mode.
fn token_file(dir: &TempDir, content: &[u8], mode: u32) -> PathBuf {
    let path = dir.path().join("token");
    fs::write(&path, content).expect("the file is written");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the mode is set");
    path
}

fn refused<T: std::fmt::Debug>(result: Result<T, HostError>) -> FileRefused {
    match result {
        Err(HostError::FileRefused(refused)) => refused,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The refusal of a token file, and that its text is one line without the file's content.
fn token_refusal(path: &Path) -> (FileRefusal, String) {
    let refused = refused(read_token_file(path));
    let text = refused.to_string();
    assert!(!text.contains('\n'), "{text}");
    assert!(!text.contains(TOKEN), "{text}");
    assert!(text.contains(&path.display().to_string()), "{text}");
    (refused.refusal, text)
}

#[test]
fn a_private_token_is_read_without_the_white_space_around_it() {
    let dir = temporary_dir();
    for mode in [0o600, 0o400] {
        let path = token_file(&dir, format!(" {TOKEN}\r\n").as_bytes(), mode);
        let token = read_token_file(&path).expect("it is private");
        assert_eq!(token.expose(), TOKEN);
        assert!(!format!("{token:?}").contains("secret"));
        fs::remove_file(path).expect("it is removed");
    }
}

#[test]
fn a_token_that_others_can_use_is_refused_with_the_command_that_closes_it() {
    let dir = temporary_dir();
    for mode in [0o640, 0o604, 0o620, 0o601, 0o777] {
        let path = token_file(&dir, TOKEN.as_bytes(), mode);
        let (refusal, text) = token_refusal(&path);
        assert_eq!(refusal, FileRefusal::OpenToOthers { mode });
        assert!(text.contains("`chmod "), "{text}");
    }
    let path = token_file(&dir, TOKEN.as_bytes(), 0o644);
    let (_, text) = token_refusal(&path);
    assert!(
        text.contains(&format!("`chmod 600 {}`", path.display())),
        "{text}"
    );
}

#[test]
fn a_credential_is_read_from_a_directory_that_nobody_else_can_write() {
    let dir = temporary_dir();
    for (of_directory, of_file) in [(0o500, 0o400), (0o550, 0o440)] {
        let path = token_file(&dir, TOKEN.as_bytes(), of_file);
        fs::set_permissions(dir.path(), Permissions::from_mode(of_directory)).expect("a mode");
        let token = read_credential(dir.path(), "token").expect("it is as systemd makes it");
        assert_eq!(token.expose(), TOKEN);
        let missing = refused(read_credential(dir.path(), "another"));
        assert_eq!(missing.refusal, FileRefusal::Missing);
        for mode in [0o570, 0o522, 0o777] {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).expect("a mode");
            let open = refused(read_credential(dir.path(), "token"));
            assert_eq!(open.refusal, FileRefusal::WritableByOthers { mode });
        }
        fs::remove_file(path).expect("it is removed");
    }
    let path = token_file(&dir, TOKEN.as_bytes(), 0o400);
    fs::set_permissions(dir.path(), Permissions::from_mode(0o500)).expect("a mode");
    chown(&path, Some(NOBODY), None).expect("root may give files away");
    let foreign = refused(read_credential(dir.path(), "token"));
    assert_eq!(foreign.refusal, FileRefusal::ForeignOwner { owner: NOBODY });
}

#[test]
fn a_token_of_another_user_is_refused() {
    let dir = temporary_dir();
    let path = token_file(&dir, TOKEN.as_bytes(), 0o600);
    chown(&path, Some(NOBODY), None).expect("root may give files away");
    let (refusal, text) = token_refusal(&path);
    assert_eq!(refusal, FileRefusal::ForeignOwner { owner: NOBODY });
    assert!(text.contains("`chown 0 "), "{text}");
}

#[test]
fn a_link_to_a_token_is_refused() {
    let dir = temporary_dir();
    let path = token_file(&dir, TOKEN.as_bytes(), 0o600);
    let soft = dir.path().join("soft");
    symlink(&path, &soft).expect("a link is made");
    assert_eq!(token_refusal(&soft).0, FileRefusal::SymbolicLink);
    let hard = dir.path().join("hard");
    fs::hard_link(&path, &hard).expect("a link is made");
    for name in [&path, &hard] {
        assert_eq!(
            token_refusal(name).0,
            FileRefusal::SeveralLinks { links: 2 }
        );
    }
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting_for_it() {
    let dir = temporary_dir();
    assert_eq!(token_refusal(dir.path()).0, FileRefusal::NotAFile);
    assert_eq!(
        token_refusal(Path::new("/dev/null")).0,
        FileRefusal::NotAFile
    );
    // Opening a pipe for reading waits for a writer, unless told not to.
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe is made");
    assert_eq!(token_refusal(&pipe).0, FileRefusal::NotAFile);
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket is made");
    assert_eq!(token_refusal(&socket).0, FileRefusal::NotAFile);
}

#[test]
fn a_missing_token_is_told_from_a_refused_one() {
    let dir = temporary_dir();
    let path = dir.path().join("token");
    assert_eq!(token_refusal(&path).0, FileRefusal::Missing);
}

#[test]
fn content_that_is_no_token_is_refused() {
    let dir = temporary_dir();
    for (content, refusal) in [
        (&b" \n"[..], FileRefusal::Empty),
        (b"", FileRefusal::Empty),
        (b"one\ntwo", FileRefusal::NotOneLine),
        (b"one two", FileRefusal::NotOneLine),
        (b"t\0ken", FileRefusal::NotOneLine),
        ("tökén".as_bytes(), FileRefusal::NotOneLine),
        (&[0xFF; 8], FileRefusal::NotOneLine),
    ] {
        let path = token_file(&dir, content, 0o600);
        assert_eq!(token_refusal(&path).0, refusal, "{content:?}");
    }
}

#[test]
fn a_token_file_may_be_as_long_as_the_limit_and_no_longer() {
    let dir = temporary_dir();
    let path = token_file(&dir, &[b'x'; MAX_TOKEN_FILE_BYTES], 0o600);
    assert!(read_token_file(&path).is_ok());
    let path = token_file(&dir, &[b'x'; MAX_TOKEN_FILE_BYTES + 1], 0o600);
    assert!(matches!(
        token_refusal(&path).0,
        FileRefusal::TooLong { .. }
    ));
}

#[test]
fn a_state_directory_is_made_closed_to_others() {
    let dir = temporary_dir();
    let path = dir.path().join("var/lib/client");
    let state = StateDir::open(&path).expect("it is made");
    assert_eq!(mode_of(&path), 0o700);
    assert_eq!(state.path(), path);
    StateDir::open(&path).expect("it is opened again");
}

#[test]
fn a_state_directory_that_others_could_enter_or_own_is_refused() {
    let dir = temporary_dir();
    let lax = dir.path().join("lax");
    fs::create_dir(&lax).expect("it is made");
    fs::set_permissions(&lax, Permissions::from_mode(0o755)).expect("the mode is set");
    let refusal = refused(StateDir::open(&lax));
    assert_eq!(refusal.refusal, FileRefusal::OpenToOthers { mode: 0o755 });
    let fix = format!("`chmod 700 {}`", lax.display());
    assert!(refusal.to_string().contains(&fix), "{refusal}");

    let foreign = dir.path().join("foreign");
    StateDir::open(&foreign).expect("it is made");
    chown(&foreign, Some(NOBODY), None).expect("root may give directories away");
    let refusal = refused(StateDir::open(&foreign)).refusal;
    assert_eq!(refusal, FileRefusal::ForeignOwner { owner: NOBODY });

    let link = dir.path().join("link");
    symlink(dir.path().join("elsewhere"), &link).expect("a link is made");
    assert!(StateDir::open(&link).is_err());
    let file = dir.path().join("file");
    fs::write(&file, "").expect("it is written");
    assert_eq!(
        refused(StateDir::open(&file)).refusal,
        FileRefusal::NotADirectory
    );
}

#[test]
fn state_is_read_as_it_was_written_and_private() {
    let dir = temporary_dir();
    let state = StateDir::open(&dir.path().join("state")).expect("it is made");
    assert_eq!(state.read("id").expect("it can be read"), None);
    for content in [&b"first"[..], b"", b"\0\xFFsecond"] {
        state.write("id", content).expect("it is written");
        let read = state
            .read("id")
            .expect("it can be read")
            .expect("it is there");
        assert_eq!(read.expose(), content);
        assert_eq!(mode_of(&state.path().join("id")), 0o600);
    }
    state.remove("id").expect("it is removed");
    assert_eq!(state.read("id").expect("it can be read"), None);
    state.remove("id").expect("removing nothing is no error");
    assert_eq!(entries(state.path()), Vec::<String>::new());
}

#[test]
fn a_writer_that_died_leaves_the_old_content_and_does_not_hinder_the_next() {
    let dir = temporary_dir();
    let state = StateDir::open(&dir.path().join("state")).expect("it is made");
    state.write("key", b"old").expect("it is written");
    // The leftover of a crash between writing and renaming, here with a trap in its place as well.
    let unfinished = state.path().join("key.unfinished");
    fs::write(&unfinished, "half").expect("it is written");
    let read = state
        .read("key")
        .expect("it can be read")
        .expect("it is there");
    assert_eq!(read.expose(), b"old");
    fs::remove_file(&unfinished).expect("it is removed");
    let victim = dir.path().join("victim");
    symlink(&victim, &unfinished).expect("a link is made");
    state.write("key", b"new").expect("it is written");
    assert!(!victim.exists(), "the link was not followed");
    let read = state
        .read("key")
        .expect("it can be read")
        .expect("it is there");
    assert_eq!(read.expose(), b"new");
    assert_eq!(entries(state.path()), ["key"]);
}

#[test]
fn a_write_that_fails_keeps_the_old_content() {
    let dir = temporary_dir();
    let state = StateDir::open(&dir.path().join("state")).expect("it is made");
    state.write("key", b"old").expect("it is written");
    let refusal = refused(state.write("key", &vec![0; MAX_STATE_FILE_BYTES + 1])).refusal;
    assert!(matches!(refusal, FileRefusal::TooLong { .. }));
    // A directory in the place of the unfinished file: it can be neither removed nor opened.
    fs::create_dir(state.path().join("key.unfinished")).expect("it is made");
    assert!(state.write("key", b"new").is_err());
    let read = state
        .read("key")
        .expect("it can be read")
        .expect("it is there");
    assert_eq!(read.expose(), b"old");
}

#[test]
fn a_state_file_is_read_up_to_the_length_that_it_may_have() {
    let dir = temporary_dir();
    let state = StateDir::open(&dir.path().join("state")).expect("it is made");
    state.write("key", b"secret").expect("it is written");
    let read = state.read_at_most(6, "key").expect("it is short enough");
    assert_eq!(read.expect("it is there").expose(), b"secret");
    let refusal = refused(state.read_at_most(5, "key")).refusal;
    assert_eq!(refusal, FileRefusal::TooLong { max_bytes: 5 });
    state.write("key", b"").expect("it is written");
    let read = state.read_at_most(0, "key").expect("it is short enough");
    assert_eq!(read.expect("it is there").expose(), b"");
}

#[test]
fn a_state_file_that_others_could_read_is_refused() {
    let dir = temporary_dir();
    let state = StateDir::open(&dir.path().join("state")).expect("it is made");
    state.write("key", b"secret").expect("it is written");
    fs::set_permissions(state.path().join("key"), Permissions::from_mode(0o644))
        .expect("the mode is set");
    let refusal = refused(state.read("key")).refusal;
    assert_eq!(refusal, FileRefusal::OpenToOthers { mode: 0o644 });
}

#[test]
fn a_state_directory_has_one_user_at_a_time() {
    let dir = temporary_dir();
    let path = dir.path().join("state");
    let state = StateDir::open(&path).expect("it is made");
    let lock = state.lock().expect("nobody else has it");
    let other = StateDir::open(&path).expect("anyone may look");
    assert_eq!(refused(other.lock()).refusal, FileRefusal::InUse);
    drop(lock);
    let _lock = other.lock().expect("it was given free");
}

#[test]
fn a_state_directory_that_is_given_free_in_a_moment_is_waited_for() {
    let dir = temporary_dir();
    let path = dir.path().join("state");
    let state = StateDir::open(&path).expect("it is made");
    let lock = state.lock().expect("nobody else has it");
    let other = StateDir::open(&path).expect("anyone may look");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| other.lock());
        // Long enough that it has been tried in most runs; the outcome is the same in all.
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(lock);
        let locked = waiting.join().expect("it does not panic");
        drop(locked.expect("it was given free"));
    });
}

#[test]
fn a_state_directory_that_is_exchanged_while_open_stays_the_same() {
    let dir = temporary_dir();
    let path = dir.path().join("state");
    let state = StateDir::open(&path).expect("it is made");
    let moved = dir.path().join("moved");
    fs::rename(&path, &moved).expect("it is renamed");
    fs::create_dir(&path).expect("another takes its name");
    state.write("key", b"secret").expect("it is written");
    assert!(moved.join("key").exists());
    assert!(!path.join("key").exists());
}

proptest! {
    #[test]
    fn no_name_leads_out_of_the_state_directory(name in "\\PC{0,12}|[./a]{0,6}") {
        let dir = temporary_dir();
        let state = StateDir::open(&dir.path().join("state")).expect("it is made");
        match state.write(&name, b"x") {
            Ok(()) => prop_assert_eq!(entries(state.path()), [name]),
            Err(HostError::InvalidFileName { .. }) => {
                prop_assert_eq!(entries(state.path()), Vec::<String>::new());
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
        prop_assert_eq!(entries(dir.path()), ["state"]);
    }
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

fn entries(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .expect("it can be listed")
        .map(|entry| {
            let name = entry.expect("it can be listed").file_name();
            name.to_string_lossy().into_owned()
        })
        .collect()
}
