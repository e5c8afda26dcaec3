//! `culvert sign-in` at a desktop: it opens the person's browser, and nothing where that is not wanted.

use crate::browser_sign_in::{at_portal, decide, waiting};
use crate::common::SOON;
use culvert_lab::product::Product;
use culvert_lab::{Process, culvert_program, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A person without any rights of their own. The files of the test are root's, which this one right
/// opens.
const PERSON: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups \
                      --inh-caps +dac_override --ambient-caps +dac_override";

/// Somebody's `culvert sign-in` in a terminal of a desktop.
struct SignInTerminal {
    process: Process,
    /// The file with the address that the browser opened, once it did.
    opened: PathBuf,
    code: String,
}

impl SignInTerminal {
    fn new(product: &Product, name: &str, person: &str, options: &str) -> Self {
        let dir = product.dir().join(name);
        fs::create_dir(&dir).unwrap();
        let opened = dir.join("opened");
        let browser = dir.join("xdg-open");
        let script = format!(
            "#!/bin/sh\necho \"$*\" > {0}.part && mv {0}.part {0}\n",
            opened.display()
        );
        fs::write(&browser, script).unwrap();
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
        let line = format!(
            "{person} {} sign-in {} --token-out {} {options}",
            culvert_program().unwrap().display(),
            at_portal(product),
            dir.join("token").display()
        );
        let script = format!(
            "DISPLAY=:0 PATH={}:$PATH exec script -qec '{line}' /dev/null < /dev/null",
            dir.display()
        );
        let process = product.client.namespace.spawn_script(&script).unwrap();
        let code = || {
            let output = process.output();
            let (_, rest) = output.split_once("/device?code=")?;
            let (code, _) = rest.split_once(char::is_whitespace)?;
            Some(code.to_owned())
        };
        wait_until("the code", SOON, || code().is_some())
            .unwrap_or_else(|error| panic!("{error}: {}", process.output()));
        let code = code().unwrap();
        Self {
            process,
            opened,
            code,
        }
    }

    /// It ends, since the person wanted nothing of it.
    fn is_denied(&mut self, product: &Product) {
        decide(product, &self.code, "deny").unwrap();
        let _status = self.process.wait(SOON).unwrap();
        let output = self.process.output();
        assert!(output.contains("was denied"), "{output}");
    }
}

#[test]
fn a_person_at_a_desktop_has_their_browser_opened_and_nobody_else() {
    let product = waiting();
    let mut opened = SignInTerminal::new(&product, "person", PERSON, "");
    let mut unwanted = SignInTerminal::new(&product, "unwanted", PERSON, "--no-browser");
    let mut root = SignInTerminal::new(&product, "root", "", "");
    wait_until("the browser", SOON, || opened.opened.exists())
        .unwrap_or_else(|error| panic!("{error}: {}", opened.process.output()));
    let url = format!("{}/device?code={}\n", product.portal.url(), opened.code);
    assert_eq!(fs::read_to_string(&opened.opened).unwrap(), url);
    // By their end they would have opened it long before.
    for workstation in [&mut opened, &mut unwanted, &mut root] {
        workstation.is_denied(&product);
    }
    assert!(!unwanted.opened.exists(), "--no-browser");
    assert!(!root.opened.exists(), "root");
}
