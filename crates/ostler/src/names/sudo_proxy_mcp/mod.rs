//! `sudo-proxy-mcp`: a stdio MCP server in front of a sudo-proxy daemon. The same server, with more to see, is `ostler mcp`.

mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use ostler_door_mcp::{Identity, Places, Registry, Settings, VERSION, serve_stdio};

const HELP: &str = "\
Usage: sudo-proxy-mcp [-V|--version] [-h|--help]

An MCP server for a model's client to start: it speaks on stdin and stdout, and asks sudo-proxy.
SUDO_PROXY_MCP_VERBOSE=1 tells on stderr what it does.
";

/// Behaves as `sudo-proxy-mcp` with these arguments.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    if args.first().is_some_and(|word| word == "--version" || word == "-V") {
        println!("sudo-proxy-mcp {VERSION}");
        return ExitCode::SUCCESS;
    }
    if args.first().is_some_and(|word| word == "--help" || word == "-h") {
        eprint!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let settings = Settings {
        identity: Identity { name: "sudo-proxy", client: "sudo-proxy-mcp", version: VERSION },
        places: Places::from_env(),
        registry: Registry::from_env(),
        daemon: daemon(),
        pending: None,
    };
    match serve(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sudo-proxy-mcp: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the server until its client hangs up.
pub(crate) fn serve(settings: Settings) -> anyhow::Result<()> {
    trace::to_stderr();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve_stdio(settings));
    // A read of stdin cannot be called off, and nobody waits for it.
    runtime.shutdown_background();
    Ok(served?)
}

/// This very program as the foreground daemon.
pub(crate) fn daemon() -> Vec<OsString> {
    let own = std::env::current_exe().map_or_else(|_| "ostler".into(), |path| path.into_os_string());
    vec![own, "as".into(), "sudo-proxy".into()]
}
