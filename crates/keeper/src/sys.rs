//! Every raw system call of this crate: what rustix does not wrap, and the child's side of a fork.
//! Nothing outside this module is unsafe. The keeper has one thread; still, between fork and exec
//! only async-signal-safe calls are made, on memory that was prepared before.

mod exclusive;

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use ostler_story::Exit;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::spec::Step;

pub use exclusive::{give_terminal_back, is_exclusive, take_terminal};

/// What the allocator of this program has handed out and what it holds, in bytes; nothing where it does not say.
#[cfg(target_env = "gnu")]
pub fn heap() -> Option<(u64, u64)> {
    // SAFETY: takes no arguments, and reads the allocator's own counters under its own locks.
    let counted = unsafe { libc::mallinfo2() };
    // Large pieces are mapped one by one, beside the arenas.
    let used = counted.uordblks + counted.hblkhd;
    Some((used as u64, (counted.arena + counted.hblkhd) as u64))
}

/// What the allocator of this program has handed out and what it holds, in bytes; nothing where it does not say.
#[cfg(not(target_env = "gnu"))]
pub fn heap() -> Option<(u64, u64)> {
    None
}

/// A private, read-only mapping of a sealed file.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Mapping {
    /// Maps the first `length` bytes. The caller has checked that the file is sealed against
    /// shrinking and writing.
    pub(crate) fn new(file: impl AsFd, length: usize) -> Result<Mapping, Errno> {
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
        Ok(Mapping { start, length })
    }
}

impl std::ops::Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping covers `length` readable bytes until drop; the seals keep the file
        // from shrinking or changing underneath.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `new`, unmapped only here.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

/// A null-terminated array of C strings, as exec wants it.
pub(crate) struct Pointers<'a> {
    raw: Vec<*const c_char>,
    strings: std::marker::PhantomData<&'a CStr>,
}

impl<'a> Pointers<'a> {
    pub(crate) fn new(strings: impl Iterator<Item = &'a CStr>) -> Pointers<'a> {
        let mut raw: Vec<*const c_char> = strings.map(CStr::as_ptr).collect();
        raw.push(std::ptr::null());
        Pointers { raw, strings: std::marker::PhantomData }
    }
}

/// As many limits as the kernel has.
const LIMITS_MAX: usize = 16;

/// Everything the child's side of a spawn needs, prepared before the fork.
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) argv: Pointers<'a>,
    pub(crate) env: Pointers<'a>,
    pub(crate) cwd: &'a CStr,
    /// What becomes descriptors 0, 1 and 2; all above 2 or being `/dev/null` there already.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// Where the failing step and its errno go; closes on exec.
    pub(crate) errors: BorrowedFd<'a>,
    pub(crate) session: bool,
    /// Which of the three descriptors becomes the controlling terminal.
    pub(crate) terminal: Option<c_int>,
    pub(crate) umask: Option<u32>,
    pub(crate) nofile: (u64, u64),
    /// Other limits: the kernel's number of each, soft, hard. The first [`LIMITS_MAX`] count.
    pub(crate) limits: &'a [(u32, u64, u64)],
    /// Text for `/proc/self/oom_score_adj`, if the keeper lowered its own.
    pub(crate) oom: Option<&'a [u8]>,
    /// A file to be appended to as descriptors 1 and 2 instead.
    pub(crate) log: Option<&'a CStr>,
    /// It may be born into our memory: whoever made the plan hears the end of its error pipe.
    pub(crate) shares: bool,
    /// The control group to be born into; where the kernel will not, the child is where we are.
    pub(crate) group: Option<BorrowedFd<'a>>,
}

/// Starts a child that executes. The answer is its pid; whether it got as far as exec is told by the error pipe.
///
/// It is born into our own memory where it can be, and leaves that with exec: copying what it never looks at would be half of
/// what a start costs. Unlike a vfork, nobody waits for it, so a folder or a program that hangs holds up nobody else. What it
/// reads meanwhile is in the [`Launch`].
pub(crate) fn spawn(plan: &Plan<'_>) -> Result<(u32, Launch), Errno> {
    #[cfg(target_arch = "x86_64")]
    if plan.shares
        && let Some(born) = Launch::begin(plan)
    {
        return Ok(born);
    }
    match plan.group.map_or(-1, fork_into) {
        0 => start(&Order::of(plan)),
        pid if pid > 0 => return Ok((pid.unsigned_abs(), Launch::default())),
        _ => {}
    }
    // SAFETY: this process has one thread, and the child calls only `start`, which allocates nothing.
    match unsafe { libc::fork() } {
        -1 => Err(last()),
        0 => start(&Order::of(plan)),
        pid => Ok((pid.unsigned_abs(), Launch::default())),
    }
}

/// What the child's side of a spawn reads: numbers, and pointers to C strings.
struct Order {
    program: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    cwd: *const c_char,
    log: *const c_char,
    stdio: [RawFd; 3],
    errors: RawFd,
    session: bool,
    terminal: Option<c_int>,
    umask: Option<u32>,
    limit: libc::rlimit,
    limits: [Option<(u32, libc::rlimit)>; LIMITS_MAX],
    oom: Option<(*const u8, usize)>,
}

impl Order {
    /// Good for as long as the plan is.
    fn of(plan: &Plan<'_>) -> Order {
        let mut limits = [None; LIMITS_MAX];
        for (slot, (resource, soft, hard)) in limits.iter_mut().zip(plan.limits) {
            *slot = Some((*resource, libc::rlimit { rlim_cur: *soft, rlim_max: *hard }));
        }
        Order {
            program: plan.program.as_ptr(),
            argv: plan.argv.raw.as_ptr(),
            env: plan.env.raw.as_ptr(),
            cwd: plan.cwd.as_ptr(),
            log: plan.log.map_or(std::ptr::null(), CStr::as_ptr),
            stdio: plan.stdio.map(|fd| fd.as_raw_fd()),
            errors: plan.errors.as_raw_fd(),
            session: plan.session,
            terminal: plan.terminal,
            umask: plan.umask,
            limit: libc::rlimit { rlim_cur: plan.nofile.0, rlim_max: plan.nofile.1 },
            limits,
            oom: plan.oom.map(|text| (text.as_ptr(), text.len())),
        }
    }
}

/// Memory that a child shares with us until its program runs. Given back by [`over`](Self::over) alone: forgotten in any other
/// way, it stays.
#[derive(Default)]
pub(crate) struct Launch(Option<Box<LaunchMemory>>);

struct LaunchMemory {
    order: Order,
    /// The strings, one after the other.
    _text: Vec<u8>,
    _argv: Vec<*const c_char>,
    _env: Vec<*const c_char>,
    stack: Vec<u8>,
}

impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launch").field("shared", &self.0.is_some()).finish()
    }
}

impl Launch {
    /// The child has left our memory: its end of the error pipe is closed, which happens after that.
    pub(crate) fn over(mut self) {
        drop(self.0.take());
    }

    /// Nothing where it can not be done.
    #[cfg(target_arch = "x86_64")]
    fn begin(plan: &Plan<'_>) -> Option<(u32, Launch)> {
        /// A few frames of system calls, and room for those of a build without optimisation.
        const STACK: usize = 16 * 1024;
        let mut text = Vec::new();
        let mut put = |string: *const c_char| {
            let at = text.len();
            // SAFETY: the plan's pointers are those of C strings that it borrows.
            text.extend_from_slice(unsafe { CStr::from_ptr(string) }.to_bytes_with_nul());
            at
        };
        let (program, cwd) = (put(plan.program.as_ptr()), put(plan.cwd.as_ptr()));
        let mut put_all = |pointers: &Pointers<'_>| -> Vec<usize> {
            pointers.raw.iter().filter(|pointer| !pointer.is_null()).map(|pointer| put(*pointer)).collect()
        };
        let (argv, env) = (put_all(&plan.argv), put_all(&plan.env));
        let at = |offset: &usize| text.as_ptr().wrapping_add(*offset).cast::<c_char>();
        let pointers = |offsets: Vec<usize>| -> Vec<*const c_char> {
            offsets.iter().map(at).chain(std::iter::once(std::ptr::null())).collect()
        };
        let (argv, env) = (pointers(argv), pointers(env));
        let (program, cwd) = (at(&program), at(&cwd));
        let order = Order { program, cwd, argv: argv.as_ptr(), env: env.as_ptr(), ..Order::of(plan) };
        let mut shared =
            Box::new(LaunchMemory { order, _text: text, _argv: argv, _env: env, stack: Vec::with_capacity(STACK) });
        let bottom = shared.stack.as_mut_ptr().addr().next_multiple_of(16);
        for group in [plan.group, None] {
            let stack = (bottom as u64, (STACK - 32) as u64);
            let flags = u64::from(libc::CLONE_VM.unsigned_abs());
            let args = CloneArgs { stack: stack.0, stack_size: stack.1, ..CloneArgs::new(flags, group) };
            // SAFETY: the child runs `born` on a stack of its own, on memory that nobody changes and that lives until it has
            // left ours: `shared` is given back by `over` only. It makes system calls and nothing else, and touches no
            // thread-local variable: not even the error number.
            let pid = unsafe { clone_onto(&args, &raw const shared.order) };
            if pid > 0 {
                return Some((u32::try_from(pid).unwrap_or(0), Launch(Some(shared))));
            }
        }
        None
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        // Somebody may still be reading it.
        std::mem::forget(self.0.take());
    }
}

#[cfg(target_arch = "x86_64")]
extern "C" fn born(order: *const Order) -> ! {
    // SAFETY: the argument that `Launch::begin` passes.
    start(unsafe { &*order })
}

/// A system call that leaves the error number alone: it is in the answer. The child may share the variable with us.
///
/// # Safety
/// That of the call.
#[cfg(target_arch = "x86_64")]
unsafe fn call<const N: usize>(number: libc::c_long, arguments: [usize; N]) -> isize {
    let given = |index: usize| arguments.get(index).copied().unwrap_or(0);
    let result: isize;
    // SAFETY: the kernel's calling convention; by the contract of this function the rest is the caller's.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") given(0), in("rsi") given(1), in("rdx") given(2), in("r10") given(3),
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// # Safety
/// That of the call.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn call<const N: usize>(number: libc::c_long, arguments: [usize; N]) -> isize {
    let given = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: by the contract of this function. Here no child shares our memory.
    let result = unsafe { libc::syscall(number, given(0), given(1), given(2), given(3)) };
    if result < 0 { -(last().raw_os_error() as isize) } else { result as isize }
}

/// `struct clone_args`.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pointers: [u64; 3],
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    more: [u64; 3],
    cgroup: u64,
}

impl CloneArgs {
    fn new(flags: u64, group: Option<BorrowedFd<'_>>) -> CloneArgs {
        const INTO_CGROUP: u64 = 1 << 33;
        CloneArgs {
            flags: flags | group.map_or(0, |_| INTO_CGROUP),
            exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
            cgroup: group.map_or(0, |group| u64::from(group.as_raw_fd().unsigned_abs())),
            ..CloneArgs::default()
        }
    }
}

/// As fork, into a control group (Linux 5.7). The C library does not know of it, which only a child that used its
/// threads would notice. Negative: it could not be done.
fn fork_into(group: BorrowedFd<'_>) -> i32 {
    let args = CloneArgs::new(0, Some(group));
    // SAFETY: as a fork: no shared memory, no new stack, no thread-local storage; the kernel reads exactly `args`.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    i32::try_from(pid).unwrap_or(-1)
}

/// A child on a stack of its own in this very memory, where it calls `born(order)`. The answer is its pid, or what the system
/// said.
///
/// # Safety
/// `args` name a stack that nobody else uses, and that and `order` live until the child has left our memory.
#[cfg(target_arch = "x86_64")]
unsafe fn clone_onto(args: &CloneArgs, order: *const Order) -> isize {
    let result: isize;
    // SAFETY: the parent goes on behind the call as from any other. The child begins there too, with the same registers and an
    // empty stack whose top is a multiple of 16; it goes to `born`, which never returns.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call {born}",
            "ud2",
            "2:",
            born = sym born,
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") std::ptr::from_ref(args),
            in("rsi") size_of::<CloneArgs>(),
            in("r12") order,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// The child's side: never returns, tells the error pipe the step that failed.
fn start(order: &Order) -> ! {
    // SAFETY: plain system calls on descriptors and C strings that the order's maker keeps alive; nothing here touches an
    // allocator, a lock or a thread-local variable.
    unsafe {
        let step = match prepare(order) {
            Err(failed) => failed,
            Ok(()) => {
                let (argv, env) = (order.argv.addr(), order.env.addr());
                (Step::Exec, call(libc::SYS_execve, [order.program.addr(), argv, env]))
            }
        };
        let report = report(step.0, Errno::from_raw_os_error(i32::try_from(-step.1).unwrap_or(0)));
        call(libc::SYS_write, [order.errors.unsigned_abs() as usize, report.as_ptr().addr(), report.len()]);
        loop {
            call(libc::SYS_exit_group, [127]);
        }
    }
}

/// Everything between birth and exec; the step that failed, and what the system said.
///
/// # Safety
/// For a process that was just born: it changes what belongs to the whole process.
unsafe fn prepare(order: &Order) -> Result<(), (Step, isize)> {
    let at = |step: Step, result: isize| if result < 0 { Err((step, result)) } else { Ok(result) };
    let number = |fd: RawFd| fd.unsigned_abs() as usize;
    // SAFETY: as in `start`.
    unsafe {
        let left = if order.session { call(libc::SYS_setsid, []) } else { call(libc::SYS_setpgid, [0, 0]) };
        at(Step::Setup, left)?;
        for (target, source) in (0..).zip(order.stdio) {
            // Of itself it is what it should be: without the flag that would close it.
            let moved = match number(source) == target {
                true => call(libc::SYS_fcntl, [target, libc::F_SETFD as usize, 0]),
                false => call(libc::SYS_dup3, [number(source), target, 0]),
            };
            at(Step::Setup, moved)?;
        }
        // Before anything that may hang: a stuck child must hold no pipe of another one open.
        let errors = number(order.errors);
        if errors > 3 {
            call(libc::SYS_close_range, [3, errors - 1, 0]);
        }
        call(libc::SYS_close_range, [errors + 1, c_uint::MAX as usize, 0]);
        if let Some(fd) = order.terminal {
            at(Step::Setup, call(libc::SYS_ioctl, [number(fd), libc::TIOCSCTTY as usize, 0]))?;
        }
        let here = libc::AT_FDCWD as usize;
        if let Some((text, length)) = order.oom {
            let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
            let fd = call(libc::SYS_openat, [here, c"/proc/self/oom_score_adj".as_ptr().addr(), flags]);
            if let Ok(fd) = usize::try_from(fd) {
                call(libc::SYS_write, [fd, text.addr(), length]);
                call(libc::SYS_close, [fd]);
            }
        }
        let limit = (&raw const order.limit).addr();
        at(Step::Setup, call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as usize, limit, 0]))?;
        for (resource, limit) in order.limits.iter().flatten() {
            let limit = (&raw const *limit).addr();
            at(Step::Setup, call(libc::SYS_prlimit64, [0, *resource as usize, limit, 0]))?;
        }
        if let Some(mask) = order.umask {
            call(libc::SYS_umask, [mask as usize]);
        }
        if !order.log.is_null() {
            let flags = (libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC) as usize;
            if let Ok(fd) = usize::try_from(call(libc::SYS_openat, [here, order.log.addr(), flags, 0o600])) {
                call(libc::SYS_dup3, [fd, 1, 0]);
                call(libc::SYS_dup3, [fd, 2, 0]);
            }
        }
        at(Step::Chdir, call(libc::SYS_chdir, [order.cwd.addr()]))?;
        let none: SignalSet = 0;
        let mask = (&raw const none).addr();
        call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, mask, 0, size_of::<SignalSet>()]);
        Ok(())
    }
}

/// The eight bytes of an error pipe.
fn report(step: Step, errno: Errno) -> [u8; 8] {
    let step: u32 = match step {
        Step::Pipe => 1,
        Step::Fork => 2,
        Step::Chdir => 3,
        Step::Setup => 4,
        Step::Exec => 5,
    };
    let mut bytes = [0; 8];
    let (head, tail) = bytes.split_at_mut(4);
    head.copy_from_slice(&step.to_le_bytes());
    tail.copy_from_slice(&errno.raw_os_error().to_le_bytes());
    bytes
}

/// Reads what `report` wrote.
pub(crate) fn failure(bytes: [u8; 8]) -> (Step, i32) {
    let [a, b, c, d, e, f, g, h] = bytes;
    let step = match u32::from_le_bytes([a, b, c, d]) {
        1 => Step::Pipe,
        2 => Step::Fork,
        3 => Step::Chdir,
        5 => Step::Exec,
        _ => Step::Setup,
    };
    (step, i32::from_le_bytes([e, f, g, h]))
}

/// Forks a helper that writes what `work` returns into `out` and ends. It has no descriptor but 0, which is `input` if there
/// is one, 1, 2 and `out`; it works on a copy of our memory, so it may do whatever a program may, and its
/// destructors never run.
pub(crate) fn helper(
    out: BorrowedFd<'_>,
    input: Option<BorrowedFd<'_>>,
    work: impl FnOnce() -> Vec<u8>,
) -> Result<u32, Errno> {
    // SAFETY: this process has one thread, so the child's copy of every lock and of the allocator
    // is in a sound state; it ends by _exit and closes nothing on behalf of its copies.
    unsafe {
        match libc::fork() {
            -1 => Err(last()),
            0 => {
                if let Some(input) = input {
                    libc::dup2(input.as_raw_fd(), 0);
                }
                keep_only(out);
                unblock_signals();
                let said = work();
                let mut rest = said.as_slice();
                while !rest.is_empty() {
                    match rustix::io::write(out, rest) {
                        Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                        Err(_) => break,
                    }
                }
                libc::_exit(0)
            }
            pid => Ok(pid.unsigned_abs()),
        }
    }
}

/// Forks and executes the program behind a descriptor with `out` as its stdout and nothing on its
/// stdin: it then says what it can do.
pub(crate) fn ask(program: BorrowedFd<'_>, out: BorrowedFd<'_>) -> Result<u32, Errno> {
    // SAFETY: one thread; the child makes system calls only and ends by exec or _exit.
    unsafe {
        match libc::fork() {
            -1 => Err(last()),
            0 => {
                libc::dup2(out.as_raw_fd(), 1);
                // Moved where closing the rest spares it.
                libc::dup2(program.as_raw_fd(), 2);
                libc::syscall(libc::SYS_close_range, 3 as c_uint, c_uint::MAX, 0);
                unblock_signals();
                become_program(BorrowedFd::borrow_raw(2));
                libc::_exit(127)
            }
            pid => Ok(pid.unsigned_abs()),
        }
    }
}

/// Closes every descriptor above 2 but one. On a kernel without close_range they close on exec.
///
/// Only for a process that uses none of the others: one that was just forked, or has just begun.
pub(crate) fn keep_only(fd: BorrowedFd<'_>) {
    let Ok(fd) = c_uint::try_from(fd.as_raw_fd()) else {
        return;
    };
    // SAFETY: by the rule above nobody uses these descriptors any more.
    unsafe {
        if fd > 3 {
            libc::syscall(libc::SYS_close_range, 3 as c_uint, fd - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, fd + 1, c_uint::MAX, 0);
    }
}

/// The kernel's own set of signals. The C library's hides two signals that it uses itself, and a
/// program started by it may have inherited exactly those as ignored.
type SignalSet = u64;

fn set_mask(mask: SignalSet) {
    // SAFETY: the kernel reads eight bytes; only the mask of the only thread changes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            std::ptr::null_mut::<SignalSet>(),
            size_of::<SignalSet>(),
        );
    }
}

fn unblock_signals() {
    set_mask(0);
}

/// Blocks every signal and gives all dispositions back their default (only "ignore" survives an
/// exec, so the children's are clean too). The descriptor becomes readable when a child changes
/// state or somebody sends SIGTERM.
pub(crate) fn take_signals() -> Result<OwnedFd, Errno> {
    set_mask(SignalSet::MAX);
    // Handler, flags, restorer and mask of the kernel's sigaction, all zero: the default.
    let default = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads at most the four words; the two signals that have no other
        // disposition are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                size_of::<SignalSet>(),
            );
        }
    }
    // SAFETY: the set lives on this frame and is initialised before use.
    unsafe {
        let mut wanted: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut wanted);
        libc::sigaddset(&raw mut wanted, libc::SIGCHLD);
        libc::sigaddset(&raw mut wanted, libc::SIGTERM);
        let fd = libc::signalfd(-1, &raw const wanted, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        owned(fd)
    }
}

/// Empties the signal descriptor. `true`: SIGTERM was among them.
pub(crate) fn drain_signals(fd: &OwnedFd) -> bool {
    const RECORD: usize = size_of::<libc::signalfd_siginfo>();
    let mut asked_to_end = false;
    // More than there are kinds of signals that we take: what is left is one read.
    let mut bytes = [0_u8; 8 * RECORD];
    while let Ok(length) = rustix::io::read(fd, &mut bytes) {
        // The first field of a record is the signal's number.
        let numbers = bytes.get(..length).unwrap_or_default().chunks_exact(RECORD);
        let mut numbers = numbers.filter_map(|record| record.first_chunk().copied().map(u32::from_ne_bytes));
        asked_to_end |= numbers.any(|number| number == libc::SIGTERM.unsigned_abs());
        if length < bytes.len() {
            break;
        }
    }
    asked_to_end
}

/// Leaves the process that started us: the parent ends with success, the child goes on in a session
/// of its own.
pub(crate) fn detach() -> Result<(), Errno> {
    // SAFETY: one thread; the parent ends without destructors.
    unsafe {
        match libc::fork() {
            -1 => return Err(last()),
            0 => {}
            _ => libc::_exit(0),
        }
        if libc::setsid() < 0 {
            return Err(last());
        }
    }
    Ok(())
}

/// Signals a process (or, negative, a group). Only for a child that was not reaped yet.
pub(crate) fn kill(pid: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::kill(pid, signal) })
}

/// Signals through a process descriptor: the process or nobody.
pub(crate) fn pidfd_signal(fd: impl AsFd, signal: i32, group: bool) -> Result<(), Errno> {
    /// Reach the process's group (Linux 6.9).
    const PROCESS_GROUP: c_uint = 1 << 2;
    let flags = if group { PROCESS_GROUP } else { 0 };
    // SAFETY: a null siginfo means "as kill would fill it".
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd.as_fd().as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            flags,
        )
    };
    if result < 0 { Err(last()) } else { Ok(()) }
}

/// How a process that was not our child ended, where the kernel tells (Linux 6.15, once reaped).
pub(crate) fn pidfd_exit(fd: impl AsFd) -> Option<Exit> {
    /// `struct pidfd_info`, first version.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    /// `_IOWR(0xFF, 11, struct pidfd_info)`.
    const GET_INFO: u32 = (3 << 30) | (64 << 16) | (0xFF << 8) | 11;
    const INFO_EXIT: u64 = 1 << 3;
    let mut info = Info { mask: INFO_EXIT, ..Info::default() };
    // SAFETY: the kernel fills at most the 64 bytes whose size is part of the request.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), GET_INFO as _, &raw mut info) };
    (result >= 0 && info.mask & INFO_EXIT != 0).then(|| exit_of(info.exit_code))
}

/// Translates a wait status.
pub(crate) fn exit_of(status: i32) -> Exit {
    if libc::WIFEXITED(status) {
        Exit::Code(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Unknown
    }
}

/// Replaces this program by the one behind `program`, under our name and with no environment.
/// Returns only if it failed.
pub(crate) fn become_program(program: BorrowedFd<'_>) -> Errno {
    let argv = [c"ostler-keeper".as_ptr(), std::ptr::null()];
    let env = [std::ptr::null::<c_char>()];
    // SAFETY: both arrays are null-terminated and outlive the call; the path is empty on purpose.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    last()
}

/// Takes ownership of a descriptor that the program before us left open, and closes it on exec
/// again.
pub(crate) fn inherit(fd: RawFd) -> Result<OwnedFd, Errno> {
    if fd < 3 {
        return Err(Errno::BADF);
    }
    // SAFETY: the flags call fails on a number that is not open; the caller names each number once.
    unsafe {
        check(libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A descriptor of our own for what is open under this number already: at the same place of the same file, and a socket
/// too, which a name of it below `/proc` would not be.
pub fn duplicate(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: the call fails on a number that is not open, and gives back a new one that nobody owns.
    unsafe { owned(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3)) }
}

/// The process that connected this socket, held as it was then: its number may be another's by now. An old kernel (before
/// 6.5) knows no such option.
pub fn peer_process(socket: impl AsFd) -> Result<OwnedFd, Errno> {
    let mut fd: c_int = -1;
    let mut length = libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(0);
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes one number of the size that it is told to.
    check(unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERPIDFD, (&raw mut fd).cast(), &raw mut length)
    })?;
    // SAFETY: a new descriptor that nobody owns.
    unsafe { owned(fd) }
}

/// Lets a descriptor survive the next exec, or not.
pub(crate) fn survive(fd: impl AsFd, survive: bool) -> Result<(), Errno> {
    let flags = if survive { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: only a flag of an open descriptor changes.
    check(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_SETFD, flags) })
}

/// Buffers of at least so many bytes are mapped by themselves and go back to the kernel when they are done with, as does free
/// memory at the end of a heap. Unsaid, both bounds grow with what was freed, and what lies at the end of a thread's heap
/// is never trimmed.
pub fn tame_allocator(large: u32) {
    #[cfg(target_env = "gnu")]
    // SAFETY: parameters of the allocator, which it changes under its own lock.
    unsafe {
        let large = libc::c_int::try_from(large).unwrap_or(libc::c_int::MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, large);
        libc::mallopt(libc::M_TRIM_THRESHOLD, large);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = large;
}

/// Gives free memory back to the kernel.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only touches memory that the allocator holds free.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn check(result: c_int) -> Result<(), Errno> {
    if result < 0 { Err(last()) } else { Ok(()) }
}

/// # Safety
/// `fd` is negative or a new descriptor that nobody owns.
unsafe fn owned(fd: c_int) -> Result<OwnedFd, Errno> {
    check(fd)?;
    // SAFETY: by the contract of this function.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    #[test]
    fn a_step_and_its_reason_survive_the_error_pipe() {
        for step in [Step::Pipe, Step::Fork, Step::Chdir, Step::Setup, Step::Exec] {
            assert_eq!(failure(report(step, Errno::NOENT)), (step, 2));
        }
    }

    #[test]
    fn a_reaped_process_still_tells_how_it_ended() {
        for (script, expected) in [("exit 7", Exit::Code(7)), ("kill -9 $$", Exit::Signal(9))] {
            let mut child = std::process::Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
            let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
            let fd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            child.wait().unwrap();
            match pidfd_exit(&fd) {
                Some(exit) => assert_eq!(exit, expected),
                None => assert!(!kernel_remembers(), "the kernel was asked the wrong way"),
            }
        }
    }

    /// Linux 6.15 and later.
    fn kernel_remembers() -> bool {
        let name = rustix::system::uname();
        let mut numbers = name.release().to_str().unwrap().split('.').map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15)
    }

    #[test]
    fn a_living_process_has_no_end_to_tell() {
        let fd = pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
        assert_eq!(pidfd_exit(&fd), None);
    }
}
