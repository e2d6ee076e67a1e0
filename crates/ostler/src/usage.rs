//! A mistake in the call: what is wrong with it, and what may have been meant.

use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::names;
use crate::output::{CommandError, nearest};

/// What other programs call our verbs: nothing that looks like them would help.
const OTHER_WORDS: &[(&str, &[&str])] = &[
    ("stop", &["down", "kill"]),
    ("ls", &["ps", "sessions"]),
    ("list", &["ps", "sessions"]),
    ("rm", &["forget", "close"]),
    ("delete", &["forget", "close"]),
    ("exec", &["run"]),
    ("top", &["ps", "sessions"]),
    ("info", &["status"]),
    ("login", &["doctor"]),
    ("rename", &["set"]),
    ("version", &["--version"]),
];

/// Help asked for is a result; anything else is a mistake in the call.
pub(crate) fn report(mut error: clap::Error, args: &[OsString], command: &clap::Command) -> ExitCode {
    suggest(&mut error, args, command);
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // If nobody reads it, nobody misses it.
        let _ = error.print();
        return if asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    // Nobody has understood the call when it is to be said what is wrong with it.
    in_our_words(&error).report(before_dashes(args).any(|arg| arg == "--json"))
}

/// A mistake in the call, told as any other failure is.
fn in_our_words(error: &clap::Error) -> CommandError {
    let text = error.render().to_string();
    // What is wrong, what may have been meant, how it is called: each a paragraph.
    let mut parts = text.trim().splitn(2, "\n\n").map(|part| part.trim().to_owned());
    let message = parts.next().unwrap_or_default();
    let message = bad_value(error).unwrap_or_else(|| message.strip_prefix("error: ").unwrap_or(&message).to_owned());
    parts.next().into_iter().fold(CommandError::usage(message), CommandError::hint)
}

/// Which value is wrong, and why; `--tail` and not `--tail <LINES>`, because that is what was typed.
fn bad_value(error: &clap::Error) -> Option<String> {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let (arg, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let name = arg.split(' ').next().unwrap_or(arg);
    let why = std::error::Error::source(error)?;
    Some(match why.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => format!("{name}: {value} is too large"),
        Some(_) => format!("{name} takes a number, not '{value}'"),
        None => format!("{name} '{value}': {why}"),
    })
}

fn suggest(error: &mut clap::Error, args: &[OsString], command: &clap::Command) {
    match error.kind() {
        ErrorKind::InvalidSubcommand => suggest_verb(error, args, command),
        ErrorKind::UnknownArgument => suggest_flag(error, args, command),
        _ => {}
    }
}

/// What follows `--` belongs to another program.
fn before_dashes(args: &[OsString]) -> impl Iterator<Item = &OsString> {
    args.iter().take_while(|arg| *arg != "--")
}

/// Names the verb that was meant: the nearest, and no list of what has some letters in common.
fn suggest_verb(error: &mut clap::Error, args: &[OsString], command: &clap::Command) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let above = verb_of(args, command);
    let other = OTHER_WORDS.iter().find(|(word, _)| args.first().is_some_and(|verb| verb == *word));
    let meant: Vec<String> = match other {
        Some((_, ours)) => ours.iter().map(|verb| (*verb).to_owned()).collect(),
        None if names::is_known(typed) => vec![format!("as {typed}")],
        None => {
            let verbs = above.get_subcommands().filter(|verb| !verb.is_hide_set());
            nearest(typed, verbs.map(clap::Command::get_name)).map(str::to_owned).into_iter().collect()
        }
    };
    match meant.is_empty() {
        true => error.remove(ContextKind::SuggestedSubcommand),
        false => error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant)),
    };
}

/// The verb that these words lead to.
fn verb_of<'a>(args: &[OsString], command: &'a clap::Command) -> &'a clap::Command {
    let words = before_dashes(args).filter_map(|arg| arg.to_str());
    words.fold(command, |verb, word| verb.find_subcommand(word).unwrap_or(verb))
}

/// Names the flag that was meant. clap finds none for a slip in a short name, and says instead how to pass it as a value, which
/// is what nobody meant, unless it is a sentence.
fn suggest_flag(error: &mut clap::Error, args: &[OsString], command: &clap::Command) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return };
    if typed.contains(' ') {
        return;
    }
    let (typed, verb) = (with_one_dash(typed, args).unwrap_or(typed).to_owned(), verb_of(args, command));
    if let Some(tip) = other_habit(verb.get_name(), &typed) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return;
    }
    let typed = typed.trim_start_matches('-').to_owned();
    let everywhere = command.get_arguments().filter(|arg| arg.is_global_set());
    let flags = verb.get_arguments().chain(everywhere).filter(|arg| !arg.is_hide_set());
    match nearest(&typed, flags.filter_map(clap::Arg::get_long)) {
        Some(flag) => {
            error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{flag}")));
        }
        None => {
            error.remove(ContextKind::SuggestedArg);
        }
    }
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
}

/// What people are used to from other programs, and how it is done here.
fn other_habit(verb: &str, typed: &str) -> Option<String> {
    let signal = typed.strip_prefix('-').filter(|name| {
        let mut letters = name.chars();
        !name.is_empty() && letters.all(|letter| letter.is_ascii_digit() || letter.is_ascii_uppercase())
    });
    match (verb, signal) {
        ("kill", Some(signal)) => Some(format!("to send a signal, use '--signal {signal}'")),
        _ if typed.starts_with('-') => None,
        ("restart", _) => Some(format!("to run a process again, use 'ostler start {typed}'")),
        ("send", _) => Some("put the prompt in quotes: ostler send ID 'your prompt'".to_owned()),
        ("new", _) => Some("give the prompt in quotes after -m: ostler new AGENT -m 'your prompt'".to_owned()),
        _ => None,
    }
}

/// A long flag after a single dash, of which clap names one letter.
fn with_one_dash<'a>(typed: &str, args: &'a [OsString]) -> Option<&'a str> {
    let letter = typed.strip_prefix('-').filter(|rest| rest.chars().count() == 1)?;
    before_dashes(args).filter_map(|arg| arg.to_str()).find(|arg| {
        let word = arg.strip_prefix('-').filter(|word| !word.starts_with('-'));
        word.is_some_and(|word| word.len() > 2 && word.contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn told(args: &[&str]) -> String {
        let words = std::iter::once("ostler").chain(args.iter().copied());
        let mut error = cli::command().try_get_matches_from(words).unwrap_err();
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        suggest(&mut error, &args, &cli::description());
        error.render().to_string()
    }

    /// The last two letters the wrong way round, or one too few.
    fn mistyped(flag: &str) -> String {
        let mut letters: Vec<char> = flag.chars().collect();
        let last = letters.len() - 1;
        letters.swap(last - 1, last);
        let swapped: String = letters.into_iter().collect();
        if swapped == flag { flag[..last].to_owned() } else { swapped }
    }

    /// Every long flag of a verb and of those below it, with the words that lead there.
    fn flags(command: &clap::Command, path: &[String], found: &mut Vec<(Vec<String>, String)>) {
        let longs = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(clap::Arg::get_long);
        found.extend(longs.map(|flag| (path.to_vec(), flag.to_owned())));
        for verb in command.get_subcommands() {
            flags(verb, &[path, &[verb.get_name().to_owned()]].concat(), found);
        }
    }

    #[test]
    fn every_flag_of_every_verb_is_found_when_it_is_mistyped() {
        let mut all = Vec::new();
        flags(&cli::description(), &[], &mut all);
        assert!(all.len() > 80, "{}", all.len());
        for (path, flag) in all {
            let typed = format!("--{}", mistyped(&flag));
            let args: Vec<&str> = path.iter().map(String::as_str).chain([typed.as_str()]).collect();
            let told = told(&args);
            assert!(told.contains(&format!("'{typed}' found")), "{args:?}: {told}");
            assert!(told.contains(&format!("similar argument exists: '--{flag}'")), "{args:?}: {told}");
            assert!(!told.contains("as a value"), "{args:?}: {told}");
        }
    }

    #[test]
    fn the_verb_that_was_meant_comes_alone() {
        for (typed, meant) in
            [("runn", "run"), ("aprove", "approve"), ("statsu", "status"), ("sudo-proxy", "as sudo-proxy")]
        {
            let told = told(&[typed]);
            assert!(told.contains(&format!("exists: '{meant}'\n")), "{typed}: {told}");
        }
        assert!(told(&["devices", "revok"]).contains("exists: 'revoke'"), "{}", told(&["devices", "revok"]));
        assert!(!told(&["zebra"]).contains("tip:"), "{}", told(&["zebra"]));
    }

    #[test]
    fn a_value_that_is_no_number_is_told_in_our_words() {
        let told = |args: &[&str]| {
            let words = std::iter::once("ostler").chain(args.iter().copied());
            in_our_words(&cli::command().try_get_matches_from(words).unwrap_err())
        };
        assert_eq!(told(&["logs", "b", "--tail", "x"]).message, "--tail takes a number, not 'x'");
        assert_eq!(told(&["watch", "q", "--from", "abc"]).message, "--from takes a number, not 'abc'");
        let huge = "99999999999999999999999";
        assert_eq!(told(&["logs", "b", "--tail", huge]).message, format!("--tail: {huge} is too large"));
        let signal = told(&["kill", "b", "--signal", "TREM"]);
        assert_eq!(signal.message, "--signal 'TREM': no such signal; did you mean TERM?");
        assert!(signal.hint.is_some_and(|hint| hint.contains("--help")));
        assert!(told(&["logs", "--zebra"]).message.starts_with("unexpected argument"));
    }

    #[test]
    fn habits_from_other_programs_are_answered() {
        let tip = |args: &[&str], tip: &str| {
            let told = told(args);
            assert!(told.contains(&format!("tip: {tip}")) && !told.contains("as a value"), "{args:?}: {told}");
        };
        tip(&["kill", "-9", "build"], "to send a signal, use '--signal 9'");
        tip(&["kill", "-KILL", "build"], "to send a signal, use '--signal KILL'");
        tip(&["restart", "build"], "to run a process again, use 'ostler start build'");
        tip(&["send", "fix", "run", "the", "tests"], "put the prompt in quotes: ostler send ID 'your prompt'");
        tip(&["new", "echo", "run", "the", "tests"], "give the prompt in quotes after -m");
    }

    #[test]
    fn a_flag_after_one_dash_is_found_and_a_stranger_is_not() {
        assert!(told(&["logs", "x", "-tail", "3"]).contains("'--tail'"));
        let stranger = told(&["logs", "x", "--zebra"]);
        assert!(stranger.contains("'--zebra' found") && !stranger.contains("tip:"), "{stranger}");
        assert!(told(&["send", "x", "--tidy up, please"]).contains("use '-- --tidy up, please'"));
    }
}
