//! DNS names and patterns of them.

use crate::TargetError;
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// Bytes of a name in text, without the dot at its end: 255 bytes on the wire (RFC 1035 §2.3.4)
/// less the first label's length byte and the root.
pub const MAX_DOMAIN_NAME_LEN: usize = 253;

/// Wildcards of one pattern, of which one may be `**`. Together with that one they bound the ways
/// in which a pattern can match a name: where `**` ends decides all others.
pub const MAX_WILDCARDS: usize = 4;

/// Bytes of a label (RFC 1035 §2.3.4).
const MAX_LABEL_LEN: usize = 63;

/// A DNS name in lower case, without the dot at its end. Read from a text ([`FromStr`]) it is what host names are made of
/// (letters, digits, hyphens), and underscores, which services have. One that somebody asks the DNS for may have any bytes
/// in its labels (RFC 2181, section 11): see [`Self::from_labels`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(Box<str>);

impl DomainName {
    /// The name with these labels, the root's left out. Bytes that a text can't show as they are, and dots, are written by
    /// their numbers, as in `my\032printer._ipp._tcp.corp.example` (RFC 1035, section 5.1).
    ///
    /// # Errors
    /// [`TargetError::EmptyLabel`] and [`TargetError::NameLength`].
    pub fn from_labels<'a>(
        labels: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, TargetError> {
        let (mut text, mut len) = (String::new(), 0);
        for label in labels {
            if label.is_empty() {
                return Err(TargetError::EmptyLabel);
            }
            len += label.len() + 1;
            if label.len() > MAX_LABEL_LEN || len > MAX_DOMAIN_NAME_LEN + 1 {
                return Err(TargetError::NameLength);
            }
            if !text.is_empty() {
                text.push('.');
            }
            for byte in label {
                match byte {
                    b'.' | b'\\' => text.push_str(&format!("\\{byte:03}")),
                    _ if byte.is_ascii_graphic() => text.push(byte.to_ascii_lowercase().into()),
                    _ => text.push_str(&format!("\\{byte:03}")),
                }
            }
        }
        match text.is_empty() {
            true => Err(TargetError::EmptyLabel),
            false => Ok(Self(text.into())),
        }
    }

    /// Reads what [`Self::as_str`] shows, and nothing else.
    ///
    /// # Errors
    /// [`TargetError`] for another form of a name as well.
    pub fn shown(text: &str) -> Result<Self, TargetError> {
        let labels: Vec<Vec<u8>> = labels_of(text).collect();
        let name = Self::from_labels(labels.iter().map(Vec::as_slice))?;
        let first_other = name
            .0
            .chars()
            .zip(text.chars())
            .find(|(own, given)| own != given);
        match first_other {
            _ if *name.0 == *text => Ok(name),
            Some((_, given)) => Err(TargetError::NameCharacter(given)),
            None => Err(TargetError::NameLength),
        }
    }

    /// The name, as in `db.corp.example`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes of the labels from the left, as messages have them.
    pub fn labels(&self) -> impl Iterator<Item = Vec<u8>> {
        labels_of(&self.0)
    }

    /// The labels from the right: `example`, `corp`, `db`.
    pub fn labels_from_root(&self) -> impl Iterator<Item = &str> {
        self.0.rsplit('.')
    }
}

impl FromStr for DomainName {
    type Err = TargetError;

    /// Reads a name in any case, with or without a dot at its end.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let text = without_root(text)?;
        text.split('.').try_for_each(literal)?;
        Ok(Self(text.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for DomainName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The labels of a name in text, whose dots stand between them. A backslash that no number of a byte follows stands for
/// itself, which no name shows.
fn labels_of(text: &str) -> impl Iterator<Item = Vec<u8>> {
    text.split('.').map(|label| {
        let mut bytes = Vec::with_capacity(label.len());
        let mut rest = label.as_bytes();
        while let Some((&byte, tail)) = rest.split_first() {
            let number = tail.get(..3).filter(|_| byte == b'\\');
            let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            bytes.push(number.unwrap_or(byte));
            rest = if number.is_some() { &tail[3..] } else { tail };
        }
        bytes
    })
}

/// Names that belong to a resource: one, or all that fit wildcards. `*` stands for exactly one
/// label and `**` for one or more, so `**.corp.example` does not hold `corp.example` itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamePattern(Box<str>);

/// One label of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternLabel<'a> {
    Literal(&'a str),
    /// `*`
    One,
    /// `**`
    Many,
}

/// The order of patterns by breadth: a smaller value is more specific. Without wildcards, then by
/// literal labels, then `*` before `**`, then the pattern with fewer `*`, which leave less open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Breadth {
    has_wildcards: bool,
    literals: Reverse<u8>,
    has_many: bool,
    ones: u8,
}

impl NamePattern {
    /// The pattern, as in `*.corp.example`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if it is a name without wildcards.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }

    /// The smallest domain that holds every name that fits: what stands right of all wildcards. There
    /// is none where the last label is a wildcard.
    #[must_use]
    pub fn domain(&self) -> Option<DomainName> {
        let right = self.0.rsplit('*').next()?;
        let domain = right.strip_prefix('.').unwrap_or(right);
        domain.parse().ok()
    }

    /// True if the name fits.
    #[must_use]
    pub fn matches(&self, name: &DomainName) -> bool {
        let pattern: Vec<_> = self.labels_from_root().collect();
        let name: Vec<_> = name.labels_from_root().collect();
        let Some(many) = pattern
            .iter()
            .position(|label| *label == PatternLabel::Many)
        else {
            return pattern.len() == name.len() && fit(&pattern, &name);
        };
        let (right, left) = (&pattern[..many], &pattern[many + 1..]);
        // `**` takes at least one label, and all that the labels beside it leave.
        let Some(left_start) = name.len().checked_sub(left.len()) else {
            return false;
        };
        left_start > many && fit(right, &name[..many]) && fit(left, &name[left_start..])
    }

    /// True if a name that fits both is meant by this one ([`crate::MatchOrder`]).
    #[must_use]
    pub fn is_narrower_than(&self, other: &Self) -> bool {
        self.breadth() < other.breadth()
    }

    pub(crate) fn labels_from_root(&self) -> impl Iterator<Item = PatternLabel<'_>> {
        self.0.rsplit('.').map(|label| match label {
            "*" => PatternLabel::One,
            "**" => PatternLabel::Many,
            literal => PatternLabel::Literal(literal),
        })
    }

    pub(crate) fn breadth(&self) -> Breadth {
        let count = |wanted: fn(&PatternLabel<'_>) -> bool| {
            // A name has at most 127 labels.
            self.labels_from_root().filter(wanted).count() as u8
        };
        let ones = count(|label| matches!(label, PatternLabel::One));
        let has_many = count(|label| matches!(label, PatternLabel::Many)) > 0;
        Breadth {
            has_wildcards: ones > 0 || has_many,
            literals: Reverse(count(|label| matches!(label, PatternLabel::Literal(_)))),
            has_many,
            ones,
        }
    }
}

impl FromStr for NamePattern {
    type Err = TargetError;

    /// Reads a pattern in any case, with or without a dot at its end.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let text = without_root(text)?;
        if has_port_or_scheme(text) {
            return Err(TargetError::PortOrUrl(text.to_owned()));
        }
        let (mut has_literal, mut wildcards, mut many) = (false, 0, 0);
        for label in text.split('.') {
            match label {
                "*" => wildcards += 1,
                "**" => (wildcards, many) = (wildcards + 1, many + 1),
                _ if label.contains('*') => return Err(TargetError::PartialWildcard),
                _ => {
                    literal(label)?;
                    has_literal = true;
                }
            }
        }
        if wildcards > MAX_WILDCARDS || many > 1 {
            return Err(TargetError::Wildcards);
        }
        if !has_literal {
            return Err(TargetError::OnlyWildcards);
        }
        if ends_in_number(text) {
            return Err(TargetError::Number(text.to_owned()));
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// True if labels without `**` fit as many labels of a name.
fn fit(pattern: &[PatternLabel<'_>], name: &[&str]) -> bool {
    pattern
        .iter()
        .zip(name)
        .all(|(pattern, label)| match pattern {
            PatternLabel::Literal(literal) => literal == label,
            PatternLabel::One | PatternLabel::Many => true,
        })
}

/// True if programs read it as an IPv4 address, valid or not, and never ask the DNS for it:
/// `10.0.0.256`, `1.2.3`, `0x7f.1`. The URL standard says "ends in a number"; no top-level domain
/// is one (RFC 3696 section 2).
fn ends_in_number(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or(text);
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// True for an address with a port, brackets or a scheme: `10.0.0.1:80`, `[fd00::1]:443`, `https://web`.
fn has_port_or_scheme(text: &str) -> bool {
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host = !host.contains(':') || host.ends_with(']');
        is_host && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    has_port || text.contains("://")
}

fn without_root(text: &str) -> Result<&str, TargetError> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > MAX_DOMAIN_NAME_LEN {
        return Err(TargetError::NameLength);
    }
    Ok(text)
}

/// Accepts a label that is none of a wildcard.
fn literal(label: &str) -> Result<(), TargetError> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if let Some(letter) = label.chars().find(|letter| !allowed(*letter)) {
        return Err(TargetError::NameCharacter(letter));
    }
    if label.is_empty() {
        return Err(TargetError::EmptyLabel);
    }
    if label.len() > MAX_LABEL_LEN {
        return Err(TargetError::NameLength);
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(TargetError::Hyphen);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_or_a_url_is_answered_with_where_ports_go() {
        for text in [
            "10.0.0.1:80",
            "web.corp.example:443",
            "[fd00::1]:443",
            "https://web.example",
            "http://a:80/x",
        ] {
            let error = text.parse::<NamePattern>().unwrap_err().to_string();
            assert!(error.contains("ports go into `allow`"), "{text}: {error}");
        }
    }
}
