/* Has two names of a folder take turns, as fast as the kernel does it, until SIGTERM; then says how often.
   usage: swapper A B; with `steal LOG`: opens what runs beside it to write over it, and counts tries in LOG. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static void end(int number) { (void)number; over = 1; }

static int steal(const char *log) {
    int file = open(log, O_RDWR | O_CREAT, 0644);
    unsigned long *counts = file < 0 || ftruncate(file, 4096) ? MAP_FAILED
                          : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    struct stat mine, other;
    if (counts == MAP_FAILED || stat("/", &mine)) return 1;
    while (!over) {
        DIR *all = opendir("/proc");
        struct dirent *entry;
        while (all && (entry = readdir(all))) {
            char path[300];
            int found;
            if (!isdigit((unsigned char)entry->d_name[0])) continue;
            snprintf(path, sizeof path, "/proc/%s/exe", entry->d_name);
            found = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
            counts[0]++;                       /* tries */
            if (found < 0) continue;
            counts[1]++;                       /* opened, which may be a program of the image */
            if (!fstat(found, &other) && other.st_dev != mine.st_dev) counts[2]++;   /* not of its file system */
            close(found);
        }
        if (all) closedir(all);
    }
    return 0;
}

int main(int count, char **words) {
    unsigned long turns = 0;
    signal(SIGTERM, end);
    if (count == 3 && !strcmp(words[1], "steal")) return steal(words[2]);
    if (count != 3) return 2;
    printf("ready\n");
    fflush(stdout);
    while (!over) {
        if (syscall(SYS_renameat2, AT_FDCWD, words[1], AT_FDCWD, words[2], 2 /* RENAME_EXCHANGE */)) perror("exchange");
        turns++;
    }
    printf("%lu\n", turns);
    return 0;
}
