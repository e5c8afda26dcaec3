//! The window of one person, in a session of its own on the machine.

use crate::scene::{SOON, Scene};
use culvert_lab::{Machine, wait_until, workspace_dir};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// The answer to a request takes as long as its own wait, a minute, and a moment.
const ANSWER_DEADLINE: Duration = Duration::from_secs(120);

/// Opens URLs for this session: it keeps them, and gets what is behind them.
const BROWSER: &str = "#!/bin/sh
echo \"$1\" >>OPENED
curl -fsSk -m 20 -o /dev/null \"$1\"
";

/// A window that is shown.
pub(crate) struct Window {
    machine: Rc<Machine>,
    unit: String,
    session: String,
    stream: BufReader<UnixStream>,
}

impl Window {
    /// Starts the window for a person, who logs in anew.
    pub(crate) fn open(scene: &Scene, person: &str) -> Self {
        let machine = Rc::clone(&scene.machine);
        let unit = format!("session-of-{person}");
        let session = format!("/home/{person}/session");
        prepare(&machine, person, &session);
        scene.run(&format!(
            "systemd-run --quiet --unit={unit} --uid={person} --setenv=HOME=/home/{person} \
             /packages/tests/session.sh {session} /usr/bin/python3 /packages/tests/drive.py \
             {session}/control {session}/pictures culvert-desktop /run/culvert/culvert.sock"
        ));
        let control = machine.path(&format!("{session}/control"));
        let mut stream = None;
        wait_until("the session", SOON, || {
            stream = UnixStream::connect(&control).ok();
            stream.is_some()
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", machine.journal(&unit)));
        let stream = stream.unwrap();
        stream.set_read_timeout(Some(ANSWER_DEADLINE)).unwrap();
        Self {
            machine,
            unit,
            session,
            stream: BufReader::new(stream),
        }
    }

    /// Waits until the window shows each text.
    pub(crate) fn sees(&mut self, texts: &[&str]) {
        self.ask(&json!({ "sees": texts }));
    }

    /// Waits until it shows no such text.
    pub(crate) fn sees_not(&mut self, text: &str) {
        self.ask(&json!({ "sees_not": text }));
    }

    /// Uses a button, a menu or a row.
    pub(crate) fn click(&mut self, name: &str) {
        self.ask(&json!({ "click": name }));
    }

    /// Uses a button, where a menu has an item of its name.
    pub(crate) fn press(&mut self, name: &str) {
        self.ask(&json!({ "press": name }));
    }

    /// Fills an entry.
    pub(crate) fn fill(&mut self, name: &str, text: &str) {
        self.ask(&json!({ "fill": [name, text] }));
    }

    /// Waits for a text that has a pattern, and returns what fits it.
    pub(crate) fn find(&mut self, pattern: &str) -> String {
        let found = self.ask(&json!({ "find": pattern }));
        found.as_str().unwrap().to_owned()
    }

    /// Checks that a screen reader can name every control that is shown.
    pub(crate) fn is_named(&mut self) {
        assert_eq!(self.ask(&json!({ "unnamed": true })), json!([]));
    }

    /// Keeps a picture.
    pub(crate) fn picture(&mut self, name: &str) {
        self.ask(&json!({ "picture": name }));
        let dir = pictures_dir();
        fs::create_dir_all(&dir).unwrap();
        let file = format!("{}/pictures/{name}.png", self.session);
        let copied = fs::copy(self.machine.path(&file), dir.join(format!("{name}.png")));
        assert!(copied.unwrap() > 0, "the picture {name} is empty");
    }

    /// The URLs that the browser was told to open.
    pub(crate) fn opened(&self) -> Vec<String> {
        let file = self.machine.path(&format!("{}/opened", self.session));
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn ask(&mut self, request: &Value) -> Value {
        let stream = self.stream.get_mut();
        writeln!(stream, "{request}").unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{request}: {error}: {line}\n{}", self.journal()));
        if let Some(error) = answer["error"].as_str() {
            let service = self.machine.journal("culvert-client");
            panic!("{request}: {error}\n{}\n{service}", self.journal());
        }
        answer["ok"].take()
    }

    fn journal(&self) -> String {
        self.machine.journal(&self.unit)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let _ended = self.machine.run(&format!("systemctl stop {}", self.unit));
    }
}

/// Makes the directory of a session, in which a browser is that opens nothing.
fn prepare(machine: &Machine, person: &str, session: &str) {
    machine
        .shell(&format!(
            "rm -rf {session}
             runuser -u {person} -- mkdir -p {session}/data/applications {session}/config"
        ))
        .unwrap();
    let browser = BROWSER.replace("OPENED", &format!("{session}/opened"));
    let entry = format!(
        "[Desktop Entry]\nType=Application\nName=B\nExec={session}/browser %u\n\
         MimeType=x-scheme-handler/https;x-scheme-handler/http;\n"
    );
    let chosen = "[Default Applications]\nx-scheme-handler/https=b.desktop\nx-scheme-handler/http=b.desktop\n";
    for (file, mode, text) in [
        ("browser", "755", browser.as_str()),
        ("data/applications/b.desktop", "644", &entry),
        ("config/mimeapps.list", "644", chosen),
    ] {
        machine
            .write(&format!("{session}/{file}"), mode, text)
            .unwrap();
    }
}

fn pictures_dir() -> PathBuf {
    workspace_dir().join("desktop/target/pictures/lab")
}
