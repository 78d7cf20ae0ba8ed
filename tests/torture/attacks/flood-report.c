/* Finds the pipes on which the shell reports, by the shell's own descriptors, and floods them:
   flood-report nul|text|forged. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  (void)argc;
  static char junk[4096];
  ssize_t length = sizeof junk;
  if (strcmp(argv[1], "text") == 0) memset(junk, 'x', sizeof junk);
  if (strcmp(argv[1], "forged") == 0) {
    static const char record[] = "00112233445566778899aabbccddeeff 0 /forged";
    length = 0;
    while (length + sizeof record <= sizeof junk) {
      memcpy(junk + length, record, sizeof record);
      length += sizeof record;
    }
  }
  int shell = atoi(argv[2]);
  for (;;)
    for (int fd = 0; fd < 12; fd++) {
      char link[64], target[256];
      snprintf(link, sizeof link, "/proc/%d/fd/%d", shell, fd);
      ssize_t n = readlink(link, target, sizeof target - 1);
      if (n < 0) continue;
      target[n] = 0;
      if (!strstr(target, "/report-")) continue;
      int report = open(target, O_WRONLY | O_NONBLOCK);
      if (report < 0) continue;
      for (int i = 0; i < 8; i++)
        if (write(report, junk, length) < 0) break;
      close(report);
    }
}
