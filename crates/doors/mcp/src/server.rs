//! The MCP server: which tools there are, and what surrounds a call. What each tool does is in `tools`.
//!
//! It speaks every revision of the protocol that the SDK knows, with `initialize` and without. There is no tool that
//! decides anything, and none may be added.

use std::ffi::OsString;
use std::sync::Arc;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListResourcesResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use tokio::sync::Semaphore;

use crate::hosts::{Hosts, Registry};
use crate::target::Places;
use crate::tools::{self, Execute, HostOnly, Pending, StartServer, UpdateHost};
use crate::wording;

/// As many as a daemon answers at once; a model that asks for more has lost its way.
const CALLS_AT_ONCE: usize = 64;

const HOSTS_URI: &str = "sudo-proxy://hosts";

/// Who we say we are.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The server's name in the protocol.
    pub name: &'static str,
    /// What prompts and messages call this client.
    pub client: &'static str,
    pub version: &'static str,
}

/// Lists what waits for a decision, as text; may block.
pub type PendingSource = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

pub struct Settings {
    pub identity: Identity,
    pub places: Places,
    pub registry: Registry,
    /// The command that runs a daemon in the foreground of a terminal.
    pub daemon: Vec<OsString>,
    /// Adds the tool `pending`.
    pub pending: Option<PendingSource>,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Start(#[from] Box<ServerInitializeError>),
    #[error("the server failed: {0}")]
    Run(#[from] tokio::task::JoinError),
}

/// Serves one client on stdin and stdout until it hangs up.
pub async fn serve_stdio(settings: Settings) -> Result<(), ServeError> {
    let running = Server::new(settings).serve(rmcp::transport::stdio()).await.map_err(Box::new)?;
    running.waiting().await?;
    Ok(())
}

#[derive(Clone)]
pub struct Server {
    settings: Arc<Settings>,
    calls: Arc<Semaphore>,
    router: ToolRouter<Self>,
}

#[tool_router]
impl Server {
    pub fn new(settings: Settings) -> Self {
        let mut router = Self::tool_router();
        if settings.pending.is_none() {
            router.remove_route("pending");
        }
        Self { settings: Arc::new(settings), calls: Arc::new(Semaphore::new(CALLS_AT_ONCE)), router }
    }

    #[tool(
        description = "Run one command (`argv`) or a pipeline of commands (`pipeline`, for example [[\"ls\", \"/tmp\"], [\"wc\", \"-l\"]]) after a person has approved it at the terminal of the host's sudo-proxy. No shell is involved: quoting, globbing and redirection do nothing. `host` names a remote daemon that start_server connected; without it the command runs on this machine, where only privileged commands are accepted (use your own shell for others). Say in `description` why you ask: the person reads it. The call returns when the person has answered and the command has ended: the last stage's stdout, each stage's stderr, exit codes other than zero. 'Request denied by user.' means no: do not ask again unchanged. 'sudo-proxy is not running' means: call start_server first. `timeout` counts the person's time too: 120000 ms when privileged, unlimited otherwise, at most 600000."
    )]
    async fn execute(
        &self,
        Parameters(params): Parameters<Execute>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        tokio::select! {
            result = tools::execute(&self.settings, params) => result,
            // Hanging up withdraws the question; nobody reads this result.
            () = context.ct.cancelled() => wording::failed("Request withdrawn."),
        }
    }

    #[tool(
        description = "Open a terminal window with a sudo-proxy daemon in it, where a person will approve commands: for this machine, or, with `host`, for another one through SSH with a tunnel to its socket. Harmless when one is already running. Returns when the daemon answers (up to 5 s here, 30 s remotely). `forward_agent` lets unprivileged remote commands use the SSH agent of this machine."
    )]
    async fn start_server(&self, Parameters(params): Parameters<StartServer>) -> Result<CallToolResult, ErrorData> {
        tools::start(&self.settings, params).await
    }

    #[tool(
        description = "Stop the sudo-proxy daemon of this machine, or of `host`; its terminal window and tunnel close with it, and requests that wait there are withdrawn. That none is running is a normal answer."
    )]
    async fn stop_server(&self, Parameters(params): Parameters<HostOnly>) -> CallToolResult {
        tools::stop(&self.settings, params).await
    }

    #[tool(
        description = "Tell which sudo-proxy daemons are running, without executing anything and without asking anybody: this machine's and those of all known hosts, or only that of `host`. Each line has the daemon's version and what is known of the host. A daemon that is not running is a normal answer.",
        annotations(read_only_hint = true)
    )]
    async fn status(&self, Parameters(params): Parameters<HostOnly>) -> CallToolResult {
        tools::status(&self.settings, params).await
    }

    #[tool(
        description = "Note a description and the operating system of a host in the list of known hosts (sudo-proxy://hosts). Only the members that are given change; a host that is not in the list yet is added."
    )]
    async fn update_host(&self, Parameters(params): Parameters<UpdateHost>) -> CallToolResult {
        tools::update_host(&self.settings, params).await
    }

    #[tool(
        description = "List what waits for a person's decision on this machine: commands, tool uses and questions, with who asked and since when. Only a person can decide them; there is no tool for that.",
        annotations(read_only_hint = true)
    )]
    async fn pending(&self, Parameters(params): Parameters<Pending>) -> CallToolResult {
        tools::pending(&self.settings, params).await
    }

    fn hosts(&self) -> Hosts {
        self.settings.registry.load_or_empty()
    }
}

#[tool_handler(router = self.router)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let identity = &self.settings.identity;
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(identity.name, identity.version))
            .with_instructions(wording::instructions(identity, &self.hosts()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Ok(_permit) = self.calls.try_acquire() else {
            return Ok(wording::failed("Too many calls at once; wait for some of them to end.").into());
        };
        self.router.call(ToolCallContext::new(self, request, context)).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let hosts = Resource::new(HOSTS_URI, "known-hosts")
            .with_description("Known sudo-proxy hosts with system info and last connection time")
            .with_mime_type("application/json");
        Ok(ListResourcesResult::with_all_items(vec![hosts]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != HOSTS_URI {
            return Err(ErrorData::resource_not_found(format!("Unknown resource: {}", request.uri), None));
        }
        let hosts =
            self.settings.registry.load().map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let text = ResourceContents::text(hosts.to_json(), HOSTS_URI).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![text]).into())
    }
}

#[cfg(test)]
mod tests;
