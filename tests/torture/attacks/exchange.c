/* Swaps two names forever: exchange SECONDS A B [A B]... */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
  long swaps = 0;
  time_t until = time(NULL) + atoi(argv[1]);
  while (time(NULL) < until)
    for (int i = 2; i + 1 < argc; i += 2)
      if (renameat2(AT_FDCWD, argv[i], AT_FDCWD, argv[i + 1], RENAME_EXCHANGE) == 0) swaps++;
  printf("%ld\n", swaps);
  return 0;
}
