//! A thread that shares its working directory with a process, so the directory is still known when
//! the process has ended.
//!
//! Tasks keep sharing it (`CLONE_FS`) whatever program they run and however they end. The thread
//! has no thread-local storage, so it makes its system calls without the C library.
//!
//! SECURITY: the thread is created without that flag, so that PID 1 and its other threads keep a
//! directory and a umask that code cannot change (threat: attacks on PID 1). Guarded by "keeps sharing
//! the directory of a shell" in tests/hostile/runner-shell.test.ts.

use crate::sys;
use std::ffi::c_void;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};

/// The thread needs less than a page of it; the process needs more until it runs its program.
const STACK_BYTES: usize = 16 * 1024;
const GUARD_BYTES: usize = 4 * 1024;
const THREAD: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// The state shared by the thread and the runner, above the thread's stack.
#[repr(C, align(16))]
struct Common {
    /// Used until the pid is known.
    child: *const dyn Fn(),
    /// The process, or a negative error number; 0 until it is known.
    pid: AtomicI32,
    /// 1 when the thread is to end.
    released: AtomicI32,
    /// The thread; the kernel makes it 0 when the thread has ended.
    tid: AtomicI32,
}

pub struct SharedDirectory {
    common: NonNull<Common>,
    tid: i32,
}

impl SharedDirectory {
    /// Starts a process that begins with a copy of the runner's memory, as after `fork`, and with
    /// `child`, which must not return.
    ///
    /// # Safety
    /// `child` may only make system calls on memory that was prepared before.
    pub unsafe fn start(child: &dyn Fn()) -> io::Result<(i32, SharedDirectory)> {
        // SAFETY: only the lifetime changes; it is not used after the pid is known.
        let child = unsafe { std::mem::transmute::<&dyn Fn(), *const dyn Fn()>(child) };
        let common = map()?;
        let mut shared = SharedDirectory { common, tid: 0 };
        // SAFETY: the memory is large enough and aligned, and nothing else uses it.
        unsafe {
            common.write(Common {
                child,
                pid: AtomicI32::new(0),
                released: AtomicI32::new(0),
                tid: AtomicI32::new(0),
            });
        }
        let tid = shared.common().tid.as_ptr();
        // SAFETY: the stack ends where `Common` begins, and both stay until the thread has ended.
        shared.tid = sys::check(unsafe {
            let top = common.as_ptr().cast();
            libc::clone(share, top, THREAD, top, tid, null_mut::<c_void>(), tid)
        })?;
        // This wait is as short as a fork. No process of another user can stop the thread.
        let pid = &shared.common().pid;
        while pid.load(Ordering::Acquire) == 0 {
            wait(pid, 0, libc::FUTEX_PRIVATE_FLAG);
        }
        match shared.common().pid.load(Ordering::Acquire) {
            pid if pid > 0 => Ok((pid, shared)),
            error => {
                shared.join();
                Err(io::Error::from_raw_os_error(-error))
            }
        }
    }

    /// The directory of the process, also after its end, looked up with the rights of this user.
    /// The known name is preferred if it still refers to that directory. None if the directory has
    /// been removed or may not be entered.
    pub fn path(&self, known: &Path, uid: u32, gid: u32) -> Option<PathBuf> {
        let link = PathBuf::from(format!("/proc/self/task/{}/cwd", self.tid));
        let here = identity(&link)?;
        let names = [Some(PathBuf::from(known)), fs::read_link(&link).ok()];
        let is_here = |name: &PathBuf| identity(name) == Some(here);
        sys::as_fs_user(uid, gid, || names.into_iter().flatten().find(is_here))
    }

    /// Ends the thread without waiting for it. It may only be dropped once the thread has ended.
    pub fn release(&self) {
        let released = &self.common().released;
        released.store(1, Ordering::Release);
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word exists as long as this.
        unsafe { libc::syscall(libc::SYS_futex, released.as_ptr(), wake, 1) };
    }

    pub fn has_ended(&self) -> bool {
        self.common().tid.load(Ordering::Acquire) == 0
    }

    fn join(&self) {
        let tid = &self.common().tid;
        while !self.has_ended() {
            // The kernel issues a shared wake-up, as if other processes could wait too.
            wait(tid, self.tid, 0);
        }
    }

    fn common(&self) -> &Common {
        // SAFETY: it exists until this is dropped, and only its atomics change.
        unsafe { self.common.as_ref() }
    }
}

impl Drop for SharedDirectory {
    fn drop(&mut self) {
        // Leaks the memory of a thread that still runs, rather than unmapping its stack.
        if self.has_ended() {
            unmap(self.common);
        }
    }
}

/// The identity of a directory.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn wait(word: &AtomicI32, value: i32, flags: libc::c_int) {
    let operation = libc::FUTEX_WAIT | flags;
    let forever = null_mut::<libc::timespec>();
    // SAFETY: the word is valid; the call changes nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, forever) };
}

/// Memory for the thread: a guard, the stack, and `Common`.
fn map() -> io::Result<NonNull<Common>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory at an address of the kernel's choice.
    let base = unsafe { libc::mmap(null_mut(), STACK_BYTES, access, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the lowest page of what was just mapped.
    unsafe { libc::mprotect(base, GUARD_BYTES, libc::PROT_NONE) };
    // SAFETY: within the mapping.
    let common = unsafe { base.byte_add(STACK_BYTES - size_of::<Common>()) };
    NonNull::new(common.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

fn unmap(common: NonNull<Common>) {
    // SAFETY: exactly what `map` has mapped, and no thread uses it.
    unsafe {
        let end = common.as_ptr().add(1).cast::<c_void>();
        libc::munmap(end.byte_sub(STACK_BYTES), STACK_BYTES);
    }
}

/// The thread.
extern "C" fn share(common: *mut c_void) -> libc::c_int {
    const WAIT: usize = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    const WAKE: usize = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: `Common` stays until this thread has ended. The new process has a copy of the memory.
    unsafe {
        let common = &*common.cast::<Common>();
        let shared = (libc::CLONE_FS | libc::SIGCHLD) as usize;
        let pid = sys::raw_call(libc::SYS_clone, [shared, 0, 0, 0]);
        if pid == 0 {
            (*common.child)();
            sys::raw_call(libc::SYS_exit_group, [127, 0, 0, 0]);
        }
        common.pid.store(pid as i32, Ordering::Release);
        sys::raw_call(libc::SYS_futex, [common.pid.as_ptr() as usize, WAKE, 1, 0]);
        while pid > 0 && common.released.load(Ordering::Acquire) == 0 {
            let word = common.released.as_ptr() as usize;
            sys::raw_call(libc::SYS_futex, [word, WAIT, 0, 0]);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::SharedDirectory;
    use std::ffi::{CString, c_int};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let name = format!("sandkasten-shared-{name}-{}", std::process::id());
            let path = std::env::temp_dir().canonicalize().unwrap().join(name);
            fs::create_dir_all(&path).unwrap();
            Directory(path)
        }

        fn name(&self) -> &str {
            self.0.to_str().unwrap()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A process that changes its directory and umask, and ends by this signal.
    fn ended_in(directory: &Path, signal: c_int) -> SharedDirectory {
        let path = CString::new(directory.as_os_str().as_bytes()).unwrap();
        // SAFETY: the child only makes system calls; it is a child that nothing else waits for.
        unsafe {
            let (pid, shared) = SharedDirectory::start(&|| {
                libc::chdir(path.as_ptr());
                libc::umask(0);
                libc::kill(libc::getpid(), signal);
                libc::_exit(0);
            })
            .unwrap();
            let mut status = 0;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            assert_eq!(libc::WTERMSIG(status), signal);
            shared
        }
    }

    fn found(shared: &SharedDirectory, known: &str) -> Option<String> {
        // SAFETY: plain getters.
        let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
        let path = shared.path(Path::new(known), uid, gid)?;
        path.into_os_string().into_string().ok()
    }

    fn release(shared: &SharedDirectory) {
        shared.release();
        wait_until(|| shared.has_ended());
    }

    fn wait_until(happens: impl Fn() -> bool) {
        let began = Instant::now();
        while !happens() {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    }

    fn umask() -> String {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("Umask:"));
        line.unwrap().to_string()
    }

    #[test]
    fn the_directory_of_a_dead_process_is_known_and_no_other_changes() {
        let directory = Directory::new("known");
        let before = (std::env::current_dir().unwrap(), umask());
        let one = ended_in(&directory.0, libc::SIGKILL);
        let other = ended_in(Path::new("/"), libc::SIGTERM);
        assert_eq!(found(&one, "/").as_deref(), Some(directory.name()));
        assert_eq!(found(&other, "/usr").as_deref(), Some("/"));
        assert_eq!((std::env::current_dir().unwrap(), umask()), before);
        let threads =
            |shared: &SharedDirectory| Path::new("/proc/self/task").join(shared.tid.to_string());
        assert!(threads(&one).exists() && threads(&other).exists());
        for shared in [&one, &other] {
            release(shared);
            // The kernel says that a thread has left its memory before it removes it from /proc.
            wait_until(|| !threads(shared).exists());
        }
    }

    #[test]
    fn a_known_path_is_kept_while_it_names_the_directory() {
        let directory = Directory::new("names");
        let (real, link) = (directory.0.join("real"), directory.0.join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let shared = ended_in(&real, libc::SIGKILL);
        let name = |path: &Path| Some(path.to_str().unwrap().to_string());
        assert_eq!(found(&shared, link.to_str().unwrap()), name(&link));
        fs::remove_file(&link).unwrap();
        assert_eq!(found(&shared, link.to_str().unwrap()), name(&real));
        // A directory with the name of a removed one is a different one.
        fs::create_dir(directory.0.join("real (deleted)")).unwrap();
        fs::remove_dir(&real).unwrap();
        assert_eq!(found(&shared, real.to_str().unwrap()), None);
        release(&shared);
    }

    #[test]
    fn many_processes_leak_neither_threads_nor_memory() {
        let mappings = || {
            fs::read_to_string("/proc/self/maps")
                .unwrap()
                .lines()
                .count()
        };
        release(&ended_in(Path::new("/"), libc::SIGKILL));
        let before = mappings();
        for _ in 0..200 {
            release(&ended_in(Path::new("/"), libc::SIGKILL));
        }
        // Other tests run at the same time.
        assert!(mappings() < before + 100, "{before} then {}", mappings());
    }
}
