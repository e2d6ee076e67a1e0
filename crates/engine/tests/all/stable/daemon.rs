//! The daemon of the bench: an engine, told what to do on stdin.

use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ostler_engine::brief::Brief;
use ostler_engine::session::{Change, Interrupt, NewSession, Prompt};
use ostler_engine::{
    Caller, Claim, Claimed, Ending, Engine, EngineConfig, Environment, MayWait, Process, Retention, SessionConfig,
    SpawnError, SpawnRequest, approval, claim,
};
use ostler_story::{Agent, Alias, Autonomy, By, Decision, Lifetime};
use rustix::net::{Shutdown, SocketType, shutdown, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, getpid, kill_process, pidfd_getfd, pidfd_open};
use serde_json::{Value, json};

pub fn run(dir: &Path) -> ExitCode {
    let dir = dir.to_owned();
    MayWait::thread("bench", move |wait| told(wait, &dir)).unwrap().join().unwrap()
}

fn told(wait: &MayWait, dir: &Path) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let _guard = runtime.enter();
    let Claimed::Free(_lease) = claim(dir, Claim::IfFree).unwrap() else { panic!("the instance is taken") };
    let engine = Engine::start(
        wait,
        EngineConfig {
            dir: dir.to_owned(),
            own: vec![dir.to_owned()],
            environment: Arc::new(Environment::of_this_process(&[])),
            retention: Retention {
                live_max: std::fs::read_to_string(dir.join("live_max")).ok().map(|text| text.parse().unwrap()),
                count: std::fs::read_to_string(dir.join("count"))
                    .map_or(Retention::default().count, |text| text.parse().unwrap()),
                ..Retention::default()
            },
            sync_every: Duration::from_millis(200),
            guard: None,
            child_nofile: None,
            runner: std::env::current_exe().unwrap(),
            approvals: approval::Settings::default(),
            sessions: SessionConfig {
                idle_stop: std::fs::read_to_string(dir.join("idle_stop"))
                    .map_or(Duration::from_secs(900), |text| Duration::from_millis(text.parse().unwrap())),
                ask_timeout: std::fs::read_to_string(dir.join("ask_timeout"))
                    .ok()
                    .map(|text| Duration::from_millis(text.parse().unwrap())),
                ..SessionConfig::default()
            },
        },
    )
    .unwrap();
    for line in std::io::stdin().lock().lines() {
        let what: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = act(wait, &engine, &runtime, &what);
        println!("{answer}");
        std::io::stdout().flush().unwrap();
        if what["do"] == "stop" {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn act(wait: &MayWait, engine: &Engine, runtime: &tokio::runtime::Runtime, what: &Value) -> Value {
    let text = |name: &str| what[name].as_str().map(str::to_owned);
    let session = || engine.sessions().resolve(what["id"].as_str().unwrap()).unwrap();
    match what["do"].as_str().unwrap() {
        "hello" => json!("hello"),
        "brief" => {
            let within = Duration::from_millis(what["within_ms"].as_u64().unwrap_or(60_000));
            let script = text("script").unwrap();
            match engine.forker().run(&Brief::new("/bin/sh", &["-c", &script], within)) {
                Ok(ran) => json!({"ended": ran.ended.to_string(), "said": String::from_utf8_lossy(&ran.said)}),
                Err(error) => json!({ "error": error.to_string() }),
            }
        }
        "new" => {
            let workspace = text("path").map_or_else(std::env::temp_dir, Into::into);
            let mut new = NewSession::new(Agent::Echo, workspace, "test");
            new.key = text("key");
            new.name = text("name");
            new.alias = text("alias").map(|id| Alias { space: "test".into(), id });
            new.autonomy = if what["all"] == true { Autonomy::All } else { Autonomy::Ask };
            new.lifetime = if what["once"] == true { Lifetime::Turn } else { Lifetime::Session };
            match engine.sessions().create(wait, new) {
                Ok(session) => json!(session.id()),
                Err(error) => json!({ "error": error.to_string() }),
            }
        }
        "prompt" => {
            let mut prompt = Prompt::text(text("text").unwrap(), "test");
            prompt.key = text("key");
            match session().prompt(wait, prompt) {
                Ok(accepted) => json!({
                    "number": accepted.number, "position": accepted.position,
                    "record": accepted.record, "again": accepted.again,
                }),
                Err(error) => json!({ "error": error.to_string() }),
            }
        }
        "view" => {
            let view = session().view();
            json!({
                "status": view.status, "queued": view.queued, "turn": view.turn, "process": view.process,
                "approvals": view.approvals, "agent_session": view.agent_session, "last": view.last,
                "uuid": view.uuid, "why": view.why,
            })
        }
        "list" => engine.sessions().list().iter().map(|session| json!(session.id())).collect(),
        "interrupt" => {
            let how = Interrupt { clear_queue: what["clear"] == true, end_process: what["end"] == true };
            json!(session().interrupt(wait, how).unwrap().turn)
        }
        "take back" => json!(session().take_back(wait, what["number"].as_u64().unwrap(), "too late").unwrap()),
        "reword" => match session().reword(wait, what["number"].as_u64().unwrap(), text("text").unwrap()) {
            Ok(waited) => json!(waited),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "aliased" => {
            let found = engine.sessions().aliased("test", &text("alias").unwrap());
            found.iter().map(|session| json!(session.id())).collect()
        }
        "change" => {
            let autonomy = (what["all"] == true).then_some(Autonomy::All);
            let change = Change { model: text("model").map(Some), autonomy, ..Change::default() };
            let by = match what["by"].as_str() {
                Some("hosted") => Caller::Hosted("pabc".into()),
                Some("nobody") => Caller::Unknown,
                Some("elsewhere") => Caller::Elsewhere,
                _ => Caller::Free,
            };
            json!(session().change(wait, change, || by).is_ok())
        }
        "close" => {
            session().close(wait).unwrap();
            runtime.block_on(session().gone());
            json!(true)
        }
        "stdin" => {
            let process = engine.resolve(session().view().process.as_deref().unwrap()).unwrap();
            let bytes = what["bytes"].as_str().unwrap().as_bytes().to_vec();
            let (written, closed) =
                runtime.block_on(async { (process.write_stdin(None, bytes).await, process.close_stdin().await) });
            json!([written.is_ok(), closed.is_ok()])
        }
        "feed" => {
            let process = engine.resolve(what["id"].as_str().unwrap()).unwrap();
            let bytes = what["bytes"].as_str().unwrap().as_bytes().to_vec();
            json!(runtime.block_on(process.write_stdin(what["at"].as_i64(), bytes)).is_ok())
        }
        "forget process" => json!(engine.forget(wait, &engine.resolve(what["id"].as_str().unwrap()).unwrap())),
        "forget" => json!(engine.sessions().forget(wait, &session())),
        "pending" => engine.inbox().pending().iter().map(|approval| json!(approval.ask.title)).collect(),
        "decide" => {
            let decision: Decision = serde_json::from_value(what["decision"].clone()).unwrap();
            let by = match text("client") {
                Some(door) => By::Client { door, uid: 0 },
                None => By::Terminal { uid: 0, pid: Some(1), tty: "test".into() },
            };
            let decided = |approval: &approval::Approval| {
                engine.inbox().decide_here(wait, &approval.id, &approval.hash, decision.clone(), by.clone()).is_ok()
            };
            json!(engine.inbox().pending().iter().filter(|approval| decided(approval)).count())
        }
        "approvals" => engine.inbox().recent().iter().map(|approval| json!(approval.state)).collect(),
        "spawn" => spawn(engine, runtime, what),
        "process" => {
            let process = engine.resolve(what["id"].as_str().unwrap()).unwrap();
            let mut said = String::new();
            let read = process.stdout(wait).read_to_string(&mut said);
            json!({
                "args": process.about().args.concat().len(), "pid": process.pid(), "running": process.is_running(),
                "said": said, "read": read.is_ok(), "exit": format!("{:?}", process.exit()),
            })
        }
        "processes" => engine.list().iter().map(|process| json!(process.id())).collect(),
        "keeper" => json!(engine.stats().keeper_pid),
        "type" => {
            let terminal = engine.command(what["id"].as_str().unwrap()).unwrap().terminal.expect("a terminal");
            json!(terminal.write(what["text"].as_str().unwrap().as_bytes(), Duration::from_secs(5)).is_ok())
        }
        "verify" => json!(engine.inbox().verify(wait).is_ok()),
        "stop" => json!(runtime.block_on(engine.stop(Ending::Kill))),
        other => panic!("{other}"),
    }
}

/// Starts the same thing as often as is asked for, all at once. `cut`: the connection to the keeper breaks after it was asked
/// and before it has heard.
fn spawn(engine: &Engine, runtime: &tokio::runtime::Runtime, what: &Value) -> Value {
    let texts = |name: &str| what[name].as_array().unwrap().iter().map(|text| text.as_str().unwrap().into());
    let keeper = Pid::from_raw(engine.stats().keeper_pid.try_into().unwrap()).unwrap();
    let cut = what["cut"] == true;
    if cut {
        kill_process(keeper, Signal::STOP).unwrap();
    }
    let tasks: Vec<_> = (0..what["times"].as_u64().unwrap_or(1))
        .map(|_| {
            let (engine, mut argv) = (engine.clone(), texts("argv"));
            let request = SpawnRequest {
                program: argv.next().unwrap(),
                args: argv.collect(),
                key: what["key"].as_str().map(str::to_owned),
                alias: what["alias"].as_str().map(|id| Alias { space: "test".into(), id: id.into() }),
                relayed_terminal: what["relayed"] == true,
                ..SpawnRequest::default()
            };
            runtime.spawn(async move { engine.spawn(request).await })
        })
        .collect();
    if cut {
        std::thread::sleep(Duration::from_millis(300));
        break_connection();
        kill_process(keeper, Signal::CONT).unwrap();
    }
    let name = |outcome: Result<Process, SpawnError>| match outcome {
        Ok(process) => json!(process.id()),
        Err(error) => json!({ "error": error.to_string() }),
    };
    tasks.into_iter().map(|task| name(runtime.block_on(task).unwrap())).collect()
}

/// Hangs up on the keeper, which nobody else here speaks to in packets.
fn break_connection() {
    let ourselves = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let fd = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        if let Ok(fd) = pidfd_getfd(&ourselves, fd, PidfdGetfdFlags::empty())
            && sockopt::socket_type(&fd) == Ok(SocketType::SEQPACKET)
        {
            shutdown(&fd, Shutdown::Both).unwrap();
        }
    }
}
