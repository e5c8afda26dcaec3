//! The ways to wait.

mod epoll;
mod io_uring;
mod poll;
mod select;
mod superframes;
mod threads;

use std::convert::Infallible;
use std::sync::Arc;

use crate::ends::Ends;
use crate::error::Error;
use crate::model::Model;

/// Carries packets both ways, until that fails.
///
/// # Errors
/// The kernel's, such as that the interface was deleted.
pub fn run(ends: &Arc<Ends>, model: Model) -> Result<Infallible, Error> {
    match model {
        Model::Select => select::run(ends),
        Model::Poll => poll::run(ends),
        Model::Epoll => epoll::run(ends),
        Model::Threads => threads::run(ends),
        Model::IoUring => io_uring::run(ends),
        Model::Superframes => superframes::run(ends),
    }
}
