//! The people of one machine: those who may command its service, and others.

use crate::scene::Scene;
use crate::story::sign_in;
use crate::window::Window;

#[test]
fn somebody_outside_of_the_group_is_told_it_and_commands_and_learns_nothing() {
    let scene = Scene::with_members(&["ada"]);
    scene.add_user("eve");
    let ada = &mut Window::open(&scene, "ada");
    sign_in(&scene, ada);

    let mut eve = Window::open(&scene, "eve");
    eve.sees(&[
        "You may not use the service",
        "Members of the group “culvert” may",
        "sudo usermod -aG culvert eve",
    ]);
    eve.is_named();
    eve.sees_not("Intranet");
    eve.picture("20-no-right");
    for command in ["status", "down", "sign-out"] {
        let line = format!("runuser -u eve -- culvert {command}");
        let said = scene.machine.outcome(&line).unwrap();
        let said = [said.stdout, said.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("usermod -aG culvert"), "{command}: {said}");
    }
    assert_eq!(tokens_found_by(&scene, "eve"), "");
    // The search finds a token where one may be read: this one belongs to nobody.
    scene.run("install -D -m 644 /dev/null /srv/token");
    scene
        .machine
        .write("/srv/token", "644", "cv_client_01x")
        .unwrap();
    assert_eq!(tokens_found_by(&scene, "eve"), "/srv/token\n");
    ada.sees(&["Connected to"]);

    drop(eve);
    scene.run("usermod -aG culvert eve");
    let eve = &mut Window::open(&scene, "eve");
    eve.sees(&["Connected to", "Intranet"]);
}

/// Files with a client's token that a person may read.
fn tokens_found_by(scene: &Scene, person: &str) -> String {
    let search = "grep --recursive --files-with-matches --no-messages --devices=skip --word-regexp \
                  cv_client_[0-9a-z]* /etc /home /run /srv /tmp /var";
    let line = format!("runuser -u {person} -- {search}");
    let found = scene.machine.outcome(&line).unwrap();
    String::from_utf8(found.stdout).unwrap()
}

#[test]
fn two_people_at_one_machine_see_the_same_and_command_the_same_service() {
    let scene = Scene::with_members(&["ada", "bob"]);
    let ada = &mut Window::open(&scene, "ada");
    let bob = &mut Window::open(&scene, "bob");
    bob.sees(&["Sign in to begin"]);
    sign_in(&scene, ada);
    bob.sees(&["Connected to", "Intranet"]);
    // Favourites are a person's own.
    ada.click("Add Wiki to favourites");
    ada.sees(&["Remove Wiki from favourites"]);
    bob.sees(&["Add Wiki to favourites"]);
    ada.picture("21-ada");
    bob.picture("21-bob");
    bob.click("Disconnect");
    for window in [&mut *ada, &mut *bob] {
        window.sees(&["Disconnected"]);
        window.sees_not("Intranet");
    }
    ada.picture("22-ada-disconnected");
    ada.click("Connect");
    for window in [ada, bob] {
        window.sees(&["Connected to", "Intranet"]);
    }
}
