/* Stops every new process before it has started its program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
  (void)argc;
  time_t until = time(NULL) + atoi(argv[1]);
  pid_t own = getpid(), parent = getppid();
  while (time(NULL) < until)
    for (int n = 0; n < 1000; n++)
      for (pid_t pid = own + 1; pid <= own + 40; pid++)
        if (pid != parent) kill(pid, SIGSTOP);
  return 0;
}
