//! Names between messages and policy.

use culvert_policy::DomainName;
use domain::base::Name;
use domain::base::name::ToLabelIter;

/// The name of a question, as patterns of resources see it. `None` for the root.
pub(crate) fn read(name: &impl ToLabelIter) -> Option<DomainName> {
    let labels = name.iter_labels().filter(|label| !label.is_root());
    let labels: Vec<_> = labels.collect();
    DomainName::from_labels(labels.iter().map(|label| label.as_slice())).ok()
}

/// A name in the form of messages. `None` never happens: a [`DomainName`] has no label and no
/// length that a message cannot have.
pub(crate) fn write(name: &DomainName) -> Option<Name<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(name.as_str().len() + 2);
    for label in name.labels() {
        bytes.push(u8::try_from(label.len()).ok()?);
        bytes.extend(label);
    }
    bytes.push(0);
    Name::from_octets(bytes).ok()
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
    fn a_name_is_read_with_whatever_labels_it_has() {
        for (label, shown) in [
            (b"a.b".as_slice(), "a\\046b"),
            (b"My Printer", "my\\032printer"),
            (b"a\0", "a\\000"),
            (b"\xc3\xbc", "\\195\\188"),
            (b"a\\046b", "a\\092046b"),
            (b"-a-", "-a-"),
            (b"*", "*"),
            (b"\xff", "\\255"),
        ] {
            let name = read(&wire(&[label, b"corp", b"example"])).unwrap();
            assert_eq!(name.as_str(), format!("{shown}.corp.example"));
        }
        assert_eq!(read(&wire(&[])), None, "the root");
    }

    proptest! {
        #[test]
        fn a_name_survives_the_way_into_a_message(
            labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 1..6),
        ) {
            let labels: Vec<&[u8]> = labels.iter().map(Vec::as_slice).collect();
            let asked = wire(&labels);
            let name = read(&asked).unwrap();
            prop_assert_eq!(write(&name).unwrap(), asked);
            prop_assert_eq!(DomainName::shown(name.as_str()), Ok(name));
        }
    }
}
