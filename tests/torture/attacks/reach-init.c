/* Tries for SECONDS whatever might touch PID 1 or one of its threads; prints a line for each thing that worked. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Threads of PID 1 have ids as small as those of other processes. */
#define MAX_TID 400

static long tries;
/* The maximum number of threads of PID 1 at a time. */
static int most_threads;

static void tell(const char *what, int target, long result) {
  tries++;
  if (result >= 0) printf("REACHED %s %d\n", what, target);
}

static void once(pid_t own) {
  int threads = 0;
  static const int signals[] = {SIGKILL, SIGSTOP, SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGUSR1, SIGCHLD, SIGCONT, 0};
  static const char *files[] = {"mem", "environ", "fd", "fd/0", "fd/3", "fd/4", "maps", "auxv", "root", "cwd",
                                "exe", "task", "oom_score_adj", "clear_refs", "ns/user", "map_files", "stack"};
  for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
    char path[64], what[80];
    snprintf(path, sizeof path, "/proc/1/%s", files[i]);
    snprintf(what, sizeof what, "reading %s", path);
    tell(what, 1, open(path, O_RDONLY));
    snprintf(what, sizeof what, "writing %s", path);
    tell(what, 1, open(path, O_WRONLY));
  }
  for (int tid = 1; tid <= MAX_TID; tid++) {
    /* tgkill with group 1 only works for threads of PID 1; for all others it returns ESRCH. */
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
      tell("tgkill", tid, syscall(SYS_tgkill, 1, tid, signals[i]));
    if (syscall(SYS_tgkill, 1, tid, 0) < 0 && errno == ESRCH) continue;
    threads++;
    struct rlimit64 low = {3, 3};
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
      tell("prlimit set", tid, prlimit64(tid, resource, &low, NULL));
      tell("prlimit get", tid, prlimit64(tid, resource, NULL, &low));
    }
    tell("ptrace attach", tid, ptrace(PTRACE_ATTACH, tid, 0, 0));
    tell("ptrace seize", tid, ptrace(PTRACE_SEIZE, tid, 0, 0));
    tell("setpriority", tid, setpriority(PRIO_PROCESS, tid, 19));
    struct sched_param idle = {0};
    tell("sched_setscheduler", tid, sched_setscheduler(tid, SCHED_IDLE, &idle));
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    tell("sched_setaffinity", tid, sched_setaffinity(tid, sizeof cpus, &cpus));
    tell("ioprio_set", tid, syscall(SYS_ioprio_set, 1, tid, 3 << 13));
    char word[8];
    struct iovec here = {word, sizeof word}, there = {(void *)0x200000, sizeof word};
    tell("process_vm_readv", tid, process_vm_readv(tid, &here, 1, &there, 1, 0));
    tell("process_vm_writev", tid, process_vm_writev(tid, &here, 1, &there, 1, 0));
    tell("migrate_pages", tid, syscall(SYS_migrate_pages, tid, 0, NULL, NULL));
    tell("kcmp", tid, syscall(SYS_kcmp, tid, own, 0, 0, 0));
  }
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) tell("kill", 1, kill(1, signals[i]));
  union sigval value = {0};
  tell("sigqueue", 1, sigqueue(1, SIGTERM, value));
  int handle = syscall(SYS_pidfd_open, 1, 0);
  if (handle >= 0) {
    tell("pidfd_send_signal", 1, syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0));
    for (int fd = 0; fd < 16; fd++) tell("pidfd_getfd", fd, syscall(SYS_pidfd_getfd, handle, fd, 0));
    tell("process_madvise", 1, syscall(SYS_process_madvise, handle, NULL, 0, 4, 0));
    close(handle);
  }
  if (threads > most_threads) most_threads = threads;
}

int main(int argc, char **argv) {
  (void)argc;
  time_t until = time(NULL) + atoi(argv[1]);
  do once(getpid());
  while (time(NULL) < until);
  printf("%ld tries on %d threads\n", tries, most_threads);
  return 0;
}
