//! A question of the agent, put to a client that can show a form: one choice at a time, until all are answered.

use ostler_door_rpc::request;
use ostler_story::{Answers, Decision, Question};
use serde_json::{Value, json};

use crate::update::Updates;

/// Questions that a client is being asked.
#[derive(Debug, Clone)]
pub(crate) struct Elicit {
    pub(crate) approval: String,
    updates: Updates,
    questions: Vec<Question>,
    answers: Answers,
}

/// What a client's answer leads to.
#[derive(Debug)]
pub(crate) enum Next {
    /// There is another question.
    Ask(Elicit),
    /// That was all.
    Decide(Decision),
    /// The client can not ask: the question waits for somebody else.
    Leave(Elicit),
}

impl Elicit {
    /// Nothing, where a question has no choices: a form could not show it.
    pub(crate) fn new(approval: &str, updates: &Updates, questions: &[Question]) -> Option<Self> {
        let fits = !questions.is_empty() && questions.iter().all(|question| !question.options.is_empty());
        let (approval, updates) = (approval.to_owned(), updates.clone());
        fits.then(|| Self { approval, updates, questions: questions.to_vec(), answers: Answers::new() })
    }

    /// Says where the question waits now.
    pub(crate) fn leave(&self, out: &mut Vec<u8>) {
        if let Some(question) = self.question() {
            self.updates.waits(&question.question, out);
        }
    }

    fn question(&self) -> Option<&Question> {
        self.questions.iter().find(|question| !self.answers.contains_key(&question.id))
    }

    /// The request for the next answer.
    pub(crate) fn request(&self, id: &str) -> Vec<u8> {
        let Some(question) = self.question() else { return Vec::new() };
        let choice = |(index, option): (usize, &ostler_story::QuestionOption)| json!({"const": format!("choice-{index}"), "title": option.label});
        let choices: Vec<Value> = question.options.iter().enumerate().map(choice).collect();
        let schema = json!({
            "type": "object",
            "properties": {"choice": {"type": "string", "oneOf": choices}},
            "required": ["choice"],
        });
        let params = json!({
            "sessionId": self.updates.session(), "session_id": self.updates.session(), "mode": "form",
            "message": question.question, "requestedSchema": schema,
        });
        let mut line = Vec::new();
        request(&mut line, "elicitation/create", id, |out| out.extend_from_slice(params.to_string().as_bytes()));
        line
    }

    /// Takes the client's answer, or that it had none; what was not among the choices is a no.
    pub(crate) fn answered(mut self, result: Option<&Value>) -> Next {
        let deny = |message: &str| Next::Decide(Decision::no(message));
        let Some(result) = result else { return Next::Leave(self) };
        match result.get("action").and_then(Value::as_str) {
            Some("accept") => {}
            Some("decline") => return deny("the question was declined"),
            _ => return deny("the question was not answered"),
        }
        let chosen = result.pointer("/content/choice").and_then(Value::as_str);
        let index =
            chosen.and_then(|choice| choice.strip_prefix("choice-")).and_then(|index| index.parse::<usize>().ok());
        let label = self
            .question()
            .and_then(|question| Some((question.id.clone(), question.options.get(index?)?.label.clone())));
        let Some((question, label)) = label else { return deny("the answer was none of the choices") };
        self.answers.insert(question, vec![label]);
        match self.question() {
            Some(_) => Next::Ask(self),
            None => Next::Decide(Decision::Answers { answers: self.answers }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_story::QuestionOption;

    fn question(id: &str, labels: &[&str]) -> Question {
        let option = |label: &&str| QuestionOption { label: (*label).to_owned(), description: String::new() };
        let options = labels.iter().map(option).collect();
        Question { id: id.into(), header: String::new(), question: format!("{id}?"), options, several: false }
    }

    fn accept(choice: &str) -> Value {
        json!({"action": "accept", "content": {"choice": choice}})
    }

    #[test]
    fn questions_are_put_one_after_the_other_and_answered_together() {
        let elicit =
            Elicit::new("a1", &Updates::of("s1"), &[question("colour", &["red", "blue"]), question("size", &["s"])])
                .unwrap();
        let asked: Value = serde_json::from_slice(&elicit.request("zc-out-1")).unwrap();
        assert_eq!((&asked["id"], &asked["params"]["message"]), (&json!("zc-out-1"), &json!("colour?")));
        let choices = &asked["params"]["requestedSchema"]["properties"]["choice"]["oneOf"];
        assert_eq!(choices[1], json!({"const": "choice-1", "title": "blue"}));
        let Next::Ask(second) = elicit.answered(Some(&accept("choice-1"))) else { panic!() };
        let Next::Decide(Decision::Answers { answers }) = second.answered(Some(&accept("choice-0"))) else { panic!() };
        assert_eq!(json!(answers), json!({"colour": ["blue"], "size": ["s"]}));
    }

    #[test]
    fn anything_else_than_a_choice_is_a_no() {
        let no =
            [json!({"action": "decline"}), json!({"action": "cancel"}), accept("choice-9"), accept("red"), json!(5)];
        for answer in no {
            let elicit = Elicit::new("a1", &Updates::of("s1"), &[question("colour", &["red"])]).unwrap();
            assert!(matches!(elicit.answered(Some(&answer)), Next::Decide(Decision::Deny { .. })), "{answer}");
        }
        let elicit = Elicit::new("a1", &Updates::of("s1"), &[question("colour", &["red"])]).unwrap();
        assert!(matches!(elicit.answered(None), Next::Leave(_)), "an error is nobody's answer");
        assert!(Elicit::new("a1", &Updates::of("s1"), &[question("free", &[])]).is_none());
    }
}
