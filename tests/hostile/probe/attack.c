/*
 * What hostile code does in a sandbox when a shell cannot do it, or not fast enough.
 *
 *   attack open PATH...             opens each for reading, then for writing: `PATH read=ERRNO write=ERRNO`
 *   attack reach tcp ADDRESS PORT   connects within a second: `reach ERRNO`
 *   attack reach abstract NAME      the same to an abstract unix socket
 *   attack serve NAME               listens on an abstract unix socket until it is ended: `serving`
 *   attack ids                      its real, effective and saved user and group ids
 *   attack shm put KEY TEXT         leaves text in a System V segment
 *   attack shm get KEY              prints it, or `shm ERRNO`
 *   attack inotify N                takes N instances and holds them: `taken COUNT ERRNO`
 *   attack queues                   fills POSIX message queues and holds them: `taken COUNT ERRNO`
 *   attack hog BYTES                touches that much memory
 *   attack fill DIRECTORY           writes zeros to a file there until that fails: `fill BYTES ERRNO`
 *   attack spin THREADS SECONDS     uses as much processor time as it can: `spinning`
 *   attack files N DIRECTORY        creates up to N empty files: `files COUNT ERRNO`
 *   attack deep N DIRECTORY         creates nested directories: `deep COUNT ERRNO`
 *   attack descriptors              opens files until that fails: `descriptors COUNT ERRNO`
 *
 * ERRNO is a number; 0 is success.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SHM_BYTES 4096

static int open_error(const char *path, int flags) {
  int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno;
  char byte;
  int error = flags == O_RDONLY && read(fd, &byte, 1) < 0 ? errno : 0;
  close(fd);
  return error;
}

static int open_all(char **paths) {
  for (; *paths != NULL; paths++)
    printf("%s read=%d write=%d\n", *paths, open_error(*paths, O_RDONLY), open_error(*paths, O_WRONLY));
  return 0;
}

static int reach(const struct sockaddr *address, socklen_t length) {
  int fd = socket(address->sa_family, SOCK_STREAM, 0);
  if (fd < 0) return printf("reach %d\n", errno), 0;
  struct timeval limit = {.tv_sec = 1};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  printf("reach %d\n", connect(fd, address, length) == 0 ? 0 : errno);
  return 0;
}

static int reach_tcp(const char *address, const char *port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  inet_pton(AF_INET, address, &to.sin_addr);
  return reach((struct sockaddr *)&to, sizeof to);
}

static int reach_abstract(const char *name) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  memcpy(to.sun_path + 1, name, length);
  return reach((struct sockaddr *)&to, offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int serve_abstract(const char *name) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  memcpy(at.sun_path + 1, name, length);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(fd, (struct sockaddr *)&at, offsetof(struct sockaddr_un, sun_path) + 1 + length) != 0 || listen(fd, 8) != 0)
    return perror("serve"), 1;
  printf("serving\n");
  fflush(stdout);
  while (pause() < 0) continue;
  return 0;
}

static int print_ids(void) {
  uid_t uids[3];
  gid_t gids[3];
  getresuid(&uids[0], &uids[1], &uids[2]);
  getresgid(&gids[0], &gids[1], &gids[2]);
  printf("%d %d %d %d %d %d\n", uids[0], uids[1], uids[2], gids[0], gids[1], gids[2]);
  return 0;
}

static int shm(int put, const char *key, const char *text) {
  int id = shmget(atoi(key), SHM_BYTES, put ? IPC_CREAT | 0666 : 0);
  char *memory = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
  if (memory == (char *)-1) return printf("shm %d\n", errno), 0;
  if (put) strncpy(memory, text, SHM_BYTES - 1);
  else printf("%s\n", memory);
  return 0;
}

/* Reports what it got and keeps it until it is killed. */
static int hold(const char *what, int count, int error) {
  printf("%s %d %d\n", what, count, error);
  fflush(stdout);
  while (pause() < 0) continue;
  return 0;
}

static int take_inotify(int wanted) {
  int count = 0;
  while (count < wanted && inotify_init1(IN_CLOEXEC) >= 0) count++;
  return hold("taken", count, count < wanted ? errno : 0);
}

static int take_queues(void) {
  int count = 0;
  for (;;) {
    char name[32];
    snprintf(name, sizeof name, "/queue-%d", count);
    if (mq_open(name, O_CREAT | O_RDWR, 0600, NULL) < 0) return hold("taken", count, errno);
    count++;
  }
}

static int hog(size_t bytes) {
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return perror("mmap"), 1;
  for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
  return 0;
}

static int fill(const char *directory) {
  char path[4096];
  snprintf(path, sizeof path, "%s/fill-%d", directory, getpid());
  static char zeros[65536];
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  long long bytes = 0;
  ssize_t n = 0;
  while (fd >= 0 && (n = write(fd, zeros, sizeof zeros)) > 0) bytes += n;
  /* Blocks are allocated late: the disk may be full only now. */
  if (fd >= 0 && n > 0) n = fsync(fd);
  printf("fill %lld %d\n", bytes, errno);
  return 0;
}

static void *spin_one(void *unused) {
  (void)unused;
  for (volatile unsigned long count = 1; count != 0; count++) continue;
  return NULL;
}

static int spin(int threads, int seconds) {
  for (int i = 0; i < threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, spin_one, NULL) != 0) return 1;
  }
  printf("spinning\n");
  fflush(stdout);
  sleep(seconds);
  return 0;
}

static int make_files(int wanted, const char *directory) {
  if (mkdir(directory, 0755) != 0 && errno != EEXIST) return perror(directory), 1;
  if (chdir(directory) != 0) return perror(directory), 1;
  int count = 0;
  for (; count < wanted; count++) {
    char name[32];
    snprintf(name, sizeof name, "file-%07d", count);
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0) break;
    close(fd);
  }
  printf("files %d %d\n", count, count < wanted ? errno : 0);
  return 0;
}

static int make_deep(int wanted, const char *directory) {
  if (mkdir(directory, 0755) != 0 || chdir(directory) != 0) return perror(directory), 1;
  int count = 0;
  while (count < wanted && mkdir("d", 0755) == 0 && chdir("d") == 0) count++;
  printf("deep %d %d\n", count, count < wanted ? errno : 0);
  return 0;
}

static int take_descriptors(void) {
  int count = 0;
  while (open("/dev/null", O_RDONLY) >= 0) count++;
  printf("descriptors %d %d\n", count, errno);
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "open") == 0) return open_all(argv + 2);
  if (strcmp(what, "reach") == 0 && argc == 5) return reach_tcp(argv[3], argv[4]);
  if (strcmp(what, "reach") == 0 && argc == 4) return reach_abstract(argv[3]);
  if (strcmp(what, "serve") == 0 && argc == 3) return serve_abstract(argv[2]);
  if (strcmp(what, "ids") == 0) return print_ids();
  if (strcmp(what, "shm") == 0 && argc >= 4) return shm(strcmp(argv[2], "put") == 0, argv[3], argc > 4 ? argv[4] : "");
  if (strcmp(what, "inotify") == 0 && argc == 3) return take_inotify(atoi(argv[2]));
  if (strcmp(what, "queues") == 0) return take_queues();
  if (strcmp(what, "hog") == 0 && argc == 3) return hog(strtoull(argv[2], NULL, 0));
  if (strcmp(what, "fill") == 0 && argc == 3) return fill(argv[2]);
  if (strcmp(what, "spin") == 0 && argc == 4) return spin(atoi(argv[2]), atoi(argv[3]));
  if (strcmp(what, "files") == 0 && argc == 4) return make_files(atoi(argv[2]), argv[3]);
  if (strcmp(what, "deep") == 0 && argc == 4) return make_deep(atoi(argv[2]), argv[3]);
  if (strcmp(what, "descriptors") == 0) return take_descriptors();
  fprintf(stderr, "attack: cannot %s\n", what);
  return 124;
}
