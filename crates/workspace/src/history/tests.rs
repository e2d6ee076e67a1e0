//! Transcripts as the real programs wrote them, in folders as they make them; and transcripts that nobody should have written.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use ostler_story::{Element, Speaker};
use tempfile::TempDir;

use super::*;

const CLAUDE: &str = include_str!("../../../agents/src/transcript/recorded/claude.jsonl");
const CODEX: &str = include_str!("../../../agents/src/transcript/recorded/codex.jsonl");
const GEMINI: &str = include_str!("../../../agents/src/transcript/recorded/gemini.jsonl");
const OPENCODE: &str = include_str!("../../../agents/src/transcript/recorded/opencode.sql");
const CLAUDE_ID: &str = "72a0ddaf-1653-4b21-8d1b-5e2d2874a90c";
const CODEX_ID: &str = "01a1e78e-00ed-7c50-a34c-7cd3a33a97a2";
const GEMINI_ID: &str = "e5be52ed-a88d-4434-904d-94e9a92b6626";
const OPENCODE_ID: &str = "ses_e1871a23fffeSBwyW7eMSWPRIu";

struct House {
    home: TempDir,
}

impl House {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    /// With a conversation of each agent.
    fn furnished() -> Self {
        let house = Self::new();
        house.put(&format!(".claude/projects/-home-me-work-x/{CLAUDE_ID}.jsonl"), CLAUDE);
        house.put(&format!(".codex/sessions/2026/11/17/rollout-2026-11-17T03-30-05-{CODEX_ID}.jsonl"), CODEX);
        house.put(".gemini/tmp/work-x/chats/session-2026-11-17T03-30-e5be52ed.jsonl", GEMINI);
        house.put(".gemini/tmp/work-x/.project_root", "/home/me/work.x");
        let database = house.at(".local/share/opencode/opencode.db");
        fs::create_dir_all(database.parent().unwrap()).unwrap();
        rusqlite::Connection::open(database).unwrap().execute_batch(OPENCODE).unwrap();
        house
    }

    fn at(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn put(&self, path: &str, content: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A transcript of claude's with this content.
    fn claude(&self, number: u64, content: &str) -> (String, PathBuf) {
        let id = format!("00000000-0000-4000-8000-{number:012x}");
        let path = self.put(&format!(".claude/projects/-w/{id}.jsonl"), content);
        (id, path)
    }

    fn history(&self) -> History {
        let home = self.home.path().as_os_str().to_owned();
        History::new(Places::of(|name| (name == "HOME").then(|| home.clone())), self.at("state/history"))
    }

    fn list(&self) -> Listed {
        self.history().list(Instant::now() + Duration::from_secs(60))
    }

    fn only(&self, id: &str) -> Transcript {
        let found = self.history().locate(id);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    }
}

fn said(number: u64, text: &str) -> String {
    serde_json::json!({"type": "user", "uuid": number.to_string(), "cwd": "/w", "message": {"content": text}})
        .to_string()
        + "\n"
}

fn texts(page: &Page) -> Vec<String> {
    let text = |placed: &Placed| match &placed.message.elements[0] {
        Element::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    page.messages.iter().map(text).collect()
}

fn found(history: &History, transcript: &Transcript, query: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut told = |hit| {
        hits.push(hit);
        true
    };
    let needle = Needle::new(query).unwrap();
    let mut search = Search { needle: &needle, stop: &|| false, told: &mut told, bytes: 0, unread: 0, stopped: false };
    history.search(transcript, &mut search).unwrap();
    hits
}

#[test]
fn a_conversation_of_each_agent_is_listed_with_what_is_told_of_it() {
    let house = House::furnished();
    let listed = house.list();
    assert_eq!((listed.behind, listed.unreadable.len()), (0, 0), "{listed:?}");
    let of =
        |recorder: Recorder| listed.conversations.iter().find(|found| found.transcript.recorder == recorder).unwrap();
    for (recorder, id, prompt) in [
        (Recorder::Claude, CLAUDE_ID, "RUN:echo needle-1"),
        (Recorder::Codex, CODEX_ID, "RUN:echo needle-2"),
        (Recorder::Gemini, GEMINI_ID, "RUN:echo needle-3"),
        (Recorder::Opencode, OPENCODE_ID, "RUN:echo needle-4"),
    ] {
        let found = of(recorder);
        assert_eq!(found.transcript.id, id);
        assert_eq!(found.summary.first_prompt.as_deref(), Some(prompt));
        assert_eq!(found.summary.workspace.as_deref(), Some("/home/me/work.x"), "{recorder:?}");
        let usage = found.summary.usage.clone().unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (Some(50), Some(100)), "{recorder:?}");
        assert!(found.summary.model.is_some() && found.summary.began_ms.is_some() && found.summary.messages > Some(5));
    }
    assert_eq!(of(Recorder::Claude).summary.branch.as_deref(), Some("feat/x"));
    assert_eq!(of(Recorder::Opencode).summary.title.as_deref(), Some("You said: RUN:echo needle-4"));
    assert_eq!(of(Recorder::Claude).summary.usage.as_ref().and_then(|usage| usage.cost_usd), Some(0.0022));
}

#[test]
fn what_is_kept_is_ours_alone_and_spares_the_second_look() {
    let house = House::furnished();
    let first = house.list();
    let catalog = house.at("state/history/catalog");
    assert_eq!(fs::metadata(&catalog).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(catalog.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    let kept = fs::read(&catalog).unwrap();
    assert_eq!(house.list(), first);
    assert_eq!(fs::read(&catalog).unwrap(), kept, "nothing was looked into again");
    // A second look would read what is not there.
    let file = house.history().file(&house.only(CLAUDE_ID));
    let mut forged = String::from_utf8(kept).unwrap().replace("needle-1", "from-the-catalog");
    fs::write(&catalog, &forged).unwrap();
    assert!(
        house
            .list()
            .conversations
            .iter()
            .any(|found| found.summary.first_prompt.as_deref() == Some("RUN:echo from-the-catalog"))
    );
    writeln!(OpenOptions::new().append(true).open(file).unwrap(), "{}", said(1, "more").trim()).unwrap();
    assert!(
        house
            .list()
            .conversations
            .iter()
            .all(|found| found.summary.first_prompt.as_deref() != Some("RUN:echo from-the-catalog"))
    );
    forged.push_str("{\"torn");
    fs::write(&catalog, forged.replace("ostler history 1", "ostler history 9")).unwrap();
    assert_eq!(house.list().conversations.len(), 4, "a newer or damaged one is made anew");
}

#[test]
fn what_there_was_no_time_for_is_counted_and_listed_next() {
    let house = House::furnished();
    let hurried = house.history().list(Instant::now() - Duration::from_secs(1));
    assert_eq!((hurried.behind, hurried.conversations.len()), (3, 1), "a database needs no look into files");
    assert_eq!((house.list().behind, house.list().conversations.len()), (0, 4));
}

#[test]
fn every_agents_messages_are_paged_from_either_end() {
    let house = House::furnished();
    let history = house.history();
    for id in [CLAUDE_ID, CODEX_ID, GEMINI_ID, OPENCODE_ID] {
        let transcript = house.only(id);
        let whole = history.page(&transcript, Begin::First, 500).unwrap();
        assert!(!whole.older && !whole.newer && whole.messages.len() > 5, "{id}");
        assert_eq!(history.page(&transcript, Begin::Last, 500).unwrap().messages, whole.messages, "{id}");
        let (mut on, mut page) = (Vec::new(), history.page(&transcript, Begin::First, 2).unwrap());
        loop {
            on.extend(page.messages.iter().map(|placed| placed.message.id.clone()));
            if !page.newer {
                break;
            }
            page = history.page(&transcript, Begin::From(page.next), 2).unwrap();
        }
        let (mut back, mut page) = (Vec::new(), history.page(&transcript, Begin::Last, 3).unwrap());
        loop {
            back.splice(0..0, page.messages.iter().map(|placed| placed.message.id.clone()));
            if !page.older {
                break;
            }
            page = history.page(&transcript, Begin::Before(page.before), 3).unwrap();
        }
        on.dedup();
        back.dedup();
        let all: Vec<_> = whole.messages.iter().map(|placed| placed.message.id.clone()).collect();
        if id != GEMINI_ID {
            assert_eq!((&on, &back), (&all, &all), "{id}");
        }
        assert!(all.iter().all(|id| on.contains(id) && back.contains(id)));
        let third = history.page(&transcript, Begin::From(whole.messages[2].position), 1).unwrap();
        assert_eq!(third.messages[0], whole.messages[2], "{id}: a message is found by its place");
    }
}

#[test]
fn a_message_has_a_number_and_the_count_is_kept() {
    let house = House::new();
    let (id, path) = house.claude(1, &(0..100).map(|n| said(n, &format!("m{n}"))).collect::<String>());
    let (history, transcript) = (house.history(), house.only(&id));
    assert_eq!(texts(&history.page(&transcript, Begin::Number(42), 2).unwrap()), ["m42", "m43"]);
    assert!(history.page(&transcript, Begin::Number(100), 2).unwrap().messages.is_empty());
    let kept: Vec<_> = fs::read_dir(house.at("state/history/offsets")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(said(100, "m100").as_bytes()).unwrap();
    assert_eq!(history.describe(&transcript).unwrap().summary.messages, Some(101));
    assert_eq!(texts(&history.page(&transcript, Begin::Number(100), 2).unwrap()), ["m100"]);
    fs::write(kept[0].path(), "torn").unwrap();
    assert_eq!(history.describe(&transcript).unwrap().summary.messages, Some(101));
}

/// Whoever was killed while writing it: the list and the messages are the same, none is missing and none is there twice.
#[test]
fn an_index_that_was_cut_off_at_any_byte_loses_nothing_and_repeats_nothing() {
    let house = House::new();
    let (id, _) = house.claude(1, &(0..20).map(|n| said(n, &format!("m{n}"))).collect::<String>());
    (2..5).for_each(|number| drop(house.claude(number, &said(number, "other"))));
    let (history, transcript) = (house.history(), house.only(&id));
    let whole = (house.list(), history.page(&transcript, Begin::Number(0), 100).unwrap());
    let catalog = house.at("state/history/catalog");
    let offsets = fs::read_dir(house.at("state/history/offsets")).unwrap().next().unwrap().unwrap().path();
    for kept in [catalog, offsets] {
        let content = fs::read(&kept).unwrap();
        for cut in 0..content.len() {
            fs::write(&kept, &content[..cut]).unwrap();
            let found = (house.list(), house.history().page(&transcript, Begin::Number(0), 100).unwrap());
            assert_eq!(found, whole, "{} cut off at {cut}", kept.display());
            // What follows a torn line is not lost with it.
            assert_eq!(house.list(), whole.0, "{} cut off at {cut}, then again", kept.display());
        }
    }
}

#[test]
fn a_line_that_is_written_in_two_pieces_arrives_whole_and_once() {
    let house = House::new();
    let (id, path) = house.claude(1, &said(1, "one"));
    let (history, transcript) = (house.history(), house.only(&id));
    let next = history.page(&transcript, Begin::First, 10).unwrap().next;
    let line = said(2, "two");
    let (head, tail) = line.split_at(line.len() / 2);
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(head.as_bytes()).unwrap();
    let page = history.page(&transcript, Begin::From(next), 10).unwrap();
    assert_eq!((page.messages.len(), page.next, page.unread, page.newer), (0, next, 0, false));
    file.write_all(tail.as_bytes()).unwrap();
    let page = history.page(&transcript, Begin::From(page.next), 10).unwrap();
    assert_eq!((texts(&page), page.changed), (vec!["two".to_owned()], None));
}

#[test]
fn a_transcript_that_is_cut_replaced_or_rotated_is_noticed() {
    let house = House::new();
    let whole = said(1, "one") + &said(2, "two");
    let (id, path) = house.claude(1, &whole);
    let (history, transcript) = (house.history(), house.only(&id));
    let next = history.page(&transcript, Begin::First, 10).unwrap().next;
    let look = || history.page(&transcript, Begin::From(next), 10).unwrap();
    assert_eq!(look().changed, None);
    File::options().write(true).open(&path).unwrap().set_len(said(1, "one").len() as u64).unwrap();
    assert_eq!((look().changed, texts(&look())), (Some(Changed::Truncated), vec!["one".to_owned()]));
    fs::write(&path, said(7, "anew, and longer than before, so that only its beginning tells")).unwrap();
    assert_eq!(look().changed, Some(Changed::Replaced), "the same inode, written anew");
    fs::rename(&path, path.with_extension("old")).unwrap();
    fs::write(&path, &whole).unwrap();
    assert_eq!((look().changed, texts(&look()).len()), (Some(Changed::Replaced), 2), "the same words in another file");
    fs::remove_file(&path).unwrap();
    assert_eq!(history.page(&transcript, Begin::From(next), 10).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn links_pipes_and_names_that_lead_out_are_no_transcripts() {
    let house = House::new();
    let outside = house.put("outside/00000000-0000-4000-8000-000000000001.jsonl", &said(1, "secret"));
    let folder = house.at(".claude/projects/-w");
    fs::create_dir_all(&folder).unwrap();
    symlink(&outside, folder.join("00000000-0000-4000-8000-000000000002.jsonl")).unwrap();
    symlink(outside.parent().unwrap(), house.at(".claude/projects/-linked")).unwrap();
    symlink("/proc/self/environ", folder.join("00000000-0000-4000-8000-000000000003.jsonl")).unwrap();
    let pipe = folder.join("00000000-0000-4000-8000-000000000004.jsonl");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    fs::create_dir(folder.join("00000000-0000-4000-8000-000000000005.jsonl")).unwrap();
    house.put(".claude/projects/-w/agent-1.jsonl", &said(1, "of a sub-agent"));
    assert_eq!(house.list().conversations, []);
    let history = house.history();
    for id in
        ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "../outside/x", "..", "", "-x"]
    {
        assert_eq!(history.locate(id), [], "{id}");
    }
    let odd = |file: &str| Transcript { recorder: Recorder::Claude, id: "x".into(), file: Some(file.into()) };
    for file in [
        "../outside/00000000-0000-4000-8000-000000000001.jsonl",
        "/etc/passwd",
        "-w/../../x",
        "-linked/00000000-0000-4000-8000-000000000001.jsonl",
        "-w/00000000-0000-4000-8000-000000000002.jsonl",
        "-w/00000000-0000-4000-8000-000000000004.jsonl",
        "-w",
        "",
    ] {
        assert!(history.page(&odd(file), Begin::First, 1).is_err(), "{file}");
    }
}

#[test]
fn hostile_lines_are_passed_over_and_what_is_around_them_is_told() {
    let house = House::new();
    let deep =
        format!("{{\"type\":\"user\",\"message\":{{\"content\":{}{}}}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    let long = format!("{{\"type\":\"user\",\"message\":{{\"content\":\"{}\"}}}}\n", "x".repeat(10 << 20));
    let endless = format!("{}\n", "y".repeat(LINE_MAX + 5));
    let ids = format!(
        "{{\"type\":\"user\",\"uuid\":\"{}\",\"sessionId\":\"../../etc\",\"message\":{{\"content\":\"\\u001b[2Jwipe\"}}}}\n",
        "i".repeat(100_000)
    );
    let content =
        [said(1, "first"), deep, long, endless, ids, "\u{0}\u{1}\n".into(), "\n".into(), said(2, "last")].concat();
    let (id, _) = house.claude(1, &content);
    let (history, transcript) = (house.history(), house.only(&id));
    for page in
        [history.page(&transcript, Begin::First, 50).unwrap(), history.page(&transcript, Begin::Last, 50).unwrap()]
    {
        let texts = texts(&page);
        assert_eq!((texts.len(), texts[0].as_str(), texts[3].as_str()), (4, "first", "last"));
        assert!(texts[1].len() <= 64 << 10 && page.messages[1].cut, "10 MB are cut, and said to be");
        assert_eq!(page.unread, 3, "deep, endless, and not JSON");
    }
    let listed = house.list();
    assert_eq!(listed.conversations[0].transcript.id, id, "an id is the name of the file");
    assert_eq!(history.describe(&transcript).unwrap().summary.messages, Some(4));
    assert_eq!(found(&history, &transcript, "wipe")[0].around, "[2Jwipe", "nothing moves a cursor");
}

#[test]
fn the_end_of_a_large_transcript_is_read_without_the_rest() {
    let house = House::new();
    let (id, path) = house.claude(1, &said(0, "first"));
    // 200 MB that are not there: whoever read them would find neither JSON nor a line.
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    file.set_len(200 << 20).unwrap();
    let mut file = file;
    file.write_all(b"\n").unwrap();
    for number in 1..=60 {
        file.write_all(said(number, &format!("m{number}")).as_bytes()).unwrap();
    }
    let before = bytes_read();
    let page = house.history().page(&house.only(&id), Begin::Last, 50).unwrap();
    let read = bytes_read() - before;
    assert_eq!((page.messages.len(), texts(&page)[49].as_str(), page.older), (50, "m60", true));
    assert!(read < 4 << 20, "{read} bytes were read for 50 messages");
}

/// What this thread has asked of files so far.
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
}

#[test]
fn words_are_found_in_what_was_said_run_and_touched() {
    let house = House::furnished();
    let history = house.history();
    for (id, number) in [(CLAUDE_ID, 1), (CODEX_ID, 2), (GEMINI_ID, 3), (OPENCODE_ID, 4)] {
        let transcript = house.only(id);
        let hits = found(&history, &transcript, &format!("ECHO needle-{number}").to_lowercase());
        let whats: Vec<_> = hits.iter().map(|hit| hit.what).collect();
        assert!(whats.contains(&"text") && whats.contains(&"tool"), "{id}: {whats:?}");
        assert!(
            hits.iter().any(|hit| hit.speaker == Speaker::Person && hit.around == format!("RUN:echo needle-{number}"))
        );
        let page = history.page(&transcript, Begin::From(hits[0].position), 1).unwrap();
        assert!(
            Hit::of(&Needle::new("needle").unwrap(), hits[0].position, &page.messages[0].message).is_some(),
            "the place to jump to"
        );
        assert!(
            found(&history, &transcript, "work.x/").iter().any(|hit| hit.what == "tool" || hit.what == "result"),
            "{id}: a file"
        );
        assert_eq!(found(&history, &transcript, "parentUuid"), [], "a name of the format is nothing that was said");
    }
}

#[test]
fn a_search_stops_when_nobody_waits_and_after_enough() {
    let house = House::new();
    let (id, _) = house.claude(
        1,
        &(0..40_000).map(|n| said(n, "needle and some hay around it so that it is long enough")).collect::<String>(),
    );
    let (history, transcript) = (house.history(), house.only(&id));
    let needle = Needle::new("needle").unwrap();
    let mut few = 0;
    let mut told = |_| {
        few += 1;
        few < 10
    };
    let mut search = Search { needle: &needle, stop: &|| false, told: &mut told, bytes: 0, unread: 0, stopped: false };
    history.search(&transcript, &mut search).unwrap();
    assert_eq!(few, 10);
    let mut all = |_| true;
    let mut search = Search { needle: &needle, stop: &|| true, told: &mut all, bytes: 0, unread: 0, stopped: false };
    history.search(&transcript, &mut search).unwrap();
    assert!(search.stopped && search.bytes < 3 << 20, "{}", search.bytes);
}

#[test]
fn the_same_conversation_in_two_files_is_one_entry() {
    let house = House::new();
    let (id, old) = house.claude(1, &said(1, "old"));
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(600);
    File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    house.put(&format!(".claude/projects/-other/{id}.jsonl"), &said(1, "new"));
    let listed = house.list();
    assert_eq!(listed.conversations.len(), 1);
    assert_eq!(listed.conversations[0].summary.first_prompt.as_deref(), Some("new"));
    assert_eq!(house.only(&id).file.as_deref(), Some(format!("-other/{id}.jsonl").as_str()));
}

#[test]
fn forgetting_deletes_what_was_kept_and_tidying_what_is_gone() {
    let house = House::furnished();
    let history = house.history();
    house.list();
    history.describe(&house.only(CLAUDE_ID)).unwrap();
    history.describe(&house.only(CODEX_ID)).unwrap();
    let catalog = || fs::read_to_string(house.at("state/history/catalog")).unwrap();
    let offsets = || fs::read_dir(house.at("state/history/offsets")).unwrap().count();
    assert!(catalog().contains("needle-1") && offsets() == 2);
    history.forget(CLAUDE_ID);
    assert!(!catalog().contains("needle-1") && catalog().contains("needle-2") && offsets() == 1);
    fs::remove_file(history.file(&house.only(CODEX_ID))).unwrap();
    history.tidy();
    assert!(!catalog().contains("needle-2") && catalog().contains("needle-3") && offsets() == 0);
}

#[test]
fn many_transcripts_are_listed_and_too_many_are_counted() {
    let house = House::new();
    for number in 0..300 {
        house.claude(number, &said(number, &format!("prompt {number}")));
    }
    assert_eq!(house.list().conversations.len(), 300);
    let (found, more) = walk::files(Recorder::Claude, &house.at(".claude/projects"), 250).unwrap();
    assert_eq!((found.len(), more), (250, 50));
}

#[test]
fn a_database_that_is_none_or_another_is_said_and_hurts_nobody() {
    let house = House::new();
    house.claude(1, &said(1, "one"));
    let path = house.put(".local/share/opencode/opencode.db", "not a database at all, however long it may be");
    let listed = house.list();
    assert_eq!((listed.conversations.len(), listed.unreadable.len()), (1, 1), "{listed:?}");
    fs::remove_file(&path).unwrap();
    let views = "CREATE VIEW session AS SELECT 1; CREATE VIEW message AS SELECT 1; CREATE VIEW part AS SELECT 1;";
    rusqlite::Connection::open(&path).unwrap().execute_batch(views).unwrap();
    assert!(house.list().unreadable[0].contains("not known"), "{:?}", house.list().unreadable);
    fs::remove_file(&path).unwrap();
    let swollen = "CREATE TABLE session (id, directory, title AS (hex(zeroblob(100000000))), cost, tokens_input, tokens_output, \
                   tokens_cache_read, time_created, time_updated, parent_id); CREATE TABLE message (x); CREATE TABLE part (x); \
                   INSERT INTO session (id, directory) VALUES ('ses_1', '/');";
    rusqlite::Connection::open(&path).unwrap().execute_batch(swollen).unwrap();
    assert!(house.list().unreadable[0].contains("too big"), "{:?}", house.list().unreadable);
    fs::remove_file(&path).unwrap();
    symlink(Path::new("/etc/passwd"), &path).unwrap();
    assert!(house.list().unreadable[0].contains("regular file"));
    assert_eq!(house.history().locate(OPENCODE_ID), []);
}
