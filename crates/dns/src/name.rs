//! Names between messages and policy.

use culvert_policy::DomainName;
use domain::base::Name;
use domain::base::name::ToLabelIter;

/// The name of a question, as patterns of resources see it. `None` for names that no pattern
/// matches: the root, and names with other bytes than those of host names, above all a dot inside
/// a label, which would make another name of it.
pub(crate) fn read(name: &impl ToLabelIter) -> Option<DomainName> {
    let mut text = String::new();
    for label in name.iter_labels().filter(|label| !label.is_root()) {
        let label = std::str::from_utf8(label.as_slice()).ok()?;
        if label.contains('.') {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(label);
    }
    text.parse().ok()
}

/// A name in the form of messages. `None` never happens: a [`DomainName`] has no label and no
/// length that a message cannot have.
pub(crate) fn write(name: &DomainName) -> Option<Name<Vec<u8>>> {
    Name::vec_from_str(name.as_str()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wire(labels: &[&[u8]]) -> Name<Vec<u8>> {
        let mut bytes = Vec::new();
        for label in labels.iter().chain([&b"".as_slice()]) {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend_from_slice(label);
        }
        Name::from_octets(bytes).unwrap()
    }

    #[test]
    fn a_name_is_read_in_lower_case() {
        let name = read(&wire(&[b"DB", b"Corp", b"Example"])).unwrap();
        assert_eq!(name.as_str(), "db.corp.example");
    }

    #[test]
    fn what_no_pattern_can_match_is_no_name() {
        assert_eq!(read(&wire(&[])), None);
        for label in [
            b"a.b".as_slice(),
            b"a b",
            b"a\0",
            b"\xc3\xbc",
            b"*",
            b"\xff",
        ] {
            assert_eq!(read(&wire(&[label, b"corp", b"example"])), None);
        }
    }

    proptest! {
        #[test]
        fn a_name_survives_the_way_into_a_message(
            text in "[a-z0-9_]{1,63}(\\.[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?){0,6}",
        ) {
            let name: DomainName = text.parse().unwrap();
            prop_assert_eq!(read(&write(&name).unwrap()), Some(name));
        }
    }
}
