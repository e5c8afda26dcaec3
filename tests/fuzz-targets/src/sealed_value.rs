use crate::input::Input;
use culvert_secrets::{OpenError, Place, SecretsKey, key_id_of};

const NONCE: [u8; 12] = [7; 12];

/// A value decrypts with the key that encrypted it, at the place where it was written, and in no other way. A key
/// that is read is written as it was.
///
/// The first byte says what the others are: a sealed value; a secret, its place and what is changed in both; or a
/// key's text.
///
/// # Panics
/// If a property does not hold.
pub fn sealed_value(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => any_value(rest),
        1 => changed(&mut Input::new(rest)),
        _ => {
            if let Ok(text) = std::str::from_utf8(rest)
                && let Ok(key) = text.parse::<SecretsKey>()
            {
                assert_eq!(*key.to_text(), text);
            }
        }
    }
}

fn key() -> SecretsKey {
    SecretsKey::from_bytes(&[3; 32])
}

fn any_value(value: &[u8]) {
    let place = Place {
        account: &[1; 16],
        table: "secret",
        column: "value",
        row: b"pairs",
    };
    let Err(error) = key().open(&place, value) else {
        panic!("nobody sealed it");
    };
    match (key_id_of(value), error) {
        (Err(unread), error) => assert_eq!(unread, error),
        (Ok(id), OpenError::Forged) => assert_eq!(id, key().id()),
        (Ok(id), error) => {
            let (found, given) = (id, key().id());
            assert_eq!(error, OpenError::OtherKey { found, given });
            assert_ne!(found, given);
        }
    }
}

fn changed(input: &mut Input<'_>) {
    let len = usize::from(input.u8());
    let plain = input.take(len);
    let mut parts = [(); 4].map(|()| {
        let len = usize::from(input.u8() % 20);
        String::from_utf8_lossy(input.take(len)).into_owned()
    });
    let before = parts.clone();
    let sealed = key().seal(&place(&before), plain, NONCE);
    assert_eq!(key_id_of(&sealed), Ok(key().id()));
    let opened = key().open(&place(&before), &sealed).expect("its own value");
    assert_eq!(opened.as_slice(), plain);
    let mut other = sealed.clone();
    match input.u8() % 3 {
        0 => input.damage(&mut other),
        1 => other.truncate(usize::from(input.u8())),
        // The same letters, divided elsewhere.
        _ => {
            let moved = parts[usize::from(input.u8() % 3)].pop();
            let to = usize::from(input.u8() % 4);
            parts[to].extend(moved);
        }
    }
    let opened = key().open(&place(&parts), &other);
    assert_eq!(
        opened.is_ok(),
        other == sealed && parts == before,
        "{opened:?}"
    );
}

fn place(parts: &[String; 4]) -> Place<'_> {
    let [account, table, column, row] = parts;
    Place {
        account: account.as_bytes(),
        table,
        column,
        row: row.as_bytes(),
    }
}

/// A value of each kind, whole and damaged, and keys.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let place = ["account", "secret", "value", "pairs"].map(ToOwned::to_owned);
    let sealed = key().seal(&self::place(&place), b"a secret", NONCE);
    let mut seeds = Vec::new();
    for len in [0, 4, 5, 13, 25, 41, sealed.len()] {
        seeds.push([&[0], &sealed[..len]].concat());
    }
    for (at, byte) in [(0, b'X'), (4, 0), (4, 2), (5, 0), (13, 0), (40, 0)] {
        let mut other = sealed.clone();
        other[at] = byte;
        seeds.push([&[0], other.as_slice()].concat());
    }
    let mut head = vec![1, 8];
    head.extend(b"a secret");
    for part in &place {
        head.push(part.len() as u8);
        head.extend(part.bytes());
    }
    for end in [
        &[0][..],
        &[0, 1, 0, 4, 2],
        &[0, 1, 0, 6, 9],
        &[0, 1, 0, 45, 9],
        &[1, 48],
        &[2, 0, 1],
        &[2, 1, 2],
        &[2, 2, 3],
    ] {
        seeds.push([&head, end].concat());
    }
    let text = key().to_text();
    for text in [
        text.as_str(),
        &text[..text.len() - 1],
        "culvert-secrets-key-1:",
        "",
    ] {
        seeds.push([&[2], text.as_bytes()].concat());
    }
    seeds
}
