//! The module that the program's source files find as `super::words`.

pub(super) use culvert_wire::words::*;
