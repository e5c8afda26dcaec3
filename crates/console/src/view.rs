//! The parts of a page. Pages are values; the templates alone write HTML, and escape all of it.

mod cell;
mod form;
mod lines;
mod page;
mod table;

pub(crate) use crate::link::Link;
pub(crate) use cell::{Action, Buttons, Cell};
pub(crate) use form::{CheckBox, Field, Form, Kind, PasskeyKind};
pub(crate) use lines::{Lines, Piece, listed};
pub(crate) use page::{Page, Section, Step, Steps, Who};
pub(crate) use table::{Chip, FilterBar, Ordering, Table};
