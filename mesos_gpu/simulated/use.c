/* nvidia-smi-use: what a simulated GPU does now, for the nvidia-smi beside it, which is a script and cannot ask.
 *
 *   nvidia-smi-use MINOR MIB     prints   BUSY_PERCENT USED_MIB CELSIUS MILLIWATTS     - for what NVML would not tell
 *                                         MIG SLOT NAME UUID USED_MIB TOTAL_MIB        one line per instance
 *                                         PROCESS PID MIB PERCENT PROGRAM              and per process
 *
 * MIB is the memory that the table gives the GPU: less than the card's is a part of it, of which only that counts.
 * Where nobody answers it prints nothing and fails. MESOS_GPU_DRIVER_DIR names the folder of the table.
 */
static unsigned long long mib(unsigned long long bytes) { return (bytes + 1048575) >> 20; }

/* The program of a process as it was called, where this one may see it. */
static void read_program(unsigned pid, char *program, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(program, 1, size - 1, file) : 0;
    if (file) fclose(file);
    program[length] = 0;
    for (char *at = program; *at; at++)
        if ((unsigned char)*at < ' ') *at = '?'; /* it is one line */
    if (!*program) strcpy(program, "-");
}

static void print_processes(char *answer) {
    char program[512];
    unsigned pid, percent;
    unsigned long long bytes;
    for (char *word; (word = strsep(&answer, " "));) {
        if (sscanf(word, "%u:%llu:%u", &pid, &bytes, &percent) != 3) continue;
        read_program(pid, program, sizeof program);
        printf("PROCESS %u %llu %u %s\n", pid, mib(bytes), percent, program);
    }
}

int main(int count, char **words) {
    static char answer[LONGEST_ANSWER], other[LONGEST_ANSWER];
    unsigned busy;
    unsigned long long used, total, mine;
    if (count < 3 || ask(answer, sizeof answer, "card %d", atoi(words[1]))) return 1;
    if (sscanf(answer, "%u %llu %llu %llu", &busy, &used, &total, &mine) != 4) return 1;
    if (strtoull(words[2], NULL, 10) << 20 < total && strcmp(words[2], "-")) used = mine;
    int divided = !ask(answer, sizeof answer, "mig %d", atoi(words[1]));
    if (divided) printf("- ");
    else printf("%u ", busy);
    printf("%llu %u %u\n", mib(used), celsius_at(busy), milliwatts_at(busy));
    char *rest = answer;
    for (char *word; divided && (word = strsep(&rest, " "));) {
        int slot, computes;
        unsigned long long bytes, taken = 0;
        char uuid[96], name[64];
        if (sscanf(word, "%d:%*d:%*d:%*d:%*d:%d:%llu:%95[^:]:%63s", &slot, &computes, &bytes, uuid, name) != 5 || !computes)
            continue;
        if (!ask(other, sizeof other, "card %s.%d", words[1], slot)) sscanf(other, "%*u %llu", &taken);
        printf("MIG %d %s %s %llu %llu\n", slot, name, uuid, mib(taken), bytes >> 20);
    }
    if (!ask(answer, sizeof answer, "processes %d", atoi(words[1]))) print_processes(answer);
    return 0;
}
