//! Holds what ran and what everybody was told against the audit.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use ostler_api::AuditEntry;
use serde_json::Value;

use super::ApproverReplies;
use super::asker::{Asked, key};

/// What is wrong, and what there was.
#[derive(Default)]
pub(crate) struct Verdict {
    pub(crate) findings: Vec<String>,
    runs: usize,
    executed: u64,
    denied: u64,
    expired: u64,
    withdrawn: u64,
    /// Kills that fell between a recorded yes and the record that it was carried out.
    between: u64,
    twice: u64,
    undecided: u64,
    untrue: u64,
}

/// One request as the audit tells it.
#[derive(Default)]
struct Story {
    id: String,
    counts: HashMap<String, u64>,
    /// The word of the decision, and its position.
    decided: Option<(String, u64)>,
    /// Where it was carried out, or settled otherwise after a yes.
    after: Option<u64>,
}

impl Verdict {
    pub(crate) fn line(&self, kills: u64) -> String {
        format!(
            "runs={} kills={kills} between_yes_and_run={} executed={} denied={} expired={} withdrawn={} twice={} undecided={} untrue={}",
            self.runs,
            self.between,
            self.executed,
            self.denied,
            self.expired,
            self.withdrawn,
            self.twice,
            self.undecided,
            self.untrue
        )
    }

    fn twice(&mut self, finding: String) {
        self.twice += 1;
        self.findings.push(finding);
    }

    fn undecided(&mut self, finding: String) {
        self.undecided += 1;
        self.findings.push(finding);
    }

    fn untrue(&mut self, finding: String) {
        self.untrue += 1;
        self.findings.push(finding);
    }
}

pub(crate) fn judge(instance: &Path, asked: &[Asked], told: &ApproverReplies, audit: &[AuditEntry]) -> Result<Verdict> {
    let (stories, starts) = read(audit)?;
    let mut verdict = Verdict { runs: asked.len(), ..Verdict::default() };
    let nothing = Story::default();
    for run in asked {
        let name = key(run.number);
        let story = stories.get(&name).unwrap_or(&nothing);
        let marks = std::fs::read_to_string(instance.join("ran").join(run.number.to_string())).unwrap_or_default();
        let ran = marks.lines().count() as u64;
        judge_one(&mut verdict, run, &name, story, ran);
        let heard = told.get(&story.id).map(Vec::as_slice).unwrap_or_default();
        judge_told(&mut verdict, &name, story, heard);
        if let (Some((word, yes)), after) = (&story.decided, story.after.unwrap_or(u64::MAX))
            && word == "once"
        {
            verdict.between += u64::from(starts.iter().any(|start| yes < start && *start < after));
        }
    }
    Ok(verdict)
}

fn judge_one(verdict: &mut Verdict, run: &Asked, name: &str, story: &Story, ran: u64) {
    let count = |what: &str| story.counts.get(what).copied().unwrap_or(0);
    let yes = story.decided.as_ref().is_some_and(|(word, _)| word == "once");
    verdict.executed += u64::from(ran > 0);
    verdict.denied += u64::from(story.decided.as_ref().is_some_and(|(word, _)| word == "deny"));
    verdict.expired += count("expired");
    verdict.withdrawn += count("withdrawn");
    if ran > 1 {
        verdict.twice(format!("{name} ran {ran} times"));
    }
    if ran > 0 && !yes {
        verdict.undecided(format!("{name} ran without a recorded yes"));
    }
    for what in ["asked", "shown", "decided", "expired", "withdrawn", "applied", "finished", "failed"] {
        if count(what) > 1 {
            verdict.twice(format!("{name}: `{what}` stands {} times in the audit", count(what)));
        }
    }
    let fits = match run.status.as_deref() {
        Some("ok") => ran == 1 && yes,
        Some("denied") => ran == 0 && count("decided") == 1 && !yes,
        Some("timeout") => ran == 0 && count("expired") == 1,
        // Withdrawn because nobody came back in time, or settled by a death of the daemon: said, not guessed.
        Some("error") => true,
        Some(_) => false,
        None => run.hung_up || count("asked") <= 1,
    };
    if !fits {
        verdict.untrue(format!("{name} was answered {:?}, ran {ran} times, audit {:?}", run.status, story.counts));
    }
}

/// Everybody who decided was told the truth.
fn judge_told(verdict: &mut Verdict, name: &str, story: &Story, heard: &[String]) {
    let count = |what: &str| story.counts.get(what).copied().unwrap_or(0);
    let counted: Vec<&String> = heard.iter().filter(|told| told.starts_with("counted")).collect();
    if counted.len() > 1 {
        verdict.twice(format!("{name}: {} approvers were told that theirs counted", counted.len()));
    }
    for told in heard {
        let word = story.decided.as_ref().map_or("", |(word, _)| word.as_str());
        let true_words = match told.split_once(' ').unwrap_or((told, "")) {
            ("counted", said) => said == word,
            (_, why) if why.starts_with("already ") => count("decided") == 1,
            (_, why) if why.starts_with("expired") => count("expired") == 1,
            (_, why) if why.starts_with("withdrawn") => count("withdrawn") == 1,
            (_, why) => why.starts_with("the decision is about other content"),
        };
        if !true_words {
            verdict.untrue(format!("{name}: an approver was told {told:?}, the audit says {:?}", story.counts));
        }
    }
}

/// The stories by the askers' names for them, and the positions at which a daemon began.
fn read(audit: &[AuditEntry]) -> Result<(HashMap<String, Story>, Vec<u64>)> {
    let (mut names, mut stories, mut starts) = (HashMap::new(), HashMap::<String, Story>::new(), Vec::new());
    for entry in audit {
        let record = &entry.record;
        let what = record.get("what").and_then(Value::as_str).unwrap_or_default().to_owned();
        if what == "opened" {
            starts.push(entry.seq);
        }
        let Some(id) = &entry.about else { continue };
        if let Some(name) = record.get("key").and_then(Value::as_str) {
            names.insert(id.clone(), name.to_owned());
        }
        let Some(name) = names.get(id) else { continue };
        let story = stories.entry(name.clone()).or_default();
        story.id.clone_from(id);
        if what == "decided" {
            let word = record.pointer("/decision/verdict").and_then(Value::as_str).unwrap_or_default();
            story.decided = Some((word.to_owned(), entry.seq));
        } else if story.decided.is_some() && matches!(what.as_str(), "applied" | "failed" | "withdrawn") {
            story.after.get_or_insert(entry.seq);
        }
        *story.counts.entry(what).or_default() += 1;
    }
    Ok((stories, starts))
}
