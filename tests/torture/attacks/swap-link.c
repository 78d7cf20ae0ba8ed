/* Swaps two names: swap-link WHILE TREE LINK TARGET, while that file exists. Puts back a removed link. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc != 5) return 1;
  while (access(argv[1], F_OK) == 0)
    if (renameat2(AT_FDCWD, argv[2], AT_FDCWD, argv[3], RENAME_EXCHANGE) != 0 && errno == ENOENT)
      for (int i = 2; i < 4; i++) symlink(argv[4], argv[i]);
  return 0;
}
