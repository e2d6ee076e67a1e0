//! The story of a session in the protocol's words: pieces as `story` folds them, each bounded before it leaves. Nothing is
//! folded here.

use ostler_api::{
    HistoryDiff, PieceBlock, PieceBlockKind, PieceKind, PieceVoice, PiecesRecord, PlanStep, SessionPiece,
    SessionPieces, SessionUsage, Timestamp, Verdict,
};
use ostler_door_rpc::notify_of;
use ostler_engine::{EventHead, by_name};
use ostler_story::{
    Block, Decision, Element, Ended, Event, Fact, Message, Piece, Prompt, Speaker, Story, ToolCall, Usage, Voice, Why,
    said,
};
use serde::Serialize;

use crate::words::Translate;

/// What a record tells after everything that the story has heard before.
pub(crate) fn told(story: &mut Story, head: &EventHead, payload: &[u8]) -> Vec<SessionPiece> {
    let at_end = head.source != 0 && head.src_end == u64::MAX;
    let pieces = said(head.source, payload).into_iter().flat_map(|one| story.take(one, at_end));
    pieces.filter_map(piece).collect()
}

/// The same as a record of a page; nothing for one that tells nothing.
pub(crate) fn record(story: &mut Story, head: &EventHead, payload: &[u8]) -> Option<PiecesRecord> {
    let pieces = told(story, head, payload);
    let time = Timestamp::from_nanos(head.time_ns);
    (!pieces.is_empty()).then_some(PiecesRecord { record: head.record, time, pieces })
}

/// The same as a line for a watcher.
pub(crate) fn push(watch: u64, story: &mut Story, head: &EventHead, payload: &[u8], out: &mut Vec<u8>) {
    if let Some(PiecesRecord { record, time, pieces }) = record(story, head, payload) {
        let params = SessionPieces { watch, record, time, pieces };
        // These types always serialise, and writing to a vector cannot fail.
        let _ = notify_of(out, "session.pieces", &params);
    }
}

/// Leaves out words whose block is whole in the same page.
pub(crate) fn without_words_of_whole_blocks(records: &mut Vec<PiecesRecord>) {
    let mut whole = [false; 2];
    for record in records.iter_mut().rev() {
        let mut kept = Vec::with_capacity(record.pieces.len());
        for piece in std::mem::take(&mut record.pieces).into_iter().rev() {
            let of_voice = whole.get_mut(usize::from(piece.voice == Some(PieceVoice::Thought)));
            match (piece.kind, of_voice) {
                (PieceKind::Whole, Some(whole)) => *whole = true,
                (PieceKind::Words, Some(true)) => continue,
                (PieceKind::Begun, _) => whole = [false; 2],
                _ => {}
            }
            kept.push(piece);
        }
        kept.reverse();
        record.pieces = kept;
    }
    records.retain(|record| !record.pieces.is_empty());
}

/// A piece in the protocol's words; nothing for what nobody is shown.
fn piece(piece: Piece) -> Option<SessionPiece> {
    let bare = SessionPiece::new;
    Some(match piece {
        Piece::Accepted(prompt) => prompted(PieceKind::Accepted, prompt),
        Piece::Dropped { number, why, .. } => {
            SessionPiece { number: Some(number), text: Some(why), ..bare(PieceKind::Dropped) }
        }
        Piece::Begun { number, prompt: None } => SessionPiece { number: Some(number), ..bare(PieceKind::Begun) },
        Piece::Begun { prompt: Some(prompt), .. } => prompted(PieceKind::Begun, prompt),
        Piece::Words { voice, text } => worded(PieceKind::Words, Some(voice), text),
        Piece::Whole { voice, text, .. } => worded(PieceKind::Whole, Some(voice), text),
        Piece::CutOff(text) => worded(PieceKind::CutOff, Some(Voice::Answer), text),
        Piece::Tool(call) => tool(*call),
        Piece::ToolEnded { id, output, is_error, diffs, .. } => tool_ended(id, output, is_error, diffs),
        Piece::Asked { .. } => return None,
        Piece::Waits { approval, asked } => {
            let (id, title) = asked.map(|asked| (asked.tool_call.unwrap_or(asked.request), asked.title)).unzip();
            SessionPiece { approval: Some(approval), id, title, ..bare(PieceKind::Waits) }
        }
        Piece::Answered { approval, decision, by } => answered(approval, &decision, by_name(&by)),
        Piece::TakenBack { approval, .. } => SessionPiece { approval: Some(approval?), ..bare(PieceKind::TakenBack) },
        Piece::Trouble { message, kind, ends } => {
            SessionPiece { reason: word(&kind), is_error: ends, ..worded(PieceKind::Trouble, None, message) }
        }
        Piece::Process { after, .. } => SessionPiece { text: after, ..bare(PieceKind::Process) },
        Piece::Ended(ended) => ending(*ended),
        Piece::Said(event) => return event_piece(event),
        Piece::Noted(fact) => return noted(&fact),
    })
}

fn event_piece(event: Event) -> Option<SessionPiece> {
    let bare = SessionPiece::new;
    Some(match event {
        Event::ToolUpdate { id, output_delta, .. } => {
            SessionPiece { id: Some(id), ..worded(PieceKind::ToolOutput, None, output_delta) }
        }
        Event::Plan { entries } => {
            let step = |entry: ostler_story::PlanEntry| PlanStep {
                text: entry.text,
                status: word(&entry.status).unwrap_or_default(),
            };
            SessionPiece { steps: entries.into_iter().map(step).collect(), ..bare(PieceKind::Plan) }
        }
        Event::Usage(usage) => SessionPiece { usage: Some(figures(usage)), ..bare(PieceKind::Usage) },
        Event::Notice { text } => worded(PieceKind::Notice, None, text),
        Event::Offers(offers) => SessionPiece { offers: serde_json::to_value(offers).ok(), ..bare(PieceKind::Offers) },
        _ => return None,
    })
}

fn noted(fact: &Fact) -> Option<SessionPiece> {
    Some(SessionPiece::new(match fact {
        Fact::Changed { .. } => PieceKind::Changed,
        Fact::Interrupt { .. } => PieceKind::Stopping,
        Fact::Held {} => PieceKind::Held,
        Fact::Closed {} => PieceKind::Closed,
        _ => return None,
    }))
}

fn prompted(kind: PieceKind, prompt: Prompt) -> SessionPiece {
    let mut cut = false;
    let blocks = prompt.blocks.into_iter().map(|block| {
        let (kind, text, picture) = match block {
            Block::Text { text } => (PieceBlockKind::Text, text, None),
            Block::File { path } => (PieceBlockKind::File, path, None),
            Block::Image { mime, data } => {
                (PieceBlockKind::Image, String::new(), Some((mime, data.len() as u64 / 4 * 3)))
            }
        };
        let (text, over) = bounded(text);
        cut |= over;
        let (mime, bytes) = picture.unzip();
        PieceBlock { kind, text, mime, bytes }
    });
    let blocks = blocks.collect();
    SessionPiece { number: Some(prompt.number), blocks, door: Some(prompt.door), cut, ..SessionPiece::new(kind) }
}

fn worded(kind: PieceKind, voice: Option<Voice>, text: String) -> SessionPiece {
    let (text, cut) = bounded(text);
    SessionPiece { voice: voice.map(Translate::translated), text: Some(text), cut, ..SessionPiece::new(kind) }
}

fn tool(call: ToolCall) -> SessionPiece {
    let (element, cut) = bounded_element(Element::Tool(call));
    let Some(Element::Tool(call)) = element else { return SessionPiece::new(PieceKind::Tool) };
    SessionPiece {
        id: Some(call.id),
        name: Some(call.name),
        title: Some(call.title),
        does: word(&call.kind),
        parent: call.parent,
        input: Some(call.input),
        diffs: diffs(call.diffs),
        cut,
        ..SessionPiece::new(PieceKind::Tool)
    }
}

fn tool_ended(id: String, output: String, is_error: bool, changed: Vec<ostler_story::Diff>) -> SessionPiece {
    let (element, cut) = bounded_element(Element::Result { id, output, is_error, diffs: changed });
    let Some(Element::Result { id, output, is_error, diffs: changed }) = element else {
        return SessionPiece::new(PieceKind::ToolEnded);
    };
    let (id, text) = (Some(id), Some(output));
    SessionPiece { id, text, is_error, diffs: diffs(changed), cut, ..SessionPiece::new(PieceKind::ToolEnded) }
}

fn answered(approval: String, decision: &Decision, by: String) -> SessionPiece {
    let (verdict, text) = match decision {
        Decision::Once => (Verdict::Once, None),
        Decision::Session => (Verdict::Session, None),
        Decision::Always => (Verdict::Always, None),
        Decision::Deny { message, .. } => (Verdict::Deny, Some(message.clone()).filter(|message| !message.is_empty())),
        Decision::Changed { .. } => (Verdict::Changed, None),
        Decision::Answers { answers } => {
            let all = answers.values().map(|given| given.join(", ")).collect::<Vec<_>>().join("; ");
            (Verdict::Answers, Some(all))
        }
    };
    SessionPiece {
        approval: Some(approval),
        verdict: Some(verdict),
        text: text.map(|text| bounded(text).0),
        by: Some(by),
        ..SessionPiece::new(PieceKind::Answered)
    }
}

fn ending(ended: Ended) -> SessionPiece {
    let why = ended.why.and_then(|why| match why {
        Why::Told(text) | Why::Exited { told: Some(text), .. } => Some(text),
        Why::Exited { told: None, .. } => None,
    });
    SessionPiece {
        number: ended.number,
        reason: word(&ended.reason),
        stopped: ended.stopped.is_some(),
        text: why.map(|why| bounded(why).0),
        usage: Some(figures(ended.usage)),
        ..SessionPiece::new(PieceKind::Ended)
    }
}

fn figures(usage: Usage) -> SessionUsage {
    let Usage { input_tokens, output_tokens, cached_tokens, context_used, context_size, turn_cost_usd, .. } = usage;
    SessionUsage { input_tokens, output_tokens, cached_tokens, cost_usd: turn_cost_usd, context_used, context_size }
}

pub(crate) fn diffs(all: Vec<ostler_story::Diff>) -> Vec<HistoryDiff> {
    let one = |ostler_story::Diff { path, old, new, line }| HistoryDiff { path, old, new, line };
    all.into_iter().map(one).collect()
}

/// The word that a journal has for it.
fn word<T: Serialize>(of: &T) -> Option<String> {
    serde_json::to_value(of).ok()?.as_str().map(str::to_owned)
}

/// As much of a text as anybody reads on a page, and whether that is not all.
fn bounded(text: String) -> (String, bool) {
    match bounded_element(Element::Text(text)) {
        (Some(Element::Text(text)), cut) => (text, cut),
        _ => (String::new(), true),
    }
}

fn bounded_element(element: Element) -> (Option<Element>, bool) {
    let mut message = Message { id: None, time_ms: None, speaker: Speaker::Agent, elements: vec![element] };
    let cut = message.bound();
    (message.elements.pop(), cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[(u32, &str)]) -> Vec<PiecesRecord> {
        let mut story = Story::default();
        let record_of = |(number, (source, line)): (u64, &(u32, &str))| {
            let head = EventHead { record: number, source: *source, src_end: number, time_ns: 0, len: line.len() };
            record(&mut story, &head, line.as_bytes())
        };
        (1..).zip(lines).filter_map(record_of).collect()
    }

    const TURN: &[(u32, &str)] = &[
        (
            0,
            r#"{"type":"prompt","number":1,"blocks":[{"type":"text","text":"hi"},{"type":"image","mime":"image/png","data":"AAAA"}]}"#,
        ),
        (0, r#"{"type":"turn","number":1}"#),
        (1, r#"{"type":"thought_delta","text":"hm"}"#),
        (1, r#"{"type":"text_delta","text":"he"}"#),
        (1, r#"{"type":"text","text":"hello"}"#),
        (1, r#"{"type":"turn_ended","reason":"completed"}"#),
    ];

    #[test]
    fn a_turn_is_told_in_its_pieces_and_a_picture_by_its_size() {
        let told = of(TURN);
        let kinds: Vec<_> = told.iter().flat_map(|record| &record.pieces).map(|piece| piece.kind.as_str()).collect();
        assert_eq!(kinds, ["accepted", "begun", "words", "words", "whole", "ended"]);
        let picture = &told[0].pieces[0].blocks[1];
        assert_eq!((picture.kind, picture.bytes, picture.text.as_str()), (PieceBlockKind::Image, Some(3), ""));
        assert_eq!(told[5].pieces[0].reason.as_deref(), Some("completed"));
    }

    #[test]
    fn a_page_leaves_out_the_words_of_whole_blocks_and_of_no_others() {
        let mut page = of(TURN);
        without_words_of_whole_blocks(&mut page);
        let kinds: Vec<_> =
            page.iter().flat_map(|record| &record.pieces).map(|piece| (piece.kind, piece.voice)).collect();
        assert!(kinds.contains(&(PieceKind::Words, Some(PieceVoice::Thought))), "{kinds:?}");
        assert!(!kinds.contains(&(PieceKind::Words, Some(PieceVoice::Answer))), "{kinds:?}");
        assert_eq!(page.len(), 5, "a record without pieces is left out");
    }

    #[test]
    fn what_is_too_long_for_a_page_is_cut_and_said_to_be() {
        let long = format!(r#"{{"type":"text","text":"{}"}}"#, "x".repeat(10 << 20));
        let told = of(&[(1, &long)]);
        let piece = &told[0].pieces[0];
        assert!(piece.cut && piece.text.as_ref().is_some_and(|text| text.len() <= 64 << 10));
    }
}
