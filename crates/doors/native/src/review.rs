//! `session.review`: comments on lines, put into words for the agent. It is a prompt like any other: written down, once for each
//! key, and it waits for its turn.

use ostler_api::{ErrorKind, PromptAccepted, PromptParams, ReviewComment, ReviewParams, RpcError};
use ostler_door_rpc::is_hidden;
use ostler_engine::MayWait;

use crate::call::Call;
use crate::session::prompt;

/// Nobody writes more at once, and no agent does as many things well.
const COMMENTS_MAX: usize = 500;
/// 16 KiB: a long letter about one line.
const TEXT_MAX: usize = 16 << 10;
/// All of it together: what an agent reads and still has room to work.
const REVIEW_MAX: usize = 256 << 10;
/// Lines that are quoted of one place: the agent finds the rest by their numbers.
const QUOTE_LINES: usize = 20;
/// Characters of a line that are quoted; a minified file is one line.
const QUOTE_CHARS: usize = 400;

pub(crate) fn review(wait: &MayWait, call: &Call, params: ReviewParams) -> Result<PromptAccepted, RpcError> {
    let text = words(&params)?;
    let ReviewParams { id, refuse_if_busy, key, .. } = params;
    // A name space of its own: a review is not the prompt that has the same key.
    let key = key.map(|key| format!("review:{key}"));
    prompt(wait, call, PromptParams { id, text: Some(text), blocks: Vec::new(), refuse_if_busy, key })
}

/// What the agent reads: each place, the line as it was shown, and what is said about it.
fn words(review: &ReviewParams) -> Result<String, RpcError> {
    let bad = |message: String| RpcError::new(ErrorKind::BadParams, message);
    let about = review.text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    match review.comments.len() {
        0 if about.is_none() => return Err(bad("session.review: there are no comments".into())),
        count if count > COMMENTS_MAX => {
            return Err(bad(format!("session.review: {count} comments; {COMMENTS_MAX} is the limit")));
        }
        _ => {}
    }
    let long = |text: &str| text.len() > TEXT_MAX;
    if about.is_some_and(long) || review.comments.iter().any(|comment| long(&comment.text)) {
        return Err(bad(format!("session.review: a comment has at most {TEXT_MAX} bytes")));
    }
    if let Some(empty) = review.comments.iter().find(|comment| comment.text.trim().is_empty()) {
        return Err(bad(format!("session.review: the comment on {} is empty", place(empty))));
    }
    let mut parts: Vec<String> = about.map(plain).into_iter().collect();
    if !review.comments.is_empty() {
        parts.push("Comments on the changes:".to_owned());
    }
    parts.extend(review.comments.iter().map(comment));
    let whole = parts.join("\n\n");
    if whole.len() > REVIEW_MAX {
        let message = format!("session.review: {} bytes of comments; {REVIEW_MAX} is the limit", whole.len());
        return Err(bad(message).hint("send them in parts"));
    }
    Ok(whole)
}

fn comment(comment: &ReviewComment) -> String {
    let mut lines = vec![format!("{}:", place(comment))];
    let quote = comment.quote.as_deref().unwrap_or_default();
    lines.extend(quote.lines().take(QUOTE_LINES).map(|line| format!("> {}", plain(&cut(line)))));
    if quote.lines().nth(QUOTE_LINES).is_some() {
        lines.push("> …".to_owned());
    }
    lines.push(plain(comment.text.trim()));
    lines.join("\n")
}

fn place(comment: &ReviewComment) -> String {
    // One line, whatever the file is called.
    let path = plain(&comment.path.to_string()).replace('\n', "\\n").replace('\t', "\\t");
    let lines = match (comment.line, comment.last_line) {
        (None, _) => return path,
        (Some(line), Some(last)) if last > line => format!("lines {line} to {last}"),
        (Some(line), _) => format!("line {line}"),
    };
    let removed = if comment.removed { ", removed" } else { "" };
    format!("{path}, {lines}{removed}")
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(QUOTE_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// Text in which nothing acts or hides: whoever shows the conversation later, shows this.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => plain.push(c),
            '\r' => {}
            c if c.is_control() || is_hidden(c) => plain.extend(c.escape_unicode()),
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(comments: Vec<serde_json::Value>) -> Result<String, RpcError> {
        words(&serde_json::from_value(serde_json::json!({"id": "s", "comments": comments})).unwrap())
    }

    #[test]
    fn the_agent_reads_file_line_quote_and_comment() {
        let comments = vec![
            serde_json::json!({"path": "src/a.rs", "line": 12, "quote": "let x = 1;", "text": "why?\n"}),
            serde_json::json!({"path": "src/a.rs", "line": 3, "last_line": 4, "removed": true, "quote": "a\nb", "text": "keep"}),
            serde_json::json!({"path": "b", "text": "rename it"}),
        ];
        let want = "Comments on the changes:\n\nsrc/a.rs, line 12:\n> let x = 1;\nwhy?\n\nsrc/a.rs, lines 3 to 4, removed:\n> a\n> \
                    b\nkeep\n\nb:\nrename it";
        assert_eq!(said(comments).unwrap(), want);
    }

    #[test]
    fn nothing_in_it_acts_hides_or_looks_like_another_place() {
        let odd = serde_json::json!({"path": "a\nb.rs, line 9:\u{1b}", "line": 1, "quote": "x\u{202e}\u{1b}[2J", "text": "a\u{9b}b\r\n\tc"});
        let text = said(vec![odd]).unwrap();
        let want = "a\\nb.rs, line 9:\\u{1b}, line 1:\n> x\\u{202e}\\u{1b}[2J\na\\u{9b}b\n\tc";
        assert_eq!(text.split_once("\n\n").unwrap().1, want);
    }

    #[test]
    fn it_is_bounded_and_says_so() {
        let many = vec![serde_json::json!({"path": "a", "text": "x"}); COMMENTS_MAX + 1];
        assert!(said(many).unwrap_err().message.contains("500 is the limit"));
        let long = serde_json::json!({"path": "a", "text": "x".repeat(TEXT_MAX + 1)});
        assert!(said(vec![long]).unwrap_err().message.contains("16384 bytes"));
        let much = vec![serde_json::json!({"path": "a", "text": "x".repeat(TEXT_MAX)}); 17];
        assert!(said(much).unwrap_err().message.contains("262144 is the limit"));
        assert!(
            said(vec![serde_json::json!({"path": "a", "line": 7, "text": " \n"})])
                .unwrap_err()
                .message
                .contains("a, line 7 is empty")
        );
        assert!(said(vec![]).unwrap_err().message.contains("no comments"));
        let wide =
            serde_json::json!({"path": "a", "quote": "y".repeat(QUOTE_CHARS + 1) + &"\nz".repeat(30), "text": "x"});
        let text = said(vec![wide]).unwrap();
        assert!(text.contains("y…\n> z") && text.ends_with("> z\n> …\nx"));
        assert_eq!(text.matches("> ").count(), QUOTE_LINES + 1);
    }
}
