//! The moment at which a window of time of a policy opens. The portal names it in the text of a denial:
//! "now is outside of mon 09:00-17:00 Europe/Berlin, which opens at 2026-12-01T08:00:00Z".

/// The words before the moment.
const BEFORE: &str = "which opens at ";

/// The moment that `text` names, in seconds since 1970. None if it names none.
#[must_use]
pub fn of(text: &str) -> Option<i64> {
    let (_, rest) = text.split_once(BEFORE)?;
    unix_s(rest.get(..20)?)
}

/// Reads `YYYY-MM-DDTHH:MM:SSZ`.
fn unix_s(text: &str) -> Option<i64> {
    let pattern = b"dddd-dd-ddTdd:dd:ddZ";
    let fits = |(byte, form): (u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        _ => byte == *form,
    };
    if text.len() != pattern.len() || !text.bytes().zip(pattern).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_moment = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    is_moment.then(|| days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March, so that the leap day is the last.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    // 719468 days from 0000-03-01 to 1970-01-01.
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_is_found_in_the_reason() {
        let text =
            "now is outside of mon 09:00-17:00 Europe/Berlin, which opens at 2025-01-20T08:00:00Z";
        assert_eq!(of(text), Some(1_737_360_000));
        assert_eq!(
            of(&format!("{text}; the client is not verified")),
            Some(1_737_360_000)
        );
        assert_eq!(of("which opens at 1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(
            of("which opens at 2024-02-29T23:59:59Z"),
            Some(1_709_251_199)
        );
        assert_eq!(of("which opens at 2000-03-01T00:00:00Z"), Some(951_868_800));
    }

    #[test]
    fn other_texts_have_none() {
        for text in [
            "",
            "now is outside of mon 09:00-17:00",
            "which opens at ",
            "which opens at tomorrow at seven",
            "which opens at 2025-13-20T08:00:00Z",
            "which opens at 2025-01-20T08:00:00",
            "which opens at 2025-01-20T0é:00:00Z",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }
}
