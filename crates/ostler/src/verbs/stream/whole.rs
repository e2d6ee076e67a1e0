//! What a process of a session says, from its first byte to its end, for somebody who only looks on.

use ostler_api::ProcessInfo;

use super::{Format, Input, Link, Outcome, ProcessWatch, Sink, View};
use crate::output::CommandError;
use crate::output::escape::Policy;
use crate::verbs::Context;

/// Shows all of it, and how it ended or that the person left.
pub(crate) fn watch_whole(context: &Context, session: &str, process: &ProcessInfo) -> Result<Outcome, CommandError> {
    let (reached, _) = context.find_session(session)?;
    let view = View { from: Some(1), ..View::default() };
    let format = if context.json() { Format::Nothing } else { Format::Safe(Policy::Show) };
    let sink = Sink::new(format, false);
    ProcessWatch::new(Link::new(context, reached), process, view, sink, Input::none())?.run()
}
