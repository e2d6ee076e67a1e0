//! What an agent says, in one vocabulary for all agents and all doors.
//!
//! Events are journaled as JSON, so a member may be added but none may change its meaning. A run of deltas is
//! followed by the whole block, unless it was cut off: what was said for certain is in the whole blocks.

use serde::{Deserialize, Serialize};

use crate::{Diff, Limit, Offers, ToolCall};

/// Any JSON value: a tool's input or output as the agent gave it.
pub type Json = serde_json::Value;

/// One thing that an agent said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The conversation is open. May come again at each turn.
    Started {
        /// The agent's own id of the conversation: what a later resume names.
        agent_session: Option<String>,
        /// The model that answers.
        model: Option<String>,
    },
    /// A piece of the answer.
    TextDelta {
        /// The piece.
        text: String,
    },
    /// A whole block of the answer, also when its pieces came before.
    Text {
        /// The block.
        text: String,
    },
    /// A piece of a thought.
    ThoughtDelta {
        /// The piece.
        text: String,
    },
    /// A whole thought.
    Thought {
        /// The thought.
        text: String,
    },
    /// A tool is to be used. Whether it may is another matter.
    ToolCall(ToolCall),
    /// A tool is about to be used: what it is given is still being written.
    ToolPending {
        /// The agent's id of the call.
        id: String,
        /// The tool, by the agent's name.
        name: String,
    },
    /// A tool said something while it runs.
    ToolUpdate {
        /// The call.
        id: String,
        /// What was added to its output.
        output_delta: String,
        /// The tool, where the agent says how it is getting on instead of what it wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A tool has ended, or was refused.
    ToolResult {
        /// The call.
        id: String,
        /// Its output as text.
        output: String,
        /// Whether it failed or was refused.
        is_error: bool,
        /// What it has changed, where the call did not tell.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        diffs: Vec<Diff>,
    },
    /// The agent's plan, whole, replacing the one before.
    Plan {
        /// Its steps.
        entries: Vec<PlanEntry>,
    },
    /// What this turn has used so far, as far as the agent says.
    Usage(Usage),
    /// The agent waits for an answer.
    Asked(Asked),
    /// The agent takes a question back: nobody needs to answer it.
    Unasked {
        /// The request that is no more.
        request: String,
    },
    /// A request was answered with yes at once, because the session's autonomy says so.
    Granted {
        /// The agent's id of the request.
        request: String,
        /// The tool.
        tool: String,
        /// What it was given.
        input: Json,
    },
    /// The turn is over.
    TurnEnded {
        /// Why.
        reason: EndReason,
        /// What the agent said about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Something went wrong. A turn that fails of it also ends.
    Error {
        /// What, for people.
        message: String,
        /// Whether this process can not go on.
        fatal: bool,
        /// What sort of thing.
        kind: ErrorKind,
    },
    /// Something worth knowing.
    Notice {
        /// For people.
        text: String,
    },
    /// What the agent offers: each list once, and again when it changes.
    Offers(Offers),
    /// What the agent calls the conversation.
    Title {
        /// In one line.
        title: String,
    },
    /// How much of a limit of use is used up.
    Limit(Limit),
    /// How the agent's program is doing, which is no part of the conversation. The raw line in the journal has the rest.
    Status {
        /// How the agent named it.
        kind: String,
    },
    /// A line that this version does not know. Never fatal; the raw line is in the journal.
    Unknown {
        /// How the agent named it.
        kind: String,
    },
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanEntry {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub status: PlanStatus,
}

/// How far a step of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Being done.
    Running,
    /// Done.
    Done,
}

/// Figures, each only if the agent gave it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Usage {
    /// Tokens read in this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written in this turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens of the input that came from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens that the conversation holds now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_used: Option<u64>,
    /// Tokens that it can hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_size: Option<u64>,
    /// What the process, or the conversation, has cost so far, in US dollars, as the agent counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What this turn has cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_cost_usd: Option<f64>,
}

impl Usage {
    /// Takes over every figure that is newer: an agent may tell them one by one.
    pub fn update(&mut self, newer: &Usage) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cached_tokens = newer.cached_tokens.or(self.cached_tokens);
        self.context_used = newer.context_used.or(self.context_used);
        self.context_size = newer.context_size.or(self.context_size);
        self.cost_usd = newer.cost_usd.or(self.cost_usd);
        self.turn_cost_usd = newer.turn_cost_usd.or(self.turn_cost_usd);
    }

    /// Adds one more step of the same turn.
    pub fn step(&mut self, step: Usage) {
        let add = |sum: Option<u64>, more: Option<u64>| more.map(|more| sum.unwrap_or(0).saturating_add(more)).or(sum);
        let input_tokens = add(self.input_tokens, step.input_tokens);
        let output_tokens = add(self.output_tokens, step.output_tokens);
        let cached_tokens = add(self.cached_tokens, step.cached_tokens);
        let turn_cost_usd = step.turn_cost_usd.map(|more| self.turn_cost_usd.unwrap_or(0.0) + more);
        self.update(&Usage { input_tokens, output_tokens, cached_tokens, turn_cost_usd, ..step });
    }
}

/// A permission request or a question of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asked {
    /// The agent's id of the request: what an answer names.
    pub request: String,
    /// What is asked for.
    pub ask: Ask,
    /// The tool, by the agent's name.
    pub tool: String,
    /// One line for people.
    pub title: String,
    /// The whole input: what a decision is bound to.
    pub input: Json,
    /// The call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// Why, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the answer may be beyond yes and no.
    pub can: Can,
    /// What the agent would no longer ask about after a yes for the session or for ever, in its words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// The questions, if these are questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
}

/// What an agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// May this tool run?
    Permission,
    /// Which of these?
    Question,
}

/// What an answer to this request can express. A door offers nothing else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Can {
    /// Yes for the rest of the session, by the agent's own memory.
    pub session: bool,
    /// Yes for ever, by the agent's own memory.
    pub always: bool,
    /// Yes with another input.
    pub change: bool,
    /// A no reaches the agent with words.
    pub message: bool,
}

/// A question with choices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Question {
    /// What the answer is filed under.
    pub id: String,
    /// A word or two.
    #[serde(default)]
    pub header: String,
    /// The question.
    pub question: String,
    /// The choices; free text is always an answer too.
    #[serde(default)]
    pub options: Vec<QuestionOption>,
    /// Whether several may be chosen.
    #[serde(default)]
    pub several: bool,
}

/// A choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionOption {
    /// What is answered.
    pub label: String,
    /// What it means.
    #[serde(default)]
    pub description: String,
}

/// Why a turn is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The agent is done.
    Completed,
    /// Somebody stopped it, or its process ended in the middle.
    Interrupted,
    /// It failed.
    Failed,
    /// The model refused.
    Refused,
    /// The answer was cut at the model's limit.
    MaxTokens,
    /// Too many steps for one turn.
    MaxSteps,
}

/// What sort of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The model, the network, the agent itself.
    Agent,
    /// The conversation to resume is not there: a fresh one would work.
    Resume,
    /// Nobody is logged in.
    Login,
    /// The agent does not honour the autonomy or the model it was given: it must not go on.
    Setup,
    /// A line was longer than what an adapter reads and was left out.
    Line,
}

impl Event {
    /// An error of the agent that it can live with.
    pub fn trouble(message: impl Into<String>) -> Self {
        Event::Error { message: message.into(), fatal: false, kind: ErrorKind::Agent }
    }

    /// The end of a tool that changed nothing beyond what its call told.
    pub fn tool_result(id: impl Into<String>, output: impl Into<String>, is_error: bool) -> Self {
        Event::ToolResult { id: id.into(), output: output.into(), is_error, diffs: Vec::new() }
    }

    /// The end of a turn that fails of this error.
    pub fn failure(&self) -> Option<Self> {
        let Event::Error { message, .. } = self else { return None };
        Some(Event::TurnEnded { reason: EndReason::Failed, message: Some(message.clone()) })
    }

    /// A turn that ended for `reason` with nothing to add.
    pub fn turn_ended(reason: EndReason) -> Self {
        Event::TurnEnded { reason, message: None }
    }
}
