//! The daemon's log as its readers know it: `YYYY/MM/DD HH:MM:SS LEVEL text` on standard error.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::daemon::LogWriter;

struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => "ERROR",
            Level::WARN => "WARN ",
            Level::INFO => "INFO ",
            Level::DEBUG | Level::TRACE => "DEBUG",
        };
        write!(out, "{} {level} ", jiff::Zoned::now().strftime("%Y/%m/%d %H:%M:%S"))?;
        context.format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}

/// Starts logging; `CLAUSTRUM_LOG_LEVEL` sets the threshold.
pub(crate) fn start() -> LogWriter {
    let level = match std::env::var("CLAUSTRUM_LOG_LEVEL").unwrap_or_default().to_lowercase().as_str() {
        "info" => LevelFilter::INFO,
        "warn" | "warning" => LevelFilter::WARN,
        "error" => LevelFilter::ERROR,
        _ => LevelFilter::DEBUG,
    };
    let writer = LogWriter::to_stderr();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).event_format(Lines).with_writer(writer.clone()).finish();
    // A second call would keep the first logger, which is as good.
    let _ = tracing::subscriber::set_global_default(subscriber);
    writer
}
