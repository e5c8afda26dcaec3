//! The package `culvert-desktop`, from the installation to the purge.

use crate::scene::Scene;
use crate::window::Window;
use culvert_lab::Traces;

const FILES: [&str; 7] = [
    "/usr/bin/culvert-desktop",
    "/usr/share/applications/org.culvert.Desktop.desktop",
    "/usr/share/metainfo/org.culvert.Desktop.metainfo.xml",
    "/usr/share/icons/hicolor/scalable/apps/org.culvert.Desktop.svg",
    "/usr/share/icons/hicolor/symbolic/apps/org.culvert.Desktop-symbolic.svg",
    "/usr/share/man/man1/culvert-desktop.1.gz",
    "/usr/share/doc/culvert-desktop/licences.txt.gz",
];

#[test]
fn the_window_is_installed_starts_and_leaves_nothing_when_it_is_purged() {
    let scene = Scene::boot();
    scene.add_user("ada");
    let before = Traces::of(&scene.machine).unwrap();
    let alone = scene
        .machine
        .shell("dpkg --install /packages/culvert-desktop_*.deb")
        .unwrap_err();
    assert!(alone.to_string().contains("culvert-client"), "{alone:#}");
    scene.install();
    for file in FILES {
        scene.run(&format!("test -s {file}"));
    }
    let version = scene.run("runuser -u ada -- culvert-desktop --version");
    assert!(version.starts_with("culvert-desktop "), "{version}");
    scene.run("systemctl start culvert-client");
    {
        let window = &mut Window::open(&scene, "ada");
        window.sees(&["You may not use the service", "usermod -aG culvert ada"]);
    }
    scene.run("usermod -aG culvert ada");
    {
        let window = &mut Window::open(&scene, "ada");
        window.sees(&["Sign in to begin"]);
        window.picture("30-installed");
    }
    scene.run("rm -rf /home/ada/session /home/ada/.cache");
    scene.run("dpkg --purge culvert-desktop culvert-client culvert");
    before.is_gone(&Traces::of(&scene.machine).unwrap());
}
