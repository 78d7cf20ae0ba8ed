//! Acts with the file-system rights of another user.

/// Gives only this thread the file-system rights of a user.
///
/// SECURITY: only the fs ids change. If `setresuid` changed all three, sandbox code with the same
/// uid could call `prlimit` on the thread and cripple PID 1 (threat: attacks on PID 1); fs ids give
/// it no such right. gVisor has no fs ids, so the effective ids change there, which give no such
/// right either.
pub fn set_fs_user(uid: u32, gid: u32) {
    // SAFETY: these calls take plain numbers and act on the calling thread only.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        // An invalid id changes nothing and returns the current one.
        if libc::syscall(libc::SYS_setfsuid, u32::MAX) as u32 != uid {
            libc::syscall(libc::SYS_setresgid, u32::MAX, gid, u32::MAX);
            libc::syscall(libc::SYS_setresuid, u32::MAX, uid, u32::MAX);
        }
    }
}

/// Acts with the file-system rights of a user and restores the runner's own afterwards.
pub fn as_fs_user<T>(uid: u32, gid: u32, act: impl FnOnce() -> T) -> T {
    set_fs_user(uid, gid);
    let result = act();
    // SAFETY: as in set_fs_user; the real ids never change, so that the effective ones can return
    // to them. The uid comes first so that the gid change is allowed.
    unsafe {
        libc::syscall(libc::SYS_setresuid, u32::MAX, libc::getuid(), u32::MAX);
        libc::syscall(libc::SYS_setresgid, u32::MAX, libc::getgid(), u32::MAX);
        libc::syscall(libc::SYS_setfsuid, libc::getuid());
        libc::syscall(libc::SYS_setfsgid, libc::getgid());
    }
    result
}
