//! The fields of a policy's conditions: days of the week as boxes, a zone, countries by name, an end by words or by a
//! calendar.

use super::fields::Fields;
use super::view::{CheckBox, Field};
use culvert_portal_base::{Fault, Problems, parse_ahead_at};
use culvert_wire::model::{Condition, Weekday};
use culvert_wire::words::{
    self, CONDITION_FIELDS, ConditionField, ConditionTexts, Input, parse_window,
};

const DAYS: &str = "days";
const FROM: &str = "from";
const UNTIL: &str = "until";
const ZONE: &str = "zone";
const PICKED: &str = "picked";

/// The zone of an empty field. The script of the page fills in the browser's.
const USUAL_ZONE: &str = "UTC";

/// The keys of the days' boxes are those of the notation.
const DAY_NAMES: [(Weekday, &str); 7] = [
    (Weekday::Monday, "Monday"),
    (Weekday::Tuesday, "Tuesday"),
    (Weekday::Wednesday, "Wednesday"),
    (Weekday::Thursday, "Thursday"),
    (Weekday::Friday, "Friday"),
    (Weekday::Saturday, "Saturday"),
    (Weekday::Sunday, "Sunday"),
];

/// The window that the boxes and the lines beside them hold.
#[derive(Default)]
struct Window {
    days: Vec<&'static str>,
    from: String,
    until: String,
    zone: String,
}

impl Window {
    fn sent(fields: &Fields) -> Self {
        let is_checked = |day: &str| fields.checked(DAYS).any(|key| key == day);
        Self {
            days: DAY_NAMES
                .iter()
                .map(|(day, _)| day.as_str())
                .filter(|day| is_checked(day))
                .collect(),
            from: fields.text(FROM).to_owned(),
            until: fields.text(UNTIL).to_owned(),
            zone: fields.text(ZONE).to_owned(),
        }
    }

    /// The window of a text in the notation.
    fn read(text: &str) -> Option<Self> {
        let read = parse_window(text).ok()?;
        Some(Self {
            days: read.window.days.iter().map(|day| day.as_str()).collect(),
            from: read.window.from,
            until: read.window.until,
            zone: read.zone,
        })
    }

    /// The text of the window in the notation; none if nothing is filled in. Without times it is the whole day.
    fn text(&self, zone: &str, problems: &mut Problems) -> Result<Option<String>, Fault> {
        if self.days.is_empty() {
            let is_empty = self.from.is_empty() && self.until.is_empty();
            let which = Fault::invalid(DAYS, "choose the days on which the times hold");
            return match is_empty {
                true => Ok(None),
                false => problems.take::<()>(Err(which)).map(|_| None),
            };
        }
        let from = problems.take(time(FROM, &self.from, "00:00"))?;
        let until = problems.take(time(UNTIL, &self.until, "24:00"))?;
        let (Some(from), Some(until)) = (from, until) else {
            return Ok(None);
        };
        if from == until {
            let same = Fault::invalid(UNTIL, "it ends at the minute at which it begins");
            return problems.take::<()>(Err(same)).map(|_| None);
        }
        Ok(Some(format!(
            "{} {from}-{until} {zone}",
            self.days.join(",")
        )))
    }
}

/// A time of day of a field; another if it is empty.
fn time(field: &str, text: &str, empty: &str) -> Result<String, Fault> {
    if text.is_empty() {
        return Ok(empty.to_owned());
    }
    // Read as a part of a window, as the notation has it.
    let is_time = |time: &str| {
        let (hours, minutes) = time.split_once(':')?;
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| text.parse::<u16>().ok().filter(|_| is_plain(text));
        let (h, m) = (number(hours)?, number(minutes)?);
        let is_whole = h < 24 && m < 60 || (h, m) == (24, 0);
        (is_whole && minutes.len() == 2).then(|| format!("{h:02}:{m:02}"))
    };
    let wrong = || {
        Fault::invalid(
            field,
            "write a time of day from 00:00 to 24:00, such as 8:30",
        )
    };
    is_time(text).ok_or_else(wrong)
}

/// The fields of all conditions, as a form sent them.
pub(super) fn as_sent(fields: &Fields) -> Vec<Field> {
    let text = |field: &ConditionField| fields.text(field.name).to_owned();
    of(&text, &Window::sent(fields), fields.text(PICKED))
}

/// The fields of all conditions with those of a policy; none where no fields can say them.
pub(super) fn as_they_are(conditions: &[Condition]) -> Option<Vec<Field>> {
    let texts = ConditionTexts::of(conditions)?;
    let windows = CONDITION_FIELDS
        .iter()
        .find(|field| field.input == Input::Windows)
        .map(|field| texts.of_field(field));
    let windows = windows.unwrap_or_default();
    let first = windows.first().and_then(|text| Window::read(text));
    let has_first = usize::from(first.is_some());
    let window = first.unwrap_or_default();
    let text = |field: &ConditionField| match field.input {
        Input::Windows => field.input.join(&windows[has_first..]),
        _ => field.input.join(texts.of_field(field)),
    };
    Some(of(&text, &window, ""))
}

fn of(text: &dyn Fn(&ConditionField) -> String, window: &Window, picked: &str) -> Vec<Field> {
    let mut all = Vec::new();
    for field in CONDITION_FIELDS {
        let (name, label) = (field.name, field.label);
        let line = match field.input {
            Input::Windows => {
                all.extend(window_fields(label, window));
                Field::lines(name, "Further times").hint(
                    "One a line, any is enough: Sat,Sun 10:00-16:00. They are in the same time zone.",
                )
            }
            Input::WordLines => Field::lines(name, label).hint(field.hint),
            Input::Words => Field::line(name, label).optional().hint(field.hint),
            Input::Timestamp => {
                all.push(
                    Field::line(name, label)
                        .optional()
                        .hint(field.hint)
                        .value(text(field)),
                );
                all.push(
                    Field::moment(PICKED, "Or until this moment")
                        .optional()
                        .hint("In the time zone above.")
                        .value(picked),
                );
                continue;
            }
            Input::Countries => Field::suggested(name, label, true)
                .suggesting(words::countries())
                .optional()
                .hint(field.hint),
            Input::Choice { no, yes } => {
                Field::choice(name, label, &[(Input::NO, no), (Input::YES, yes)]).hint(field.hint)
            }
        };
        all.push(line.value(text(field)));
    }
    all
}

fn window_fields(label: &'static str, window: &Window) -> [Field; 4] {
    let boxes = DAY_NAMES.iter().map(|(day, name)| CheckBox {
        key: day.as_str().to_owned(),
        label: (*name).to_owned(),
        is_checked: window.days.contains(&day.as_str()),
    });
    let zone = Field::suggested(ZONE, "Time zone", false)
        .suggesting(words::time_zones())
        .optional();
    [
        Field::boxes(DAYS, label, boxes.collect()).hint("No day: at any time."),
        Field::line(FROM, "From")
            .optional()
            .hint("Such as 8:00. Empty: from midnight.")
            .value(&window.from),
        Field::line(UNTIL, "To")
            .optional()
            .hint("Such as 18:00. Empty: to midnight. Before “From” is the next day.")
            .value(&window.until),
        zone.hint(
            "Of these times and of the end of the policy, such as Europe/Berlin. Empty: UTC.",
        )
        .value(&window.zone),
    ]
}

/// The conditions that the fields ask for. Wrong fields are noted; the conditions of the others are returned, to be judged
/// too.
pub(super) fn asked(fields: &Fields, problems: &mut Problems) -> Result<Vec<Condition>, Fault> {
    let zone = match fields.filled(ZONE) {
        None => Ok(USUAL_ZONE.to_owned()),
        Some(zone) => words::parse_time_zone(zone)
            .map_err(|_| Fault::invalid(ZONE, "choose a time zone such as Europe/Berlin or UTC")),
    };
    let zone = problems
        .take(zone)?
        .unwrap_or_else(|| USUAL_ZONE.to_owned());
    let mut conditions = Vec::new();
    for field in CONDITION_FIELDS {
        let given = match field.input {
            Input::Windows => windows(fields, field, &zone, problems)?,
            Input::Timestamp => {
                let end = problems.take(end(fields, field, &zone))?;
                end.flatten().into_iter().collect()
            }
            input => input.split(fields.text(field.name)),
        };
        let mut texts = ConditionTexts::default();
        texts.set(field, given);
        let read = texts.conditions();
        let read = read.map_err(|error| Fault::invalid(field.name, error));
        conditions.extend(problems.take(read)?.into_iter().flatten());
    }
    Ok(conditions)
}

/// The window of the boxes, and those of the lines: a line without a zone is in that of the form.
fn windows(
    fields: &Fields,
    field: &ConditionField,
    zone: &str,
    problems: &mut Problems,
) -> Result<Vec<String>, Fault> {
    let first = Window::sent(fields).text(zone, problems)?;
    let lines = field.input.split(fields.text(field.name)).into_iter();
    let lines = lines.map(
        |line| match line.ends_with(|last: char| last.is_ascii_digit()) {
            true if parse_window(&line).is_err() => format!("{line} {zone}"),
            _ => line,
        },
    );
    Ok(first.into_iter().chain(lines).collect())
}

/// The end of the policy, by words or by the calendar.
fn end(fields: &Fields, field: &ConditionField, zone: &str) -> Result<Option<String>, Fault> {
    let (name, text) = match (fields.filled(field.name), fields.filled(PICKED)) {
        (None, None) => return Ok(None),
        (Some(text), None) => (field.name, text),
        (None, Some(text)) => (PICKED, text),
        (Some(_), Some(_)) => {
            let detail = "fill in one of the two: the words or the moment below";
            return Err(Fault::invalid(field.name, detail));
        }
    };
    let at = parse_ahead_at(text, zone).map_err(|detail| Fault::invalid(name, detail))?;
    Ok(Some(at.timestamp().to_string()))
}
