//! `SUDO_PROXY_MCP_VERBOSE`: what the server does, on stderr, because stdout belongs to the protocol.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

/// Starts tracing if it is asked for.
pub(super) fn to_stderr() {
    let asked = std::env::var_os("SUDO_PROXY_MCP_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0");
    if !asked {
        return;
    }
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).event_format(Line);
    // Ours only: the SDK's own events hold whole messages, with what commands wrote.
    let ours = Targets::new().with_target("ostler_door_mcp", Level::DEBUG);
    // It fails only when somebody traces already.
    let _ = tracing_subscriber::registry().with(lines.with_filter(ours)).try_init();
}

/// `[mcp] what happened`
struct Line;

impl<S: Subscriber + for<'a> LookupSpan<'a>, N: for<'a> FormatFields<'a> + 'static> FormatEvent<S, N> for Line {
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "[mcp] ")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
