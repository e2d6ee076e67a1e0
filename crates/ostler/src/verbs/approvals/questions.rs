//! Answering an agent's questions, key by key or from a command line. The choices are the agent's; words of one's own are
//! always an answer too. Nothing here draws or talks to a daemon.

use ostler_story::{Answers, Question, ToolContent, words};

use crate::output::CommandError;
use crate::verbs::now::{Key, Which};

/// An answer in one's own words, not a letter.
const WORDS_MAX: usize = 2000;

/// The questions of a request; none if it asks for something else.
pub(in crate::verbs) fn questions(content: &str) -> Vec<Question> {
    serde_json::from_str::<ToolContent>(content).map(|content| content.questions).unwrap_or_default()
}

/// Where a person is in answering a request; what it is about was fixed when that began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::verbs) struct Answering {
    pub(in crate::verbs) which: Which,
    pub(in crate::verbs) hash: String,
    questions: Vec<Question>,
    /// What was chosen so far, a list for each question up to the one being answered.
    chosen: Vec<Vec<String>>,
    /// Words of one's own, while they are typed.
    words: Option<String>,
}

/// What came of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::verbs) enum Step {
    More,
    /// Everything is answered.
    Done(Answers),
    /// The person thought better of it.
    Left,
}

impl Answering {
    /// `None` when there is nothing to answer.
    pub(in crate::verbs) fn begin(which: Which, hash: String, content: &str) -> Option<Self> {
        let questions = questions(content);
        (!questions.is_empty()).then(|| Self { which, hash, questions, chosen: vec![Vec::new()], words: None })
    }

    fn question(&self) -> Option<&Question> {
        self.questions.get(self.chosen.len().saturating_sub(1))
    }

    pub(in crate::verbs) fn press(&mut self, key: Key) -> Step {
        if self.words.is_some() {
            return self.type_words(key);
        }
        let several = self.question().is_some_and(|question| question.several);
        match key {
            Key::Escape | Key::Interrupt => return Step::Left,
            Key::Char('t') => self.words = Some(String::new()),
            Key::Char(digit @ '1'..='9') => {
                let index = digit.to_digit(10).map_or(0, |digit| digit as usize - 1);
                let Some(option) = self.question().and_then(|question| question.options.get(index)) else {
                    return Step::More;
                };
                let label = option.label.clone();
                self.choose(label, several);
                if !several {
                    return self.next();
                }
            }
            Key::Enter if several && self.chosen.last().is_some_and(|chosen| !chosen.is_empty()) => return self.next(),
            Key::Backspace if self.chosen.len() > 1 => {
                self.chosen.pop();
                if let Some(last) = self.chosen.last_mut() {
                    last.clear();
                }
            }
            _ => {}
        }
        Step::More
    }

    fn type_words(&mut self, key: Key) -> Step {
        let Some(typed) = &mut self.words else { return Step::More };
        match key {
            Key::Char(c) if typed.chars().count() < WORDS_MAX => typed.push(c),
            Key::Backspace => drop(typed.pop()),
            Key::Escape | Key::Interrupt => self.words = None,
            Key::Enter if !typed.trim().is_empty() => {
                let words = std::mem::take(typed);
                self.words = None;
                let several = self.question().is_some_and(|question| question.several);
                self.choose(words, several);
                return self.next();
            }
            _ => {}
        }
        Step::More
    }

    /// One choice takes the place of another, unless several may be made; made twice, it is unmade.
    fn choose(&mut self, label: String, several: bool) {
        let Some(chosen) = self.chosen.last_mut() else { return };
        match chosen.iter().position(|known| *known == label) {
            Some(at) if several => drop(chosen.remove(at)),
            _ if several => chosen.push(label),
            _ => *chosen = vec![label],
        }
    }

    fn next(&mut self) -> Step {
        if self.chosen.len() < self.questions.len() {
            self.chosen.push(Vec::new());
            return Step::More;
        }
        let ids = self.questions.iter().map(|question| question.id.clone());
        Step::Done(ids.zip(self.chosen.iter().cloned()).collect())
    }

    /// One line that says what is being answered and which keys there are.
    pub(in crate::verbs) fn line(&self) -> String {
        let Some(question) = self.question() else { return String::new() };
        if let Some(typed) = &self.words {
            let question = words::value(&question.question);
            return format!("{question} {typed}_   (Enter sends, Esc goes back)");
        }
        let chosen = self.chosen.last().map(Vec::as_slice).unwrap_or_default();
        let option = |(index, option): (usize, &ostler_story::QuestionOption)| {
            let mark = if question.several && chosen.contains(&option.label) { "*" } else { "" };
            format!("{}{mark} {}", index + 1, words::value(&option.label))
        };
        let options = question.options.iter().take(9).enumerate().map(option);
        let keys: Vec<String> = options.chain(["t type an answer".to_owned()]).collect();
        let end = if question.several { "   (Enter when done, Esc cancels)" } else { "   (Esc cancels)" };
        let place = if self.questions.len() > 1 {
            format!("[{}/{}] ", self.chosen.len(), self.questions.len())
        } else {
            String::new()
        };
        format!("{place}{}  {}{end}", words::value(&question.question), keys.join("  "))
    }
}

/// `question=label` for each answer; the question by its id, its header or its number, or not at all when there is only one.
/// Given again for the same question, an answer is added.
pub(in crate::verbs) fn from_words(questions: &[Question], words: &[String]) -> Result<Answers, CommandError> {
    let ids = || questions.iter().map(|question| format!("{:?}", question.id)).collect::<Vec<_>>().join(", ");
    let mut answers = Answers::new();
    for word in words {
        let named = questions.iter().enumerate().find_map(|(index, question)| {
            let number = (index + 1).to_string();
            let names = [question.id.as_str(), question.header.as_str(), number.as_str()];
            let answer = names
                .iter()
                .filter(|name| !name.is_empty())
                .find_map(|name| word.strip_prefix(*name)?.strip_prefix('='));
            answer.map(|answer| (question, answer))
        });
        let (question, answer) = match (named, questions) {
            (Some(named), _) => named,
            // A single question needs no name; what looks like one is a slip of the pen, not an answer.
            (None, [only]) => match word.split_once('=').map(|(name, _)| name) {
                Some(name) if !name.is_empty() && !name.contains(char::is_whitespace) => {
                    return Err(CommandError::usage(format!("no question `{name}`; the questions are: {}", ids()))
                        .hint(format!("to answer with a `=` in it: --answer '{}={word}'", only.id)));
                }
                _ => (only, word.as_str()),
            },
            (None, _) => {
                return Err(CommandError::usage(format!("`{word}` does not name a question"))
                    .hint(format!("use --answer 'QUESTION=ANSWER'; QUESTION is one of {}, or its number", ids())));
            }
        };
        if answer.trim().is_empty() {
            return Err(CommandError::usage(format!("`{word}` contains no answer")));
        }
        let given = answers.entry(question.id.clone()).or_default();
        if !question.several && !given.is_empty() {
            return Err(CommandError::usage(format!("{:?} takes one answer", question.id)));
        }
        given.push(answer.to_owned());
    }
    match questions.iter().find(|question| !answers.contains_key(&question.id)) {
        Some(missing) => Err(CommandError::usage(format!("{:?} is not answered", missing.id))
            .hint(format!("use --answer once for each of: {}", ids()))),
        None => Ok(answers),
    }
}

/// What was chosen, for a person to read: a line for each question.
pub(in crate::verbs) fn in_words(questions: &[Question], given: &Answers) -> Vec<String> {
    let line = |question: &Question| {
        let name = if question.header.is_empty() { &question.id } else { &question.header };
        let answers = given.get(&question.id)?.iter().map(|answer| words::before(answer, ", "));
        Some(format!("{}: {}", words::before(name, ": "), answers.collect::<Vec<_>>().join(", ")))
    };
    questions.iter().filter_map(line).collect()
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
