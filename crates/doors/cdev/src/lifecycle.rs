//! `initialize`, `initialized` and `shutdown`: what server and client tell each other of themselves.

use ostler_api::Timestamp;
use ostler_engine::MayWait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};
use crate::method::Call;
use crate::status::Nothing;
use crate::{PROTOCOL, methods, table};

/// The runtime that is meant where a client names none.
pub(crate) const DEFAULT_AGENT: &str = "claude";
/// Versions of `initialize` that are spoken: the messages were never called anything but 1, the document is at 2.
const SPOKEN: [&str; 2] = ["1", "2"];

/// What a client says of itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct InitializeParams {
    /// The version that the client speaks.
    protocol_version: Option<String>,
    client_info: Option<ClientInfo>,
    capabilities: Option<ClientCapabilities>,
    /// Where the client believes to be.
    root_path: Option<String>,
}

/// Which program it is.
#[derive(Debug, Deserialize, JsonSchema)]
struct ClientInfo {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    version: Option<String>,
}

/// What it wants.
#[derive(Debug, Deserialize, JsonSchema)]
struct ClientCapabilities {
    /// The events that it wants, as `event/<type>` or `<type>`; without it every one.
    #[serde(default)]
    notifications: Option<Vec<String>>,
}

/// What the server says of itself.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Initialized {
    protocol_version: String,
    server_info: ServerInfo,
    capabilities: Capabilities,
    /// What this connection is called.
    client_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ServerInfo {
    name: String,
    version: String,
}

/// What can be asked of it. The groups hold the methods that are served, by the last part of their names.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    agent: Group,
    git: Group,
    file: Group,
    repository: Group,
    session: Group,
    /// The events that are sent.
    notifications: Vec<String>,
    supported_agents: Vec<String>,
    /// Several requests may come in one message.
    batch: bool,
    /// Events have positions, and can be taken up again.
    resume: bool,
    runtime_registry: Registry,
}

type Group = std::collections::BTreeMap<String, bool>;

/// How each runtime is to be used.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Registry {
    schema_version: String,
    generated_at: String,
    default_runtime: String,
    routing: Routing,
    runtimes: Vec<Runtime>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Routing {
    agent_type_field: String,
    default_agent_type: String,
    required_on_methods: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Runtime {
    id: String,
    display_name: String,
    /// `active`, or `unavailable` where its program is not installed.
    status: String,
    session_list_source: String,
    session_messages_source: String,
    session_watch_source: String,
    requires_workspace_activation_on_resume: bool,
    requires_session_resolution_on_new_session: bool,
    supports_resume: bool,
    supports_interactive_questions: bool,
    supports_permissions: bool,
    methods: RuntimeMethods,
}

/// Which method does what.
#[derive(Debug, Serialize, JsonSchema)]
struct RuntimeMethods {
    history: String,
    messages: String,
    watch: String,
    unwatch: String,
    start: String,
    send: String,
    stop: String,
    input: String,
    respond: String,
    state: String,
}

pub(crate) fn initialize(wait: &MayWait, call: &Call, params: InitializeParams) -> Result<Initialized, Error> {
    if let Some(version) = &params.protocol_version
        && !SPOKEN.contains(&version.split('.').next().unwrap_or_default())
    {
        let message = format!("this server speaks version {PROTOCOL} of the protocol");
        return Err(Error::new(Code::Version, message).with("supported", PROTOCOL));
    }
    if let Some(client) = &params.client_info {
        let words = [client.name.as_deref(), client.version.as_deref(), params.root_path.as_deref()];
        tracing::debug!("cdev: {:?} says hello", words);
    }
    if let Some(connection) = &call.connection
        && let Some(kinds) = params.capabilities.and_then(|capabilities| capabilities.notifications)
    {
        connection.wanted().only(kinds.iter().map(String::as_str));
    }
    let agents = call.state.engine.sessions().agents(wait);
    let runtimes: Vec<Runtime> = agents.into_iter().map(|(name, here)| runtime(name, here)).collect();
    Ok(Initialized {
        protocol_version: "1.0".into(),
        server_info: ServerInfo { name: "cdev".into(), version: call.state.settings.version.clone() },
        capabilities: Capabilities {
            agent: group("agent/"),
            git: group("git/"),
            file: group("file/"),
            repository: group("repository/"),
            session: group("session/"),
            notifications: table::EVENTS.iter().map(|event| format!("event/{event}")).collect(),
            supported_agents: runtimes.iter().map(|runtime| runtime.id.clone()).collect(),
            batch: true,
            resume: table::has("events/resume"),
            runtime_registry: registry(runtimes),
        },
        client_id: call.connection.as_ref().map(|connection| connection.id.clone()).unwrap_or_default(),
    })
}

/// The methods of a group that are served, and what clients look for under another name.
fn group(prefix: &str) -> Group {
    let names = methods::METHODS.iter().filter_map(|entry| entry.name.strip_prefix(prefix));
    let known: &[(&str, &str)] = match prefix {
        "agent/" => &[("sessions", "session/list"), ("sessionWatch", "session/watch")],
        "repository/" => &[
            ("index", "repository/index/status"),
            ("list", "repository/files/list"),
            ("tree", "repository/files/tree"),
            ("rebuild", "repository/index/rebuild"),
        ],
        _ => &[],
    };
    let known = known.iter().map(|(name, method)| ((*name).to_owned(), table::has(method)));
    names.map(|name| (name.replace('/', "_"), true)).chain(known).collect()
}

fn registry(runtimes: Vec<Runtime>) -> Registry {
    Registry {
        schema_version: "1.0".into(),
        generated_at: Timestamp::now().to_string(),
        default_runtime: DEFAULT_AGENT.into(),
        routing: Routing {
            agent_type_field: "agent_type".into(),
            default_agent_type: DEFAULT_AGENT.into(),
            required_on_methods: Vec::new(),
        },
        runtimes,
    }
}

fn runtime(name: String, is_here: bool) -> Runtime {
    let mut letters = name.chars();
    let display_name = letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default();
    Runtime {
        id: name,
        display_name,
        status: if is_here { "active" } else { "unavailable" }.into(),
        session_list_source: "workspaceHistory".into(),
        session_messages_source: "workspaceScoped".into(),
        session_watch_source: "workspaceScoped".into(),
        requires_workspace_activation_on_resume: false,
        requires_session_resolution_on_new_session: false,
        supports_resume: true,
        supports_interactive_questions: true,
        supports_permissions: true,
        methods: RuntimeMethods {
            history: "session/list".into(),
            messages: "session/messages".into(),
            watch: "session/watch".into(),
            unwatch: "session/unwatch".into(),
            start: "agent/run".into(),
            send: "agent/run".into(),
            stop: "agent/stop".into(),
            input: "agent/respond".into(),
            respond: "agent/respond".into(),
            state: "status/get".into(),
        },
    }
}

/// It was done.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Done {
    pub(crate) success: bool,
}

/// Nothing follows from it.
pub(crate) fn initialized(_: &Call, _: Nothing) -> Result<Done, Error> {
    Ok(Done { success: true })
}

/// Nobody far away ends what others use, unless the user said that it may.
pub(crate) fn shutdown(call: &Call, _: Nothing) -> Result<Done, Error> {
    if call.state.settings.shutdown_ends {
        call.state.asks_to_end();
    }
    if let Some(connection) = &call.connection {
        connection.leave();
    }
    Ok(Done { success: true })
}
