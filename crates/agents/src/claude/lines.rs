//! What claude tells about a turn, the same whether it is kept running or started for one prompt.

use ostler_story::{EndReason, ErrorKind, Event, Json, Offers, PlanEntry, PlanStatus, ToolCall, ToolKind, Usage};

use crate::adapter::Lined;
use crate::json;
use crate::model;
use crate::setup::Setup;

use super::{launch, offers};

/// What has been told so far.
#[derive(Debug)]
pub(crate) struct Lines {
    setup: Setup,
    /// The mode it must report at its start, where a person's answers depend on it.
    mode: Option<String>,
    resuming: bool,
    started: bool,
    /// Its id of the conversation, as it told it last.
    named: Option<String>,
    /// A turn has begun and not ended.
    pub(crate) in_turn: bool,
    /// Turns that ended.
    pub(crate) results: u64,
    /// The turn that runs was ended here, because it runs in another way than it was asked to.
    stopped: bool,
    /// What it said that it had cost when the last one did.
    cost: f64,
    /// What it offers.
    offers: Offers,
    /// Tokens that the conversation held when the model last answered.
    context: Option<u64>,
}

impl Lines {
    /// Kept running, in the mode that its command line names.
    pub(crate) fn kept(setup: &Setup) -> Self {
        Lines { mode: Some(launch::mode(setup).to_owned()), ..Lines::once(setup) }
    }

    /// Started for one prompt.
    pub(crate) fn once(setup: &Setup) -> Self {
        let resuming = setup.resume.is_some();
        let (mode, named) = (None, None);
        Lines {
            setup: setup.clone(),
            mode,
            resuming,
            started: false,
            named,
            in_turn: false,
            results: 0,
            stopped: false,
            cost: 0.0,
            offers: Offers::default(),
            context: None,
        }
    }

    /// A line that is not part of the control protocol.
    pub(crate) fn line(&mut self, line: &Json) -> Vec<Event> {
        let kind = json::text(line, &["type"]).unwrap_or_default();
        match kind {
            "system" => self.system(line),
            "stream_event" => streamed(line),
            "assistant" => {
                self.context = offers::context(line).or(self.context);
                assistant(line)
            }
            "user" => results(line),
            "result" => self.result(line),
            "tool_progress" => progress(line).into_iter().collect(),
            "rate_limit_event" => offers::limits(line),
            "command_lifecycle" | "keep_alive" | "auth_status" => Vec::new(),
            other => vec![Event::Unknown { kind: other.to_owned() }],
        }
    }

    /// The output has ended after `prompts` prompts.
    pub(crate) fn ended(&mut self, prompts: u64, running: bool, events: &mut Vec<Event>) {
        if running {
            events.push(Event::turn_ended(EndReason::Interrupted));
        }
        self.in_turn = false;
        self.results = self.results.max(prompts);
    }

    fn system(&mut self, line: &Json) -> Vec<Event> {
        let subtype = json::text(line, &["subtype"]).unwrap_or_default();
        let notice = |text: String| vec![Event::Notice { text }];
        match subtype {
            "init" => self.init(line),
            "status" | "thinking_tokens" => vec![Event::Status { kind: subtype.to_owned() }],
            "api_retry" => {
                let count = |name| json::number(line, &[name]).unwrap_or_default();
                let (attempt, of) = (count("attempt"), count("max_retries"));
                let what = json::number(line, &["error_status"]);
                let what =
                    what.map_or("the connection to the model broke".to_owned(), |n| format!("the model said {n}"));
                notice(format!("{what}: attempt {attempt} of {of}"))
            }
            "permission_denied" => notice(json::text(line, &["message"]).unwrap_or("a tool was denied").to_owned()),
            "informational" => match json::text(line, &["content"]) {
                Some(text) => notice(text.to_owned()),
                None => vec![Event::Status { kind: subtype.to_owned() }],
            },
            "compact_boundary" => notice("the conversation was compacted".to_owned()),
            other => vec![Event::Unknown { kind: format!("system/{other}") }],
        }
    }

    fn init(&mut self, line: &Json) -> Vec<Event> {
        self.in_turn = true;
        let mut events = vec![Event::Started {
            agent_session: json::text(line, &["session_id"]).map(str::to_owned),
            model: json::text(line, &["model"]).map(str::to_owned),
        }];
        if let (false, Some(wanted), Some(mode)) = (self.started, &self.mode, json::text(line, &["permissionMode"])) {
            let same = |mode| if mode == "manual" { "default" } else { mode };
            if same(mode) != same(wanted.as_str()) {
                let message = format!("claude runs in mode {mode} although {wanted} was asked for");
                events.push(Event::Error { message, fatal: true, kind: ErrorKind::Setup });
            }
        }
        if let (false, Some(told)) = (self.started, json::text(line, &["model"])) {
            events.extend(model::differs(&self.setup, told));
        }
        if let Some(failure) = events.last().and_then(Event::failure) {
            // It must not go on; what it still says about this turn is not asked for.
            events.push(failure);
            (self.in_turn, self.stopped, self.results) = (false, true, self.results + 1);
        }
        events.extend(self.offers.news(offers::told(line)).map(Event::Offers));
        self.started = true;
        self.named = json::text(line, &["session_id"]).map(str::to_owned).or(self.named.take());
        events
    }

    fn result(&mut self, line: &Json) -> Vec<Event> {
        self.in_turn = false;
        let told = std::mem::take(&mut self.stopped);
        self.results += u64::from(!told);
        let mut events = vec![Event::Usage(Usage {
            input_tokens: json::number(line, &["usage", "input_tokens"]),
            output_tokens: json::number(line, &["usage", "output_tokens"]),
            cached_tokens: json::number(line, &["usage", "cache_read_input_tokens"]),
            cost_usd: line.get("total_cost_usd").and_then(Json::as_f64),
            turn_cost_usd: self.turn_cost(line),
            context_used: self.context,
            context_size: offers::window(line),
        })];
        let reason = reason(line);
        // What a result names is what a later resume must name, whatever was said at the start.
        let news = |id: &&str| self.named.as_deref() != Some(*id) && reason != EndReason::Failed;
        if let Some(id) = json::text(line, &["session_id"]).filter(news) {
            self.named = Some(id.to_owned());
            events.insert(0, Event::Started { agent_session: Some(id.to_owned()), model: None });
        }
        let message = (reason == EndReason::Failed).then(|| complaint(line));
        if let Some(message) = message.as_ref().filter(|_| self.resuming && !self.started) {
            events.push(Event::Error { message: message.clone(), fatal: true, kind: ErrorKind::Resume });
        }
        if !told {
            events.push(Event::TurnEnded { reason, message });
        }
        events
    }
}

impl Lines {
    /// What the turn cost. The total goes on from an earlier process if that one left in peace, and begins anew if it was
    /// killed: newer versions say what is new since the last result, and older ones always begin anew.
    fn turn_cost(&mut self, line: &Json) -> Option<f64> {
        let total = line.get("total_cost_usd").and_then(Json::as_f64)?;
        let before = std::mem::replace(&mut self.cost, total);
        let since = line.get("model_usage_since_last_result").and_then(Json::as_object);
        let cost = |models: &serde_json::Map<String, Json>| {
            let costs = models.values().filter_map(|model| model.get("costUSD").and_then(Json::as_f64));
            // Not `sum`, which is minus zero for none.
            costs.fold(0.0, |sum, cost| sum + cost)
        };
        Some(since.map_or(total - before, cost))
    }
}

/// Judged by `is_error` and `terminal_reason`: a model error comes with the subtype `success`.
fn reason(line: &Json) -> EndReason {
    let ended = json::text(line, &["terminal_reason"]).unwrap_or_default();
    let subtype = json::text(line, &["subtype"]).unwrap_or_default();
    match json::text(line, &["stop_reason"]) {
        _ if ended.starts_with("aborted") => EndReason::Interrupted,
        _ if ended == "max_turns" || subtype == "error_max_turns" => EndReason::MaxSteps,
        _ if json::yes(line, &["is_error"]) || subtype.starts_with("error") => EndReason::Failed,
        Some("refusal") => EndReason::Refused,
        Some("max_tokens") => EndReason::MaxTokens,
        _ => EndReason::Completed,
    }
}

fn complaint(line: &Json) -> String {
    let errors: Vec<&str> = json::list(line, &["errors"]).iter().filter_map(Json::as_str).collect();
    match json::text(line, &["result"]) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ if !errors.is_empty() => errors.join("; "),
        _ => "the turn failed".to_owned(),
    }
}

/// A line that is not JSON: a stray word of the CLI, kept in the raw journal.
pub(crate) fn not_json(line: &[u8]) -> Lined {
    let blank = line.iter().all(u8::is_ascii_whitespace);
    let events = if blank { Vec::new() } else { vec![Event::Unknown { kind: "not JSON".to_owned() }] };
    Lined { events, reply: Vec::new() }
}

fn streamed(line: &Json) -> Vec<Event> {
    let event = line.get("event").unwrap_or(&Json::Null);
    match json::text(event, &["type"]) {
        Some("content_block_delta") => delta(line, event),
        Some("content_block_start") if json::text(event, &["content_block", "type"]) == Some("tool_use") => {
            let text = |name| json::text_or_empty(event, &["content_block", name]);
            vec![Event::ToolPending { id: text("id"), name: text("name") }]
        }
        _ => Vec::new(),
    }
}

fn delta(line: &Json, event: &Json) -> Vec<Event> {
    let parent = json::text(line, &["parent_tool_use_id"]);
    let text = |name| json::text(event, &["delta", name]).unwrap_or_default().to_owned();
    match (json::text(event, &["delta", "type"]), parent) {
        (Some("text_delta"), None) => vec![Event::TextDelta { text: text("text") }],
        (Some("thinking_delta"), None) => vec![Event::ThoughtDelta { text: text("thinking") }],
        (Some("text_delta"), Some(id)) => {
            vec![Event::ToolUpdate { id: id.to_owned(), output_delta: text("text"), name: None }]
        }
        _ => Vec::new(),
    }
}

/// How a tool is getting on.
fn progress(line: &Json) -> Option<Event> {
    let output_delta = json::text(line, &["status"])?.to_owned();
    let name = json::text(line, &["tool_name"]).map(str::to_owned);
    Some(Event::ToolUpdate { id: json::text_or_empty(line, &["tool_use_id"]), output_delta, name })
}

pub(crate) fn assistant(line: &Json) -> Vec<Event> {
    let parent = json::text(line, &["parent_tool_use_id"]).map(str::to_owned);
    let failed = json::yes(line, &["is_api_error_message"]);
    let mut events = Vec::new();
    for block in json::list(line, &["message", "content"]) {
        let text = |name| json::text_or_empty(block, &[name]);
        match json::text(block, &["type"]).unwrap_or_default() {
            "text" if failed => events.push(Event::trouble(text("text"))),
            "text" if parent.is_none() => events.push(Event::Text { text: text("text") }),
            "thinking" if parent.is_none() => events.push(Event::Thought { text: text("thinking") }),
            "tool_use" => tool_use(block, parent.clone(), &mut events),
            _ => {}
        }
    }
    events
}

fn tool_use(block: &Json, parent: Option<String>, events: &mut Vec<Event>) {
    let name = json::text_or_empty(block, &["name"]);
    let input = block.get("input").cloned().unwrap_or_default();
    let plan = (name == "TodoWrite" && parent.is_none()).then(|| plan(&input));
    let title = title_of(&name, &input);
    let call = ToolCall::new(json::text_or_empty(block, &["id"]), &name, kind_of(&name), input);
    events.push(Event::ToolCall(call.titled(title).within(parent)));
    events.extend(plan);
}

fn plan(input: &Json) -> Event {
    let entry = |todo: &Json| PlanEntry {
        text: json::text_or_empty(todo, &["content"]),
        status: match json::text(todo, &["status"]) {
            Some("completed") => PlanStatus::Done,
            Some("in_progress") => PlanStatus::Running,
            _ => PlanStatus::Pending,
        },
    };
    Event::Plan { entries: json::list(input, &["todos"]).iter().map(entry).collect() }
}

pub(crate) fn results(line: &Json) -> Vec<Event> {
    let result = |block: &Json| {
        let id = json::text(block, &["tool_use_id"])?.to_owned();
        Some(Event::tool_result(id, output(block.get("content")?), json::yes(block, &["is_error"])))
    };
    json::list(line, &["message", "content"]).iter().filter_map(result).collect()
}

pub(crate) fn output(content: &Json) -> String {
    match content {
        Json::String(text) => text.clone(),
        Json::Array(blocks) => {
            blocks.iter().filter_map(|block| json::text(block, &["text"])).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// What sort of thing a tool of claude's does.
fn kind_of(tool: &str) -> ToolKind {
    match tool {
        "Bash" | "BashOutput" | "KillShell" => ToolKind::Execute,
        "Read" | "NotebookRead" => ToolKind::Read,
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => ToolKind::Edit,
        "Glob" | "Grep" | "LS" => ToolKind::Search,
        "WebFetch" | "WebSearch" => ToolKind::Fetch,
        "Task" | "Agent" | "TodoWrite" | "ExitPlanMode" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

/// One line that says what a tool is about to do.
pub(super) fn title_of(tool: &str, input: &Json) -> String {
    let about = ["command", "file_path", "notebook_path", "pattern", "url", "query", "description"];
    match about.iter().find_map(|name| json::text(input, &[name])) {
        Some(text) => format!("{tool}: {}", json::title(text)),
        None => tool.to_owned(),
    }
}
