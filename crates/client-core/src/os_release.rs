//! The text of `/etc/os-release`, as os-release(5) has it.

use culvert_policy::conditions::OperatingSystem;

/// The longest text that is read, in bytes. Usual ones have less than 1 KiB.
pub const MAX_OS_RELEASE_LEN: usize = 64 * 1024;

/// The operating system that the text names. Lines that are no assignment name nothing.
#[must_use]
pub fn parse_os_release(text: &str) -> OperatingSystem {
    let mut os = OperatingSystem::linux();
    for line in text.lines() {
        let line = line.trim();
        let Some((key, written)) = line.split_once('=') else {
            continue;
        };
        // As in a shell, the last assignment counts.
        match key {
            "ID" => os.id = value(written),
            "VERSION_ID" => os.version = value(written),
            _ => {}
        }
    }
    // `linux` stands for a system without an id.
    os.id = os.id.filter(|id| *id != os.family);
    os.checked().unwrap_or_else(OperatingSystem::linux)
}

/// A value without its quotes. None where it is empty, or more than one word of a shell.
fn value(written: &str) -> Option<String> {
    let mut chars = written.chars();
    let quote = chars
        .clone()
        .next()
        .filter(|first| matches!(first, '"' | '\''));
    if quote.is_some() {
        chars.next();
    }
    let mut value = String::new();
    loop {
        match (chars.next(), quote) {
            (None, None) => break,
            (None, Some(_)) => return None,
            (Some(char), Some(quote)) if char == quote => match chars.next() {
                None => break,
                Some(_) => return None,
            },
            (Some('\\'), None) => value.push(chars.next()?),
            (Some('\\'), Some('"')) => {
                // Before other characters a backslash stands for itself.
                let next = chars.next()?;
                if !matches!(next, '"' | '$' | '\\' | '`') {
                    value.push('\\');
                }
                value.push(next);
            }
            (Some(char), None) if char.is_whitespace() || matches!(char, '"' | '\'') => {
                return None;
            }
            (Some(char), _) => value.push(char),
        }
    }
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_files_of_distributions_are_read() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\n\
                      VERSION_ID=\"12\"\nVERSION=\"12 (bookworm)\"\nID=debian\n";
        let ubuntu = "NAME='Ubuntu'\nVERSION_ID='22.04'\nID=\"ubuntu\"\nID_LIKE=debian\n";
        let arch = "# rolling\n\nID=arch\nBUILD_ID=rolling\n";
        for (text, id, version) in [
            (debian, Some("debian"), Some("12")),
            (ubuntu, Some("ubuntu"), Some("22.04")),
            (arch, Some("arch"), None),
            ("", None, None),
            ("ID=linux\nVERSION_ID=1", None, None),
            ("ID=a\r\nVERSION_ID=1\r\n", Some("a"), Some("1")),
            ("  ID=a  \nVERSION_ID=3.1", Some("a"), Some("3.1")),
            ("ID=a\nID=b", Some("b"), None),
            ("#ID=a", None, None),
            ("export ID=a", None, None),
            ("VERSION_ID=1", None, None),
        ] {
            let os = parse_os_release(text);
            assert_eq!(os.family, "linux");
            assert_eq!(
                (os.id.as_deref(), os.version.as_deref()),
                (id, version),
                "{text:?}"
            );
        }
    }

    #[test]
    fn quotes_are_those_of_a_shell() {
        for (written, read) in [
            ("a", Some("a")),
            ("", None),
            ("\"\"", None),
            ("\"a b\"", Some("a b")),
            ("'a \\ b'", Some("a \\ b")),
            (r#""\"\$\\\`\n""#, Some("\"$\\`\\n")),
            (r"a\ b", Some("a b")),
            ("a b", None),
            ("\"a", None),
            ("'a", None),
            ("\"a\"b", None),
            ("'a''b'", None),
            ("a\"b\"", None),
            ("a\\", None),
            ("\"a\\", None),
        ] {
            assert_eq!(value(written).as_deref(), read, "{written}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(ID|VERSION_ID|.{0,5})?=?[\"'\\\\a-z0-9\n]{0,20}") {
            let os = parse_os_release(&text);
            prop_assert_eq!(os.clone().checked(), Some(os));
        }

        #[test]
        fn a_quoted_value_is_read_as_it_was_before(text in "[ -~]{1,20}") {
            let mut quoted = String::new();
            for char in text.chars() {
                if "\"$\\`".contains(char) {
                    quoted.push('\\');
                }
                quoted.push(char);
            }
            prop_assert_eq!(value(&format!("\"{quoted}\"")), Some(text));
        }
    }
}
