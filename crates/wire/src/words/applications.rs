//! The programs that may reach something: `any`, `only:backup,sync`, `except:browser`.

use crate::model::Applications;

/// Reads a rule. The portal checks later if the names are valid.
///
/// # Errors
/// A description of the right form, for the person who wrote the text.
pub fn parse_applications(text: &str) -> Result<Applications, String> {
    let wrong = || {
        "it must be any, only:NAMES or except:NAMES, where NAMES is such as backup or backup,sync; \
         only: alone is no program at all"
            .to_owned()
    };
    let (kind, names) = match text.trim().split_once(':') {
        Some((kind, names)) => (kind, Some(names)),
        None => (text.trim(), None),
    };
    let list = |names: &str| match names.trim() {
        "" => Vec::new(),
        names => names
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect(),
    };
    match (kind, names.map(list)) {
        ("any", None) => Ok(Applications::Any),
        ("only", Some(names)) => Ok(Applications::Only(names)),
        ("except", Some(names)) if !names.is_empty() => Ok(Applications::Except(names)),
        _ => Err(wrong()),
    }
}

/// A rule as [`parse_applications`] reads it.
pub fn applications(rule: &Applications) -> String {
    match rule {
        Applications::Any => "any".to_owned(),
        Applications::Only(names) => format!("only:{}", names.join(",")),
        Applications::Except(names) => format!("except:{}", names.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "backup",
            "any:backup",
            "only",
            "except:",
            "not:backup",
            "ONLY:a",
        ] {
            assert!(parse_applications(text).is_err(), "{text:?}");
        }
        let nobody = Applications::Only(Vec::new());
        assert_eq!(parse_applications("only:"), Ok(nobody));
    }

    fn rule() -> impl Strategy<Value = Applications> {
        let names = prop::collection::vec("[a-z][a-z0-9_]{0,8}", 1..5);
        prop_oneof![
            Just(Applications::Any),
            Just(Applications::Only(Vec::new())),
            names.clone().prop_map(Applications::Only),
            names.prop_map(Applications::Except),
        ]
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(rule in rule()) {
            prop_assert_eq!(parse_applications(&applications(&rule)), Ok(rule));
        }
    }
}
