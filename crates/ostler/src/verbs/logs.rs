//! `ostler logs`: what a process wrote, from any point of its journal; or what the daemon wrote.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ostler_api::Timestamp;

use super::Context;
use super::since::parse_since;
use super::stream::{Format, Input, Link, Outcome, ProcessWatch, Sink, View};
use super::wait::exit_words;
use crate::output::escape::Policy;
use crate::output::{Called, CommandError, Kind, visible_lines};

/// How often a followed log file is looked at.
const POLL: Duration = Duration::from_millis(200);
/// The log is read in lines, and a longer one in pieces.
const LINE_MAX: u64 = 64 * 1024;

/// Show the output of a process
#[derive(Debug, Args)]
#[command(after_help = "\
Its stdout goes to stdout and its stderr to stderr, unchanged; on a terminal, control sequences other than colours are \
escaped. --from continues exactly where you left.

Examples:
  ostler logs build
  ostler logs build -f --tail 20      the last 20 lines, then new output
  ostler logs build --since 10m
  ostler logs build -f --from 120
  ostler logs claude --screen
  ostler logs build --time 2>&1 | grep warning
  ostler logs --daemon -f")]
#[command(override_usage = "ostler logs [OPTIONS] <ID|--daemon>")]
pub(crate) struct Logs {
    /// Id or name
    #[arg(required_unless_present = "daemon")]
    id: Option<String>,

    /// Follow new output; Ctrl-C leaves
    #[arg(short, long)]
    follow: bool,

    /// Start at this number
    #[arg(long, value_name = "SEQ", conflicts_with = "daemon")]
    from: Option<u64>,

    /// Start with the last N lines; 0 with -f: only new output
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "from")]
    tail: Option<u64>,

    /// Only output since then: 10m, 2h, 14:30 or 2026-01-31T14:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_since, conflicts_with_all = ["from", "daemon"])]
    since: Option<Timestamp>,

    /// Show the last screen of a terminal program as text
    #[arg(long, conflicts_with_all = ["daemon", "follow", "from", "tail", "since", "time"])]
    screen: bool,

    /// Show the time of each line
    #[arg(long, conflicts_with = "daemon")]
    time: bool,

    /// Show ostler's own log
    #[arg(long, conflicts_with = "id")]
    daemon: bool,
}

impl Logs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let Some(id) = &self.id else { return self.daemon_log(context) };
        let (reached, process) = context.find_process(id)?;
        if self.screen {
            return super::screen::show(context, reached, &process);
        }
        let view =
            View { from: self.from, lines: self.tail, since: self.since, until_now: !self.follow, ..View::default() };
        let format = match (context.json(), process.tty) {
            (true, _) => Format::Json,
            (_, true) => Format::Safe(Policy::Drop),
            (_, false) => Format::Safe(Policy::Show),
        };
        let sink = Sink::new(format, self.time);
        let name = process.called();
        match ProcessWatch::new(Link::new(context, reached), &process, view, sink, Input::none())?.run()? {
            Outcome::Exited(exit) => {
                // Who follows waits for something to happen, and this is it.
                if self.follow && !context.json() {
                    context.screen.note(&format!("ostler: {name} {}", exit_words(&exit)));
                }
                Ok(ExitCode::SUCCESS)
            }
            Outcome::UpToNow => Ok(ExitCode::SUCCESS),
            Outcome::Left { next, .. } => {
                context.screen.note(&format!("\nostler: continue with: ostler logs {name} -f --from {next}"));
                Ok(super::attach::code(super::attach::INTERRUPTED))
            }
            Outcome::Ended { signal, .. } => Ok(super::attach::code(128 + signal)),
        }
    }

    /// Also of an instance that is not running: that is when its log matters most.
    fn daemon_log(&self, context: &Context) -> Result<ExitCode, CommandError> {
        let path = context.paths.instance_dir(context.instance_name()).join("daemon.log");
        let file = std::fs::File::open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                CommandError::new(Kind::NotFound, format!("{} does not exist", path.display()))
                    .hint("with `ostler up --foreground` the log is on its terminal, or in systemd's journal")
            }
            _ => CommandError::failed(format!("{}: {error}", path.display())),
        })?;
        let (mut log, mut piece) = (BufReader::new(file), Vec::new());
        if let Some(lines) = self.tail {
            let place = last_lines(&mut log, lines)?;
            log.seek(SeekFrom::Start(place))?;
        }
        loop {
            let mut out = std::io::stdout().lock();
            while log.by_ref().take(LINE_MAX).read_until(b'\n', &mut piece)? > 0 {
                out.write_all(visible_lines(&String::from_utf8_lossy(&piece)).as_bytes())?;
                piece.clear();
            }
            out.flush()?;
            if !self.follow {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Where the last so many lines begin; one that has not ended counts too.
fn last_lines(log: &mut impl BufRead, lines: u64) -> std::io::Result<u64> {
    let (mut starts, mut end) = (VecDeque::new(), 0);
    loop {
        let length = log.skip_until(b'\n')?;
        if length == 0 {
            return Ok(starts.front().copied().unwrap_or(end));
        }
        starts.push_back(end);
        end += length as u64;
        if starts.len() as u64 > lines {
            starts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_begin_after_all_others_and_one_that_has_not_ended_is_a_line() {
        let from = |text: &str, lines| last_lines(&mut text.as_bytes(), lines).unwrap();
        assert_eq!([0, 1, 2, 3, 9].map(|lines| from("a\nbb\nccc\n", lines)), [9, 5, 2, 0, 0]);
        assert_eq!([0, 1, 2].map(|lines| from("a\nbb", lines)), [4, 2, 0]);
        assert_eq!(from("", 3), 0);
    }
}
