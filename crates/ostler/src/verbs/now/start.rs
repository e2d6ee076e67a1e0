//! Choosing an agent, a folder and the first prompt. Nothing here draws or starts anything.

use super::keys::Key;

/// A path or a prompt that is typed on one line.
const TEXT_MAX: usize = 4000;

/// What is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) agent: String,
    pub(super) folder: String,
    /// Nothing: it waits for words.
    pub(super) prompt: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Agent,
    Folder,
    Prompt,
}

/// What came of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Filled {
    More,
    Left,
    Done(Start),
}

pub(super) struct Form {
    pub(super) agents: Vec<String>,
    /// Not installed, so not to be chosen.
    pub(super) absent: Vec<String>,
    pub(super) chosen: usize,
    pub(super) folder: String,
    pub(super) prompt: String,
    pub(super) field: Field,
    /// Why it could not be started, and what to do: a line each, so that a command stays whole.
    pub(super) problem: Vec<String>,
}

impl Form {
    pub(super) fn new((agents, absent): (Vec<String>, Vec<String>), folder: String) -> Self {
        let (prompt, problem) = (String::new(), Vec::new());
        Self { agents, absent, chosen: 0, folder, prompt, field: Field::Agent, problem }
    }

    pub(super) fn press(&mut self, key: Key) -> Filled {
        self.problem.clear();
        match (self.field, key) {
            (_, Key::Escape | Key::Interrupt) => return Filled::Left,
            (Field::Prompt, Key::Enter) => return self.done(),
            (_, Key::Tab | Key::Down | Key::Enter) => self.field = self.field.next(),
            (_, Key::BackTab | Key::Up) => self.field = self.field.before(),
            (Field::Agent, Key::Right | Key::Char(' ' | 'l')) => self.choose(self.chosen + 1),
            (Field::Agent, Key::Left | Key::Char('h')) => self.choose(self.chosen + self.agents.len() - 1),
            (Field::Agent, Key::Char(c)) => {
                // The next one that begins with this letter.
                let begins = |at: &usize| self.agents.get(*at).is_some_and(|name| name.starts_with(c));
                let after = (self.chosen + 1..self.agents.len()).chain(0..self.chosen);
                match after.into_iter().find(begins) {
                    Some(found) => self.choose(found),
                    None => self.problem = self.why_not(c).into_iter().collect(),
                }
            }
            (Field::Agent, _) => {}
            (Field::Folder, key) => type_into(&mut self.folder, key),
            (Field::Prompt, key) => type_into(&mut self.prompt, key),
        }
        Filled::More
    }

    /// Why no agent with this letter is chosen, if there is one that could be.
    fn why_not(&self, letter: char) -> Option<String> {
        let begins = |name: &&String| name.starts_with(letter);
        if self.agents.get(self.chosen).is_some_and(|chosen| begins(&chosen)) {
            return None;
        }
        let absent = self.absent.iter().find(begins);
        absent.map(|name| format!("{name} is not installed, or not in ostler's PATH"))
    }

    fn choose(&mut self, at: usize) {
        self.chosen = at % self.agents.len().max(1);
    }

    fn done(&mut self) -> Filled {
        let Some(agent) = self.agents.get(self.chosen).cloned() else { return Filled::Left };
        let prompt = Some(self.prompt.trim().to_owned()).filter(|prompt| !prompt.is_empty());
        Filled::Done(Start { agent, folder: self.folder.clone(), prompt })
    }
}

impl Field {
    const fn next(self) -> Self {
        match self {
            Self::Agent => Self::Folder,
            Self::Folder | Self::Prompt => Self::Prompt,
        }
    }

    const fn before(self) -> Self {
        match self {
            Self::Agent | Self::Folder => Self::Agent,
            Self::Prompt => Self::Folder,
        }
    }
}

fn type_into(text: &mut String, key: Key) {
    match key {
        Key::Char(c) if text.len() < TEXT_MAX => text.push(c),
        Key::Backspace => drop(text.pop()),
        Key::Erase => text.clear(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Form {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Form::new((names(&["claude", "codex", "echo"]), names(&["gemini"])), "/w".into())
    }

    fn type_text(form: &mut Form, text: &str) {
        text.chars().for_each(|c| drop(form.press(Key::Char(c))));
    }

    #[test]
    fn three_enters_start_what_was_chosen() {
        let mut form = form();
        form.press(Key::Char('e'));
        form.press(Key::Enter);
        type_text(&mut form, "/sub");
        form.press(Key::Enter);
        type_text(&mut form, " say qyn ");
        let start = Start { agent: "echo".into(), folder: "/w/sub".into(), prompt: Some("say qyn".into()) };
        assert_eq!(form.press(Key::Enter), Filled::Done(start));
    }

    #[test]
    fn letters_and_arrows_walk_through_the_agents() {
        let mut form = form();
        let at = |form: &Form| form.agents[form.chosen].clone();
        form.press(Key::Left);
        assert_eq!(at(&form), "echo");
        form.press(Key::Char('c'));
        assert_eq!(at(&form), "claude");
        form.press(Key::Char('c'));
        assert_eq!(at(&form), "codex");
        form.press(Key::Char('x'));
        assert_eq!(at(&form), "codex");
        assert_eq!(form.press(Key::Escape), Filled::Left);
    }

    #[test]
    fn an_agent_that_is_not_installed_is_not_chosen_and_it_says_why() {
        let mut form = form();
        form.press(Key::Char('g'));
        assert_eq!(form.agents[form.chosen], "claude");
        assert!(form.problem.concat().contains("gemini is not installed"), "{:?}", form.problem);
        form.press(Key::Char('c'));
        assert!(form.problem.is_empty() && form.agents[form.chosen] == "codex", "and what is, is");
        form.press(Key::Char('x'));
        assert!(form.problem.is_empty(), "no agent has this letter: {:?}", form.problem);
    }
}
