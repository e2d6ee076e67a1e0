//! What claude tells about itself: what it offers, how full the conversation is, how much of its limits is used up.

use ostler_story::{Event, Json, Limit, LimitState, McpServer, Offer, Offers};

use crate::json;

/// What the line at the beginning of a turn lists.
pub(super) fn told(init: &Json) -> Offers {
    let names = |name: &str| {
        let list = init.get(name)?.as_array()?;
        Some(list.iter().filter_map(Json::as_str).map(Offer::named).collect())
    };
    let server = |server: &Json| McpServer {
        name: json::text_or_empty(server, &["name"]),
        status: json::text_or_empty(server, &["status"]),
    };
    let servers = init.get("mcp_servers").and_then(Json::as_array);
    Offers {
        commands: names("slash_commands"),
        tools: names("tools"),
        sub_agents: names("agents"),
        mcp_servers: servers.map(|servers| servers.iter().map(server).collect()),
        ..Offers::default()
    }
}

/// How many tokens the conversation held for a message of the agent itself, the message included.
pub(super) fn context(message: &Json) -> Option<u64> {
    let used = |name| json::number(message, &["message", "usage", name]).unwrap_or(0);
    let read = used("input_tokens") + used("cache_read_input_tokens") + used("cache_creation_input_tokens");
    let own = json::text(message, &["parent_tool_use_id"]).is_none();
    (own && read > 0).then(|| read + used("output_tokens"))
}

/// How many it can hold: the largest of the models that a turn used, as helpers are smaller.
pub(super) fn window(result: &Json) -> Option<u64> {
    let models = result.get("modelUsage")?.as_object()?;
    models.values().filter_map(|model| json::number(model, &["contextWindow"])).max()
}

/// The limit that has changed.
pub(super) fn limits(line: &Json) -> Vec<Event> {
    let Some(info) = line.get("rate_limit_info") else { return Vec::new() };
    let state = match json::text(info, &["status"]) {
        Some("rejected") => LimitState::Reached,
        Some("allowed_warning") => LimitState::Near,
        _ => LimitState::Far,
    };
    let name = json::text(info, &["rateLimitType"]).unwrap_or("usage").to_owned();
    // A fraction, of which nobody reads more than the percent.
    let used_percent = info.get("utilization").and_then(Json::as_f64).map(|part| (part * 100.0).round());
    vec![Event::Limit(Limit { name, used_percent, resets: json::number(info, &["resetsAt"]), state })]
}
