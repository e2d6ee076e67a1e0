//! A notice in words: who and what kind, on one line. What an agent said is in it only where the settings want that, and never
//! with anything that a terminal or a page could take for more than text.

use ostler_story::Agent;

use super::{For, Kind, What};
use crate::Engine;

/// Who is named of several: more than that is not read on a phone.
const NAMED: usize = 4;
/// Characters of a name, and of what an agent said.
const NAME_MAX: usize = 60;
const CONTENT_MAX: usize = 200;

/// The text of a notice about all of these. `whole` is all of a request that can be answered from it.
pub(super) fn text(engine: &Engine, of: &[(String, What)], content: bool, whole: Option<String>) -> String {
    match of {
        [(id, what)] => {
            let name = name(engine, id);
            let text = match what {
                What::Needs(what) => format!("{name} needs you: {}", needed(*what)),
                What::Failed => format!("{name} failed"),
                What::Ended | What::Nothing => format!("{name} is done"),
            };
            match whole.or_else(|| said(engine, id).filter(|_| content)) {
                Some(said) => format!("{text}: {said}"),
                None => text,
            }
        }
        of => {
            let many = |kind: Kind, words: &str| {
                let count = of.iter().filter(|(_, what)| what.kind() == kind).count();
                (count > 0).then(|| format!("{count} {words}"))
            };
            let counts = [many(Kind::Needs, "need you"), many(Kind::Failed, "failed"), many(Kind::Ended, "done")];
            let names: Vec<String> = of.iter().take(NAMED).map(|(id, _)| name(engine, id)).collect();
            let more = of.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let counts: Vec<String> = counts.into_iter().flatten().collect();
            format!("{}: {}{more}", counts.join(", "), names.join(", "))
        }
    }
}

fn needed(what: For) -> &'static str {
    match what {
        For::Permission => "permission",
        For::Question => "a question",
        For::Login => "nobody is logged in",
        For::Limit => "a usage limit is reached",
        For::GoOn => "the machine was restarted; tell it to go on",
        For::Something => "it waits",
    }
}

/// What people call it: the name that they gave it, else what it is.
fn name(engine: &Engine, id: &str) -> String {
    let name = match id.chars().next() {
        Some('s') => engine.sessions().get(id).map(|session| {
            let view = session.view();
            view.name.unwrap_or_else(|| format!("{} in {}", agent(&view.agent), folder(&view.workspace)))
        }),
        Some('p') => engine.inner.process(id).map(|process| {
            process.name().unwrap_or_else(|| {
                let about = process.about();
                format!("{} in {}", folder(about.program.as_ref()), folder(&about.cwd))
            })
        }),
        _ => engine.inbox().peek(id).map(|approval| {
            let asker = &approval.ask.asker;
            let session = asker.verified_session.as_deref().map(|session| name(engine, session));
            let client = || if asker.client.is_empty() { asker.door.clone() } else { asker.client.clone() };
            session.unwrap_or_else(client)
        }),
    };
    plain(&name.unwrap_or_else(|| id.to_owned()), NAME_MAX)
}

/// What it asks for or says, in one line.
fn said(engine: &Engine, id: &str) -> Option<String> {
    let said = match id.chars().next()? {
        's' => engine.sessions().get(id)?.asked().pop().map(|(_, asked)| asked.title)?,
        'p' => {
            let claim = engine.inner.process(id)?.claim()?;
            claim.message.or(claim.title)?
        }
        _ => engine.inbox().peek(id)?.ask.title,
    };
    Some(plain(&said, CONTENT_MAX)).filter(|said| !said.is_empty())
}

fn agent(agent: &Agent) -> &str {
    agent.name()
}

fn folder(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Text that means nothing but itself, on one line and not too long.
fn plain(text: &str, most: usize) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown: String = text.chars().map(|c| if hidden(c) { ' ' } else { c }).take(most + 1).collect();
    if shown.chars().count() > most {
        shown.pop();
        shown.push('…');
    }
    shown.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_one_line_of_letters() {
        assert_eq!(plain("a\x1b]9;x\x07b\nc\u{202e}d", 60), "a ]9;x b c d");
        assert_eq!(plain(&"é".repeat(100), 10), format!("{}…", "é".repeat(10)));
    }
}
