//! Conversations of other programs: a list of ten thousand beside `ls -l`, the end of a large one beside `tail -c`, words in it
//! beside `grep`. Both sides read files that are in memory; theirs is a process, ours a call.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ostler_workspace::history::{Begin, History, Needle, Places, Search, Transcript};
use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};
use rustix::time::{ClockId, clock_gettime};

use super::Bench;
use crate::measure::{Sample, pairs};
use crate::procfs;
use crate::table::{Row, Target};

const BIG: &str = "ffffffff-0000-4000-8000-000000000000";
/// As much as holds the last fifty messages.
const TAIL: u64 = 256 << 10;

/// A home with transcripts; removed when dropped.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Home {
    fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("ostler-bench-history-{}", std::process::id()));
        fs::create_dir_all(dir.join(".claude/projects/-w"))?;
        Ok(Self(dir))
    }

    fn folder(&self) -> PathBuf {
        self.0.join(".claude/projects/-w")
    }

    fn history(&self) -> History {
        let home = self.0.clone().into_os_string();
        History::new(Places::of(|name| (name == "HOME").then(|| home.clone())), self.0.join("state"))
    }
}

fn line(number: u64, text: &str) -> String {
    serde_json::json!({"type": "user", "uuid": number.to_string(), "cwd": "/w", "message": {"content": text}})
        .to_string()
        + "\n"
}

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let home = Home::new()?;
    list(bench, &home)?;
    let (file, bytes) = large(bench, &home)?;
    end(bench, &home, &file, bytes)?;
    words(bench, &home, &file, bytes)
}

fn list(bench: &Bench, home: &Home) -> Result<()> {
    let count = bench.size(10_000, 1000);
    for number in 0..count {
        let text = (0..4).map(|at| line(at, &format!("prompt {at} of {number}"))).collect::<String>();
        fs::write(home.folder().join(format!("{number:08x}-0000-4000-8000-000000000000.jsonl")), text)?;
    }
    let history = home.history();
    let begun = Instant::now();
    let listed = history.list(Instant::now() + Duration::from_secs(60));
    let first = begun.elapsed().as_secs_f64() * 1e3;
    ensure!(listed.conversations.len() as u64 == count, "{} of {count} were listed", listed.conversations.len());
    let cold = Target::at_most(first / count as f64, 1.0, "ms each");
    bench.show(Row::alone(format!("history: first list of {count}"), "ms", first, cold));
    let ours = || {
        let (begun, cpu) = (Instant::now(), own_cpu());
        let listed = history.list(Instant::now() + Duration::from_secs(60));
        ensure!(listed.conversations.len() as u64 == count && listed.behind == 0, "not all were listed");
        Ok(sample(begun, own_cpu() - cpu))
    };
    let measured = pairs(bench.pairs, || theirs("ls", &["-l".into(), home.folder()]), ours)?;
    let targets = vec![Target::ratio_at_most(measured.ratio, 2.0)];
    bench.show(Row::paired(format!("history: list of {count}"), "ms", measured, targets).cpu(" s").against("ls -l"));
    Ok(())
}

fn large(bench: &Bench, home: &Home) -> Result<(PathBuf, u64)> {
    let (path, want) = (home.folder().join(format!("{BIG}.jsonl")), bench.size(200 << 20, 20 << 20));
    let mut file = BufWriter::new(File::create(&path)?);
    let (mut bytes, mut number) = (0, 0);
    while bytes < want {
        let text = line(number, &"hay and more of it ".repeat(100));
        file.write_all(text.as_bytes())?;
        bytes += text.len() as u64;
        number += 1;
    }
    file.write_all(line(number, "the needle").as_bytes())?;
    file.into_inner().context("writing the large one")?.sync_all()?;
    Ok((path, bytes))
}

fn transcript(history: &History) -> Result<Transcript> {
    history.locate(BIG).pop().context("the large one is not there")
}

fn end(bench: &Bench, home: &Home, file: &Path, bytes: u64) -> Result<()> {
    let history = home.history();
    // Before it was ever looked at.
    let before = procfs::forget_peak(getpid())?;
    ensure!(history.page(&transcript(&history)?, Begin::Last, 50)?.messages.len() == 50, "not fifty messages");
    let grown = procfs::peak(getpid())?.saturating_sub(before) as f64 / 1024.0;
    let row = format!("history: memory to open {} MiB, at most", bytes >> 20);
    bench.show(Row::alone(row, "KiB", grown, Target::at_most(grown, 4096.0, "KiB")));
    let mut read = 0;
    let ours = || {
        let (begun, cpu, before) = (Instant::now(), own_cpu(), own_bytes());
        let page = history.page(&transcript(&history)?, Begin::Last, 50)?;
        ensure!(page.messages.len() == 50 && page.older, "{} messages", page.messages.len());
        read = own_bytes() - before;
        Ok(sample(begun, own_cpu() - cpu))
    };
    let measured =
        pairs(bench.pairs, || theirs("tail", &["-c".into(), TAIL.to_string().into(), file.to_owned()]), ours)?;
    let targets =
        vec![Target::ratio_at_most(measured.ratio, 4.0), Target::at_most(read as f64 / 1024.0, 1024.0, "KiB read")];
    let name = format!("history: last 50 of {} MiB", bytes >> 20);
    bench.show(Row::paired(name, "ms", measured, targets).cpu(" s").against("tail -c 256K"));
    Ok(())
}

fn words(bench: &Bench, home: &Home, file: &Path, bytes: u64) -> Result<()> {
    let history = home.history();
    let needle = Needle::new("the needle").context("a needle")?;
    let ours = || {
        let (begun, cpu) = (Instant::now(), own_cpu());
        let mut found = 0;
        let mut told = |_| {
            found += 1;
            true
        };
        let mut search =
            Search { needle: &needle, stop: &|| false, told: &mut told, bytes: 0, unread: 0, stopped: false };
        history.search(&transcript(&history)?, &mut search)?;
        ensure!(found == 1, "{found} hits");
        Ok(sample(begun, own_cpu() - cpu))
    };
    let grep = || theirs("grep", &["-c".into(), "-i".into(), "-F".into(), "the needle".into(), file.to_owned()]);
    let measured = pairs(bench.pairs, grep, ours)?;
    let targets = vec![Target::ratio_at_most(measured.ratio, 2.0)];
    let name = format!("history: words in {} MiB", bytes >> 20);
    bench.show(Row::paired(name, "ms", measured, targets).cpu(" s").against("grep -i -F"));
    Ok(())
}

fn sample(begun: Instant, cpu: f64) -> Sample {
    Sample { value: begun.elapsed().as_secs_f64() * 1e3, cpu: Some(cpu) }
}

/// CPU seconds of this thread.
fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Bytes that this thread has read.
fn own_bytes() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
}

/// A program of one thread, from its start to its end.
fn theirs(program: &str, args: &[PathBuf]) -> Result<Sample> {
    let begun = Instant::now();
    let mut child = Command::new(program).args(args).stdout(Stdio::null()).spawn()?;
    let pid = Pid::from_child(&child);
    // What has ended and is not waited for yet still says what it cost.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let took = begun.elapsed();
    let cpu = procfs::on_cpu(pid);
    let status = child.wait()?;
    ensure!(status.success(), "{program}: {status}");
    Ok(Sample { value: took.as_secs_f64() * 1e3, cpu: Some(cpu?) })
}
