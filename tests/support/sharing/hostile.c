/* A tenant of a simulated card that wants more than its part: `hostile SOCKET PROCESSES DEPTH`.
 *
 * Static, so that nothing can be put before it; each of its processes keeps DEPTH kernels of 2 ms queued, and forks
 * children that connect, queue as much, and are gone, one after another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char kernel[] = "K 2\n";

static int connected(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int card = socket(AF_UNIX, SOCK_STREAM, 0);
    if (card < 0 || connect(card, (struct sockaddr *)&address, sizeof address)) exit(1);
    return card;
}

static void submit(int card, int count) {
    while (count-- > 0)
        if (write(card, kernel, sizeof kernel - 1) < 0) exit(1);
}

static void work(const char *path, int depth) {
    char answer[256];
    int card = connected(path), storms = 0;
    submit(card, depth);
    for (;;) {
        ssize_t got = read(card, answer, sizeof answer);
        if (got <= 0) exit(1);
        int done = 0;
        for (ssize_t at = 0; at < got; at++) done += answer[at] == 'D';
        submit(card, done);
        if (++storms % 50 == 0) {
            while (waitpid(-1, NULL, WNOHANG) > 0) continue;
            if (fork() == 0) {
                submit(connected(path), depth);
                _exit(0);
            }
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    for (int left = atoi(argv[2]); left > 1; left--)
        if (fork() == 0) work(argv[1], atoi(argv[3]));
    work(argv[1], atoi(argv[3]));
}
