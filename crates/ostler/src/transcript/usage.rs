//! What a turn or a session has used, in words. A figure that nobody gave is left out.

use ostler_api::{SessionUsage, Timestamp};
use ostler_story::Usage;

use crate::output::{counted, minute, visible};

/// Of a turn.
pub(crate) fn usage_words(usage: &Usage) -> String {
    let figures = [
        tokens(usage.input_tokens, usage.output_tokens, usage.cached_tokens),
        usage.context_used.zip(usage.context_size).map(|(used, size)| format!("context {used} of {size}")),
        usage.turn_cost_usd.map(dollars),
    ];
    joined(figures)
}

/// Of a session.
pub(crate) fn spent_words(usage: &SessionUsage) -> String {
    let tokens = tokens(usage.input_tokens, usage.output_tokens, usage.cached_tokens);
    let context = usage.context_used.zip(usage.context_size).map(|(used, size)| format!("context {used} of {size}"));
    joined([tokens, context, usage.cost_usd.map(dollars)])
}

/// A limit of use that is close, or reached.
pub(crate) fn limit_words(name: &str, used: Option<f64>, resets: Option<Timestamp>, reached: bool) -> String {
    let name = visible(name);
    let how = match used {
        _ if reached => format!("the limit {name} is reached"),
        Some(percent) => format!("{percent}% of the limit {name} is used"),
        None => format!("the limit {name} is close"),
    };
    let resets = resets.map_or(String::new(), |time| format!("; it resets at {}", minute(time)));
    format!("{how}{resets}")
}

/// Four decimals: a turn of a cheap model costs fractions of a cent.
pub(crate) fn dollars(dollars: f64) -> String {
    format!("${dollars:.4}")
}

fn tokens(input: Option<u64>, output: Option<u64>, cached: Option<u64>) -> Option<String> {
    let words = joined([
        input.map(|count| format!("{} in", counted(count, "token", "tokens"))),
        output.map(|count| format!("{count} out")),
        cached.filter(|count| *count > 0).map(|count| format!("{count} cached")),
    ]);
    Some(words).filter(|words| !words.is_empty())
}

fn joined<const N: usize>(words: [Option<String>; N]) -> String {
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
