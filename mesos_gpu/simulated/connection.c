/* What the libraries of simulated GPUs share: which GPUs this process may use, and the way to the program that plays them.
 *
 * Which GPUs: those of the table `gpus`, one folder above the library, whose nodes the device cgroup lets this process
 * open (ENXIO: it did, and no driver is behind the number). The program answers at the socket `card.sock` beside the
 * table; what it is asked is told in desk.py. MESOS_GPU_DRIVER_DIR names another folder than that above the library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_ANSWER = 65536, NO_ANSWER = 999 };
enum { IDLE_MW = 25000, BUSY_MW = 250000, IDLE_C = 30, BUSY_C = 35, IDLE_MHZ = 405, BUSY_MHZ = 1480 };

/* The folder above this library. */
static int folder(char *path, size_t size) {
    Dl_info here;
    const char *said = getenv("MESOS_GPU_DRIVER_DIR");
    if (said) return snprintf(path, size, "%s", said) < (int)size;
    if (!dladdr((void *)folder, &here) || !here.dli_fname) return 0;
    const char *slash = strrchr(here.dli_fname, '/');
    if (!slash) return snprintf(path, size, "..") < (int)size;
    return snprintf(path, size, "%.*s/..", (int)(slash - here.dli_fname), here.dli_fname) < (int)size;
}

/* The device cgroup is asked by opening the node, as by the nvidia-smi beside this library. */
static int may_open(const char *minor) {
    char path[256];
    const char *dev = getenv("MESOS_GPU_DEV");
    snprintf(path, sizeof path, "%s/nvidia%s", dev ? dev : "/dev", minor);
    int opened = open(path, O_RDWR | O_CLOEXEC);
    if (opened < 0) return errno == ENXIO || errno == ENODEV;
    close(opened);
    return 1;
}

static FILE *open_file(const char *name) {
    char path[512], file[540];
    if (!folder(path, sizeof path)) return NULL;
    snprintf(file, sizeof file, "%s/%s", path, name);
    return fopen(file, "re");
}

static FILE *open_table(void) { return open_file("gpus"); }

/* Connected to the program, by a path of any length; -1 where nobody answers. */
static int connected(void) {
    char path[512];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!folder(path, sizeof path)) return -1;
    int above = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (above < 0) return -1;
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/card.sock", above);
    int failed = made < 0 || connect(made, (struct sockaddr *)&address, sizeof address);
    if (failed && made >= 0) close(made), made = -1;
    close(above);
    return made;
}

/* Each thread has a connection, for one may wait while others go on. A child of fork has none of its parent's. */
static pthread_key_t connections;
static pthread_once_t connections_made = PTHREAD_ONCE_INIT;
static __thread int own_connection = -1;
static __thread pid_t own_pid;

static void end_connection(void *number) { close((int)(intptr_t)number - 1); }

static void make_connections(void) { pthread_key_create(&connections, end_connection); }

static int connection(void) {
    if (own_connection >= 0 && own_pid == getpid()) return own_connection;
    if (own_connection >= 0) close(own_connection);
    own_pid = getpid();
    own_connection = connected();
    pthread_once(&connections_made, make_connections);
    if (own_connection >= 0) pthread_setspecific(connections, (void *)(intptr_t)(own_connection + 1));
    return own_connection;
}

/* Ask, and wait for the answer: 0 and what follows "ok ", or the number of the refusal. */
static int ask(char *answer, size_t size, const char *format, ...) {
    char line[4200], *heard = answer;
    size_t length = 0;
    va_list words;
    va_start(words, format);
    int said = vsnprintf(line, sizeof line - 1, format, words);
    va_end(words);
    if (said < 0 || said >= (int)sizeof line - 1) return 1;
    line[said++] = '\n';
    int to = connection();
    if (to < 0) return NO_ANSWER;
    for (int sent = 0; sent < said;) {
        ssize_t now = send(to, line + sent, said - sent, MSG_NOSIGNAL);
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) goto gone;
        sent += now;
    }
    while (!length || heard[length - 1] != '\n') {
        if (length + 1 >= size) goto gone;
        ssize_t now = recv(to, heard + length, size - length - 1, 0);
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) goto gone;
        length += now;
    }
    heard[length - 1] = 0;
    if (!strncmp(heard, "err ", 4)) return atoi(heard + 4);
    if (strncmp(heard, "ok", 2)) goto gone;
    memmove(answer, heard + (heard[2] == ' ' ? 3 : 2), strlen(heard + (heard[2] == ' ' ? 3 : 2)) + 1);
    return 0;
gone:
    close(to);
    own_connection = -1;
    pthread_setspecific(connections, NULL);
    return NO_ANSWER;
}

/* What is shown of a card that had work for so many percent of the last second. */
static inline unsigned milliwatts_at(unsigned busy) { return IDLE_MW + (BUSY_MW - IDLE_MW) / 100 * busy; }

static inline unsigned celsius_at(unsigned busy) { return IDLE_C + BUSY_C * busy / 100; }

/* What a card has used since the machine started, `now_ms` ago, with so much of that at work. */
static inline unsigned long long energy_mj(long long now_ms, unsigned long long busy_ns) {
    return (unsigned long long)now_ms * IDLE_MW / 1000 + busy_ns / 1000000 * (BUSY_MW - IDLE_MW) / 1000;
}
