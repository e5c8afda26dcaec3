//! The parts of a page. Pages are values; the templates alone write HTML, and escape all of it.

mod cell;
mod device_file;
mod form;
mod lines;
mod moment;
mod page;
mod table;

pub(crate) use crate::link::Link;
pub(crate) use cell::{Action, Buttons, Cell};
pub(crate) use device_file::DeviceFile;
pub(crate) use form::{CheckBox, Field, Form, GatewayRow, Kind, PasskeyKind, PortRow};
pub(crate) use lines::{Lines, Piece, listed};
pub(crate) use moment::Moment;
pub(crate) use page::{Create, Page, Section, Step, Steps, Warning, Way, Who};
pub(crate) use table::{Chip, FilterBar, Ordering, SelectionBar, Table};
