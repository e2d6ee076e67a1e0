//! One file per verb, and what they share: where instances are and how to reach them.

mod admit;
mod affirm;
mod agents_here;
mod api;
mod approvals;
mod approve;
mod r#as;
mod assets;
mod attach;
mod audit;
mod background;
mod bells;
mod claim;
mod close;
mod completions;
mod config;
mod confirmed;
mod connect;
mod demo;
mod deny;
mod devices;
mod diff;
mod doctor;
mod down;
mod events;
mod export;
mod finish;
mod follow_feed;
mod forget;
mod help;
mod helper;
mod history;
mod interrupt;
mod kill;
mod link;
mod listing;
mod logs;
mod mcp;
mod metrics;
mod new;
mod notify;
mod now;
mod offer;
mod pair;
mod prune;
mod ps;
mod recorded;
mod restart;
mod resume;
mod rules;
mod rules_affirm;
mod run;
mod screen;
mod send;
mod service;
mod session;
mod sessions;
mod set;
mod setup;
mod since;
mod start;
mod status;
mod stream;
mod tailnet;
mod tui;
mod uninstall;
mod up;
mod wait;
mod watch;
mod web;

use std::process::ExitCode;

pub(crate) use help::one_screen;

use clap::Subcommand;

use crate::config::Config;
use crate::output::{CommandError, Screen};
use crate::paths::{DEFAULT_INSTANCE, Paths};

/// What every verb is given.
pub(crate) struct Context {
    pub(crate) paths: Paths,
    /// `--instance`.
    pub(crate) instance: Option<String>,
    pub(crate) screen: Screen,
}

impl Context {
    pub(crate) fn new(paths: Paths, instance: Option<String>, json: bool) -> Self {
        Self { paths, instance, screen: Screen::new(json) }
    }

    /// The settings, for verbs that must work also when something in them is wrong: that is said, and the usual stands.
    fn settings(&self) -> Config {
        let (config, problems) = Config::load_all(self.paths.config_file(), |name| std::env::var(name).ok());
        if !problems.is_empty() {
            self.screen.note("ostler: the settings file has problems; see: ostler config check");
        }
        config
    }

    /// The instance that a verb about one instance means.
    pub(crate) fn instance_name(&self) -> &str {
        self.instance.as_deref().unwrap_or(DEFAULT_INSTANCE)
    }

    pub(crate) fn json(&self) -> bool {
        self.screen.json()
    }
}

/// `cdev pair`: as `ostler pair`, for the port of cdev clients and its page.
pub(crate) fn pair_cdev(context: &Context) -> Result<ExitCode, CommandError> {
    offer::run(context, offer::Wanted { at: offer::At::Cdev, name: None, rights: Some("work"), code: true })
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Up(up::Up),
    Demo(demo::Demo),
    Down(down::Down),
    Restart(restart::Restart),
    Status(status::Status),
    Run(run::Run),
    Ps(ps::Ps),
    Start(start::Start),
    Attach(attach::Attach),
    Logs(logs::Logs),
    Kill(kill::Kill),
    Wait(wait::Wait),
    New(new::New),
    Send(send::Send),
    Watch(watch::Watch),
    Sessions(sessions::SessionsVerb),
    History(history::History),
    Resume(resume::Resume),
    Tui(tui::Tui),
    Set(set::Set),
    Interrupt(interrupt::Interrupt),
    Close(close::Close),
    Diff(diff::Diff),
    Finish(finish::Finish),
    Export(export::Export),
    Prune(prune::Prune),
    Forget(forget::Forget),
    Approvals(approvals::Approvals),
    Approve(approve::Approve),
    Deny(deny::Deny),
    Rules(rules::Rules),
    Pair(pair::Pair),
    Web(web::Web),
    Devices(devices::Devices),
    Notify(notify::Notify),
    Audit(audit::Audit),
    Events(events::Events),
    As(r#as::As),
    Link(link::Link),
    Config(config::ConfigVerb),
    Doctor(doctor::Doctor),
    Mcp(mcp::Mcp),
    Metrics(metrics::Metrics),
    Api(api::Api),
    Service(service::Service),
    Completions(completions::Completions),
    #[command(hide = true)]
    Assets(assets::Assets),
    Uninstall(uninstall::Uninstall),
    Help(help::Help),
}

/// `ostler` alone: Now on a terminal, else how the daemon is doing.
pub(crate) fn alone(context: &Context) -> Result<ExitCode, CommandError> {
    match context.json() || !now::has_screen() {
        true => status::Status::default().run(context),
        false => now::everything(context),
    }
}

pub(crate) fn run(verb: Verb, context: &Context) -> Result<ExitCode, CommandError> {
    match verb {
        Verb::Up(verb) => verb.run(context),
        Verb::Demo(verb) => verb.run(context),
        Verb::Down(verb) => verb.run(context),
        Verb::Restart(verb) => verb.run(context),
        Verb::Status(verb) => verb.run(context),
        Verb::Run(verb) => verb.run(context),
        Verb::Ps(verb) => verb.run(context),
        Verb::Start(verb) => verb.run(context),
        Verb::Attach(verb) => verb.run(context),
        Verb::Logs(verb) => verb.run(context),
        Verb::Kill(verb) => verb.run(context),
        Verb::Wait(verb) => verb.run(context),
        Verb::New(verb) => verb.run(context),
        Verb::Send(verb) => verb.run(context),
        Verb::Watch(verb) => verb.run(context),
        Verb::Sessions(verb) => verb.run(context),
        Verb::History(verb) => verb.run(context),
        Verb::Resume(verb) => verb.run(context),
        Verb::Tui(verb) => verb.run(context),
        Verb::Set(verb) => verb.run(context),
        Verb::Interrupt(verb) => verb.run(context),
        Verb::Close(verb) => verb.run(context),
        Verb::Diff(verb) => verb.run(context),
        Verb::Finish(verb) => verb.run(context),
        Verb::Export(verb) => verb.run(context),
        Verb::Prune(verb) => verb.run(context),
        Verb::Forget(verb) => verb.run(context),
        Verb::Approvals(verb) => verb.run(context),
        Verb::Approve(verb) => verb.run(context),
        Verb::Deny(verb) => verb.run(context),
        Verb::Rules(verb) => verb.run(context),
        Verb::Pair(verb) => verb.run(context),
        Verb::Web(verb) => verb.run(context),
        Verb::Devices(verb) => verb.run(context),
        Verb::Notify(verb) => verb.run(context),
        Verb::Audit(verb) => verb.run(context),
        Verb::Events(verb) => verb.run(context),
        Verb::As(verb) => Ok(verb.run()),
        Verb::Link(verb) => verb.run(context),
        Verb::Config(verb) => verb.run(context),
        Verb::Doctor(verb) => verb.run(context),
        Verb::Mcp(verb) => verb.run(context),
        Verb::Metrics(verb) => verb.run(context),
        Verb::Api(verb) => verb.run(context),
        Verb::Service(verb) => verb.run(context),
        Verb::Completions(verb) => verb.run(),
        Verb::Assets(verb) => verb.run(context),
        Verb::Uninstall(verb) => verb.run(context),
        Verb::Help(verb) => verb.run(context),
    }
}
