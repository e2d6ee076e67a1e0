//! What a list shows of a transcript: its beginning and its end are read, all of it only where that is little.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ostler_agents::transcript::{About, Told, line};
use ostler_story::{Element, Speaker, Usage};
use serde::{Deserialize, Serialize};

use super::lines::{Line, forward};
use super::offsets::Recent;
use super::{Recorder, is_word, walk};

/// A transcript of this size is read whole: most are.
const WHOLE: u64 = 256 << 10;
/// As much of the beginning of others: what was asked first is there.
const HEAD: u64 = 256 << 10;
/// As much of the end: what was used so far, and the title.
const TAIL: u64 = 128 << 10;
/// Characters of what is shown in a list.
const SHOWN: usize = 200;
/// Bytes of a name.
const NAME: usize = 256;
/// The longest path there is.
const PATH: usize = 4096;

/// What a conversation is about, each as far as its recorder told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The agent's own id of it.
    pub id: String,
    /// Where it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// What the agent calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What was asked first, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_prompt: Option<String>,
    /// When it began, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_ms: Option<u64>,
    /// How many messages it has, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// The model that answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What it has used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// One line for a list: no line ends, nothing that moves a cursor, not too long.
pub(super) fn shown(text: &str) -> Option<String> {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.trim().chars().map(plain).take(SHOWN).collect();
    let words = text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then_some(words)
}

fn name(text: Option<String>, max: usize) -> Option<String> {
    text.filter(|text| text.len() <= max && !text.chars().any(char::is_control))
}

/// Reads one.
pub(super) fn read(recorder: Recorder, file: &File, root: &Path, path: &str) -> io::Result<Summary> {
    let size = file.metadata()?.len();
    let mut sum = Sum::default();
    let mut take = |bytes: Line<'_>| {
        if let Line::Whole(bytes) = bytes
            && let Some(told) = line(recorder, bytes)
        {
            sum.take(told);
        }
        sum.summary.first_prompt.is_some() && sum.summary.workspace.is_some()
    };
    if size <= WHOLE {
        forward(file, 0, size, &mut |_, _, line| {
            take(line);
            true
        })?;
        sum.summary.messages = Some(sum.messages);
        sum.summary.usage = sum.summary.usage.take().or(sum.steps.take());
    } else {
        let read = forward(file, 0, HEAD, &mut |_, _, line| !take(line))?;
        // The first line of the end may be a part of one: it is not JSON, and tells nothing.
        forward(file, read.max(size - TAIL), size, &mut |_, _, line| {
            take(line);
            true
        })?;
    }
    let mut summary = sum.summary;
    let named = path.rsplit('/').next().and_then(|name| walk::id_of(recorder, name));
    if let (Some(id), false) = (named, recorder == Recorder::Gemini) {
        summary.id = id.to_owned();
    }
    if recorder == Recorder::Gemini {
        summary.workspace = project(root, path);
    }
    Ok(summary)
}

/// The id that a transcript says it has.
pub(super) fn id_in(root: &Path, path: &str) -> Option<String> {
    let mut head = Vec::new();
    walk::open(root, path).ok()?.take(16 << 10).read_to_end(&mut head).ok()?;
    let first = head.split(|byte| *byte == b'\n').next()?;
    line(Recorder::Gemini, first)?.about.id.filter(|id| is_word(id))
}

/// gemini names a project in a file beside its transcripts.
fn project(root: &Path, path: &str) -> Option<String> {
    let folder = path.split('/').next()?;
    let mut text = String::new();
    let file = walk::open(root, &format!("{folder}/.project_root")).ok()?;
    file.take(PATH as u64).read_to_string(&mut text).ok()?;
    name(Some(text.trim().to_owned()), PATH).filter(|path| path.starts_with('/'))
}

/// The sum of what its lines tell.
#[derive(Default)]
struct Sum {
    summary: Summary,
    messages: u64,
    recent: Recent,
    steps: Option<Usage>,
    step: Option<String>,
}

impl Sum {
    fn take(&mut self, told: Told) {
        let Told { message, about } = told;
        let About { id, workspace, branch, model, title, time_ms, total, step } = about;
        let summary = &mut self.summary;
        if let Some(id) = id.filter(|id| summary.id.is_empty() && is_word(id)) {
            summary.id = id;
        }
        // Where it began: an agent takes a conversation up only from there.
        summary.workspace = summary.workspace.take().or(name(workspace, PATH).filter(|path| path.starts_with('/')));
        summary.branch = name(branch, NAME).or(summary.branch.take());
        summary.model = name(model, NAME).or(summary.model.take());
        summary.title = title.and_then(|title| shown(&title)).or(summary.title.take());
        summary.began_ms = summary.began_ms.or(time_ms);
        summary.usage = total.or(summary.usage.take());
        if let Some((id, usage)) = step.filter(|(id, _)| self.step.as_ref() != Some(id)) {
            self.steps.get_or_insert_default().step(usage);
            self.step = Some(id);
        }
        let Some(message) = message else { return };
        self.messages += u64::from(self.recent.is_new(message.id.as_deref()));
        if summary.first_prompt.is_none() && message.speaker == Speaker::Person {
            // What begins so was put there by the program.
            let typed = |element: &Element| match element {
                Element::Text(text) if !text.starts_with('<') => shown(text),
                _ => None,
            };
            summary.first_prompt = message.elements.iter().find_map(typed);
        }
    }
}
