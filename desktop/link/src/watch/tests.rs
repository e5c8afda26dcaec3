use super::*;
use crate::connection::tests::TestDirectory;
use culvert_desktop_core::phase::Phase;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

/// A limit for everything that is waited for. Conditions end a wait, not this.
const LIMIT: Duration = Duration::from_secs(60);

/// A service in the hands of the test, and a link that follows it.
struct Case {
    directory: TestDirectory,
    listener: Option<UnixListener>,
    mailbox: Arc<Mailbox>,
    link: Option<Link>,
}

impl Case {
    fn new() -> Self {
        let directory = TestDirectory::new();
        let socket = directory.0.join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let mailbox = Arc::new(Mailbox::new(|| {}));
        let service = Service { socket, user: None };
        let link = Link::start(service, Arc::clone(&mailbox)).unwrap();
        Self {
            directory,
            listener: Some(listener),
            mailbox,
            link: Some(link),
        }
    }

    /// The next connection, and its request.
    fn accept(&self) -> (UnixStream, String) {
        let (stream, _) = self.listener.as_ref().unwrap().accept().unwrap();
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        (stream, request)
    }

    /// The next connection with this request; others are answered by `answer`.
    fn accept_until(&self, wanted: &str, answer: &str) -> UnixStream {
        loop {
            let (mut stream, request) = self.accept();
            if request.contains(wanted) {
                return stream;
            }
            say(&mut stream, answer);
        }
    }

    /// Waits for a state of the contact that satisfies `is_it`, and returns all that came until then.
    fn wait(&self, is_it: impl Fn(&Contact) -> bool) -> Vec<Contact> {
        let deadline = Instant::now() + LIMIT;
        let mut came = Vec::new();
        while !came.last().is_some_and(&is_it) {
            assert!(Instant::now() < deadline, "{came:?}");
            came.extend(self.mailbox.take().0.map(|(contact, _)| contact));
            thread::sleep(Duration::from_millis(2));
        }
        came
    }

    fn wait_for_name(&self, name: &str) -> Vec<Contact> {
        self.wait(|contact| matches!(contact, Contact::Status(status) if status.name == name))
    }
}

fn say(stream: &mut UnixStream, line: &str) {
    // The other end may be gone.
    let _closed = stream.write_all(format!("{line}\n").as_bytes());
}

fn whole(sequence: u64, name: &str) -> String {
    format!(
        r#"{{"schema_version":1,"sequence":{sequence},"status":{{"schema_version":1,"name":"{name}"}}}}"#
    )
}

fn named(sequence: u64, name: &str) -> String {
    format!(r#"{{"schema_version":1,"sequence":{sequence},"changes":{{"name":"{name}"}}}}"#)
}

const WATCH: &str = "{\"schema_version\":1,\"request\":{\"watch\":{}}}\n";

#[test]
fn changes_are_followed_and_resumed() {
    let case = Case::new();
    let (mut stream, request) = case.accept();
    assert_eq!(request, WATCH);
    say(&mut stream, &whole(7, "a"));
    case.wait_for_name("a");
    say(&mut stream, &named(8, "b"));
    case.wait_for_name("b");
    drop(stream);
    let (mut stream, request) = case.accept();
    assert!(request.contains(r#"{"watch":{"after":8}}"#), "{request}");
    say(&mut stream, &named(9, "c"));
    // A connection that is resumed is no news.
    assert_eq!(case.wait_for_name("c").len(), 1);
}

#[test]
fn a_service_that_ends_is_away_at_once_and_found_again() {
    let mut case = Case::new();
    let (mut stream, _) = case.accept();
    say(&mut stream, &whole(7, "a"));
    case.wait_for_name("a");
    case.listener = None;
    say(&mut stream, r#"{"error":"it is ending","code":"ending"}"#);
    case.wait(|contact| *contact == Contact::Away);
    drop(stream);
    let path = case.directory.0.join("s");
    std::fs::remove_file(&path).unwrap();
    case.listener = Some(UnixListener::bind(&path).unwrap());
    let (mut stream, _) = case.accept();
    say(&mut stream, &whole(9, "again"));
    case.wait_for_name("again");
    // Killed without a word.
    case.listener = None;
    drop(stream);
    case.wait(|contact| *contact == Contact::Away);
}

#[test]
fn a_service_that_does_not_know_watching_is_polled() {
    for refusal in [
        // Older than codes.
        r#"{"error":"unknown variant `watch`"}"#,
        r#"{"error":"write a line such as …","code":"not_a_request"}"#,
    ] {
        let case = Case::new();
        let (mut stream, _) = case.accept();
        say(&mut stream, refusal);
        for name in ["a", "b"] {
            let (mut stream, request) = case.accept();
            assert!(request.contains("\"status\""), "{request}");
            say(
                &mut stream,
                &format!(r#"{{"status":{{"schema_version":1,"name":"{name}"}}}}"#),
            );
            assert_eq!(case.wait_for_name(name).len(), 1);
        }
    }
}

#[test]
fn too_many_watchers_are_no_fault() {
    let case = Case::new();
    let (mut stream, _) = case.accept();
    say(
        &mut stream,
        r#"{"error":"4 programs of this user watch already","code":"too_many_watchers"}"#,
    );
    let (mut stream, _) = case.accept();
    say(&mut stream, r#"{"status":{"schema_version":1,"name":"a"}}"#);
    assert_eq!(case.wait_for_name("a").len(), 1);
}

#[test]
fn a_service_of_another_form_says_which() {
    for code in ["", r#","code":"schema_version""#] {
        let case = Case::new();
        let (mut stream, _) = case.accept();
        let refusal = format!(r#"{{"error":"schema_version 1 is not spoken here, but 3"{code}}}"#);
        say(&mut stream, &refusal);
        let came = case.wait(|contact| *contact == Contact::OtherVersion(3));
        assert_eq!(came.len(), 1);
        assert!(!Phase::of(&came[0]).shows_resources());
        let mut stream = case.accept_until("watch", &refusal);
        say(&mut stream, &whole(1, "updated"));
        case.wait_for_name("updated");
    }
}

#[test]
fn a_line_that_cannot_be_read_leaves_no_state() {
    let case = Case::new();
    let (mut stream, _) = case.accept();
    say(&mut stream, &whole(7, "a"));
    case.wait_for_name("a");
    say(&mut stream, "SSH-2.0-OpenSSH");
    case.wait(|contact| matches!(contact, Contact::Broken(_)));
    // It begins anew.
    assert_eq!(case.accept().1, WATCH);
}

#[test]
fn a_command_passes_while_the_service_is_watched() {
    let case = Case::new();
    let (mut watched, _) = case.accept();
    say(&mut watched, &whole(7, "a"));
    assert!(case.link.as_ref().unwrap().send(Request::Up));
    let (mut stream, request) = case.accept();
    assert!(request.contains("\"up\""), "{request}");
    say(
        &mut stream,
        r#"{"error":"ada is no member","code":"not_permitted"}"#,
    );
    assert!(case.link.as_ref().unwrap().send(Request::Log));
    let (mut stream, _) = case.accept();
    say(&mut stream, r#"{"log":["one","two"]}"#);
    let deadline = Instant::now() + LIMIT;
    let mut events = Vec::new();
    while events.len() < 2 {
        assert!(Instant::now() < deadline, "{events:?}");
        events.extend(case.mailbox.take().1);
        thread::sleep(Duration::from_millis(2));
    }
    let log = vec!["one".to_owned(), "two".to_owned()];
    assert_eq!(
        events,
        [
            Event::CommandRefused("ada is no member".to_owned()),
            Event::Log(Ok(log))
        ]
    );
}

#[test]
fn the_threads_end_with_the_link() {
    let mut case = Case::new();
    let (mut stream, _) = case.accept();
    say(&mut stream, &whole(7, "a"));
    case.wait_for_name("a");
    case.link = None;
    let deadline = Instant::now() + LIMIT;
    while Arc::strong_count(&case.mailbox) > 1 {
        assert!(Instant::now() < deadline, "a thread goes on");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_service_that_is_asked_again_answers_in_a_new_round() {
    let case = Case::new();
    let (mut stream, _) = case.accept();
    say(&mut stream, &whole(17, "laptop"));
    let round = |wanted: u64| {
        let deadline = Instant::now() + LIMIT;
        loop {
            assert!(Instant::now() < deadline, "no state of round {wanted}");
            match case.mailbox.take().0 {
                Some((contact, round)) if round == wanted => return contact,
                // The end of the connection is no news of the service.
                Some((contact, _)) => assert!(matches!(contact, Contact::Status(_)), "{contact:?}"),
                None => thread::sleep(Duration::from_millis(2)),
            }
        }
    };
    assert!(matches!(round(0), Contact::Status(_)));
    // Also several times within a moment, and although nothing has changed meanwhile.
    for wanted in 1..4 {
        assert_eq!(case.link.as_ref().unwrap().ask_again(), wanted);
        let (mut stream, request) = case.accept();
        assert!(request.contains(r#""after":17"#), "{request}");
        say(
            &mut stream,
            r#"{"schema_version":1,"sequence":17,"changes":{}}"#,
        );
        match round(wanted) {
            Contact::Status(status) => assert_eq!(status.name, "laptop"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_service_that_is_away_is_asked_again_at_once() {
    let mut case = Case::new();
    case.listener = None;
    std::fs::remove_file(case.directory.0.join("s")).unwrap();
    case.wait(|contact| *contact == Contact::Away);
    let wanted = case.link.as_ref().unwrap().ask_again();
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < deadline, "it was not asked again");
        match case.mailbox.take().0 {
            Some((contact, round)) if round == wanted => {
                assert_eq!(contact, Contact::Away);
                return;
            }
            _ => thread::sleep(Duration::from_millis(2)),
        }
    }
}
