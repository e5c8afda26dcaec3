//! The reasons why a message gets no answer.

/// The reason why a message was ignored. Counters are kept for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum DropReason {
    /// Shorter than a header: there is no id to answer to.
    #[error("shorter than a DNS header")]
    TooShort,
    /// A query longer than [`QUERY_LEN_MAX`](crate::QUERY_LEN_MAX).
    #[error("longer than any query")]
    TooLong,
    /// A response where queries come in. Answering could make two resolvers talk for ever.
    #[error("a response where a query was expected")]
    NotAQuery,
    /// A query where an upstream's answers come in.
    #[error("a query where a response was expected")]
    NotAResponse,
    /// No forwarded query has this id: an answer that came late, or a guess.
    #[error("no query waits for an answer of this id")]
    UnknownId,
    /// An answer from another address, or by another transport, than the query went to.
    #[error("not from the upstream that was asked")]
    WrongSource,
    /// An answer to another question.
    #[error("not the question that was asked")]
    WrongQuestion,
    /// An answer to the question, in other letters than it was asked in. The upstream is asked again by TCP.
    #[error("not in the letters that were asked")]
    WrongCase,
    /// An upstream's answer that cannot be read.
    #[error("an upstream's answer that cannot be read")]
    Malformed,
    /// [`OUTPUTS_MAX`](crate::OUTPUTS_MAX) outputs wait: nobody polls.
    #[error("too much waits to be sent")]
    Busy,
}

impl DropReason {
    /// Every reason, for tables of counters.
    pub const ALL: [Self; 10] = [
        Self::TooShort,
        Self::TooLong,
        Self::NotAQuery,
        Self::NotAResponse,
        Self::UnknownId,
        Self::WrongSource,
        Self::WrongQuestion,
        Self::WrongCase,
        Self::Malformed,
        Self::Busy,
    ];

    /// A short name for labels of metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::TooLong => "too_long",
            Self::NotAQuery => "not_a_query",
            Self::NotAResponse => "not_a_response",
            Self::UnknownId => "unknown_id",
            Self::WrongSource => "wrong_source",
            Self::WrongQuestion => "wrong_question",
            Self::WrongCase => "wrong_case",
            Self::Malformed => "malformed",
            Self::Busy => "busy",
        }
    }
}
