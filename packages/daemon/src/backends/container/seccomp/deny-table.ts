/** The system calls that are denied to every sandbox, each with its errno and the reason. */

/** The errors that the profile returns, by their number on Linux. */
export const ERRNO = { EPERM: 1, ENOSYS: 38, EPROTONOSUPPORT: 93, EAFNOSUPPORT: 97 } as const;

export type ErrnoName = keyof typeof ERRNO;

export interface Denial {
  readonly syscalls: readonly string[];
  /**
   * `EPERM` if a program should report a refusal; `ENOSYS` if programs have a fallback, as on a
   * kernel built without the call.
   */
  readonly errno: "EPERM" | "ENOSYS";
  readonly reason: string;
}

/**
 * The newest system call that a person has reviewed. A regenerated table that goes further fails
 * the tests until its new names are reviewed and this is raised.
 */
export const REVIEWED_THROUGH = { name: "set_mempolicy_home_node", number: 450 } as const;

/**
 * SECURITY: against new namespaces, mounting filesystems, device access and rare kernel interfaces: the
 * kernel behind these calls is the largest part of its attack surface that code without capabilities
 * can reach. The profile allows the syscall table minus this list, and calls that the table does not
 * know return ENOSYS, so a newer kernel adds nothing by itself. Guarded by seccomp.container.test.ts,
 * which tries every name below.
 *
 * Allowed on purpose: `ptrace` and `process_vm_readv/writev`, because agents debug with gdb and
 * strace. The kernel lets them reach only processes of the caller's own uid, user namespace and
 * capabilities: PID 1 is uid 0 and holds capabilities, so code as uid 1000 gets EPERM (threat: attacks
 * on PID 1). Since Linux 4.8 a tracer cannot lift the filter of its tracee. `seccomp`, `landlock_*` and
 * `prctl` stay: they let programs restrict themselves further.
 */
export const DENIALS: readonly Denial[] = [
  {
    syscalls: ["mount", "umount2", "pivot_root", "chroot"],
    errno: "EPERM",
    reason:
      "the daemon controls all mounts; a mount could uncover masked paths or reach filesystem parsers",
  },
  {
    syscalls: [
      "fsopen",
      "fsconfig",
      "fsmount",
      "fspick",
      "open_tree",
      "move_mount",
      "mount_setattr",
    ],
    errno: "EPERM",
    reason: "the newer mount interface can do everything mount(2) can, and has had its own escapes",
  },
  {
    syscalls: ["unshare", "setns"],
    errno: "EPERM",
    reason:
      "a new user namespace gives capabilities over new mounts and networks: the usual first step of kernel exploits",
  },
  {
    syscalls: ["clone3"],
    errno: "ENOSYS",
    reason:
      "its flags are in memory, which a filter cannot read; C libraries fall back to clone(2), whose flags it can read",
  },
  {
    syscalls: ["bpf"],
    errno: "EPERM",
    reason: "loads programs into the kernel; the verifier is a frequent source of vulnerabilities",
  },
  {
    syscalls: ["perf_event_open"],
    errno: "EPERM",
    reason: "large, often broken, and measures what other tenants do",
  },
  {
    syscalls: ["userfaultfd"],
    errno: "EPERM",
    reason: "lets code pause the kernel in the middle of a copy, which turns races into exploits",
  },
  {
    syscalls: ["io_uring_setup", "io_uring_enter", "io_uring_register"],
    errno: "EPERM",
    reason:
      "does I/O, sockets of any family included, without the system calls that this filter sees",
  },
  {
    syscalls: ["io_setup", "io_destroy", "io_getevents", "io_submit", "io_cancel", "io_pgetevents"],
    errno: "ENOSYS",
    reason:
      "its requests count against one number for the whole machine (fs.aio-max-nr), so one sandbox could starve all",
  },
  {
    syscalls: ["add_key", "request_key", "keyctl"],
    errno: "EPERM",
    reason:
      "keyrings are not separated by namespaces, and request_key makes the kernel start a helper outside",
  },
  {
    syscalls: ["name_to_handle_at", "open_by_handle_at"],
    errno: "EPERM",
    reason: "file handles open by inode number, past every directory, mask and mount point",
  },
  {
    syscalls: ["kexec_load", "kexec_file_load", "reboot"],
    errno: "EPERM",
    reason: "replaces or stops the machine's kernel",
  },
  {
    syscalls: ["init_module", "finit_module", "delete_module"],
    errno: "EPERM",
    reason: "changes the code of the machine's kernel",
  },
  { syscalls: ["kcmp"], errno: "EPERM", reason: "reveals the order of kernel addresses" },
  {
    syscalls: ["pidfd_getfd", "process_madvise", "process_mrelease"],
    errno: "EPERM",
    reason:
      "access another process's files and memory, and no known debugger or workload needs them",
  },
  {
    syscalls: ["move_pages", "migrate_pages"],
    errno: "EPERM",
    reason:
      "move other processes' memory, and reveal where pages are; a process may still set the policy for its own memory",
  },
  {
    syscalls: ["settimeofday", "clock_settime", "adjtimex", "clock_adjtime"],
    errno: "EPERM",
    reason: "the clock belongs to the whole machine",
  },
  {
    syscalls: ["sethostname", "setdomainname"],
    errno: "EPERM",
    reason: "the daemon sets the sandbox's host name",
  },
  { syscalls: ["swapon", "swapoff"], errno: "EPERM", reason: "swap belongs to the whole machine" },
  {
    syscalls: ["quotactl", "quotactl_fd"],
    errno: "EPERM",
    reason: "the daemon sets disk limits",
  },
  {
    syscalls: ["acct"],
    errno: "EPERM",
    reason: "makes the kernel write accounting records to a file of the caller's choice",
  },
  {
    syscalls: ["syslog"],
    errno: "EPERM",
    reason: "the kernel's log reveals addresses and what happens outside",
  },
  {
    syscalls: ["iopl", "ioperm"],
    errno: "EPERM",
    reason: "direct access to the machine's I/O ports",
  },
  { syscalls: ["vhangup"], errno: "EPERM", reason: "cuts off a terminal for everyone who uses it" },
  {
    syscalls: ["fanotify_init", "fanotify_mark"],
    errno: "EPERM",
    reason: "watches or blocks file access of whole mounts; inotify stays allowed",
  },
  {
    syscalls: ["memfd_secret"],
    errno: "ENOSYS",
    reason: "memory that the machine cannot swap, move or inspect",
  },
  {
    syscalls: ["modify_ldt"],
    errno: "ENOSYS",
    reason:
      "16-bit segments, which only old emulators need and which have broken the kernel's entry code before",
  },
  {
    syscalls: [
      "_sysctl",
      "afs_syscall",
      "create_module",
      "epoll_ctl_old",
      "epoll_wait_old",
      "get_kernel_syms",
      "get_thread_area",
      "getpmsg",
      "lookup_dcookie",
      "nfsservctl",
      "putpmsg",
      "query_module",
      "security",
      "set_thread_area",
      "sysfs",
      "tuxcall",
      "uselib",
      "ustat",
      "vserver",
    ],
    errno: "ENOSYS",
    reason: "removed from the kernel or replaced long ago: nothing calls them",
  },
];
