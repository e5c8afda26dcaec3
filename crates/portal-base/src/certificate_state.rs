//! The portal's certificate, as far as people have to look after it.

use culvert_wire::Timestamp;

/// The certificate that machines and browsers are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateState {
    /// The time at which it ends; none if it can't be read.
    pub ends: Option<Timestamp>,
    /// The reason for which the files were refused when they were last read: the one before is shown still.
    pub refused: Option<String>,
    /// The reason for which the file of the next certificate was refused when it was last read: machines are told of the
    /// one before still.
    pub next_refused: Option<String>,
}
