/* Emits bytes of a xorshift32 generator: emit BYTES SEED [ERR_BYTES ERR_SEED], the second pair on stderr in turn. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

struct source {
  int fd;
  uint64_t left;
  uint32_t state;
};

static void emit(struct source *source) {
  static uint32_t words[16384];
  if (source->left == 0) return;
  for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
    source->state ^= source->state << 13;
    source->state ^= source->state >> 17;
    source->state ^= source->state << 5;
    words[i] = source->state;
  }
  size_t length = source->left < sizeof words ? source->left : sizeof words;
  for (size_t sent = 0; sent < length;) {
    ssize_t n = write(source->fd, (char *)words + sent, length - sent);
    if (n < 0) exit(1);
    sent += n;
  }
  source->left -= length;
}

int main(int argc, char **argv) {
  struct source out = {1, strtoull(argv[1], NULL, 10), strtoul(argv[2], NULL, 10)};
  struct source err = {2, argc > 4 ? strtoull(argv[3], NULL, 10) : 0, argc > 4 ? strtoul(argv[4], NULL, 10) : 0};
  while (out.left > 0 || err.left > 0) {
    emit(&out);
    emit(&err);
  }
  return 0;
}
