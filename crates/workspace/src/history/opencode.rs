//! opencode's conversations are rows of its database, which is read and never written: the connection may not, and where its
//! journal is absent it is opened as a file that nobody changes.

use std::io;
use std::path::Path;
use std::time::Duration;

use ostler_agents::transcript::{opencode_message, opencode_model};
use ostler_story::Usage;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};

use super::identity::{Changed, Position};
use super::lines::LINE_MAX;
use super::page::{Begin, PAGE_BYTES, PAGE_MAX, Page, Placed};
use super::search::{Hit, Search};
use super::summary::{Summary, shown};
use super::{Conversation, FILES_MAX, Recorder, Transcript, is_word};

/// opencode itself waits longer for others.
const BUSY: Duration = Duration::from_secs(2);
/// Parts of one message: more than any turn has steps.
const PARTS_MAX: usize = 2000;
/// 32 MiB: twice a line of any other transcript. A row can say that it is a gigabyte, and cost nothing to write.
const VALUE_MAX: i32 = 32 << 20;
const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' \
                      AND name IN ('session', 'message', 'part')";
const SESSION: &str = "SELECT id, directory, title, cost, tokens_input, tokens_output, tokens_cache_read, time_created, \
                       time_updated FROM session WHERE parent_id IS NULL";

fn failed(error: rusqlite::Error) -> io::Error {
    io::Error::other(error)
}

/// Opens it for reading. An error of kind `NotFound` says that there is none.
fn open(path: &Path) -> io::Result<Connection> {
    let meta = std::fs::symlink_metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let text = path.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8"))?;
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let encoded: String = text
        .chars()
        .map(|c| if matches!(c, '?' | '#' | '%') { format!("%{:02x}", c as u32) } else { c.to_string() })
        .collect();
    let how = if Path::new(&wal).exists() { "mode=ro" } else { "mode=ro&immutable=1" };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let open = || {
        let database = Connection::open_with_flags(format!("file:{encoded}?{how}"), flags)?;
        database.busy_timeout(BUSY)?;
        database.pragma_update(None, "trusted_schema", false)?;
        database.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX)?;
        let tables: i64 = database.query_row(TABLES, [], |row| row.get(0))?;
        Ok((database, tables))
    };
    let (database, tables) = open().map_err(failed)?;
    match tables {
        3 => Ok(database),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "this version of its database is not known")),
    }
}

/// All of them; none where there is no database.
pub(super) fn list(path: &Path) -> io::Result<Vec<Conversation>> {
    let database = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let read = || {
        let mut query = database.prepare(&format!("{SESSION} ORDER BY time_updated DESC LIMIT {FILES_MAX}"))?;
        let rows = query.query_map([], conversation)?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    let mut found = read().map_err(failed)?;
    found.retain(|found| is_word(&found.transcript.id));
    for found in &mut found {
        complete(&database, found).map_err(failed)?;
    }
    found.retain(|found| found.summary.messages != Some(0));
    Ok(found)
}

fn conversation(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    let count =
        |at: usize| row.get::<_, Option<i64>>(at).map(|count| count.and_then(|count| u64::try_from(count).ok()));
    let id: String = row.get(0)?;
    let usage = Usage {
        cost_usd: row.get(3)?,
        input_tokens: count(4)?,
        output_tokens: count(5)?,
        cached_tokens: count(6)?,
        ..Usage::default()
    };
    let directory: String = row.get(1)?;
    let summary = Summary {
        id: id.clone(),
        workspace: Some(directory).filter(|path| path.starts_with('/')),
        title: shown(&row.get::<_, String>(2)?),
        began_ms: count(7)?,
        usage: Some(usage),
        ..Summary::default()
    };
    let transcript = Transcript { recorder: Recorder::Opencode, id, file: None };
    Ok(Conversation { transcript, changed_ms: count(8)?.unwrap_or(0), bytes: None, summary })
}

/// What other rows tell of it.
fn complete(database: &Connection, found: &mut Conversation) -> rusqlite::Result<()> {
    let id = &found.transcript.id;
    found.summary.messages = Some(count(database, id)?);
    let newest = "SELECT data FROM message WHERE session_id = ? AND length(data) < 1000000 ORDER BY time_created DESC, id DESC LIMIT 1";
    let newest: Option<String> = database.prepare_cached(newest)?.query_row([id], |row| row.get(0)).optional()?;
    found.summary.model = newest.as_deref().and_then(opencode_model);
    let first = "SELECT part.data FROM part WHERE message_id = (SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id \
                 LIMIT 1) AND length(part.data) < 1000000 ORDER BY part.id LIMIT 1";
    let first: Option<String> = database.prepare_cached(first)?.query_row([id], |row| row.get(0)).optional()?;
    let message = first.and_then(|part| opencode_message("", 0, r#"{"role":"user"}"#, &[part]));
    found.summary.first_prompt = message.and_then(|message| {
        let mut text = None;
        message.elements.first()?.each_text(&mut |found| text = shown(found));
        text
    });
    Ok(())
}

fn count(database: &Connection, id: &str) -> rusqlite::Result<u64> {
    let query = "SELECT count(*) FROM message WHERE session_id = ?";
    let count: i64 = database.prepare_cached(query)?.query_row([id], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Whether there is one with exactly this id.
pub(super) fn has(path: &Path, id: &str) -> bool {
    let there =
        |database: Connection| database.query_row("SELECT 1 FROM session WHERE id = ?", [id], |_| Ok(())).is_ok();
    open(path).is_ok_and(there)
}

pub(super) fn describe(path: &Path, id: &str) -> io::Result<Conversation> {
    let database = open(path)?;
    let read = || {
        let mut found = database.query_row(&format!("{SESSION} AND id = ?"), [id], conversation)?;
        complete(&database, &mut found)?;
        Ok(found)
    };
    read().map_err(|error| match error {
        rusqlite::Error::QueryReturnedNoRows => io::ErrorKind::NotFound.into(),
        error => failed(error),
    })
}

pub(super) fn page(path: &Path, id: &str, begin: Begin, limit: usize) -> io::Result<Page> {
    let database = open(path)?;
    let all = count(&database, id).map_err(failed)?;
    let limit = limit.clamp(1, PAGE_MAX) as u64;
    let mut page = Page::default();
    let mut known = |position: Position, anew: u64| match position.number() {
        number if number <= all => number,
        _ => {
            page.changed = Some(Changed::Truncated);
            anew
        }
    };
    let (from, to) = match begin {
        Begin::First => (0, limit.min(all)),
        Begin::Number(number) => (number.min(all), number.saturating_add(limit).min(all)),
        Begin::From(position) => {
            let from = known(position, 0);
            (from, from.saturating_add(limit).min(all))
        }
        Begin::Last => (all.saturating_sub(limit), all),
        Begin::Before(position) => {
            let to = known(position, all);
            (to.saturating_sub(limit), to)
        }
    };
    let back = matches!(begin, Begin::Last | Begin::Before(_));
    fill(&database, id, (from, to), back, &mut page).map_err(failed)?;
    page.older = page.before.number() > 0;
    page.newer = page.next.number() < all;
    Ok(page)
}

/// Reads messages with these numbers; one by one, from the side that counts, for as long as there is room.
fn fill(database: &Connection, id: &str, (from, to): (u64, u64), back: bool, page: &mut Page) -> rusqlite::Result<()> {
    let query = "SELECT id, time_created, data FROM message WHERE session_id = ? AND length(data) < ? ORDER BY time_created, id LIMIT 1 OFFSET ?";
    let mut query = database.prepare(query)?;
    let (mut first, mut last, mut bytes) = if back { (to, to, 0) } else { (from, from, 0) };
    while bytes < PAGE_BYTES && if back { first > from } else { last < to } {
        let number = if back { first - 1 } else { last };
        let row = query.query_row((id, LINE_MAX as i64, i64::try_from(number).unwrap_or(i64::MAX)), |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
        });
        if let Some((message_id, time, data)) = row.optional()? {
            let parts = parts(database, &message_id)?;
            if let Some(mut message) = opencode_message(&message_id, u64::try_from(time).unwrap_or(0), &data, &parts) {
                let cut = message.bound();
                bytes += message.weight();
                page.messages.push(Placed { position: Position::numbered(number), message, cut });
            }
        }
        if back { first -= 1 } else { last += 1 }
    }
    if back {
        page.messages.reverse();
    }
    (page.before, page.next) = (Position::numbered(first), Position::numbered(last));
    Ok(())
}

fn parts(database: &Connection, message: &str) -> rusqlite::Result<Vec<String>> {
    let query = "SELECT data FROM part WHERE message_id = ? AND length(data) < ? ORDER BY id LIMIT ?";
    let mut query = database.prepare_cached(query)?;
    let rows = query.query_map((message, LINE_MAX as i64, PARTS_MAX as i64), |row| row.get(0))?;
    rows.collect()
}

pub(super) fn search(path: &Path, transcript: &Transcript, search: &mut Search<'_>) -> io::Result<()> {
    let database = open(path)?;
    through(&database, &transcript.id, search).map_err(failed)
}

fn through(database: &Connection, id: &str, search: &mut Search<'_>) -> rusqlite::Result<()> {
    let query = "SELECT id, time_created, data FROM message WHERE session_id = ? AND length(data) < ? ORDER BY time_created, id";
    let mut query = database.prepare(query)?;
    let mut rows = query.query((id, LINE_MAX as i64))?;
    let mut number = 0;
    while let Some(row) = rows.next()? {
        let (message_id, time, data): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let parts = parts(database, &message_id)?;
        let size: usize = parts.iter().map(String::len).sum();
        search.bytes += (data.len() + size) as u64;
        let may_be = parts.iter().any(|part| search.needle.may_be_in(part.as_bytes()));
        let message = || opencode_message(&message_id, u64::try_from(time).unwrap_or(0), &data, &parts);
        let hit = may_be
            .then(message)
            .flatten()
            .and_then(|message| Hit::of(search.needle, Position::numbered(number), &message));
        search.stopped = (search.stop)();
        if search.stopped || hit.is_some_and(|hit| !(search.told)(hit)) {
            return Ok(());
        }
        number += 1;
    }
    Ok(())
}
