//! A file system in memory whose server is this program, so that it can stall at will: nothing is answered, or even
//! read from the kernel, until it goes on. A file in it can also play a disk with a write cache, whose power is cut.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// How often the server looks whether it is to stall or to end.
const TICK: Duration = Duration::from_millis(2);
const TICK_SPEC: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
const ROOT: u64 = 1;
const WRITE_MAX: u32 = 64 * 1024;
const DIRECTORY: u32 = 0o040_700;
const REGULAR: u32 = 0o100_600;

#[derive(Default)]
struct Switches {
    stall: AtomicBool,
    stalled: AtomicBool,
    end: AtomicBool,
}

/// A mounted file system; unmounted when dropped.
pub struct Fuse {
    place: PathBuf,
    switches: Arc<Switches>,
    nodes: Arc<Mutex<Nodes>>,
    server: Option<JoinHandle<()>>,
}

impl Fuse {
    /// Mounts it, or prints why not: that needs root. In CI it must be possible.
    pub fn mount(place: &Path) -> Option<Self> {
        match Self::try_mount(place) {
            Ok(fuse) => Some(fuse),
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "CI must be able to mount FUSE: {error}");
                println!("skipped: no FUSE here ({error})");
                None
            }
        }
    }

    fn try_mount(place: &Path) -> std::io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = std::ffi::CString::new(options)?;
        mount("fuse", place, "fuse", MountFlags::empty(), Some(options.as_c_str()))?;
        let switches = Arc::new(Switches::default());
        let root = Node { is_dir: true, ..Node::default() };
        let nodes = Arc::new(Mutex::new(Nodes { by_number: HashMap::from([(ROOT, root)]), last: ROOT }));
        let server = Server { device, switches: Arc::clone(&switches), nodes: Arc::clone(&nodes) };
        let (ready, is_ready) = mpsc::channel();
        let server = std::thread::spawn(move || server.run(&ready));
        is_ready.recv().map_err(std::io::Error::other)?;
        Ok(Self { place: place.to_owned(), switches, nodes, server: Some(server) })
    }

    /// From now on a file in the root plays a disk: what is written stays in its cache until it is told to flush.
    pub fn play_disk(&self, name: &str) {
        let mut nodes = self.nodes.lock().unwrap();
        let disk = nodes.in_root(name);
        disk.flushed = Some(disk.data.clone());
        disk.cache.clear();
    }

    /// What such a disk would hold if the power were cut now: all that was flushed, and of what sits in its cache
    /// whatever `reached` says. Writes go on meanwhile, and are in it or not.
    pub fn cut_power(&self, name: &str, mut reached: impl FnMut() -> bool) -> Vec<u8> {
        let mut nodes = self.nodes.lock().unwrap();
        let disk = nodes.in_root(name);
        let mut image = disk.flushed.clone().unwrap();
        for (from, bytes) in &disk.cache {
            if reached() {
                image[*from..*from + bytes.len()].copy_from_slice(bytes);
            }
        }
        image
    }

    /// From when this returns nothing is answered, until what it returns is dropped.
    pub fn stall(&self) -> Stall {
        self.switches.stall.store(true, Ordering::SeqCst);
        while !self.switches.stalled.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
        }
        Stall(Arc::clone(&self.switches))
    }
}

/// For as long as this exists, the file system stalls.
#[must_use]
pub struct Stall(Arc<Switches>);

impl Drop for Stall {
    fn drop(&mut self) {
        self.0.stall.store(false, Ordering::SeqCst);
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let _ = unmount(&self.place, UnmountFlags::DETACH);
        self.switches.end.store(true, Ordering::SeqCst);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

#[derive(Default)]
struct Node {
    is_dir: bool,
    data: Vec<u8>,
    children: BTreeMap<Vec<u8>, u64>,
    /// Of a disk: what it can not lose any more, and what was written since.
    flushed: Option<Vec<u8>>,
    cache: Vec<(usize, Vec<u8>)>,
}

impl Node {
    fn write(&mut self, from: usize, bytes: &[u8]) {
        self.data.resize(self.data.len().max(from + bytes.len()), 0);
        self.data[from..from + bytes.len()].copy_from_slice(bytes);
        if self.flushed.is_some() {
            self.cache.push((from, bytes.to_vec()));
        }
    }

    fn flush(&mut self) {
        if let Some(flushed) = &mut self.flushed {
            for (from, bytes) in self.cache.drain(..) {
                flushed[from..from + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }
}

struct Nodes {
    by_number: HashMap<u64, Node>,
    last: u64,
}

struct Server {
    device: File,
    switches: Arc<Switches>,
    nodes: Arc<Mutex<Nodes>>,
}

/// The numbers of a request, in order.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&mut self) -> u32 {
        let (head, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        u32::from_le_bytes(*head)
    }

    fn u64(&mut self) -> u64 {
        let (head, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        u64::from_le_bytes(*head)
    }

    fn name(&mut self) -> Vec<u8> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap();
        let name = self.0[..end].to_vec();
        self.0 = &self.0[end + 1..];
        name
    }
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u32(mut self, numbers: &[u32]) -> Self {
        numbers.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
        self
    }

    fn u64(mut self, numbers: &[u64]) -> Self {
        numbers.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
        self
    }
}

impl Server {
    fn run(self, ready: &mpsc::Sender<()>) {
        let mut buffer = vec![0; WRITE_MAX as usize + 4096];
        let _ = ready.send(());
        while !self.switches.end.load(Ordering::SeqCst) {
            let stall = self.switches.stall.load(Ordering::SeqCst);
            self.switches.stalled.store(stall, Ordering::SeqCst);
            if stall {
                std::thread::sleep(TICK);
                continue;
            }
            let mut fds = [PollFd::new(&self.device, PollFlags::IN)];
            if !matches!(poll(&mut fds, Some(&TICK_SPEC)), Ok(1)) {
                continue;
            }
            match (&self.device).read(&mut buffer) {
                Ok(length) => self.hear(&buffer[..length]),
                Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => return,
                Err(_) => {}
            }
        }
    }

    fn hear(&self, request: &[u8]) {
        let mut head = Fields(request);
        let (_length, opcode, unique, node) = (head.u32(), head.u32(), head.u64(), head.u64());
        let answer = self.nodes.lock().unwrap().answer(opcode, node, Fields(&request[40..]));
        let (error, body) = match answer {
            // Forgetting and interrupting are not answered.
            None => return,
            Some(Ok(out)) => (0, out.0),
            Some(Err(errno)) => (-errno.raw_os_error(), Vec::new()),
        };
        let length = u32::try_from(16 + body.len()).unwrap();
        let mut reply = Out::default().u32(&[length, error.cast_unsigned()]).u64(&[unique]).0;
        reply.extend(body);
        // The asker may have been killed meanwhile.
        let _ = (&self.device).write(&reply);
    }
}

impl Nodes {
    fn in_root(&mut self, name: &str) -> &mut Node {
        let number = self.child(ROOT, name.as_bytes()).unwrap();
        self.by_number.get_mut(&number).unwrap()
    }

    fn answer(&mut self, opcode: u32, node: u64, mut ask: Fields<'_>) -> Option<Result<Out, Errno>> {
        let nothing = || Some(Ok(Out::default()));
        match opcode {
            // LOOKUP
            1 => Some(self.child(node, &ask.name()).map(|child| self.entry(child))),
            // FORGET, INTERRUPT, BATCH_FORGET
            2 | 36 | 42 => None,
            // GETATTR
            3 => Some(self.attributes(node)),
            // SETATTR: the size is all that counts
            4 => {
                let (valid, _, _, size) = (ask.u32(), ask.u32(), ask.u64(), ask.u64());
                if valid & (1 << 3) != 0 {
                    self.by_number.get_mut(&node)?.data.resize(usize::try_from(size).unwrap(), 0);
                }
                Some(self.attributes(node))
            }
            // MKDIR
            9 => {
                let (_mode, _umask) = (ask.u32(), ask.u32());
                let child = self.make(node, ask.name(), true);
                Some(Ok(self.entry(child)))
            }
            // UNLINK, RMDIR
            10 | 11 => {
                self.by_number.get_mut(&node)?.children.remove(&ask.name());
                nothing()
            }
            // RENAME, RENAME2
            12 | 45 => {
                let to = ask.u64();
                if opcode == 45 {
                    ask.u64();
                }
                let (old, new) = (ask.name(), ask.name());
                let moved = self.by_number.get_mut(&node)?.children.remove(&old)?;
                self.by_number.get_mut(&to)?.children.insert(new, moved);
                nothing()
            }
            // OPEN, OPENDIR
            14 | 27 => Some(Ok(Out::default().u64(&[0]).u32(&[0, 0]))),
            // READ
            15 => {
                let (_, at, size) = (ask.u64(), ask.u64(), ask.u32());
                let data = &self.by_number.get(&node)?.data;
                let from = usize::try_from(at).unwrap().min(data.len());
                let to = (from + size as usize).min(data.len());
                Some(Ok(Out(data[from..to].to_vec())))
            }
            // WRITE
            16 => {
                let (_, at, size, _, _, _, _) =
                    (ask.u64(), ask.u64(), ask.u32(), ask.u32(), ask.u64(), ask.u32(), ask.u32());
                self.by_number.get_mut(&node)?.write(usize::try_from(at).unwrap(), &ask.0[..size as usize]);
                Some(Ok(Out::default().u32(&[size, 0])))
            }
            // STATFS: as good as empty
            17 => Some(Ok(Out::default()
                .u64(&[1 << 24, 1 << 24, 1 << 24, 1 << 20, 1 << 20])
                .u32(&[4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0]))),
            // FSYNC
            20 => {
                self.by_number.get_mut(&node)?.flush();
                nothing()
            }
            // RELEASE, RELEASEDIR, FSYNCDIR. (FLUSH is not known here: an asker who is killed would wait for it.)
            18 | 29 | 30 => nothing(),
            // INIT: the protocol of Linux 5.4, which newer ones speak too
            26 => Some(Ok(Out::default().u32(&[7, 31, 1 << 16, 1 << 5, 12 | 10 << 16, WRITE_MAX, 1, 32]).u32(&[0; 8]))),
            // READDIR
            28 => {
                let (_, at, _size) = (ask.u64(), ask.u64(), ask.u32());
                let mut out = Out::default();
                let all = (1..).zip(&self.by_number.get(&node)?.children);
                for (position, (name, child)) in all.skip(usize::try_from(at).unwrap()).take(8) {
                    let kind = if self.by_number.get(child)?.is_dir { 4 } else { 8 };
                    let length = u32::try_from(name.len()).unwrap();
                    out = out.u64(&[*child, position]).u32(&[length, kind]);
                    out.0.extend(name);
                    out.0.resize(out.0.len().next_multiple_of(8), 0);
                }
                Some(Ok(out))
            }
            // CREATE
            35 => {
                let _ = (ask.u64(), ask.u64());
                let name = ask.name();
                if self.child(node, &name).is_ok() {
                    return Some(Err(Errno::EXIST));
                }
                let child = self.make(node, name, false);
                Some(Ok(self.entry(child).u64(&[0]).u32(&[0, 0])))
            }
            _ => Some(Err(Errno::NOSYS)),
        }
    }

    fn child(&self, node: u64, name: &[u8]) -> Result<u64, Errno> {
        self.by_number.get(&node).and_then(|node| node.children.get(name)).copied().ok_or(Errno::NOENT)
    }

    fn make(&mut self, parent: u64, name: Vec<u8>, is_dir: bool) -> u64 {
        self.last += 1;
        self.by_number.insert(self.last, Node { is_dir, ..Node::default() });
        self.by_number.get_mut(&parent).unwrap().children.insert(name, self.last);
        self.last
    }

    /// Nothing is remembered by the kernel: everything is asked again.
    fn entry(&self, node: u64) -> Out {
        let out = Out::default().u64(&[node, 0, 0, 0]).u32(&[0, 0]);
        self.attribute(out, node)
    }

    fn attributes(&self, node: u64) -> Result<Out, Errno> {
        self.by_number.get(&node).ok_or(Errno::NOENT)?;
        Ok(self.attribute(Out::default().u64(&[0]).u32(&[0, 0]), node))
    }

    fn attribute(&self, out: Out, number: u64) -> Out {
        let node = &self.by_number[&number];
        let mode = if node.is_dir { DIRECTORY } else { REGULAR };
        let size = node.data.len() as u64;
        out.u64(&[number, size, size.div_ceil(512), 0, 0, 0]).u32(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])
    }
}
