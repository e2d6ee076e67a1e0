//! A bench for tests that start a real runner. The test program is the runner too: its main becomes one when it is
//! called as the daemon calls it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod user;

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ostler_stages::{Elevate, FailKind, Outcome, Report, Spec, Stage, copy_stderr, copy_stdout, resolve};
use sha2::{Digest, Sha256};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A test and its name.
pub type Test = (&'static str, fn());

/// Lists tests by name.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as fn())),*] };
}

/// Becomes the runner, or runs the tests whose names contain the first argument.
pub fn main(tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, spec, sha256] = arguments.as_slice()
        && verb == "__stages"
    {
        return ostler_stages::run(Path::new(spec), sha256);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in tests {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let (mut ran, mut failed) = (0, 0);
    for (name, test) in tests {
        if wanted.is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        ran += 1;
        let start = Instant::now();
        let outcome = std::panic::catch_unwind(test);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.2} s)", start.elapsed().as_secs_f64());
        failed += usize::from(outcome.is_err());
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let passed = ran - failed;
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out");
    ExitCode::from(u8::from(failed > 0))
}

/// A directory that everybody can look into, with a runner in it that everybody can execute.
pub struct RunnerFolder {
    dir: tempfile::TempDir,
}

impl RunnerFolder {
    pub fn new() -> RunnerFolder {
        let dir = tempfile::Builder::new().prefix("ostler-stages-").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let place = RunnerFolder { dir };
        fs::copy("/proc/self/exe", place.runner()).unwrap();
        fs::set_permissions(place.runner(), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn runner(&self) -> PathBuf {
        self.path("runner")
    }

    /// An executable file.
    pub fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Writes the spec; gives back the runner's arguments.
    pub fn arguments(&self, spec: &Spec) -> [String; 3] {
        let bytes = serde_json::to_vec(spec).unwrap();
        let path = self.path("spec.json");
        fs::write(&path, &bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        ["__stages".into(), path.to_str().unwrap().into(), sha256]
    }

    /// A runner as the daemon starts it, with no terminal.
    pub fn start(&self, spec: &Spec) -> Child {
        self.command(spec).spawn().unwrap()
    }

    pub fn command(&self, spec: &Spec) -> Command {
        let mut command = Command::new(self.runner());
        command.args(self.arguments(spec)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, spec: &Spec) -> Ran {
        Ran::of(self.start(spec))
    }
}

/// What a runner left.
pub struct Ran {
    pub report: Vec<u8>,
    pub stderr: String,
    pub success: bool,
}

impl Ran {
    pub fn of(mut child: Child) -> Ran {
        let mut report = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut report).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Ran { report, stderr, success: output.status.success() }
    }

    pub fn outcome(&self) -> Outcome {
        Report::read(self.report.as_slice()).unwrap().outcome.expect("the report has an end")
    }

    pub fn stdout(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        copy_stdout(self.report.as_slice(), &mut bytes).unwrap();
        bytes
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.stdout()).unwrap()
    }

    pub fn stderr(&self, stage: usize) -> String {
        let mut bytes = Vec::new();
        copy_stderr(self.report.as_slice(), stage, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The exit codes of a run that came to its end, whose report must agree with itself.
    pub fn codes(&self) -> Vec<i32> {
        let Outcome::Done { exit_codes, stdout, stderr } = self.outcome() else {
            panic!("not done: {:?}", self.outcome());
        };
        assert!(self.success);
        assert_eq!(stderr.len(), exit_codes.len());
        let bytes = self.stdout();
        let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((stdout.length, stdout.sha256), (bytes.len() as u64, sha256));
        exit_codes
    }

    pub fn failure(&self) -> (Option<usize>, FailKind, String) {
        assert!(!self.success);
        match self.outcome() {
            Outcome::Failed { stage, kind, message } => (stage, kind, message),
            other => panic!("not failed: {other:?}"),
        }
    }
}

/// A stage as a door makes it.
pub fn stage(argv: &[&str]) -> Stage {
    resolve(argv[0], 0).unwrap().stage(argv.iter().map(|&text| text.to_owned()).collect())
}

pub fn spec(elevate: Elevate, stages: &[&[&str]]) -> Spec {
    let env = Vec::new();
    Spec::new(stages.iter().map(|argv| stage(argv)).collect(), env, PATIENCE, elevate)
}

pub fn plain(stages: &[&[&str]]) -> Spec {
    let mut spec = spec(Elevate::No, stages);
    spec.env = vec![("PATH".into(), ostler_stages::PATH.into())];
    spec
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there and not a zombie.
pub fn alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
}

pub fn kill(pid: &str) {
    let _ = Command::new("kill").args(["-9", pid.trim()]).stderr(Stdio::null()).status();
}
