//! git is a helper like any other: its filters and what it starts are hosted.

use ostler_workspace::git::{GitCommand, GitRan, RunError, RunGit};

use super::{Beyond, Brief, Ended, Forker};

impl RunGit for Forker {
    fn run_git(&self, command: GitCommand) -> Result<GitRan, RunError> {
        let brief = Brief {
            program: command.program,
            args: command.args,
            env: command.env,
            cwd: command.cwd,
            stdin: command.stdin,
            with_stderr: command.with_stderr,
            within: command.within,
            grace: command.grace,
            max: command.output_max,
            beyond: Beyond::Ends,
            leaves_nothing: false,
        };
        let ran = self.run(&brief)?;
        match ran.ended {
            Ended::Exited(_) => Ok(GitRan { success: ran.ended.well(), output: ran.said }),
            Ended::TimedOut => Err(RunError::TimedOut(brief.within)),
            Ended::TooMuch => Err(RunError::TooMuchOutput),
        }
    }
}
