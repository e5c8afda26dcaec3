//! `culvert wg show`: asks running interfaces over their configuration sockets.

use super::arguments::ShowArguments;
use super::status::{SCHEMA_VERSION, Status};
use super::{socket, table};
use crate::exit::{self, Failure};
use crate::json;
use culvert_uapi::InterfaceName;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

/// The default time over which throughput is measured: long enough for several turns of every timer
/// of TCP, short enough not to be waited for.
const SAMPLE: Duration = Duration::from_millis(500);

/// For how long an interface may take to answer. It does so within milliseconds unless it is
/// stuck; its own deadline for a client is longer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Most bytes of an answer: 65,536 peers (as many as an interface holds) of 500 bytes, and as much
/// again for long lists of ranges.
const MAX_ANSWER: u64 = 64 << 20;

/// Moves to the top left corner and clears the screen (ECMA-48 CUP and ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Carries out `culvert wg show`.
pub(crate) fn show(arguments: &ShowArguments) -> Result<ExitCode, Failure> {
    let interval = arguments
        .watch
        .map(|seconds| Duration::from_secs(u64::from(seconds)));
    if arguments.json {
        return show_json(arguments.name.as_ref(), interval);
    }
    let name = arguments.name.as_ref();
    let mut earlier = ask(name)?;
    loop {
        thread::sleep(interval.unwrap_or(SAMPLE));
        let statuses = ask(name)?;
        let mut text = String::new();
        if interval.is_some() && io::stdout().is_terminal() {
            text.push_str(CLEAR);
        }
        for status in &statuses {
            let same = |other: &&Answer| other.status.interface == status.status.interface;
            let before = earlier.iter().find(same).map(|answer| &answer.status);
            text.push_str(&table::render(&status.status, before, SystemTime::now()));
        }
        exit::print(text.as_bytes())?;
        if interval.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
        earlier = statuses;
    }
}

/// One line: the object of the interface, or all of them in `interfaces`.
fn show_json(
    name: Option<&InterfaceName>,
    interval: Option<Duration>,
) -> Result<ExitCode, Failure> {
    loop {
        let answers = ask(name)?;
        let objects: Vec<&str> = answers.iter().map(|answer| answer.json.as_str()).collect();
        let objects = objects.join(",");
        let line = match name {
            Some(_) => format!("{objects}\n"),
            None => format!("{}\"interfaces\":[{objects}]}}\n", json::start()),
        };
        exit::print(line.as_bytes())?;
        match interval {
            None => return Ok(ExitCode::SUCCESS),
            Some(interval) => thread::sleep(interval),
        }
    }
}

/// The answer of an interface about itself.
struct Answer {
    json: String,
    status: Status,
}

/// The answer of `name`; without a name, of every Culvert interface that answers.
fn ask(name: Option<&InterfaceName>) -> Result<Vec<Answer>, Failure> {
    let directory = Path::new(socket::DIRECTORY);
    if let Some(name) = name {
        let answer = ask_one(directory, name);
        return Ok(vec![answer.map_err(|error| error.failure(name))?]);
    }
    let names =
        socket::interfaces(directory).map_err(|error| Failure::io(directory.display(), &error))?;
    let mut answers = Vec::new();
    for name in names {
        match ask_one(directory, &name) {
            Ok(answer) => answers.push(answer),
            // Dead sockets, and interfaces of other programs.
            Err(Unanswered::NoInterface | Unanswered::NotCulvert) => {}
            Err(error) => return Err(error.failure(&name)),
        }
    }
    Ok(answers)
}

fn ask_one(directory: &Path, name: &InterfaceName) -> Result<Answer, Unanswered> {
    let mut stream = UnixStream::connect(socket::path_of(directory, name)).map_err(|error| {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Unanswered::NoInterface,
            _ => Unanswered::Io(error),
        }
    })?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    stream.write_all(b"culvert_status=1\n\n")?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut text = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut text)?;
    // Other programs answer an error number, or nothing.
    let json = text
        .strip_suffix("\nerrno=0\n\n")
        .ok_or(Unanswered::NotCulvert)?;
    let status: Status = serde_json::from_str(json).map_err(|_| Unanswered::OtherVersion)?;
    if status.schema_version != SCHEMA_VERSION {
        return Err(Unanswered::OtherVersion);
    }
    Ok(Answer {
        json: json.to_owned(),
        status,
    })
}

/// The reason why an interface has no status to show.
#[derive(Debug)]
enum Unanswered {
    NoInterface,
    NotCulvert,
    OtherVersion,
    Io(io::Error),
}

impl From<io::Error> for Unanswered {
    fn from(error: io::Error) -> Self {
        // A program that does not know the request may also just hang up.
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::NotCulvert,
            _ => Self::Io(error),
        }
    }
}

impl Unanswered {
    fn failure(self, name: &InterfaceName) -> Failure {
        use crate::exit::Status::Failed;
        match self {
            Self::NoInterface => Failure::new(
                Failed,
                format_args!(
                    "{name}: no process serves this interface; start one: culvert wg {name}"
                ),
            ),
            Self::NotCulvert => Failure::new(
                Failed,
                format_args!("{name}: another program serves this interface; try: wg show {name}"),
            ),
            Self::OtherVersion => Failure::new(
                Failed,
                format_args!("{name}: served by another version of culvert; try: wg show {name}"),
            ),
            Self::Io(error) => Failure::io(format_args!("{name}: asking for its status"), &error),
        }
    }
}
