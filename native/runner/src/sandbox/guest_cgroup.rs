//! The cgroup of code in a sandbox that has its own kernel (gVisor's), and the limits that are
//! enforced there. The runner, and the processes that the host starts inside to reach it, are in
//! another cgroup: code that keeps all of its processes running must not lock the daemon out.
//!
//! On the host, all of that kernel is one process. Exceeding a limit of the host hits the whole
//! sandbox, so code must hit its limits in here first: that kernel refuses processes itself, and a
//! thread watches memory, because that kernel counts memory but does not limit it.

use crate::sandbox::usage::resident_bytes_of;
use crate::sys;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// In this time, code allocates a few dozen MiB, or hundreds on a busy machine where the guard
/// waits for a processor. The host's limit leaves room for that.
const ALERT: Duration = Duration::from_millis(10);
/// For this long after a command started, or memory was allocated, memory is checked often.
const ALERT_FOR: Duration = Duration::from_secs(2);
/// Each check has a cost, and most sandboxes are idle most of the time.
const CALM: Duration = Duration::from_millis(100);
/// Less growth than this between two checks counts as calm.
const GROWTH_BYTES: u64 = 1 << 20;
/// How long to wait for the memory of killed processes to be free before killing the next.
const KILLING: Duration = Duration::from_millis(20);
const KILLING_LOOKS: u32 = 100;
/// Growth beyond this after a kill does not come from dying processes: another one allocates
/// memory.
const KILLING_GROWTH_BYTES: u64 = 32 << 20;
/// Killing continues until this share of the limit is free again.
const FREE_SHARE: u64 = 8;
const GUARD_STACK_BYTES: usize = 64 << 10;

/// Memory that the sandbox's kernel allocates for code in addition to what it counts: buffers of
/// sockets and pipes, mappings, names in directories.
const KERNEL_MEMORY: &CStr = c"/proc/sentry-meminfo";
const KERNEL_MEMORY_LINE: &str = "HeapAlloc:";
/// Ordinary programs, as many as may run, need a small part of this.
const KERNEL_BYTES: u64 = 256 << 20;
/// Memory of killed processes is freed only at the kernel's next garbage collection. Until this
/// much more is allocated, another process would be killed for memory of an earlier one.
const KERNEL_GROWTH_BYTES: u64 = 64 << 20;
/// Each check stops that kernel for a moment.
const KERNEL_LOOK: Duration = Duration::from_millis(50);

const CODE: &str = "code";
/// The prefix of a code process's line in /proc/PID/cgroup.
const CODE_PREFIX: &str = "0::/code";

pub struct GuestCgroup {
    dir: OwnedFd,
    /// Memory of everything in the sandbox: memory used by files belongs to no single process.
    memory: OwnedFd,
    most_pids: u64,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// How many processes were killed because memory ran out.
    kills: AtomicU64,
    /// Whether a command has started since the guard's last check.
    begun: Mutex<bool>,
    wake: Condvar,
}

impl GuestCgroup {
    /// Creates the cgroup of code in the hierarchy mounted at `mount`.
    pub fn make(mount: &Path) -> io::Result<GuestCgroup> {
        let path = mount.join(CODE);
        fs::create_dir(&path)?;
        let memory = sys::c_path(&mount.join("memory.current"))?;
        Ok(GuestCgroup {
            dir: sys::open(&sys::c_path(&path)?, libc::O_RDONLY | libc::O_DIRECTORY, 0)?,
            memory: sys::open(&memory, libc::O_RDONLY, 0)?,
            most_pids: u64::MAX,
            shared: Arc::default(),
        })
    }

    /// Groups for telling apart what commands started.
    pub fn directory(&self) -> io::Result<OwnedFd> {
        self.dir.try_clone()
    }

    /// SECURITY: a fork bomb that only hit the host's limit would end the sandbox (threat: fork
    /// bombs; guarded by tests/hostile/strong-tier.test.ts).
    pub fn limit_pids(&mut self, most: u64) -> io::Result<()> {
        self.most_pids = most;
        let file = sys::open_at(self.dir.as_raw_fd(), c"pids.max", libc::O_WRONLY, 0)?;
        sys::write(file.as_raw_fd(), most.to_string().as_bytes()).map(drop)
    }

    /// SECURITY: code that only hit the host's limit would end the sandbox (threats: exhausting
    /// memory and filling memory-backed storage; guarded by tests/hostile/strong-tier.test.ts).
    pub fn limit_memory(&self, most: u64) -> io::Result<()> {
        let mut guard = Guard {
            current: self.memory.try_clone()?,
            kernel: KernelMemory::open(),
            most,
            shared: self.shared.clone(),
        };
        thread::Builder::new()
            .stack_size(GUARD_STACK_BYTES)
            .spawn(move || guard.run())
            .map(drop)
    }

    pub fn kills(&self) -> u64 {
        self.shared.kills.load(Ordering::Relaxed)
    }

    /// A command is about to start, and may allocate memory faster than a calm guard checks.
    pub fn watch_closely(&self) {
        *lock(&self.shared.begun) = true;
        self.shared.wake.notify_one();
    }

    pub fn memory_bytes(&self) -> u64 {
        read_number(&self.memory)
    }

    /// The runner's own forks are not counted, and processes that move into the cgroup are not
    /// refused there. So the runner refuses to start them here, as a fork of code would be.
    pub fn check_room(&self) -> io::Result<()> {
        match self.pids() < self.most_pids {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
        }
    }

    pub fn pids(&self) -> u64 {
        sys::open_at(self.dir.as_raw_fd(), c"pids.current", libc::O_RDONLY, 0)
            .map_or(0, |file| read_number(&file))
    }
}

struct Guard {
    current: OwnedFd,
    /// None where that kernel does not show this; then only the host's limit applies.
    kernel: Option<KernelMemory>,
    most: u64,
    shared: Arc<Shared>,
}

impl Guard {
    fn run(&mut self) {
        let mut before = 0;
        let mut alert_until = Instant::now() + ALERT_FOR;
        loop {
            let used = read_number(&self.current);
            if used > self.most {
                let excess = used - self.most;
                // Less belongs to processes that have just died, or to files: no kill would help.
                self.kill_largest(excess, excess + self.most / FREE_SHARE);
                self.settle(used);
                continue;
            }
            if (self.kernel.as_mut()).is_some_and(KernelMemory::is_exceeded) {
                self.kill_largest(0, 1);
            }
            if used > before + GROWTH_BYTES {
                alert_until = Instant::now() + ALERT_FOR;
            }
            before = used;
            let alert = Instant::now() < alert_until;
            if self.wait(if alert { ALERT } else { CALM }) {
                alert_until = Instant::now() + ALERT_FOR;
            }
        }
    }

    /// Memory of killed processes is freed a little later; until then the next kill would hit an
    /// innocent one. The guard only acts earlier if more memory is allocated.
    fn settle(&self, mut used: u64) {
        for _ in 0..KILLING_LOOKS {
            thread::sleep(KILLING);
            let now = read_number(&self.current);
            if now <= self.most || now > used + KILLING_GROWTH_BYTES {
                return;
            }
            used = used.min(now);
        }
    }

    /// Whether a command started meanwhile, which ends the wait.
    fn wait(&self, at_most: Duration) -> bool {
        let begun = lock(&self.shared.begun);
        let (mut begun, _) = self
            .shared
            .wake
            .wait_timeout_while(begun, at_most, |begun| !*begun)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut begun)
    }

    /// Kills the largest processes, as the kernel would, until `enough` bytes will be free, if each
    /// has at least `least`; dying ones already count. One at a time would be too slow for several
    /// processes that grow at once and are about equally large. Much smaller ones, including the
    /// shell, are not to blame.
    fn kill_largest(&self, least: u64, enough: u64) {
        let mut sizes: Vec<(u64, i32)> = processes()
            .map(|pid| (resident_bytes_of(pid), pid))
            .collect();
        if sizes.iter().map(|(size, _)| size).sum::<u64>() < least {
            return;
        }
        sizes.sort_unstable();
        let mut largest = None;
        let mut freed = 0;
        while freed < enough
            && let Some((size, pid)) = sizes.pop()
        {
            // Checked only now, because each check takes time in which more memory is allocated.
            if !is_code(pid) {
                continue;
            }
            if size < *largest.get_or_insert(size) / 2 {
                return;
            }
            freed += size;
            if sys::kill(pid, libc::SIGKILL).is_ok() {
                self.shared.kills.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

struct KernelMemory {
    file: OwnedFd,
    most: u64,
    looked_at: Instant,
}

impl KernelMemory {
    fn open() -> Option<KernelMemory> {
        Some(KernelMemory {
            file: sys::open(KERNEL_MEMORY, libc::O_RDONLY, 0).ok()?,
            most: KERNEL_BYTES,
            looked_at: Instant::now(),
        })
    }

    /// Whether a process must be killed because of what the kernel holds for it.
    fn is_exceeded(&mut self) -> bool {
        if self.looked_at.elapsed() < KERNEL_LOOK {
            return false;
        }
        self.looked_at = Instant::now();
        let used = self.used();
        let exceeded = used > self.most;
        if exceeded {
            self.most = used + KERNEL_GROWTH_BYTES;
        } else if used <= KERNEL_BYTES {
            self.most = KERNEL_BYTES;
        }
        exceeded
    }

    fn used(&self) -> u64 {
        let mut text = [0u8; 1024];
        let n = sys::pread(self.file.as_raw_fd(), &mut text, 0).unwrap_or(0);
        kernel_bytes(&String::from_utf8_lossy(&text[..n]))
    }
}

fn kernel_bytes(text: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(KERNEL_MEMORY_LINE))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib << 10)
}

fn lock(begun: &Mutex<bool>) -> MutexGuard<'_, bool> {
    begun.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_code(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup"))
        .is_ok_and(|text| text.lines().any(|line| line.starts_with(CODE_PREFIX)))
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn read_number(file: &OwnedFd) -> u64 {
    let mut text = [0u8; 32];
    let n = sys::pread(file.as_raw_fd(), &mut text, 0).unwrap_or(0);
    String::from_utf8_lossy(&text[..n])
        .trim()
        .parse()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::kernel_bytes;

    #[test]
    fn the_kernels_own_memory_is_read_from_its_line() {
        let text = "Alloc:              3903 kB\nHeapAlloc:          3904 kB\nHeapSys: 1 kB\n";
        assert_eq!(kernel_bytes(text), 3904 << 10);
        assert_eq!(kernel_bytes(""), 0);
    }
}
