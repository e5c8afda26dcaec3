use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const BEFORE: &str = "# by hand\nsearch corp.example\nnameserver 192.0.2.53\n";
const SHORT: &str = "nameserver ::1";

struct Scene {
    directory: tempfile::TempDir,
    state: StateDir,
    /// Whether the file is to be overwritten instead of exchanged.
    overwrite: bool,
}

impl Scene {
    fn new(before: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::open(&directory.path().join("state")).unwrap();
        let scene = Self {
            directory,
            state,
            overwrite: false,
        };
        if let Some(before) = before {
            fs::write(scene.path(), before).unwrap();
        }
        scene
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("resolv.conf")
    }

    fn control(&self) -> FileControl {
        FileControl::new(self.path())
    }

    fn now(&self) -> Option<String> {
        fs::read_to_string(self.path()).ok()
    }

    fn apply(&self, control: &mut FileControl) -> Result<Vec<SocketAddr>, HostError> {
        let mut upstreams = Vec::new();
        control.apply(server(), &self.state, |told| upstreams = told.to_vec())?;
        Ok(upstreams)
    }

    fn writing(&self, control: &FileControl, before: Option<&[u8]>, content: &[u8]) -> Vec<Step> {
        match (before, self.overwrite) {
            (Some(before), true) => plan_overwriting(before, content),
            _ => control.plan_writing(before, content),
        }
    }

    /// Everything that a start, and then an end, do to the file.
    fn life(&self, before: Option<&str>) -> Vec<Step> {
        let control = self.control();
        let before = before.map(str::as_bytes);
        let text = ours(before, server());
        let mut steps = vec![Step::WriteBackup(before.unwrap_or_default().to_vec())];
        steps.extend(self.writing(&control, before, text.as_bytes()));
        match before {
            Some(before) => steps.extend(self.writing(&control, Some(text.as_bytes()), before)),
            None => steps.push(Step::Remove),
        }
        steps.push(Step::DropBackup);
        steps
    }
}

fn server() -> IpAddr {
    "100.64.0.7".parse().unwrap()
}

#[test]
fn the_file_names_our_server_and_is_put_back_byte_for_byte() {
    let scene = Scene::new(Some(BEFORE));
    let mut control = scene.control();
    let upstreams = scene.apply(&mut control).unwrap();
    assert_eq!(upstreams, ["192.0.2.53:53".parse().unwrap()]);
    assert_eq!(scene.now(), Some(ours(Some(BEFORE.as_bytes()), server())));
    let mode = fs::metadata(scene.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert!(control.is_in_force());
    control.restore(&scene.state).unwrap();
    assert_eq!(scene.now().as_deref(), Some(BEFORE));
    assert!(
        scene
            .state
            .read_at_most(MAX_BYTES, BACKUP)
            .unwrap()
            .is_none()
    );
    assert!(!control.is_in_force());
}

#[test]
fn after_a_crash_at_each_step_a_start_and_an_end_leave_the_file_as_it_was() {
    for before in [Some(BEFORE), Some(SHORT), Some(""), None] {
        for overwrite in [false, true] {
            let steps = Scene::new(before).life(before).len();
            for done in 0..=steps + 1 {
                let mut scene = Scene::new(before);
                scene.overwrite = overwrite;
                let control = scene.control();
                for step in scene.life(before).iter().take(done) {
                    control.take(step, &scene.state).unwrap();
                }
                let mut control = scene.control();
                let upstreams = scene.apply(&mut control).unwrap();
                let known = before.unwrap_or_default();
                let expected = ResolvConf::parse(known).upstreams(|_| None);
                assert_eq!(upstreams, expected, "{before:?} {overwrite} {done}");
                control.restore(&scene.state).unwrap();
                let now = scene.now();
                assert_eq!(now.as_deref(), before, "{overwrite} {done}");
                assert!(
                    scene
                        .state
                        .read_at_most(MAX_BYTES, BACKUP)
                        .unwrap()
                        .is_none()
                );
            }
        }
    }
}

#[test]
fn a_file_that_another_has_written_since_is_left_alone_and_its_servers_are_asked() {
    let scene = Scene::new(Some(BEFORE));
    let mut control = scene.control();
    scene.apply(&mut control).unwrap();
    fs::write(scene.path(), "nameserver 198.51.100.1\n").unwrap();
    assert!(!control.is_in_force());
    let upstreams = scene.apply(&mut control).unwrap();
    assert_eq!(upstreams, ["198.51.100.1:53".parse().unwrap()]);
    control.restore(&scene.state).unwrap();
    assert_eq!(scene.now().as_deref(), Some("nameserver 198.51.100.1\n"));

    scene.apply(&mut control).unwrap();
    fs::write(scene.path(), SHORT).unwrap();
    control.restore(&scene.state).unwrap();
    assert_eq!(scene.now().as_deref(), Some(SHORT));
    assert!(
        scene
            .state
            .read_at_most(MAX_BYTES, BACKUP)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_link_is_refused_and_what_is_wrong_is_named() {
    let scene = Scene::new(None);
    let target = scene.directory.path().join("elsewhere");
    fs::write(&target, BEFORE).unwrap();
    symlink(&target, scene.path()).unwrap();
    let error = scene.apply(&mut scene.control()).unwrap_err().to_string();
    let target_text = target.display().to_string();
    assert!(
        error.contains(&target_text) && error.contains("--dns"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&target).unwrap(), BEFORE);
    assert!(
        scene
            .state
            .read_at_most(MAX_BYTES, BACKUP)
            .unwrap()
            .is_none()
    );
}

#[test]
fn what_another_client_wrote_is_not_taken_for_the_file_from_before() {
    let scene = Scene::new(Some(BEFORE));
    scene.apply(&mut scene.control()).unwrap();
    let other = StateDir::open(&scene.directory.path().join("other")).unwrap();
    let error = scene.control().apply(server(), &other, |_| {});
    assert!(matches!(error, Err(HostError::ResolvConfOfAnother { .. })));
    assert!(other.read_at_most(MAX_BYTES, BACKUP).unwrap().is_none());
}

#[test]
fn a_file_longer_than_a_page_is_refused() {
    let scene = Scene::new(Some(&"# long\n".repeat(1000)));
    let error = scene.apply(&mut scene.control()).unwrap_err();
    assert!(
        matches!(error, HostError::ResolvConfTooLong { .. }),
        "{error}"
    );
}
