//! Passwords that others guess first, found without a list of leaked ones.
//!
//! A password is cut into the fewest parts that a guesser tries as one: common words, runs of letters, digits or keys,
//! years, and what is known of the person and the portal. Each other character is a part of its own. A password of few
//! parts is refused.

use std::sync::OnceLock;

/// Characters of a password: twelve, since it may be the only factor (NIST SP 800-63B asks for eight
/// beside a second one), and no rules about which.
pub(crate) const MIN_CHARS: usize = 12;

/// Words of common passwords, in lower case, one a line.
const WORDS: &str = include_str!("common_words.txt");

/// The fewest parts of a password that is taken. Guessers try all that has five known parts.
const MIN_PARTS: usize = 6;

/// The shortest run, and the shortest word that is known of the person or the portal: two characters save nothing.
const MIN_RUN: usize = 3;

/// Keys that lie side by side, on the keyboards of English, German and French, and common walks over them.
const KEYS: [&str; 12] = [
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "1234567890",
    "qwertzuiop",
    "yxcvbnm",
    "azertyuiop",
    "qsdfghjklm",
    "wxcvbn",
    "1q2w3e4r5t6y7u8i9o0p",
    "q1w2e3r4t5y6u7i8o9p0",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p",
];

/// The person and the portal that a password is for.
#[derive(Clone, Copy, Debug)]
pub struct PasswordOwner<'a> {
    /// The name under which the person signs in.
    pub name: &'a str,
    /// The host name of the portal.
    pub host: &'a str,
}

/// The reason for which a password is easy to guess; none if it is not.
pub(crate) fn reason(owner: PasswordOwner<'_>, password: &str) -> Option<&'static str> {
    let mut letters: Vec<char> = lower(password);
    let unit = unit_len(&letters);
    if unit < letters.len() && unit < MIN_CHARS {
        return Some("it repeats a few characters: choose four words that do not belong together");
    }
    // A longer part is as good once as it is again and again.
    letters.truncate(unit);
    let plain: Vec<char> = letters
        .iter()
        .copied()
        .filter(|c| c.is_alphanumeric())
        .collect();
    let common: &[Vec<char>] = common_words();
    // Signs between letters hide words. A password of signs is not what its few letters are.
    let is_plain_most = plain.len() * 2 >= letters.len();
    let is_few = |words: &[&[Vec<char>]]| {
        let is_plain_few = is_plain_most && parts(&plain, words) < MIN_PARTS;
        is_plain_few || parts(&letters, words) < MIN_PARTS
    };
    if is_few(&[common]) {
        return Some(
            "it is common: it is made of words such as `password`, rows of keys, runs of digits or years",
        );
    }
    let names = known_words(owner.name);
    if is_few(&[common, &names]) {
        return Some("it is little more than the name");
    }
    let hosts = known_words(owner.host);
    if is_few(&[common, &names, &hosts]) {
        return Some("it is little more than the portal's own name");
    }
    None
}

fn lower(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn common_words() -> &'static [Vec<char>] {
    static COMMON: OnceLock<Vec<Vec<char>>> = OnceLock::new();
    COMMON.get_or_init(|| WORDS.lines().map(lower).collect())
}

/// A text that is known, whole and in its parts.
fn known_words(text: &str) -> Vec<Vec<char>> {
    let letters = lower(text);
    let plain = letters.iter().copied().filter(|c| c.is_alphanumeric());
    let mut words = vec![letters.clone(), plain.collect()];
    words.extend(
        letters
            .split(|c| !c.is_alphanumeric())
            .map(<[char]>::to_vec),
    );
    words.retain(|word| word.len() >= MIN_RUN);
    words
}

/// The length of the shortest part of which the text is made, again and again, whole or cut at its end. It is the text's
/// own length where there is none.
fn unit_len(text: &[char]) -> usize {
    let is_unit = |len: &usize| {
        text.iter()
            .zip(&text[*len..])
            .all(|(one, next)| one == next)
    };
    (1..=text.len() / 2).find(is_unit).unwrap_or(text.len())
}

/// The fewest parts of the text.
fn parts(text: &[char], words: &[&[Vec<char>]]) -> usize {
    // At each place, the parts before it.
    let mut fewest: Vec<usize> = (0..=text.len()).collect();
    for at in 0..text.len() {
        let next = fewest[at] + 1;
        let rest = &text[at..];
        let mut note = |len: usize| {
            for parts in &mut fewest[at + 1..=at + len] {
                *parts = next.min(*parts);
            }
        };
        note(1);
        note(run_at(rest));
        note(key_run_at(rest));
        if is_year(rest) {
            note(4);
        }
        for word in words.iter().copied().flatten() {
            if starts_with(rest, word) {
                // A part of a word is no word.
                let end = at + word.len();
                fewest[end] = fewest[end].min(next);
            }
        }
    }
    fewest[text.len()]
}

/// The length of the run of one character, or of characters that follow each other, with which the text begins.
fn run_at(text: &[char]) -> usize {
    let step_of = |pair: &[char]| match (pair[0], pair[1]) {
        ('9', '0') => 1,
        ('0', '9') => -1,
        (one, next) => i64::from(u32::from(next)) - i64::from(u32::from(one)),
    };
    let mut steps = text.windows(2).map(step_of);
    let Some(first @ -1..=1) = steps.next() else {
        return 1;
    };
    let len = 2 + steps.take_while(|step| *step == first).count();
    if len < MIN_RUN { 1 } else { len }
}

/// The same of keys that lie side by side.
fn key_run_at(text: &[char]) -> usize {
    let mut longest = 1;
    for row in KEYS {
        let keys: Vec<char> = row.chars().collect();
        let back: Vec<char> = row.chars().rev().collect();
        for keys in [keys, back] {
            for start in 0..keys.len() {
                let same = text.iter().zip(&keys[start..]);
                let len = same.take_while(|(one, key)| one == key).count();
                longest = longest.max(len);
            }
        }
    }
    if longest < MIN_RUN { 1 } else { longest }
}

fn is_year(text: &[char]) -> bool {
    let digits = text
        .get(..4)
        .is_some_and(|year| year.iter().all(char::is_ascii_digit));
    digits && matches!(text[..2], ['1', '8' | '9'] | ['2', '0'])
}

/// True if the text begins with the word, or with the word as people disguise it: `p4ssw0rd`.
fn starts_with(text: &[char], word: &[char]) -> bool {
    text.len() >= word.len()
        && text
            .iter()
            .zip(word)
            .all(|(one, wanted)| is_like(*one, *wanted))
}

fn is_like(written: char, wanted: char) -> bool {
    written == wanted
        || matches!(
            (wanted, written),
            ('a', '4' | '@')
                | ('b', '8')
                | ('e', '3')
                | ('g', '9')
                | ('i' | 'l', '1' | '!' | '|')
                | ('o', '0')
                | ('s', '5' | '$')
                | ('t', '7' | '+')
                | ('z', '2')
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: PasswordOwner<'_> = PasswordOwner {
        name: "Ada.Lovelace@mail.org",
        host: "netz.firma.zone",
    };

    #[test]
    fn what_others_guess_first_is_refused_with_the_reason() {
        for (passwords, part) in [
            (
                &[
                    "aaaaaaaaaaaa",
                    "abababababab",
                    "abcabcabcabcab",
                    "passwordpassword",
                    "Hunter2Hunter2Hunter2",
                    "ääääääääääää",
                ][..],
                "repeats",
            ),
            (
                &[
                    "123456789012",
                    "210987654321",
                    "qwertyuiop12",
                    "qwertzuiop123",
                    "1qaz2wsx3edc",
                    "1q2w3e4r5t6y",
                    "abcdefghijkl",
                    "абвгдежзийкл",
                    "Password1234",
                    "P4$$w0rd!!!!",
                    "password-password1",
                    "Summer-2026!",
                    "welcome2026!!",
                    "iloveyou12345",
                    "Monkey.Dragon.1999",
                    "correct horse battery staple",
                    "CorrectHorseBatteryStaple1",
                    "letmein letmein!",
                    "asdfghjkl;'#1",
                    "culvert-portal-admin",
                ],
                "common",
            ),
            (
                &[
                    "ada.lovelace",
                    "AdaLovelace1815",
                    "lovelace-ada!",
                    "Ada.Lovelace@Mail.org",
                    "4d4l0v3l4c3!",
                ],
                "the name",
            ),
            (
                &["netz.firma.zone", "Netz-Firma-2026", "https-firma-netz"],
                "the portal's",
            ),
        ] {
            for password in passwords {
                let why = reason(OWNER, password);
                assert!(
                    why.is_some_and(|why| why.contains(part)),
                    "{password}: {why:?}"
                );
            }
        }
    }

    #[test]
    fn a_password_that_nobody_guesses_first_is_taken() {
        for password in [
            "correct horse battery",
            "battery staple horse",
            "another horse battery",
            "kxq7#vmp2Lzd",
            "483920174635",
            "rasch tafel munter flieder",
            "my dog eats 3 apples a day",
            "zwölf Boxkämpfer jagen",
            "Tr0ub4dor&3xy",
            "пароль от соседа",
            "}%^&!@)~#$7x",
            "#?!&*()=+_-<>",
            "🐙🚲🌵🎺🧀🪁🦔🧦🍋🛶🔭🪗",
        ] {
            assert_eq!(reason(OWNER, password), None, "{password}");
        }
        // Nothing is known of a short name and a portal without one.
        let nobody = PasswordOwner { name: "", host: "" };
        assert_eq!(reason(nobody, "correct horse battery"), None);
    }

    #[test]
    fn the_longest_password_is_judged_like_any_other() {
        let mut letters = ('a'..='z').cycle();
        let long: String = (0..256).map(|at| letters.nth(at % 7).unwrap()).collect();
        assert_eq!(reason(OWNER, &long), None);
        assert!(reason(OWNER, &"password2026".repeat(21)).is_some());
    }

    #[test]
    fn the_list_is_sorted_in_lower_case_and_has_each_word_once() {
        let words: Vec<&str> = WORDS.lines().collect();
        assert!(words.is_sorted() && words.len() > 400);
        for pair in words.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
        for word in words {
            assert!(
                word.len() >= MIN_RUN
                    && word
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()),
                "{word}"
            );
        }
    }
}
