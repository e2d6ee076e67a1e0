use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::watch::{AskGit, FOLDERS_MAX, GitPlace, Setup, Timing, Watch};

struct NoGit;

impl AskGit for NoGit {
    fn place(&self) -> Option<GitPlace> {
        None
    }

    fn tracked(&self) -> Option<Vec<PathBuf>> {
        None
    }
}

const LONG: Duration = Duration::from_secs(30);

fn watched(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Watch) {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let root = Root::open(dir.path()).unwrap();
    let setup = Setup {
        root,
        git: Arc::new(NoGit),
        tell: Box::new(|_| {}),
        timing: Timing::default(),
        folders_max: FOLDERS_MAX,
    };
    let watch = Watch::start(setup).unwrap();
    assert!(watch.ready(LONG));
    (dir, watch)
}

fn query(pattern: &str) -> ContentQuery {
    ContentQuery { pattern: pattern.into(), limit: 100, within: LONG, ..ContentQuery::default() }
}

fn found(watch: &Watch, query: &ContentQuery) -> FoundContent {
    search(watch.root(), watch.names(LONG), query, &|| false).unwrap()
}

/// `path:line` of every match.
fn places(found: &FoundContent) -> Vec<String> {
    let line = |file: &FoundFile, line: &FoundLine| format!("{}:{}", file.path.display(), line.number);
    let matches = |file: &FoundFile| {
        file.lines.iter().filter(|line| line.is_match()).map(|found| line(file, found)).collect::<Vec<_>>()
    };
    found.files.iter().flat_map(matches).collect()
}

#[test]
fn lines_are_found_with_what_stands_around_them() {
    let (_dir, watch) =
        watched(&[("b.txt", b"one\ntwo needle two\nthree\nfour\n"), ("a/x.txt", b"Needle\n"), ("c.txt", b"none\n")]);
    let all = found(&watch, &ContentQuery { context: (1, 1), ..query("needle") });
    assert_eq!(places(&all), ["a/x.txt:1", "b.txt:2"]);
    let lines: Vec<_> = all.files[1]
        .lines
        .iter()
        .map(|line| (line.number, String::from_utf8_lossy(&line.text).into_owned(), line.spans.clone()))
        .collect();
    assert_eq!(
        lines,
        [(1, "one".into(), vec![]), (2, "two needle two".into(), vec![(4, 10)]), (3, "three".into(), vec![])]
    );
    assert_eq!((all.searched, all.matches, all.more), (3, 2, false));
    assert_eq!(places(&found(&watch, &query("Needle"))), ["a/x.txt:1"], "a capital means a capital");
    assert_eq!(places(&found(&watch, &ContentQuery { regex: true, ..query("^t.*o$") })), ["b.txt:2"]);
    assert_eq!(places(&found(&watch, &query("t.*o"))), [""; 0], "a text is no pattern");
    assert_eq!(places(&found(&watch, &ContentQuery { word: true, ..query("need") })), [""; 0]);
    assert_eq!(places(&found(&watch, &ContentQuery { folder: "a".into(), ..query("needle") })), ["a/x.txt:1"]);
}

#[test]
fn an_answer_goes_on_behind_the_last_file_and_nothing_is_told_twice() {
    let files: Vec<(String, Vec<u8>)> =
        (0..700).map(|number| (format!("d{}/f{number}", number % 9), b"x\nneedle\nneedle\n".to_vec())).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (name.as_str(), text.as_slice())).collect();
    let (_dir, watch) = watched(&files);
    let (mut all, mut after, mut asked) = (Vec::new(), None, 0);
    loop {
        let page = found(&watch, &ContentQuery { after, limit: 90, ..query("needle") });
        assert!(page.matches <= 91);
        all.extend(places(&page));
        asked += 1;
        if !page.more {
            break;
        }
        after = page.next;
    }
    assert_eq!(all.len(), 1400);
    assert!(all.is_sorted_by(|one, two| one.split(':').next() <= two.split(':').next()) && asked > 10);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 1400);
}

#[test]
fn hostile_files_cost_what_is_bounded() {
    let mut long = vec![b'x'; 3_000_000];
    long.extend_from_slice(b"needle\n");
    let (dir, watch) = watched(&[
        ("long", &long),
        ("binary", b"needle\0needle\n"),
        ("latin", b"gr\xfc needle\n"),
        (".gitignore", b"ignored\n"),
        ("ignored", b"needle\n"),
    ]);
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("out")).unwrap();
    watch.rebuild();
    let all = found(&watch, &query("needle"));
    assert_eq!(places(&all), ["latin:1", "long:1"]);
    assert_eq!((all.binary, all.unreadable), (1, 0));
    let line = &all.files[1].lines[0];
    assert!(line.cut && line.text.len() <= LINE_MAX && line.text[line.spans[0].0..line.spans[0].1] == *b"needle");
    assert_eq!(places(&found(&watch, &query("root:"))), [""; 0], "no link is followed");
}

#[test]
fn a_pattern_that_is_none_is_refused_with_its_reason() {
    let (_dir, watch) = watched(&[("a", b"x")]);
    let refused =
        |query: ContentQuery| search(watch.root(), watch.names(LONG), &query, &|| false).unwrap_err().to_string();
    assert!(refused(ContentQuery { regex: true, ..query("(") }).contains("unclosed group"));
    assert!(!refused(ContentQuery { regex: true, ..query(r"(\w{1000}){1000}") }).is_empty());
    assert!(refused(query("")).contains("nothing to look for"));
}

#[test]
fn a_search_ends_when_nobody_waits_or_its_time_is_over() {
    let text = vec![b'x'; 200_000];
    let files: Vec<(String, &[u8])> = (0..300).map(|number| (format!("f{number:03}"), text.as_slice())).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let (_dir, watch) = watched(&files);
    let asked = Cell::new(0);
    let gone = || {
        asked.set(asked.get() + 1);
        asked.get() > 1
    };
    let left = search(watch.root(), watch.names(LONG), &query("needle"), &gone).unwrap();
    assert!(left.searched < 300, "{}", left.searched);
    let late = found(&watch, &ContentQuery { within: Duration::ZERO, ..query("needle") });
    assert_eq!((late.searched, late.next, late.more), (0, None, true));
}

#[test]
fn of_one_file_no_more_is_told_than_was_asked_for() {
    let (_dir, watch) = watched(&[("a", &b"needle\n".repeat(50)), ("b", b"needle\n")]);
    let all = found(&watch, &ContentQuery { each: 3, ..query("needle") });
    assert_eq!(places(&all), ["a:1", "a:2", "a:3", "b:1"]);
    assert!(all.files[0].more && !all.files[1].more);
    assert!(Path::new("a") == all.files[0].path);
}

#[test]
fn files_full_of_matches_cost_what_one_answer_holds() {
    let line = [b"needle ".repeat(250), b"\n".to_vec()].concat();
    let text = line.repeat(1500);
    let files: Vec<(String, &[u8])> = (0..8).map(|number| (format!("f{number:02}"), text.as_slice())).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let (_dir, watch) = watched(&files);
    let size = |found: &FoundContent| -> usize {
        found.files.iter().flat_map(|file| &file.lines).map(|line| line.text.len()).sum()
    };
    let wide = ContentQuery { limit: LINES_MAX, context: (CONTEXT_MAX, CONTEXT_MAX), ..query("needle") };
    let mut after = None;
    for _ in 0..8 {
        let page = found(&watch, &ContentQuery { after, ..wide.clone() });
        assert_eq!((page.files.len(), page.files[0].more), (1, true));
        assert!(page.more && size(&page) < BYTES_MAX + 2 * LINE_MAX, "{}", size(&page));
        after = page.next;
    }
    assert!(!found(&watch, &ContentQuery { after, ..wide }).more);
}
