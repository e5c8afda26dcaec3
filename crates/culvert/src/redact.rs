//! Taking secrets out of text.

/// The prefix of every token; its kind follows, such as `client_`.
const TOKEN: &str = "cv_";

/// The text that replaces a token.
const REDACTED: &str = "cv_REDACTED";

/// Words behind which a secret stands in what other programs print, up to the end of its word.
const NAMES: [&str; 5] = [
    "private_key=",
    "preshared_key=",
    "PrivateKey = ",
    "PresharedKey = ",
    "Bearer ",
];

/// The text without tokens, and without keys where they are named.
pub(crate) fn redact(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, name)) = next_secret(rest) {
        redacted.push_str(&rest[..at]);
        if name == TOKEN {
            redacted.push_str(REDACTED);
        } else {
            redacted.push_str(name);
            redacted.push_str("REDACTED");
        }
        let secret = &rest[at + name.len()..];
        let end = secret.find(|letter| !is_of_secret(letter));
        rest = &secret[end.unwrap_or(secret.len())..];
    }
    redacted.push_str(rest);
    redacted
}

/// The start of the next secret, and the prefix that marks it.
fn next_secret(text: &str) -> Option<(usize, &'static str)> {
    let names = NAMES.into_iter().chain([TOKEN]);
    let found = names.filter_map(|name| Some((text.find(name)?, name)));
    found.min_by_key(|(at, _)| *at)
}

/// The letters of tokens (base64url and what joins their parts) and of keys (base64 and hexadecimal).
fn is_of_secret(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.+/=~".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_out_wherever_it_stands_and_nothing_else() {
        for (text, expected) in [
            ("cv_client_ab-c_d.Zm9v.x", "cv_REDACTED"),
            (
                "token = \"cv_gateway_a.b\" # mine",
                "token = \"cv_REDACTED\" # mine",
            ),
            (
                "a\ncv_api_1.2,cv_setup_3.4\n",
                "a\ncv_REDACTED,cv_REDACTED\n",
            ),
            (
                "Authorization: Bearer abc.def, more",
                "Authorization: Bearer REDACTED, more",
            ),
            (
                "private_key=00ff\npublic_key=00aa\n",
                "private_key=REDACTED\npublic_key=00aa\n",
            ),
            ("PresharedKey = abc+/=\n", "PresharedKey = REDACTED\n"),
            ("wie läuft's in dev0?", "wie läuft's in dev0?"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }
}
