//! What codex tells about a turn.

use ostler_story::{EndReason, Event, Json, Limit, LimitState, McpServer, Offers, PlanEntry, PlanStatus, Usage};

use crate::json;

use super::Codex;

/// From here on a limit is close: codex has no word for that.
const NEAR: f64 = 90.0;

impl Codex {
    pub(super) fn notification(&mut self, method: &str, params: &Json) -> Vec<Event> {
        let mut events = Vec::new();
        let delta = || json::text_or_empty(params, &["delta"]);
        match method {
            "turn/started" => {
                self.turn = json::text(params, &["turn", "id"]).map(str::to_owned);
                self.used = Usage::default();
            }
            "turn/completed" => self.turn_completed(params, &mut events),
            "item/started" => self.items.started(params.get("item").unwrap_or(&Json::Null), &mut events),
            "item/completed" => self.items.completed(params.get("item").unwrap_or(&Json::Null), &mut events),
            "item/agentMessage/delta" => events.push(Event::TextDelta { text: delta() }),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                events.push(Event::ThoughtDelta { text: delta() });
            }
            "item/commandExecution/outputDelta" | "item/fileChange/outputDelta" => {
                let id = json::text_or_empty(params, &["itemId"]);
                events.push(Event::ToolUpdate { id, output_delta: delta(), name: None });
            }
            "turn/plan/updated" => events.push(plan(params)),
            "thread/tokenUsage/updated" => events.extend(self.usage(params)),
            "serverRequest/resolved" => {
                let id = params.get("requestId").map(Json::to_string).unwrap_or_default();
                if self.asks.withdrawn(&id) {
                    events.push(Event::Unasked { request: id });
                }
            }
            "thread/name/updated" => {
                let title = json::text(params, &["threadName"]).map(json::title);
                events.extend(title.map(|title| Event::Title { title }));
            }
            "account/rateLimits/updated" => self.limits(params, &mut events),
            "mcpServer/startupStatus/updated" => events.extend(self.mcp_server(params)),
            "error" => events.push(trouble(params)),
            "warning" | "configWarning" | "deprecationNotice" => {
                let text = json::text(params, &["message"]).or(json::text(params, &["summary"]));
                events.extend(text.map(|text| Event::Notice { text: text.to_owned() }));
            }
            quiet if is_quiet(quiet) => {}
            other => events.push(Event::Unknown { kind: other.to_owned() }),
        }
        events
    }

    fn turn_completed(&mut self, params: &Json, events: &mut Vec<Event>) {
        self.turn = None;
        self.over += 1;
        self.items.clear();
        events.extend(self.asks.withdraw_all().into_iter().map(|request| Event::Unasked { request }));
        let message = json::text(params, &["turn", "error", "message"]).map(str::to_owned);
        let reason = match json::text(params, &["turn", "status"]) {
            Some("interrupted") => EndReason::Interrupted,
            Some("failed") => EndReason::Failed,
            _ => EndReason::Completed,
        };
        events.push(Event::TurnEnded { reason, message });
    }
}

/// Told by codex for its own surfaces; nothing of the conversation is in them.
fn is_quiet(method: &str) -> bool {
    let parts = [
        "account/",
        "remoteControl/",
        "mcpServer/",
        "thread/started",
        "thread/status/",
        "thread/readState/",
        "thread/goal/",
        "thread/settings/",
        "turn/diff/",
        "item/reasoning/summaryPartAdded",
        "item/plan/",
        "app/",
        "skills/",
        "item/commandExecution/terminalInteraction",
        "rawResponseItem/",
        "hook/",
        "item/mcpToolCall/progress",
    ];
    parts.iter().any(|part| method.starts_with(part))
}

fn trouble(params: &Json) -> Event {
    let message = json::text(params, &["error", "message"]).unwrap_or("codex met an error").to_owned();
    if json::yes(params, &["willRetry"]) { Event::Notice { text: message } } else { Event::trouble(message) }
}

fn plan(params: &Json) -> Event {
    let entry = |step: &Json| PlanEntry {
        text: json::text_or_empty(step, &["step"]),
        status: match json::text(step, &["status"]) {
            Some("completed") => PlanStatus::Done,
            Some("inProgress") => PlanStatus::Running,
            _ => PlanStatus::Pending,
        },
    };
    Event::Plan { entries: json::list(params, &["plan"]).iter().map(entry).collect() }
}

impl Codex {
    /// The limits that have changed: it tells them after every step.
    fn limits(&mut self, params: &Json, events: &mut Vec<Event>) {
        let reached = json::text(params, &["rateLimits", "rateLimitReachedType"]).is_some();
        for name in ["primary", "secondary"] {
            let told = |member| json::at(params, &["rateLimits", name, member]);
            let Some(used) = told("usedPercent").and_then(Json::as_f64) else { continue };
            let state = match used {
                used if used >= 100.0 => LimitState::Reached,
                used if used >= NEAR => LimitState::Near,
                _ => LimitState::Far,
            };
            let state = if reached && state == LimitState::Near { LimitState::Reached } else { state };
            let window = told("windowDurationMins").and_then(Json::as_u64);
            let name = window.map_or(name.to_owned(), |minutes| format!("{} h", minutes.div_ceil(60)));
            let (used_percent, resets) = (Some(used), told("resetsAt").and_then(Json::as_u64));
            let limit = Limit { name: name.clone(), used_percent, resets, state };
            if self.limits.insert(name, limit.clone()).as_ref() != Some(&limit) {
                events.push(Event::Limit(limit));
            }
        }
    }

    /// A server has come up, or has not.
    fn mcp_server(&mut self, params: &Json) -> Option<Event> {
        let (name, status) = (json::text(params, &["name"])?.to_owned(), json::text(params, &["status"])?.to_owned());
        let mut servers = self.offers.mcp_servers.clone().unwrap_or_default();
        servers.retain(|server| server.name != name);
        servers.push(McpServer { name, status });
        self.offers.news(Offers { mcp_servers: Some(servers), ..Offers::default() }).map(Event::Offers)
    }

    /// The figures of one more step of the turn. A thread that is taken up again tells those of its last turn first: they
    /// were counted then.
    fn usage(&mut self, params: &Json) -> Option<Event> {
        let ours = |turn: &String| json::text(params, &["turnId"]).is_none_or(|told| told == turn);
        self.turn.as_ref().filter(|turn| ours(turn))?;
        let last = |name| json::number(params, &["tokenUsage", "last", name]);
        self.used.step(Usage {
            input_tokens: last("inputTokens"),
            output_tokens: last("outputTokens"),
            cached_tokens: last("cachedInputTokens"),
            context_used: last("totalTokens"),
            context_size: json::number(params, &["tokenUsage", "modelContextWindow"]),
            ..Usage::default()
        });
        Some(Event::Usage(self.used.clone()))
    }
}
