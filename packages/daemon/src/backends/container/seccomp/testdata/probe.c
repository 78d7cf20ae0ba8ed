/*
 * Tries forbidden things from inside a sandbox and tells what came of them. It stands in for the
 * runner: started as PID 1 and root of the user namespace, it becomes uid 1000 before it tries.
 *
 *   probe try LABEL=NUMBER[:ARG[,ARG]...]...   each system call, as the code user
 *   probe run PROGRAM [ARG]...                 a program, as the code user; exits as it did
 *   probe run-root PROGRAM [ARG]...            a program, without leaving uid 0
 *   probe proc                                 what PID 1 sees of its children in /proc
 *
 * An ARG is a number (any base, may be negative), or `s` and a text: a pointer to that text.
 * NUMBER may be `int80/N`: system call N by way of the 32-bit entry.
 *
 * `try` prints a line for each: `LABEL ok=RESULT`, `LABEL errno=N` or `LABEL signal=N`. Each runs
 * in a process of its own, with an alarm against those that wait for ever.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CODE_USER 1000
#define MAX_ARGS 6

struct outcome {
  int known;
  int error;
  long result;
};

static void fail(const char *what) {
  fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
  exit(125);
}

static void become_code_user(void) {
  if (setgroups(0, NULL) != 0) fail("setgroups");
  if (setresgid(CODE_USER, CODE_USER, CODE_USER) != 0) fail("setresgid");
  if (setresuid(CODE_USER, CODE_USER, CODE_USER) != 0) fail("setresuid");
}

static long enter_by_int80(long number) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number) : "memory", "r8", "r9", "r10", "r11");
  if ((int)result < 0) {
    errno = -(int)result;
    return -1;
  }
  return (int)result;
#else
  (void)number;
  errno = ENOTSUP;
  return -1;
#endif
}

static int parse_args(char *text, long args[MAX_ARGS]) {
  int count = 0;
  for (char *part = text; part != NULL && *part != '\0' && count < MAX_ARGS; count++) {
    char *next = strchr(part, ',');
    if (next != NULL) *next++ = '\0';
    args[count] = part[0] == 's' ? (long)(part + 1)
                : part[0] == '-' ? strtol(part, NULL, 0)
                                 : (long)strtoul(part, NULL, 0);
    part = next;
  }
  return count;
}

static void try_one(char *spec) {
  char *number = strchr(spec, '=');
  if (number == NULL) {
    errno = EINVAL;
    fail(spec);
  }
  *number++ = '\0';
  char *arg_text = strchr(number, ':');
  if (arg_text != NULL) *arg_text++ = '\0';

  struct outcome *outcome = mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (outcome == MAP_FAILED) fail("mmap");
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    long a[MAX_ARGS] = {0};
    parse_args(arg_text, a);
    become_code_user();
    alarm(1);
    pid_t self = getpid();
    errno = 0;
    long result = strncmp(number, "int80/", 6) == 0
                      ? enter_by_int80(strtol(number + 6, NULL, 0))
                      : syscall((long)strtoul(number, NULL, 0), a[0], a[1], a[2], a[3], a[4], a[5]);
    int error = errno;
    /* A call that made a process returns twice. */
    if (syscall(SYS_getpid) != self) _exit(0);
    *outcome = (struct outcome){.known = 1, .error = result == -1 ? error : 0, .result = result};
    _exit(0);
  }
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("waitpid");
  if (WIFSIGNALED(status)) printf("%s signal=%d\n", spec, WTERMSIG(status));
  else if (!outcome->known) printf("%s ok=exit\n", spec);
  else if (outcome->error != 0) printf("%s errno=%d\n", spec, outcome->error);
  else printf("%s ok=%ld\n", spec, outcome->result);
  fflush(stdout);
  munmap(outcome, sizeof *outcome);
}

/* As PID 1 it also reaps what others leave behind. */
static int run(char **argv, int as_root) {
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    if (!as_root) become_code_user();
    if (chdir("/workspace") != 0) fail("/workspace");
    execvp(argv[0], argv);
    fail(argv[0]);
  }
  for (;;) {
    int status;
    pid_t gone = waitpid(-1, &status, 0);
    if (gone < 0 && errno != EINTR) fail("waitpid");
    if (gone == child) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
}

static void look(const char *as, pid_t pid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  int fd = open(path, O_RDONLY);
  if (fd < 0) {
    printf("%s %s errno=%d\n", as, name, errno);
    return;
  }
  printf("%s %s ok\n", as, name);
  close(fd);
}

/* Without CAP_SYS_PTRACE, uid 0 needs its group to see a child of uid 1000, and its ids to look into it. */
static int look_at_child(void) {
  int ready[2], hold[2];
  if (pipe(ready) != 0 || pipe(hold) != 0) fail("pipe");
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    become_code_user();
    dup2(hold[0], 0);
    dup2(ready[1], 1);
    close(hold[1]);
    execl("/bin/sh", "sh", "-c", "echo; read x", NULL);
    fail("/bin/sh");
  }
  char byte;
  if (read(ready[0], &byte, 1) != 1) fail("read");
  look("root", child, "stat");
  look("root", child, "fd");
  setfsgid(CODE_USER);
  setfsuid(CODE_USER);
  look("as-code", child, "stat");
  look("as-code", child, "fd");
  look("as-code", child, "environ");
  setfsuid(0);
  setfsgid(0);
  close(hold[1]);
  waitpid(child, NULL, 0);
  return 0;
}

int main(int argc, char **argv) {
  if (argc >= 2 && strcmp(argv[1], "try") == 0) {
    for (int i = 2; i < argc; i++) try_one(argv[i]);
    return 0;
  }
  if (argc >= 3 && strcmp(argv[1], "run") == 0) return run(argv + 2, 0);
  if (argc >= 3 && strcmp(argv[1], "run-root") == 0) return run(argv + 2, 1);
  if (argc == 2 && strcmp(argv[1], "proc") == 0) return look_at_child();
  fprintf(stderr, "usage: probe try|run|run-root|proc ...\n");
  return 124;
}
