use super::*;
use serde_json::{Value, json};

fn content(several: bool) -> String {
    let option = |label: &str| json!({"label": label});
    let colour = json!({"id": "colour", "header": "Colour", "question": "Which colour?", "options": [option("red"), option("blue")]});
    let sizes =
        json!({"id": "a=b", "question": "Which sizes?", "several": true, "options": [option("S"), option("M")]});
    let questions = if several { vec![colour, sizes] } else { vec![colour] };
    json!({"agent": "echo", "tool": "question", "title": "t", "input": {}, "can": {}, "questions": questions})
        .to_string()
}

fn begin(several: bool) -> Answering {
    let which = Which { instance: "main".into(), id: "a1".into() };
    Answering::begin(which, "h".into(), &content(several)).unwrap()
}

fn press(answering: &mut Answering, keys: &str) -> Step {
    let mut step = Step::More;
    for key in keys.chars() {
        step = answering.press(match key {
            '\n' => Key::Enter,
            '\x1b' => Key::Escape,
            '\x08' => Key::Backspace,
            other => Key::Char(other),
        });
    }
    step
}

fn done(step: Step) -> Value {
    let Step::Done(answers) = step else { panic!("{step:?}") };
    json!(answers)
}

#[test]
fn one_key_answers_one_question() {
    assert_eq!(done(press(&mut begin(false), "2")), json!({"colour": ["blue"]}));
    let mut answering = begin(false);
    assert_eq!(press(&mut answering, "3x\n"), Step::More, "there is no third choice");
    assert_eq!(press(&mut answering, "\x1b"), Step::Left);
}

#[test]
fn several_choices_are_made_unmade_and_confirmed() {
    let mut answering = begin(true);
    assert_eq!(press(&mut answering, "1\n"), Step::More, "nothing was chosen of the second question yet");
    assert!(answering.line().contains("[2/2] Which sizes?"), "{}", answering.line());
    assert_eq!(press(&mut answering, "121"), Step::More);
    assert!(answering.line().contains("2* M") && !answering.line().contains("1*"), "{}", answering.line());
    assert_eq!(done(press(&mut answering, "\n")), json!({"colour": ["red"], "a=b": ["M"]}));
}

#[test]
fn words_of_ones_own_are_an_answer_and_their_letters_are_no_keys() {
    let mut answering = begin(false);
    assert_eq!(press(&mut answering, "tq1\x08 2\x1b"), Step::More);
    assert_eq!(press(&mut answering, "t \n"), Step::More, "blanks are no answer");
    assert_eq!(done(press(&mut answering, "x\n")), json!({"colour": [" x"]}));
}

#[test]
fn one_can_go_back_to_the_question_before() {
    let mut answering = begin(true);
    press(&mut answering, "1\x082");
    assert_eq!(done(press(&mut answering, "1\n")), json!({"colour": ["blue"], "a=b": ["S"]}));
}

#[test]
fn a_command_line_names_questions_by_id_header_or_number() {
    let two = questions(&content(true));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let read = |list: &[&str]| from_words(&two, &words(list)).map(|answers| json!(answers));
    let want = json!({"colour": ["red"], "a=b": ["S", "L=XL"]});
    assert_eq!(read(&["Colour=red", "a=b=S", "2=L=XL"]).unwrap(), want);
    for bad in [&["colour=red"][..], &["red", "a=b=S"], &["colour=", "a=b=S"], &["colour=red", "1=blue", "2=S"]] {
        assert!(read(bad).is_err(), "{bad:?}");
    }
    let one = questions(&content(false));
    assert_eq!(json!(from_words(&one, &words(&["any words"])).unwrap()), json!({"colour": ["any words"]}));
    assert_eq!(json!(from_words(&one, &words(&["one = 1"])).unwrap()), json!({"colour": ["one = 1"]}));
    let slip = from_words(&one, &words(&["color=blue"])).unwrap_err();
    assert_eq!(slip.message, r#"no question `color`; the questions are: "colour""#);
    assert_eq!(
        in_words(&one, &[("colour".to_owned(), vec!["red".to_owned(), "blue".to_owned()])].into()),
        ["Colour: red, blue"]
    );
}
