//! How the command line speaks: errors with a next step, tables, colour, JSON, and bytes that are safe to show.

mod called;
mod counted;
mod cursor;
mod difference;
mod error;
pub(crate) mod escape;
mod nearest;
mod screen;
mod table;
mod visible;
mod when;

pub(crate) use called::Called;
pub(crate) use counted::{counted, entries};
pub(crate) use cursor::has_cursor;
pub(crate) use difference::difference_paint;
pub(crate) use error::{CommandError, DiskTrouble, Kind};
pub(crate) use nearest::nearest;
pub(crate) use screen::{Paint, Screen};
pub(crate) use table::{Align, Table, length, terminal_width};
pub(crate) use visible::{spelled, visible, visible_bytes, visible_json, visible_lines};
pub(crate) use when::{ago, minute};

pub(crate) use ostler_engine::{by_name, user_name as user};
