/* Where a card is, how it is connected, and what else real drivers tell of every card: compiled behind settings.c, as
 * one text.
 *
 * Asked for by pynvml's own tests, jupyterlab-nvdashboard, gpulink, py-smi and nvmon.
 */
enum {
    NVLINK_SPEED_L0 = 84, NVLINK_SPEED_L5 = 89, NVLINK_SPEED_COMMON = 90, NVLINK_SPEED_L6 = 132, NVLINK_SPEED_L11 = 137,
    NVLINK_SENT = 138, NVLINK_RECEIVED = 139, UNSIGNED_LONG_LONG = 3, NO_PEER_ACCESS = 5, P2P_KINDS = 6, LINK_IS_VALID = 5,
    MOST_CPUS = 4096, WORD_BITS = 8 * sizeof(unsigned long), CURRENT_CLOCK = 0, GPU_IS_IDLE = 1, UNCORRECTED = 1
};

/* The numbers of a list as the kernel writes them, 0-3,8, as bits of `words`; false where there is no such file. */
static int bits_of(const char *path, unsigned long *words, unsigned count) {
    char line[1024], *rest = line, *word;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    int there = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    while (there && (word = strsep(&rest, ","))) {
        unsigned first, last;
        int found = sscanf(word, "%u-%u", &first, &last);
        if (found == 1) last = first;
        for (unsigned one = first; found >= 1 && one <= last && one < MOST_CPUS; one++)
            if (one / WORD_BITS < count) words[one / WORD_BITS] |= 1ul << one % WORD_BITS;
    }
    return there;
}

/* The CPUs of the card's NUMA node; where this machine has no such node, all. */
static int cpus_of(struct device *device, unsigned count, unsigned long *words) {
    char path[80];
    memset(words, 0, count * sizeof *words);
    snprintf(path, sizeof path, "/sys/devices/system/node/node%ld/cpulist", of_gpu(device->gpu, "node", 0));
    if (!bits_of(path, words, count) && !bits_of("/sys/devices/system/cpu/online", words, count)) return NOT_SUPPORTED;
    return error_of(device);
}

int nvmlDeviceGetCpuAffinity(struct device *device, unsigned count, unsigned long *words) {
    return cpus_of(device, count, words);
}

/* Scopes: NUMA node, socket; a socket of these machines is a node. */
int nvmlDeviceGetCpuAffinityWithinScope(struct device *device, unsigned count, unsigned long *words, unsigned scope) {
    return scope > 1 ? INVALID_ARGUMENT : cpus_of(device, count, words);
}

int nvmlDeviceGetMemoryAffinity(struct device *device, unsigned count, unsigned long *words, unsigned scope) {
    long node = of_gpu(device->gpu, "node", 0);
    char path[80];
    if (scope > 1 || !count) return INVALID_ARGUMENT;
    memset(words, 0, count * sizeof *words);
    snprintf(path, sizeof path, "/sys/devices/system/node/node%ld", node);
    if (access(path, F_OK)) node = 0;
    if ((unsigned long)node / WORD_BITS < count) words[node / WORD_BITS] |= 1ul << node % WORD_BITS;
    return error_of(device);
}

/* There is no peer access between these cards, whatever connects them. */
int nvmlDeviceGetP2PStatus(struct device *one, struct device *other, unsigned kind, unsigned *status) {
    *status = NO_PEER_ACCESS;
    return kind >= P2P_KINDS ? INVALID_ARGUMENT : error_of(one) ? error_of(one) : error_of(other);
}

int nvmlDeviceGetNvLinkCapability(struct device *device, unsigned link, unsigned which, unsigned *able) {
    int end = NOT_THERE, code = link_end(device, link, &end);
    *able = end != NOT_THERE && which == LINK_IS_VALID;
    return code;
}

/* By how many links a card has: V100 six of the second, A100 twelve and A40 four of the third, H100 eighteen. */
int nvmlDeviceGetNvLinkVersion(struct device *device, unsigned link, unsigned *version) {
    int end = NOT_THERE, code = link_end(device, link, &end);
    long links = of_gpu(device->gpu, "links", 0);
    *version = links > 12 ? 4 : links == 6 ? 2 : 3;
    return code ? code : end == NOT_THERE ? NOT_SUPPORTED : SUCCESS;
}

/* What a field of NvLinks is: MB/s that each can carry, and KiB that went over it. */
static void link_field(struct device *device, struct field *field) {
    unsigned version, link;
    if (field->id == NVLINK_SPEED_COMMON) link = 0;
    else if (field->id == NVLINK_SENT || field->id == NVLINK_RECEIVED) link = field->scope;
    else if (field->id >= NVLINK_SPEED_L0 && field->id <= NVLINK_SPEED_L5) link = field->id - NVLINK_SPEED_L0;
    else if (field->id >= NVLINK_SPEED_L6 && field->id <= NVLINK_SPEED_L11) link = field->id - NVLINK_SPEED_L6 + 6;
    else return;
    field->code = nvmlDeviceGetNvLinkVersion(device, link, &version);
    int counter = field->id == NVLINK_SENT || field->id == NVLINK_RECEIVED;
    field->type = counter ? UNSIGNED_LONG_LONG : UNSIGNED;
    field->value.ull = field->code || counter ? 0 : version > 3 ? 26562 : 25781;
}

/* Thirteen digits, as real ones have, that the UUID begins with. */
int nvmlDeviceGetSerial(struct device *device, char *serial, unsigned size) {
    char uuid[96];
    unsigned first;
    uuid_of(&wholes[device->gpu], uuid, sizeof uuid);
    if (sscanf(uuid, "GPU-%8x", &first) != 1) return NOT_SUPPORTED;
    if (snprintf(serial, size, "%013u", first) >= (int)size) return INSUFFICIENT_SIZE;
    return error_of(device);
}

int nvmlDeviceGetHandleBySerial(const char *serial, struct device **device) {
    char found[32];
    for (int gpu = 0; gpu < number("count", 0) && gpu < MAX_GPUS; gpu++)
        if (!nvmlDeviceGetSerial(*device = &wholes[gpu], found, sizeof found) && !strcmp(serial, found)) return SUCCESS;
    return NOT_FOUND;
}

int nvmlDeviceGetTotalEccErrors(struct device *device, unsigned kind, unsigned since, unsigned long long *count) {
    unsigned long long part = 0;
    int code = SUCCESS;
    *count = 0;
    for (int where = 0; where < 3 && !code; where++)
        code = of_row(device, "ecc_errors", where, &part), *count += part;
    if (kind != UNCORRECTED) *count = 0;
    return since > 1 ? INVALID_ARGUMENT : code;
}

int nvmlDeviceGetClock(struct device *device, unsigned type, unsigned which, unsigned *mhz) {
    return which == CURRENT_CLOCK ? clock_of(device, "clock", type, mhz) : NOT_SUPPORTED;
}

/* Why the clocks are not at their highest. */
int nvmlDeviceGetCurrentClocksEventReasons(struct device *device, unsigned long long *reasons) {
    unsigned busy = 0;
    int code = measure(device, "util", &busy);
    *reasons = busy ? 0 : GPU_IS_IDLE;
    return code;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *device, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

int nvmlDeviceGetSupportedClocksEventReasons(struct device *device, unsigned long long *reasons) {
    int code = nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
    *reasons = GPU_IS_IDLE;
    return code;
}

int nvmlDeviceGetSupportedClocksThrottleReasons(struct device *device, unsigned long long *reasons) {
    return nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}
