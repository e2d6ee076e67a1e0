//! Every sentence that stands in the source of what speaks to people, for [`words`](super::words): also those that no test could
//! bring about on every machine (`doctor`, a kernel that lacks something, a disk that fails).

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What speaks to people: the command line, and the daemon's refusals that it passes on.
const SPEAKERS: [&str; 9] = [
    "ostler/src/cli.rs",
    "ostler/src/instances.rs",
    "ostler/src/paths.rs",
    "ostler/src/config",
    "ostler/src/output",
    "ostler/src/request",
    "ostler/src/transcript",
    "ostler/src/verbs",
    "doors/native/src",
];

/// The sentences of each file, in the order in which they stand there.
pub(crate) fn all() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    SPEAKERS.iter().for_each(|speaker| find(&crates.join(speaker), &mut files));
    for below in ["engine/src", "journal/src", "keeper/src", "workspace/src"] {
        files.extend(errors(&crates.join(below)));
    }
    let mut text = String::new();
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        let sentences: Vec<String> = literals(&source).into_iter().filter(|words| is_sentence(words)).collect();
        if !sentences.is_empty() {
            let name = file.strip_prefix(&crates).unwrap().display().to_string().replace("doors/", "");
            let _ = writeln!(text, "\n{name}");
            sentences.iter().for_each(|words| _ = writeln!(text, "  {words}"));
        }
    }
    text
}

fn find(path: &Path, files: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    if path.is_dir() {
        let mut below: Vec<PathBuf> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        below.sort();
        below.iter().for_each(|path| find(path, files));
    } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
        files.push(path.to_owned());
    }
}

/// Files of the engine, and of what is below it, whose errors people read.
fn errors(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    find(folder, &mut files);
    files.retain(|file| std::fs::read_to_string(file).unwrap().contains("#[error("));
    files
}

/// String literals outside comments, tests and what only the log and a programmer read.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let mut found = Vec::new();
    let (mut rest, mut line) = (source, String::new());
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("b'\"'") || rest.starts_with("'\"'") || rest.starts_with("'\\''") {
            rest = &rest[rest[1..].find('\'').unwrap() + 2..];
        } else if let Some(raw) = rest.strip_prefix("r\"") {
            let end = raw.find('"').unwrap();
            found.push((line.clone(), raw[..end].to_owned()));
            rest = &raw[end + 1..];
        } else if c == '"' {
            let (words, after) = quoted(&rest[1..]);
            found.push((line.clone(), words));
            rest = after;
        } else {
            if c == '\n' {
                line.clear()
            } else {
                line.push(c)
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    let ours = |line: &str| {
        ["tracing::", "expect(", "hook!", "#[doc", "reason =", "include_str"].iter().any(|word| line.contains(word))
    };
    let read = |(line, words): &(String, String)| !ours(line) && !is_query(words);
    found.into_iter().filter(read).map(|(_, words)| words).collect()
}

/// What is said to the database, not to a person.
fn is_query(words: &str) -> bool {
    let of_a_query =
        |word: &str| matches!(word, "FROM" | "INTO" | "WHERE" | "ORDER" | "PRAGMA" | "TABLE" | "BEGIN" | "VACUUM");
    words.split([' ', '⏎']).any(of_a_query)
}

/// The literal that begins here, as it is written, and what follows it.
fn quoted(text: &str) -> (String, &str) {
    let (mut words, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (words, &text[at + 1..]),
            '\\' => match chars.next() {
                // The line goes on below.
                Some((_, '\n')) => {
                    while text[chars.offset()..].starts_with([' ', '\n']) {
                        chars.next();
                    }
                }
                Some((_, 'n')) => words.push('⏎'),
                Some((_, other)) => words.extend(['\\', other]),
                None => break,
            },
            '\n' => words.push('⏎'),
            c => words.push(c),
        }
    }
    (words, "")
}

/// At least two words, or one that somebody reads beside a value.
fn is_sentence(words: &str) -> bool {
    let bare = words.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after)).collect::<String>();
    let word = |word: &&str| word.chars().filter(|c| c.is_alphabetic()).count() >= 2;
    bare.split([' ', '⏎']).filter(word).count() >= 2
}

#[test]
fn sentences_are_found_and_nothing_else() {
    let source = "let a = \"two words\"; // \"not this\"\n/// \"nor this\"\nlet b = '\"'; let c = \"x\";\n\
                  format!(\"{} is \\\n       here\", d); tracing::warn!(\"a log line\");\nrun(\"DELETE FROM entry\");\n#[cfg(test)]\nmod tests { \"of tests\" }";
    let found: Vec<String> = literals(source).into_iter().filter(|words| is_sentence(words)).collect();
    assert_eq!(found, ["two words", "{} is here"]);
}
