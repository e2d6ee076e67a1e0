//! Starting an agent for the turn that waits. Written down before the keeper forks, under a key that never starts a second.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_agents::open;
use ostler_hooks::hook;
use ostler_story::{Agent, Exit, Fact};

use super::driver::{Driver, fail};
use super::new::setup;
use super::running::Running;
use super::sessions::SessionsInner;
use crate::{Engine, SpawnError, SpawnRequest};

impl Driver<'_> {
    /// Starts the agent's next process. What can not be started fails the turn.
    pub(super) fn start(&mut self, shared: &Arc<SessionsInner>) -> io::Result<()> {
        let session = self.session.clone();
        let (mut created, settings, env, source) = {
            let desk = session.look();
            (desk.state.created.clone(), desk.state.settings.clone(), desk.env.clone(), desk.state.sources + 1)
        };
        created.agent = match shared.config().with_command(created.agent) {
            Ok(agent) => agent,
            Err(vanished) => return fail(&session, &mut session.pen(self.wait), vanished.to_string()),
        };
        let engine = shared.engine_of(created.joiner.as_deref());
        shared.runtime.block_on(engine.environment().settled());
        let (echo, path) = (shared.runner(), engine.environment().wide_path());
        let resume = settings.agent_session.clone();
        let setup = setup(&created, &settings, resume.clone(), &echo);
        let drive = shared.drive_of(self.wait, &created.agent, created.program.as_deref(), &path);
        let mut adapter = match open(&setup, drive) {
            Ok(adapter) => adapter,
            Err(error) => return fail(&session, &mut session.pen(self.wait), error.to_string()),
        };
        session.tell(&mut session.pen(self.wait), Fact::Process { source, drive, resume, settings })?;
        hook!("session.process");
        let launch = adapter.launch();
        // Under its bare name if it is nowhere, which is then said.
        let bare = OsString::from(&launch.program);
        let program = crate::lookup::executable(&bare, &path).map_or(bare, PathBuf::into_os_string);
        let own = launch.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        // No colours, no cursor movements: nobody looks at a screen.
        let dumb = [(OsString::from("TERM"), OsString::from("dumb")), (OsString::from("PATH"), path)];
        let built_in = created.agent == Agent::Echo && created.program.is_none();
        let request = SpawnRequest {
            program,
            shown_as: built_in.then(|| "ostler-echo".into()),
            args: launch.args.iter().map(OsString::from).collect(),
            env: dumb.into_iter().chain(session.ready_env(self.wait)).chain(env).chain(own).collect(),
            cwd: Some(created.workspace.clone()),
            name: Some(format!("{}.{source}", created.id)),
            key: Some(session.process_key(source)),
            session: Some(created.id),
            ..SpawnRequest::default()
        };
        match shared.runtime.block_on(engine.spawn_own(request)) {
            Ok(process) => {
                hook!("session.started");
                session.pen(self.wait).change(|desk| desk.process = Some(process.id().to_owned()));
                let opening = adapter.opening();
                let mut running = Running::new(&session, source, process, adapter);
                running.write(&session, opening);
                self.running = Some(running);
                shared.changed();
                // It may have spoken before anybody listened.
                session.inner.bell.ring();
                Ok(())
            }
            Err(error) => {
                let mut desk = session.pen(self.wait);
                let stderr = String::new();
                session.tell(&mut desk, Fact::Exited { source, exit: Exit::Unknown, stderr })?;
                fail(
                    &session,
                    &mut desk,
                    format!("Failed to spawn {}: {}", created.agent.name(), why(error, &created.workspace, &engine)),
                )
            }
        }
    }
}

/// What the system said, without what everybody knows. A folder that is gone is not a program that is missing.
fn why(error: SpawnError, workspace: &Path, engine: &Engine) -> String {
    match error {
        SpawnError::NotInPath(_) => io::Error::from_raw_os_error(2).to_string(),
        SpawnError::Refused { in_cwd: true, source, .. } => {
            format!("its working folder {} cannot be entered: {source}", workspace.display())
        }
        SpawnError::Refused { source, .. } => source.to_string(),
        SpawnError::Journal(source) => {
            let trouble = engine.disk_trouble(&source);
            format!("{}; {}", trouble.message, trouble.hint)
        }
        other => other.to_string(),
    }
}
