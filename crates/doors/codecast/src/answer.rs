//! A message as the answer to questions that an agent waits for: the labels that it names, or its own words.

use std::collections::BTreeMap;

use ostler_story::Question;

/// Some clients cut a label off where their buttons do; shorter words than this are somebody's own.
const CUT_OFF: usize = 16;

/// The answers by the ids of the questions. Each line of the message answers one question, in their order; the last question
/// takes what is left, and one that gets no line gets no answer.
pub(crate) fn answers(questions: &[Question], message: &str) -> BTreeMap<String, Vec<String>> {
    let message = message.trim();
    let mut answers = BTreeMap::new();
    let mut rest = Some(message);
    for (index, question) in questions.iter().enumerate() {
        let Some(words) = rest else { break };
        let last = index + 1 == questions.len();
        let (own, after) = match words.split_once('\n').filter(|_| !last) {
            Some((own, after)) => (own, Some(after)),
            None => (words, None),
        };
        rest = after;
        answers.insert(question.id.clone(), choose(question, own.trim()));
    }
    answers
}

fn choose(question: &Question, words: &str) -> Vec<String> {
    if let Some(label) = label(question, words) {
        return vec![label];
    }
    let several: Option<Vec<String>> = words.split([',', ';']).map(|word| label(question, word.trim())).collect();
    match several.filter(|_| question.several) {
        Some(labels) => labels,
        None => vec![words.to_owned()],
    }
}

/// The label that these words are, number, or begin.
fn label(question: &Question, words: &str) -> Option<String> {
    let labels = || question.options.iter().map(|option| option.label.as_str());
    let same = labels().find(|label| label.eq_ignore_ascii_case(words));
    let numbered = || labels().nth(words.parse::<usize>().ok()?.checked_sub(1)?);
    let cut_off = || {
        let mut alike = labels().filter(|label| words.len() >= CUT_OFF && label.starts_with(words));
        alike.next().filter(|_| alike.next().is_none())
    };
    same.or_else(numbered).or_else(cut_off).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_story::QuestionOption;

    fn question(id: &str, labels: &[&str], several: bool) -> Question {
        let option = |label: &&str| QuestionOption { label: (*label).to_owned(), description: String::new() };
        let options = labels.iter().map(option).collect();
        Question { id: id.to_owned(), header: String::new(), question: id.to_owned(), options, several }
    }

    fn one(question: &Question, message: &str) -> Vec<String> {
        answers(std::slice::from_ref(question), message).remove(&question.id).unwrap()
    }

    #[test]
    fn a_label_is_known_by_itself_its_number_or_its_beginning() {
        let asked = question("q", &["Blue", "A rather long label that a button cut", "7"], false);
        assert_eq!(one(&asked, "blue"), ["Blue"]);
        assert_eq!(one(&asked, " 2 "), ["A rather long label that a button cut"]);
        assert_eq!(one(&asked, "A rather long label"), ["A rather long label that a button cut"]);
        assert_eq!(one(&asked, "7"), ["7"]);
        assert_eq!(one(&asked, "B"), ["B"]);
        assert_eq!(one(&asked, "something else, really"), ["something else, really"]);
    }

    #[test]
    fn several_may_be_chosen_where_several_may_be() {
        let asked = question("q", &["a", "b", "c"], true);
        assert_eq!(one(&asked, "a, 3"), ["a", "c"]);
        assert_eq!(one(&asked, "a, other"), ["a, other"]);
        assert_eq!(one(&question("q", &["a", "b"], false), "a, b"), ["a, b"]);
    }

    #[test]
    fn lines_answer_questions_in_their_order() {
        let asked = [question("q1", &["x"], false), question("q2", &[], false)];
        let both = answers(&asked, "x\nfirst\nsecond");
        assert_eq!((both["q1"].join("|"), both["q2"].join("|")), ("x".into(), "first\nsecond".into()));
        let only = answers(&asked, "x");
        assert_eq!(only.keys().collect::<Vec<_>>(), ["q1"]);
    }
}
