/* Makes calls that write to disk fail in one program, as a control file says: errno, one call in how many, by how many
 * seconds its clock is wrong, a word of the program's command line. Preloaded into services of a box; their own logs and sockets are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct control { volatile int number, one_in, shift_s; char victim[116]; };
static struct control *control;
static char line[4096];

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    control = mmap(0, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED) control = 0;
    close(fd);
    int self = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = self < 0 ? 0 : read(self, line, sizeof line - 1);
    for (ssize_t i = 0; i < n; i++) if (!line[i]) line[i] = ' ';
    if (self >= 0) close(self);
}

static int fails(void) {
    if (!control || !control->number || !strstr(line, control->victim)) return 0;
    if (control->one_in > 1 && random() % control->one_in) return 0;
    errno = control->number;
    return 1;
}

static int on_disk(int fd) {
    struct stat found;
    int kept = errno, yes = fd > 2 && !fstat(fd, &found) && S_ISREG(found.st_mode);
    errno = kept;
    return yes;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
ssize_t write(int fd, const void *data, size_t n) { return on_disk(fd) && fails() ? -1 : REAL(write)(fd, data, n); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    return on_disk(fd) && fails() ? -1 : REAL(pwrite64)(fd, data, n, at);
}
int fsync(int fd) { return fails() ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails() ? -1 : REAL(fdatasync)(fd); }
int rename(const char *from, const char *to) { return fails() ? -1 : REAL(rename)(from, to); }
int mkdir(const char *path, mode_t mode) { return fails() ? -1 : REAL(mkdir)(path, mode); }

static int wants(int flags) { return flags & (O_CREAT | O_WRONLY | O_RDWR); }
int open64(const char *path, int flags, ...) {
    va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more);
    if (wants(flags) && strncmp(path, "/proc", 5) && strncmp(path, "/dev", 4) && fails()) return -1;
    return REAL(open64)(path, flags, mode);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = REAL(clock_gettime)(clock, now);
    if (!done && clock == CLOCK_REALTIME && control && control->shift_s && strstr(line, control->victim))
        now->tv_sec += control->shift_s;
    return done;
}
