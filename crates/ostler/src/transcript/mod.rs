//! A session as a person reads it: live on a terminal, or as a document.
//!
//! Both are pure: pieces of its story go in, text comes out. Whatever an agent, a tool or a client said passes through
//! [`visible_lines`](crate::output::visible_lines) or [`visible`](crate::output::visible) on its way, so that nothing of it
//! moves a cursor, rings, or hides.

mod live;
mod login;
mod markdown;
mod reader;
mod usage;

pub(crate) use live::{Live, paint_of};
pub(crate) use markdown::Markdown;
pub(crate) use reader::Reader;
pub(crate) use usage::{dollars, limit_words, spent_words};
