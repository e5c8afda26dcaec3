use culvert_console::fuzzing::Form;

/// Fields that a form may have.
const MAX_FIELDS: usize = 64;

/// Fields of a query that do not go on to the next page.
const OWN: [&str; 2] = ["cursor", "span"];

/// A form has the fields that a decoder written from the specification finds, each once and at most 64; all
/// other bytes are refused. A query that is written into an address is the same when it is read again, and has no
/// byte that could end the address.
///
/// # Panics
/// If a property does not hold.
pub fn form(data: &[u8]) {
    let fields = fields(data);
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let is_good = fields.len() <= MAX_FIELDS && names.len() == fields.len();
    let Some(form) = Form::read(data) else {
        assert!(!is_good, "{fields:?}");
        return;
    };
    assert!(is_good, "{fields:?}");
    for (name, value) in &fields {
        assert_eq!(form.raw(name), value);
        for line in form.lines(name) {
            assert!(!line.is_empty() && line.trim() == line && !line.contains('\n'));
            assert!(value.contains(&line));
        }
    }
    let stored: Vec<_> = fields
        .into_iter()
        .filter(|(name, value)| !value.is_empty() && !OWN.contains(&name.as_str()))
        .collect();
    let same = form.same("/logs");
    assert_eq!(query(&same), stored, "{same}");
    let next = form.next("/logs", "a&b=c").expect("there is a cursor");
    let (cursor, rest) = query(&next)
        .split_last()
        .map(|(last, rest)| (last.clone(), rest.to_vec()))
        .expect("a cursor");
    assert_eq!(cursor, ("cursor".to_owned(), "a&b=c".to_owned()));
    assert_eq!(rest, stored, "{next}");
}

/// The fields of an address, which must be one.
fn query(address: &str) -> Vec<(String, String)> {
    let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"/?&=%+-_.*".contains(&byte);
    assert!(address.bytes().all(is_harmless), "{address}");
    let rest = address.strip_prefix("/logs").expect("the path");
    match rest.strip_prefix('?') {
        Some(query) => fields(query.as_bytes()),
        None => {
            assert_eq!(rest, "");
            Vec::new()
        }
    }
}

/// "application/x-www-form-urlencoded parsing" of the URL standard, §5.1; line ends as Unix has them.
fn fields(data: &[u8]) -> Vec<(String, String)> {
    data.split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let end = pair.iter().position(|byte| *byte == b'=');
            let end = end.unwrap_or(pair.len());
            let value = pair.get(end + 1..).unwrap_or_default();
            let value = decode(value).replace("\r\n", "\n");
            (decode(&pair[..end]), value.replace('\r', "\n"))
        })
        .collect()
}

fn decode(text: &[u8]) -> String {
    let digit = |at: usize| {
        char::from(*text.get(at)?)
            .to_digit(16)
            .map(|digit| digit as u8)
    };
    let mut bytes = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match (byte, digit(at), digit(at + 1)) {
            (b'+', ..) => bytes.push(b' '),
            (b'%', Some(high), Some(low)) => {
                bytes.push(high << 4 | low);
                at += 2;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Forms of the console, and what their encoding makes hard.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let many = |count: usize| {
        let fields: Vec<String> = (0..count).map(|at| format!("f{at}={at}")).collect();
        fields.join("&")
    };
    [
        "",
        "name=a+b&form_token=x&version=3",
        "members=one%0D%0Atwo%0D%0A%0D%0A+three+&name=%C3%A4",
        "search=caf%C3%A9&cursor=abc&done=made&span=week",
        "a=1&a=2",
        "a=1&%61=2",
        "=&==&&a",
        "a=%&b=%4&c=%zz&d=%FF%FE&e=%00",
        "a=%0D%0ASet-Cookie:+x&b=%22%3E%3Cscript%3E",
        "done=made&done=made",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([many(MAX_FIELDS), many(MAX_FIELDS + 1)])
    .map(String::into_bytes)
    .collect()
}
