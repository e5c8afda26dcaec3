//! Private keys stay on the machines that made them.

use crate::common::{Bed, WEB_PORT};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_lab::product::PRIVATE_V4;
use std::fs;
use std::path::Path;

/// True if a file in `folder`, or below it, has these bytes.
fn is_in_a_file(bytes: &[u8], folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_in_a_file(bytes, &path),
            false => {
                let content = fs::read(&path).unwrap();
                content.windows(bytes.len()).any(|part| part == bytes)
            }
        }
    })
}

#[test]
fn no_private_key_of_a_machine_is_in_a_file_of_the_portal() {
    let bed = Bed::new(1).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let product = &bed.product;
    let portal = product.portal.state_dir();
    for machine in [product.client.state_dir(), product.gateways[0].state_dir()] {
        // The search finds the id of the machine, which the portal knows.
        let id = fs::read_to_string(machine.join("id")).unwrap();
        assert!(is_in_a_file(id.trim().as_bytes(), &portal));
        let text = fs::read_to_string(machine.join("private.key")).unwrap();
        let key = STANDARD.decode(text.trim()).unwrap();
        assert_eq!(key.len(), 32);
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        // Of base64, all letters but those that padding or what follows may change.
        for form in [&key[..], hex.as_bytes(), &text.as_bytes()[..42]] {
            let place = machine.display();
            assert!(!is_in_a_file(form, &portal), "the key of {place}: {form:?}");
        }
    }
}
