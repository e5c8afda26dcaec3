//! The time that the window's own work takes with 10,000 resources: `cargo run --release --example measure`.

use culvert_desktop_core::exchange::parse_answer;
use culvert_desktop_core::favourites::Favourites;
use culvert_desktop_core::resources::{Choice, Rows, difference, rows, search};
use culvert_desktop_core::watch::Mirror;
use std::fmt::Write;
use std::time::{Duration, Instant};

const RESOURCES: usize = 10_000;
const ROUNDS: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut answer = String::from(r#"{"status":{"schema_version":1,"resources":["#);
    for number in 0..RESOURCES {
        let comma = if number == 0 { "" } else { "," };
        write!(
            answer,
            r#"{comma}{{"id":"res_{number:026}","name":"Service {number} of the department","target":"host-{number}.corp.example","site":"site_1","state":"idle","why":null,"gateway":null,"allow":["tcp:443"]}}"#
        )?;
    }
    answer.push_str("]}}");
    let status = parse_answer(answer.as_bytes()).map_err(|error| format!("{error:?}"))?;
    let favourites = Favourites::default();
    let all = rows(&status, &[], &favourites);
    let other = all.iter().rev().cloned().collect::<Vec<_>>();
    let told = [
        ("follow a change of 20", follow(&answer)?),
        (
            "read the answer",
            time(|| parse_answer(answer.as_bytes()).is_ok()),
        ),
        (
            "make the rows",
            time(|| rows(&status, &[], &favourites).len()),
        ),
        (
            "search, all found",
            time(|| search(&all, "department corp", Choice::All).len()),
        ),
        (
            "search, one found",
            time(|| search(&all, "9999", Choice::All).len()),
        ),
        ("compare equal lists", time(|| difference(&all, &all).len())),
        (
            "compare other lists",
            time(|| difference(&all, &other).len()),
        ),
    ];
    let mut text = format!(
        "{RESOURCES} resources, an answer of {} bytes\n",
        answer.len()
    );
    for (name, took) in told {
        writeln!(text, "{name:<20} {:>8.2} ms", took.as_secs_f64() * 1_000.0)?;
    }
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

/// The mean time of [`ROUNDS`] rounds.
fn time<T>(work: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        std::hint::black_box(work());
    }
    start.elapsed() / ROUNDS
}

/// The mean time from a line of `watch` with 20 changed resources to the steps that the list takes.
fn follow(answer: &str) -> Result<Duration, Box<dyn std::error::Error>> {
    let (mut mirror, mut shown) = (Mirror::default(), Rows::default());
    let favourites = Favourites::default();
    let whole = answer.replacen('{', r#"{"schema_version":1,"sequence":1,"#, 1);
    let first = mirror.apply(whole.as_bytes(), 0);
    shown.update(
        &*first.map_err(|error| format!("{error:?}"))?,
        &[],
        &favourites,
        0,
    );
    let mut before = search(shown.all(), "", Choice::All);
    let mut took = Duration::ZERO;
    for round in 0..ROUNDS {
        let changed: Vec<String> = (0..20_usize)
            .map(|number| {
                let number = number * 499 + usize::try_from(round).unwrap_or(0);
                format!(r#"{{"id":"res_{number:026}","name":"Service {number} of the department","state":"granted"}}"#)
            })
            .collect();
        let line = format!(
            r#"{{"schema_version":1,"sequence":2,"changes":{{"resources":[{}]}}}}"#,
            changed.join(",")
        );
        let start = Instant::now();
        let status = mirror.apply(line.as_bytes(), 0);
        shown.update(
            &*status.map_err(|error| format!("{error:?}"))?,
            &[],
            &favourites,
            0,
        );
        let now = search(shown.all(), "", Choice::All);
        std::hint::black_box(difference(&before, &now));
        took += start.elapsed();
        before = now;
    }
    Ok(took / ROUNDS)
}
