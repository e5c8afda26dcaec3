//! Options that are whole numbers: a refusal names those that are taken.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads a whole number of this range.
pub(crate) fn whole_number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| {
        let number = text.trim().parse().ok();
        let number = number.filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (first, last) = (range.start(), range.end());
            format!("it must be a whole number from {first} to {last}")
        })
    }
}

/// Reads the version of something.
pub(crate) fn version(text: &str) -> Result<u64, String> {
    let version = text.trim().parse();
    version.map_err(|_| "it must be a version: a whole number, as \"show\" says".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_the_range_is_answered_with_the_range() {
        let days = whole_number(1..=3_650_u32);
        assert_eq!((days("1"), days(" 3650 ")), (Ok(1), Ok(3_650)));
        for text in ["", "0", "3651", "-1", "1.5", "many", "99999999999999999999"] {
            let refusal = "it must be a whole number from 1 to 3650".to_owned();
            assert_eq!(days(text), Err(refusal), "{text:?}");
        }
        assert_eq!(version("7"), Ok(7));
        assert!(version("7x").unwrap_err().contains("as \"show\" says"));
    }
}
