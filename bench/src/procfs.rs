//! What the kernel says about a process: CPU time, memory, threads, children.
//! Read only; a process that is gone gives an error, never a zero that looks like a measurement.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::Pid;

/// CPU time of a whole process, threads that ended included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

impl Cpu {
    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

fn read(pid: Pid, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| path)
}

/// The fields of a stat line after the program's name, which may itself hold blanks and brackets.
fn stat_fields(text: &str) -> Vec<&str> {
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().collect()
}

fn cpu_of(stat: &str) -> Result<Cpu> {
    let fields = stat_fields(stat);
    let ticks = |at: usize| -> Result<f64> { Ok(fields.get(at).context("short stat line")?.parse()?) };
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok(Cpu { user: ticks(11)? / per_second, system: ticks(12)? / per_second })
}

pub(crate) fn cpu(pid: Pid) -> Result<Cpu> {
    cpu_of(&read(pid, "stat")?)
}

pub(crate) fn parent(pid: Pid) -> Result<i32> {
    let text = read(pid, "stat")?;
    Ok(stat_fields(&text).get(1).context("short stat line")?.parse()?)
}

/// Resident memory in bytes.
/// Bytes that a process has read so far, from wherever.
pub(crate) fn read_bytes(pid: Pid) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero()))?;
    let read = text.lines().find_map(|line| line.strip_prefix("rchar: ")).context("no rchar")?;
    Ok(read.trim().parse()?)
}

pub(crate) fn rss(pid: Pid) -> Result<u64> {
    status_kib(pid, "VmRSS:")
}

/// Resident memory that no other process shares, in bytes.
pub(crate) fn rss_anon(pid: Pid) -> Result<u64> {
    status_kib(pid, "RssAnon:")
}

/// The most resident memory that it had, in bytes, since it was forgotten.
pub(crate) fn peak(pid: Pid) -> Result<u64> {
    status_kib(pid, "VmHWM:")
}

/// Begins the peak anew; with what is resident now, in bytes.
pub(crate) fn forget_peak(pid: Pid) -> Result<u64> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    rss(pid)
}

/// CPU seconds of a process with one thread, also when it has ended and nobody has waited for it: finer than ticks.
pub(crate) fn on_cpu(pid: Pid) -> Result<f64> {
    let text = read(pid, "schedstat")?;
    let nanoseconds: f64 = text.split(' ').next().context("short schedstat")?.parse()?;
    Ok(nanoseconds / 1e9)
}

fn status_kib(pid: Pid, name: &str) -> Result<u64> {
    let text = read(pid, "status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no such line in status")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// Direct children of a process, whichever of its threads made them.
pub(crate) fn children(pid: Pid) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let list = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)));
    }
    Ok(found)
}

/// CPU time per thread name: the cheapest profile there is.
pub(crate) fn threads(pid: Pid) -> Result<Vec<(String, Cpu)>> {
    let mut all: Vec<(String, Cpu)> = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = task?.path();
        let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        // "pump-0" and "pump-1" are one line of the profile.
        let name = name.trim_end().trim_end_matches(|c: char| c.is_ascii_digit() || c == '-').to_owned();
        let cpu = cpu_of(&stat)?;
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => {
                sum.user += cpu.user;
                sum.system += cpu.system;
            }
            None => all.push((name, cpu)),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_brackets_does_not_shift_the_fields() {
        let line = "12 (a) b) (c) S 1 12 12 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 1 0 5";
        let cpu = cpu_of(line).unwrap();
        let ratio = cpu.user / cpu.system;
        assert!((ratio - 3.0).abs() < 1e-9);
        assert_eq!(stat_fields(line).get(1), Some(&"1"));
    }

    #[test]
    fn this_process_is_seen() {
        let me = rustix::process::getpid();
        assert!(rss(me).unwrap() > 100_000);
        assert!(rss_anon(me).unwrap() <= rss(me).unwrap());
        assert!(!threads(me).unwrap().is_empty());
        assert!(parent(me).unwrap() > 0);
        assert!(forget_peak(me).unwrap() <= peak(me).unwrap() && on_cpu(me).unwrap() > 0.0);
        let mut child = std::process::Command::new("/bin/sleep").arg("5").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(children(me).unwrap().contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(rss(pid).is_err());
    }
}
