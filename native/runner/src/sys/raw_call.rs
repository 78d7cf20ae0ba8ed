//! System calls for a thread that has no thread-local storage.

/// A system call that does not set `errno`.
///
/// # Safety
/// As the system call.
#[cfg(target_arch = "x86_64")]
pub unsafe fn raw_call(number: libc::c_long, arguments: [usize; 4]) -> isize {
    let result;
    // SAFETY: the kernel's calling convention; what it changes is listed.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") 0usize,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
pub unsafe fn raw_call(number: libc::c_long, arguments: [usize; 4]) -> isize {
    let result;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") arguments[0] as isize => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") 0usize,
            options(nostack)
        );
    }
    result
}
