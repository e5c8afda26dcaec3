//! The sentences of Markdown.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::mem;

/// The most words that a sentence may have.
pub(super) const LONGEST: usize = 35;

/// A sentence, or a piece of text that stands alone, such as an item of a list.
#[derive(Debug)]
pub(super) struct Sentence {
    /// From 1.
    pub(super) line: usize,
    /// As they stand there, with their punctuation; a code span is one.
    pub(super) words: Vec<String>,
    pub(super) place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Text,
    /// Below a heading of documentation that says when something happens, such as "Errors".
    Conditions,
    Table,
}

/// Headings below which documentation says when something happens.
const CONDITIONS: [&str; 3] = ["Errors", "Panics", "Safety"];

/// Words with a full stop that end no sentence.
const ABBREVIATIONS: [&str; 7] = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "no.", "approx."];

/// The text of a Markdown document.
#[derive(Debug, Default)]
pub(super) struct Prose {
    pub(super) sentences: Vec<Sentence>,
    /// Lines that look like rows of a table and are in none, because a blank line stands above them.
    pub(super) stray_rows: Vec<usize>,
}

impl Prose {
    /// Reads `text`, whose first line has the number `first_line`. Headings and code have no sentences.
    pub(super) fn of(text: &str, first_line: usize) -> Self {
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        let mut reader = Reader::new(text, first_line);
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            reader.take(event, range.start);
        }
        reader.prose
    }
}

struct Reader<'a> {
    text: &'a str,
    /// The place in `text` up to which lines are counted, and the line there.
    counted: (usize, usize),
    prose: Prose,
    /// The words of the block that is read, each with its line.
    words: Vec<(String, usize)>,
    /// The last word may go on in the next event, as `code` does before a full stop.
    is_word_open: bool,
    block: Block,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Prose,
    /// A heading, or the first row of a table.
    Heading,
    Code,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, first_line: usize) -> Self {
        Self {
            text,
            counted: (0, first_line),
            prose: Prose::default(),
            words: Vec::new(),
            is_word_open: false,
            block: Block::Prose,
            place: Place::Text,
        }
    }

    fn take(&mut self, event: Event<'_>, at: usize) {
        match event {
            Event::Start(tag) => self.start(&tag, at),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.block != Block::Code => self.add(&text, at),
            // One word, whatever is in it.
            Event::Code(code) => {
                let code = code.replace(char::is_whitespace, "\u{a0}");
                self.add(&format!("`{code}`"), at);
            }
            Event::SoftBreak | Event::HardBreak => self.is_word_open = false,
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, at: usize) {
        if matches!(
            tag,
            Tag::Emphasis | Tag::Strong | Tag::Link { .. } | Tag::Image { .. }
        ) {
            return;
        }
        // An item of a list begins within the text of the item above it.
        self.finish();
        match tag {
            Tag::Heading { .. } | Tag::TableHead => self.block = Block::Heading,
            Tag::CodeBlock(_) => self.block = Block::Code,
            Tag::Table(_) => self.place = Place::Table,
            Tag::Paragraph if self.text[at..].starts_with('|') => {
                let line = self.line(at);
                self.prose.stray_rows.push(line);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image => return,
            TagEnd::Heading(_) => {
                let title = self.words.iter().map(|(word, _)| word.as_str());
                let is_condition =
                    CONDITIONS.contains(&title.collect::<Vec<_>>().join(" ").as_str());
                self.place = if is_condition {
                    Place::Conditions
                } else {
                    Place::Text
                };
                self.words.clear();
                self.block = Block::Prose;
            }
            TagEnd::TableHead => {
                self.words.clear();
                self.block = Block::Prose;
            }
            TagEnd::Table => self.place = Place::Text,
            TagEnd::CodeBlock => self.block = Block::Prose,
            _ => {}
        }
        self.finish();
    }

    fn add(&mut self, text: &str, at: usize) {
        let line = self.line(at);
        // Not of code, which has others in place of blanks.
        let is_blank = |c: char| c.is_ascii_whitespace();
        let mut goes_on = self.is_word_open && !text.starts_with(is_blank);
        for word in text.split_ascii_whitespace() {
            match self.words.last_mut() {
                Some((last, _)) if goes_on => last.push_str(word),
                _ => self.words.push((word.to_owned(), line)),
            }
            goes_on = false;
        }
        self.is_word_open = !text.ends_with(is_blank);
    }

    /// Makes sentences of the words of a block.
    fn finish(&mut self) {
        self.is_word_open = false;
        let words = mem::take(&mut self.words);
        if self.block == Block::Heading {
            return;
        }
        let mut sentence = Vec::new();
        let mut line = 0;
        for (word, at) in words {
            if sentence.is_empty() {
                line = at;
            }
            let is_last = ends_sentence(&word);
            sentence.push(word);
            if is_last {
                self.push(line, mem::take(&mut sentence));
            }
        }
        self.push(line, sentence);
    }

    fn push(&mut self, line: usize, words: Vec<String>) {
        if !words.is_empty() {
            self.prose.sentences.push(Sentence {
                line,
                words,
                place: self.place,
            });
        }
    }

    /// The line of a place. Places come in order, or nearly.
    fn line(&mut self, at: usize) -> usize {
        let (counted, line) = self.counted;
        let newlines = |range: &str| range.matches('\n').count();
        let line = match self.text.get(counted..at) {
            Some(more) => line + newlines(more),
            None => line - newlines(&self.text[at..counted]),
        };
        self.counted = (at, line);
        line
    }
}

fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches([')', ']', '"', '”', '’', '\'', '*']);
    let is_initial = bare.chars().count() == 2 && bare.starts_with(char::is_uppercase);
    let is_abbreviation =
        || ABBREVIATIONS.contains(&bare.trim_start_matches('(').to_lowercase().as_str());
    match bare.chars().last() {
        Some('?' | '!') => true,
        Some('.') => !bare.ends_with("..") && !is_initial && !is_abbreviation(),
        _ => false,
    }
}

impl Sentence {
    /// The number of its words; signs alone are none.
    pub(super) fn len(&self) -> usize {
        let is_word = |word: &&String| word.contains(char::is_alphanumeric);
        self.words.iter().filter(is_word).count()
    }

    pub(super) fn is_long(&self) -> bool {
        self.len() > LONGEST
    }

    /// True if it begins with a clause that stands for a noun: "What waits is dropped", "When to pause". A clause that
    /// says when or where something else happens ("When it is full, …") has a comma and goes on.
    pub(super) fn begins_with_noun_clause(&self) -> bool {
        let is_question = self.words.last().is_some_and(|word| {
            let bare = word.trim_end_matches([')', '"', '”', '*']);
            bare.ends_with('?')
        });
        if is_question {
            return false;
        }
        match bare(&self.words[0]).as_str() {
            // A condition begins with "if", and a place is named.
            "what" | "whatever" | "which" | "whichever" | "who" | "whoever" | "whom" | "whose"
            | "how" | "why" | "where" | "wherever" | "whether" => true,
            "when" | "whenever" => {
                self.words.len() > 1 && self.place != Place::Conditions && !self.has_main_clause()
            }
            _ => false,
        }
    }

    /// True if something follows a comma that is not one more clause of the same kind.
    fn has_main_clause(&self) -> bool {
        const NOT_MAIN: [&str; 12] = [
            "and", "or", "nor", "but", "what", "who", "where", "when", "whether", "how", "which",
            "if",
        ];
        let mut pairs = self.words.windows(2);
        pairs.any(|pair| pair[0].ends_with(',') && !NOT_MAIN.contains(&bare(&pair[1]).as_str()))
    }
}

fn bare(word: &str) -> String {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    bare.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Vec<(usize, String)> {
        let found = Prose::of(text, 1).sentences;
        let shown = found.iter().map(|it| (it.line, it.words.join(" ")));
        shown.collect()
    }

    #[test]
    fn paragraphs_items_and_cells_have_sentences_and_headings_and_code_have_none() {
        let text = "# A title. Here\n\nOne two.\nThree `four five`. Six\n\n- seven\n- [eight](x.md): nine\n  - ten\n\n\
            ```\neleven\n```\n\n| head | head |\n|---|---|\n| a b | c. d |\n";
        let expected = [
            (3, "One two."),
            (4, "Three `four\u{a0}five`."),
            (4, "Six"),
            (6, "seven"),
            (7, "eight: nine"),
            (8, "ten"),
            (16, "a b"),
            (16, "c."),
            (16, "d"),
        ];
        assert_eq!(
            sentences(text),
            expected.map(|(line, it)| (line, it.to_owned()))
        );
    }

    #[test]
    fn abbreviations_and_initials_end_no_sentence() {
        let text = "Signs (e.g. A. Donenfeld's) … stay. Is it? *Yes.* (So it is.) End";
        let found: Vec<String> = sentences(text).into_iter().map(|(_, it)| it).collect();
        let expected = [
            "Signs (e.g. A. Donenfeld's) … stay.",
            "Is it?",
            "Yes.",
            "(So it is.)",
            "End",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn signs_are_no_words() {
        let prose = Prose::of("one – two → `three four` & 5", 1);
        assert_eq!(prose.sentences[0].len(), 4);
    }

    #[test]
    fn a_row_without_its_header_is_found() {
        let text = "| a | b |\n|---|---|\n| c | d |\n\n| e | f |\n\ntext | with | bars\n";
        assert_eq!(Prose::of(text, 10).stray_rows, [14]);
    }

    #[test]
    fn a_clause_that_stands_for_a_noun_is_found() {
        let begins = |text: &str| Prose::of(text, 1).sentences[0].begins_with_noun_clause();
        for noun in [
            "What waits in the queue is dropped.",
            "**Who** is signed in.",
            "When to pause, and for how long.",
            "When it was made.",
            "Where files go",
            "Whether two runs say the same.",
            "How long a packet waits.",
            "Where a kernel has none, it is left out.",
            "Which of them.",
            "Whom the system asks for names.",
            "Why.",
        ] {
            assert!(begins(noun), "{noun}");
        }
        for other in [
            "What is a gateway?",
            "When it is full, the oldest entry goes.",
            "However it ends, it ends.",
            "The queue drops what waits.",
            "Where?",
            "# Errors\n\nWhen a file cannot be written.",
        ] {
            assert!(!begins(other), "{other}");
        }
    }
}
