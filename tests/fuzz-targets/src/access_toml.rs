// The program's own source file, because it is in no library.
#[path = "../../../crates/culvert/src/admin/access_file.rs"]
mod access_file;
#[path = "../../../crates/culvert/src/admin/one_or_more.rs"]
mod one_or_more;
#[path = "../../../crates/culvert/src/admin/policy_entry.rs"]
mod policy_entry;
mod words;

use access_file::AccessFile;
use culvert_wire::api::{Desired, FieldProblem};

/// Longer inputs than a fuzzer makes are not tried: the parser is called several times for each.
const MAX_LEN: usize = 64 * 1024;

/// A text is a configuration that survives its encoding for the portal, or an error of one line that names a line
/// of the text. An unknown key is always an error.
///
/// # Panics
/// If a property does not hold.
pub fn access_toml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if text.len() > MAX_LEN {
        return;
    }
    let line_count = 1 + text.matches('\n').count();
    let file = match AccessFile::parse(text) {
        Ok(file) => file,
        Err(error) => {
            assert!(
                error
                    .line
                    .is_none_or(|line| (1..=line_count).contains(&line))
            );
            assert!(!error.message.contains('\n'), "{:?}", error.message);
            return;
        }
    };
    let json = serde_json::to_string(&file.desired).expect("names and numbers");
    let read: Desired = serde_json::from_str(&json).expect("what was written");
    assert_eq!(read, file.desired, "{json}");
    let surprising = format!("surprise = 1\n{text}");
    assert!(AccessFile::parse(&surprising).is_err(), "{surprising}");
    let commented = format!("{text}\n# nothing");
    let again = AccessFile::parse(&commented).expect("a comment changes nothing");
    assert_eq!(again.desired, file.desired);
    assert_are_located(&file, line_count);
}

/// A problem that the portal reports for an entry gets the line of that entry, and lines are in order.
fn assert_are_located(file: &AccessFile, line_count: usize) {
    let desired = &file.desired;
    let lists = [
        ("sites", desired.sites.len()),
        ("actors", desired.actors.len()),
        ("groups", desired.groups.len()),
        ("resources", desired.resources.len()),
        ("policies", desired.policies.len()),
    ];
    for (list, len) in lists {
        let mut before = 0;
        for index in 0..=len {
            let problem = FieldProblem {
                field: format!("{list}[{index}].name"),
                detail: "it is wrong".to_owned(),
            };
            let line = file.locate(&problem).line;
            assert_eq!(line.is_some(), index < len, "{}", problem.field);
            let line = line.unwrap_or(line_count);
            assert!((before..=line_count).contains(&line), "{}", problem.field);
            before = line;
        }
    }
}

/// Files and parts of files, good and bad.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let dns = "[dns]\nsearch = 'corp.example'\n\n[[dns.domain]]\nname = '.'\nservers = ['10.0.0.53', 'fd00::53']\n";
    let things = "[[site]]\nname = \"office\"\n\n[[actor]]\nname = 'ann'\nkind = 'user'\ndisabled = true\n\n\
                  [[group]]\nname = 'staff'\nmembers = ['ann']\n";
    let resource = "[[resource]]\nname = 'web'\nsite = 'office'\naddress = '10.0.0.0/8'\n";
    let policy = "[[policy]]\ngroup = 'staff'\nresource = 'web'\n";
    let files = [
        String::new(),
        dns.to_owned(),
        things.to_owned(),
        format!("{resource}allow = ['tcp:80,443', 'udp:1-1024', 'icmp']\n"),
        format!(
            "{resource}kind = 'cidr'\nfilters = [{{protocol = 'tcp', ports = [80, '443-444']}}]\n"
        ),
        format!("{resource}allow = []\napplications = {{only = ['backup']}}\n"),
        format!("{resource}allow = 'any'\nfilters = []\n"),
        policy.to_owned(),
        format!(
            "{policy}expires = 2027-01-31T18:00:00Z\ncountry = ['de', 'fr']\nverified = true\n"
        ),
        format!(
            "{policy}time = 'mon-fri 08:00-18:00 Europe/Berlin'\nfrom_address = '203.0.113.0/24'\n"
        ),
        format!("{policy}conditions = [{{kind = 'expires', at = '2027-01-31T18:00:00Z'}}]\n"),
        format!("# all\n{dns}{things}{resource}allow = 'any'\n{policy}disabled = true\n"),
        "[[sites]]\nname = '''\na\nb'''\n".to_owned(),
        "site = [{name = 'a'}, {name = \"\\u001b\"}]\n".to_owned(),
        "[[site]]\nname = \n".to_owned(),
        "[[site]]\n\"na\\nme\" = 1\n".to_owned(),
        "a.b.c.d = 1\n".to_owned(),
        format!("a = {}1{}", "[".repeat(200), "]".repeat(200)),
    ];
    files.into_iter().map(String::into_bytes).collect()
}
