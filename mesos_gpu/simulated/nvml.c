/* A libnvidia-ml.so.1 for GPUs that are not there, good enough for what people look at GPUs with (gpustat, nvitop).
 *
 * Without SIMULATED_NVML in the environment it shows the simulated GPUs of this container, as the nvidia-smi beside it
 * does: those of the table `gpus`, one folder above this library, whose nodes the device cgroup lets this process open
 * (ENXIO: it did, and no driver is behind the number). What they do, the program that plays the cards says (connection.c);
 * where it does not answer, they are idle.
 *
 * SIMULATED_NVML names a file of key=value lines, for tests: it is read anew at every call, so that a test can change
 * the machine while a program runs on it.
 *
 *   init=9                 nvmlInit fails with this code             count=4      so many GPUs
 *   driver=550.54.15       the driver's version                      count_error=999
 *   cuda=12040             the newest CUDA it serves: 12.4
 *   event.N=GPU:TYPE:DATA:GI:CI   event N, from 0; wait_error=15: what waiting gives after the last of them
 *   level.A.B=20           common ancestor of GPUs A < B, else 50
 *   gpu.N.error=15         every call on GPU N fails so              gpu.N.minor=5       (N)
 *   gpu.N.uuid=, name=, bus=     as NVML writes them                 gpu.N.util=37       percent, else not supported
 *   gpu.N.used=, total=    memory in MiB                             gpu.N.celsius=      else not supported
 *   gpu.N.milliwatts=      power, else not supported                 gpu.N.limit=        of power, in milliwatts, too
 *   gpu.N.brand=2, arch=8.0, cores=6912, bus_width=4096, ecc=1, energy=millijoules, replays=, memory_celsius=
 *   gpu.N.clock=1189:715, clock_max=1328:715   of cores and memory, in MHz       gpu.N.pcie=3:16      generation, lanes
 *   gpu.N.clock_least=405:715   what they idle at, else `clock`
 *   gpu.N.throughput=4000:1000  KB/s in and out  gpu.N.bar1=2:16384  used and total MiB  gpu.N.ecc_errors=L1:L2:MEMORY
 *   gpu.N.memory_util=3, enc=0, dec=0          percent; of all these, what is not there is not supported
 *   gpu.N.process.P=PID:MIB:KIND:SM   process P, from 0: C computes, G draws; SM: percent of the GPU
 *   gpu.N.mig=1            in MIG mode; without: knows no MIG        gpu.N.slot.S=GI:CI  instance; without: empty
 *   gpu.N.create_error=999, create_error_at=4    what making an instance at that slice fails with
 *   gpu.N.link.L=M         NVLink L leads to GPU M, 99: a switch     gpu.N.links=6       so many links are there
 *   gpu.N.node=1           the NUMA node it is at, else 0
 *   gpu.N.recovery=1       the driver's advice, else it knows none   gpu.N.events=8      supported types, else no
 *
 * Layouts and codes: NVIDIA's nvml.h, as published with nvidia-ml-py.
 */
enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10, MAX_GPUS = 254, MAX_SLOTS = 7, A_SWITCH = 99, RECOVERY_ACTION = 230, MEMORY_TEMPERATURE = 82,
    POWER_AVERAGE = 185, POWER_INSTANT = 186, UNSIGNED = 1, NOT_THERE = -1, ELSEWHERE = 1000
};

struct device { int gpu, slot; };
struct memory { unsigned long long total, free, used; };
struct pci { char legacy_id[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
struct old_process { unsigned pid; unsigned long long memory; };
struct sample { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; };
struct rates { unsigned gpu, memory; };
struct attributes {
    unsigned multiprocessors, copy, decoders, encoders, jpegs, flows, gpu_slices, compute_slices;
    unsigned long long memory_mb;
};
struct event { struct device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
struct bar1 { unsigned long long total, free, used; };
struct field { unsigned id, scope; int64_t timestamp, latency; int type, code; union { double d; unsigned u; unsigned long long ull; } value; };

static struct device wholes[MAX_GPUS], parts[MAX_GPUS][MAX_SLOTS];
static long events_told;

static char *table; /* lines of key=value that stand for a file, made of the table of simulated GPUs */

static const char *line_of(const char *lines, const char *key) {
    size_t length = strlen(key);
    for (; lines && *lines; lines = strchr(lines, '\n') ? strchr(lines, '\n') + 1 : NULL)
        if (!strncmp(lines, key, length) && lines[length] == '=') return lines + length + 1;
    return NULL;
}

/* What the program that plays the cards says of one, as lines of key=value; asked anew when it is older than FRESH_MS. */
static void read_instances(FILE *made, int gpu, int minor, char *answer, size_t size);

enum { FRESH_MS = 20 };

static struct { char *lines; long long at_ms; } live[MAX_GPUS];
static pthread_mutex_t live_guard = PTHREAD_MUTEX_INITIALIZER;

static void read_live(int gpu, long long now_ms) {
    static char heard[LONGEST_ANSWER];
    char key[32];
    unsigned long long used, total, mine, bytes, shown, busy_ns = 0;
    unsigned busy, percent, pid;
    size_t size = 0;
    free(live[gpu].lines);
    live[gpu].lines = NULL, live[gpu].at_ms = now_ms;
    snprintf(key, sizeof key, "gpu.%d.minor", gpu);
    const char *minor = line_of(table, key);
    if (!minor || ask(heard, sizeof heard, "card %d", atoi(minor))) return;
    if (sscanf(heard, "%u %llu %llu %llu %llu", &busy, &used, &total, &mine, &busy_ns) < 4) return;
    snprintf(key, sizeof key, "gpu.%d.total", gpu);
    const char *said = line_of(table, key);
    shown = said ? strtoull(said, NULL, 10) << 20 : total;
    if (shown < total) total = shown, used = mine; /* of a part of a card the table says the part */
    FILE *made = open_memstream(&live[gpu].lines, &size);
    if (!made) return;
    fprintf(made, "gpu.%d.used=%llu\ngpu.%d.total=%llu\n", gpu, (used + 1048575) >> 20, gpu, total >> 20);
    fprintf(made, "gpu.%d.milliwatts=%u\ngpu.%d.celsius=%u\n", gpu, milliwatts_at(busy), gpu, celsius_at(busy));
    fprintf(made, "gpu.%d.energy=%llu\n", gpu, energy_mj(now_ms, busy_ns));
    fprintf(made, "gpu.%d.clock=%d:715\n", gpu, busy ? BUSY_MHZ : IDLE_MHZ);
    if (!ask(heard, sizeof heard, "processes %d", atoi(minor))) {
        char *rest = heard, *word;
        for (int at = 0; (word = strsep(&rest, " "));)
            if (sscanf(word, "%u:%llu:%u", &pid, &bytes, &percent) == 3)
                fprintf(made, "gpu.%d.process.%d=%u:%llu:C:%u\n", gpu, at++, pid, (bytes + 1048575) >> 20, percent);
    }
    size_t before;
    fflush(made);
    before = size;
    read_instances(made, gpu, atoi(minor), heard, sizeof heard);
    fflush(made);
    if (size == before) fprintf(made, "gpu.%d.util=%u\n", gpu, busy); /* of one in MIG mode NVML tells no use */
    fclose(made);
}

/* The instances of a card in MIG mode that this process may use, as lines of key=value. */
static void read_instances(FILE *made, int gpu, int minor, char *answer, size_t size) {
    static char heard[LONGEST_ANSWER];
    char *rest = answer, *word;
    if (ask(answer, size, "mig %d", minor)) return;
    fprintf(made, "gpu.%d.mig=1\n", gpu);
    while ((word = strsep(&rest, " "))) {
        int slot, instance, profile, start, slices, computes;
        unsigned long long bytes, used = 0;
        char uuid[96], name[64];
        if (sscanf(word, "%d:%d:%d:%d:%d:%d:%llu:%95[^:]:%63s", &slot, &instance, &profile, &start, &slices, &computes, &bytes,
                   uuid, name) != 9) continue;
        fprintf(made, "gpu.%d.slot.%d=%d:%d:%d:%d:%d\n", gpu, slot, instance, computes - 1, profile, start, slices);
        fprintf(made, "gpu.%d.slot.%d.uuid=%s\ngpu.%d.slot.%d.name=%s\n", gpu, slot, uuid, gpu, slot, name);
        if (!computes) continue;
        if (!ask(heard, sizeof heard, "card %d.%d", minor, slot)) sscanf(heard, "%*u %llu", &used);
        fprintf(made, "gpu.%d.slot.%d.total=%llu\n", gpu, slot, bytes >> 20);
        fprintf(made, "gpu.%d.slot.%d.used=%llu\n", gpu, slot, (used + 1048575) >> 20);
        if (ask(heard, sizeof heard, "processes %d.%d", minor, slot)) continue;
        char *others = heard, *one;
        unsigned pid;
        for (int at = 0; (one = strsep(&others, " "));)
            if (sscanf(one, "%u:%llu", &pid, &used) == 2)
                fprintf(made, "gpu.%d.slot.%d.process.%d=%u:%llu:C\n", gpu, slot, at++, pid, (used + 1048575) >> 20);
    }
}

/* Whether there is such a line: 1 and the text, 0; -1 when it is none of what the program says. */
static int live_text(const char *key, char *answer, size_t size) {
    struct timespec now;
    int gpu, begin = 0, found = -1;
    if (sscanf(key, "gpu.%d.%n", &gpu, &begin) != 1 || !begin || gpu < 0 || gpu >= MAX_GPUS) return -1;
    const char *what = key + begin;
    int process = !strncmp(what, "process.", 8) || !strncmp(what, "slot.", 5);
    if (!process && strcmp(what, "mig") && strcmp(what, "util") && strcmp(what, "used") && strcmp(what, "total") && strcmp(what, "milliwatts") &&
        strcmp(what, "celsius") && strcmp(what, "energy") && strcmp(what, "clock")) return -1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long now_ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    pthread_mutex_lock(&live_guard);
    if (now_ms - live[gpu].at_ms > FRESH_MS || !live[gpu].at_ms) read_live(gpu, now_ms);
    if (live[gpu].lines) {
        const char *told = line_of(live[gpu].lines, key);
        found = told != NULL;
        if (told) snprintf(answer, size, "%.*s", (int)strcspn(told, "\n"), told);
    } else if (!strcmp(what, "mig")) found = 0;
    pthread_mutex_unlock(&live_guard);
    return found < 0 && process ? 0 : found;
}

static int text(const char *key, char *answer, size_t size) {
    char line[256];
    const char *path = getenv("SIMULATED_NVML"), *told;
    size_t length = strlen(key);
    int found = 0;
    if (!path) {
        if ((found = live_text(key, answer, size)) >= 0) return found;
        found = 0;
        if (!(told = line_of(table, key))) return 0;
        snprintf(answer, size, "%.*s", (int)strcspn(told, "\n"), told);
        return 1;
    }
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) || line[length] != '=') continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(answer, size, "%s", line + length + 1);
        found = 1;
    }
    if (file) fclose(file);
    return found;
}

/* How this container's GPUs, `minors` in order, are connected: lines of two minors, level, NVLinks; a minor twice: its
 * NUMA node, and its NVLinks to switches. One that leads to a GPU of others shows its end, as NVML does. */
static void read_links(FILE *made, const int *minors, int count) {
    FILE *file = open_file("links");
    char line[128];
    int used[MAX_GPUS] = {0}, one, other, level, links;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%d\t%d\t%d\t%d", &one, &other, &level, &links) != 4) continue;
        int first = NOT_THERE, second = NOT_THERE;
        for (int at = 0; at < count; at++) {
            if (minors[at] == one) first = at;
            if (minors[at] == other) second = at;
        }
        if (first != NOT_THERE && second != NOT_THERE && one != other)
            fprintf(made, "level.%d.%d=%d\n", first < second ? first : second, first < second ? second : first, level);
        if (first != NOT_THERE && one == other) fprintf(made, "gpu.%d.node=%d\n", first, level);
        for (int link = 0; link < links; link++) {
            if (first != NOT_THERE)
                fprintf(made, "gpu.%d.link.%d=%d\n", first, used[first]++,
                        one == other ? A_SWITCH : second != NOT_THERE ? second : ELSEWHERE + other);
            if (second != NOT_THERE && one != other)
                fprintf(made, "gpu.%d.link.%d=%d\n", second, used[second]++,
                        first != NOT_THERE ? first : ELSEWHERE + one);
        }
    }
    for (int at = 0; at < count; at++) fprintf(made, "gpu.%d.links=%d\n", at, used[at]);
    if (file) fclose(file);
}

static void read_table(void) {
    char line[512];
    int minors[MAX_GPUS];
    FILE *file = open_table();
    if (!file) return;
    char *lines = NULL;
    size_t size = 0;
    int count = 0;
    FILE *made = open_memstream(&lines, &size);
    while (made && count < MAX_GPUS && fgets(line, sizeof line, file)) {
        char *field[7], *rest = line;
        int fields = 0;
        line[strcspn(line, "\n")] = 0;
        while (fields < 7 && (field[fields] = strsep(&rest, "\t"))) fields++;
        if (line[0] == '#' || fields < 7 || !may_open(field[0])) continue;
        if (!count) fprintf(made, "driver=%s\ncuda=12040\n", field[6]);
        fprintf(made, "gpu.%d.minor=%s\ngpu.%d.uuid=%s\n", count, field[0], count, field[2]);
        fprintf(made, "gpu.%d.name=%s\n", count, field[3]);
        if (strcmp(field[4], "-")) fprintf(made, "gpu.%d.total=%s\n", count, field[4]);
        if (strcmp(field[5], "-")) fprintf(made, "gpu.%d.bus=%s\n", count, field[5]);
        fprintf(made, "gpu.%d.util=0\ngpu.%d.celsius=30\n", count, count);
        fprintf(made, "gpu.%d.milliwatts=25000\ngpu.%d.limit=300000\n", count, count);
        fprintf(made, "gpu.%d.brand=2\ngpu.%d.arch=8.0\ngpu.%d.cores=6912\n", count, count, count);
        fprintf(made, "gpu.%d.bus_width=4096\ngpu.%d.ecc=1\ngpu.%d.ecc_errors=0:0:0\n", count, count, count);
        fprintf(made, "gpu.%d.clock=%d:715\ngpu.%d.clock_least=%d:715\n", count, IDLE_MHZ, count, IDLE_MHZ);
        fprintf(made, "gpu.%d.clock_max=%d:715\n", count, BUSY_MHZ);
        fprintf(made, "gpu.%d.pcie=3:16\ngpu.%d.throughput=0:0\ngpu.%d.bar1=2:16384\n", count, count, count);
        fprintf(made, "gpu.%d.enc=0\ngpu.%d.dec=0\ngpu.%d.energy=0\ngpu.%d.replays=0\n", count, count, count, count);
        minors[count++] = atoi(field[0]);
    }
    fclose(file);
    if (!made) return;
    read_links(made, minors, count);
    fprintf(made, "count=%d\n", count);
    fclose(made);
    free(table);
    table = lines;
}

static long number(const char *key, long otherwise) {
    char answer[64];
    return text(key, answer, sizeof answer) ? strtol(answer, NULL, 0) : otherwise;
}

static long of_gpu(int gpu, const char *what, long otherwise) {
    char key[64];
    snprintf(key, sizeof key, "gpu.%d.%s", gpu, what);
    return number(key, otherwise);
}

static int error_of(const struct device *device) { return (int)of_gpu(device->gpu, "error", SUCCESS); }

static int instance(const struct device *device, int *gpu_instance, int *compute_instance) {
    char key[64], answer[64];
    snprintf(key, sizeof key, "gpu.%d.slot.%d", device->gpu, device->slot);
    return text(key, answer, sizeof answer) && sscanf(answer, "%d:%d", gpu_instance, compute_instance) == 2;
}

/* A number that is not in the file is not supported; nothing but memory is known of an instance. */
static int measure(const struct device *device, const char *what, unsigned *answer) {
    long value = of_gpu(device->gpu, what, NOT_THERE);
    if (error_of(device)) return error_of(device);
    if (value == NOT_THERE || device->slot != NOT_THERE) return NOT_SUPPORTED;
    *answer = (unsigned)value;
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
        wholes[gpu] = (struct device){gpu, NOT_THERE};
        for (int slot = 0; slot < MAX_SLOTS; slot++) parts[gpu][slot] = (struct device){gpu, slot};
    }
    if (!getenv("SIMULATED_NVML")) read_table();
    return (int)number("init", getenv("SIMULATED_NVML") || table ? SUCCESS : DRIVER_NOT_LOADED);
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlInit(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "The operation was successful";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case 15: return "GPU is lost";
    default: return "Unknown Error";
    }
}

static int said(const char *key, const char *otherwise, char *answer, unsigned size) {
    char found[128];
    if (!text(key, found, sizeof found)) snprintf(found, sizeof found, "%s", otherwise);
    if (strlen(found) >= size) return INSUFFICIENT_SIZE;
    strcpy(answer, found);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) { return said("driver", "550.54.15", version, size); }

int nvmlSystemGetNVMLVersion(char *version, unsigned size) {
    char driver[80], key[] = "nvml", longer[96];
    said("driver", "550.54.15", driver, sizeof driver);
    snprintf(longer, sizeof longer, "12.%s", driver);
    return said(key, longer, version, size);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = (int)number("cuda", 12040);
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

/* The name of a process, where this one may see it. */
int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (!file) return NOT_FOUND;
    size_t read = fread(name, 1, size - 1, file);
    name[read] = 0;
    fclose(file);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)number("count", 0);
    return (int)number("count_error", SUCCESS);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
    if (index >= number("count", 0) || index >= MAX_GPUS) return INVALID_ARGUMENT;
    *device = &wholes[index];
    return SUCCESS;
}

/* As NVML writes them: GPU-, MIG- and 32 hexadecimal digits, in groups. */
static void uuid_of(const struct device *device, char *uuid, unsigned size) {
    char key[64];
    snprintf(key, sizeof key, "gpu.%d.uuid", device->gpu);
    char told[64];
    snprintf(told, sizeof told, "gpu.%d.slot.%d.uuid", device->gpu, device->slot);
    if (device->slot != NOT_THERE && text(told, uuid, size)) return;
    if (device->slot != NOT_THERE) snprintf(uuid, size, "MIG-%08x-57b0-5bb0-8000-%012x", device->gpu, device->slot);
    else if (!text(key, uuid, size)) snprintf(uuid, size, "GPU-%08x-57b0-5bb0-8000-000000000000", device->gpu);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device) {
    char found[96];
    int gpu_instance, compute_instance;
    for (int gpu = 0; gpu < number("count", 0) && gpu < MAX_GPUS; gpu++) {
        uuid_of(*device = &wholes[gpu], found, sizeof found);
        if (!strcmp(uuid, found)) return error_of(*device);
        for (int slot = 0; slot < MAX_SLOTS; slot++) {
            uuid_of(*device = &parts[gpu][slot], found, sizeof found);
            if (!strcmp(uuid, found))
                return instance(*device, &gpu_instance, &compute_instance) ? error_of(*device) : NOT_FOUND;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetIndex(struct device *device, unsigned *index) {
    *index = (unsigned)(device->slot == NOT_THERE ? device->gpu : device->slot);
    return error_of(device);
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *part, struct device **whole) {
    if (part->slot == NOT_THERE) return INVALID_ARGUMENT;
    *whole = &wholes[part->gpu];
    return error_of(part);
}

int nvmlDeviceIsMigDeviceHandle(struct device *device, unsigned *is_part) {
    *is_part = device->slot != NOT_THERE;
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(struct device *device, unsigned *minor) {
    *minor = (unsigned)of_gpu(device->gpu, "minor", device->gpu);
    return error_of(device);
}

int nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned size) {
    uuid_of(device, uuid, size);
    return error_of(device);
}

int nvmlDeviceGetName(struct device *device, char *name, unsigned size) {
    char key[64], found[96];
    snprintf(key, sizeof key, "gpu.%d.name", device->gpu);
    said(key, "Stub GPU", found, sizeof found);
    char profile[64] = "1g.10gb";
    snprintf(key, sizeof key, "gpu.%d.slot.%d.name", device->gpu, device->slot);
    if (device->slot == NOT_THERE) snprintf(name, size, "%s", found);
    else text(key, profile, sizeof profile), snprintf(name, size, "%s MIG %s", found, profile);
    return error_of(device);
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *memory) {
    char key[40];
    snprintf(key, sizeof key, "slot.%d.total", device->slot);
    long of_slot = device->slot == NOT_THERE ? NOT_THERE : of_gpu(device->gpu, key, NOT_THERE);
    if (of_slot != NOT_THERE) {
        snprintf(key, sizeof key, "slot.%d.used", device->slot);
        memory->total = (unsigned long long)of_slot << 20;
        memory->used = (unsigned long long)of_gpu(device->gpu, key, 0) << 20;
        memory->free = memory->total - memory->used;
        return error_of(device);
    }
    unsigned long long part = device->slot == NOT_THERE ? 1 : 8;
    memory->total = ((unsigned long long)of_gpu(device->gpu, "total", 81920) << 20) / part;
    memory->used = ((unsigned long long)of_gpu(device->gpu, "used", 0) << 20) / part;
    memory->free = memory->total - memory->used;
    return error_of(device);
}

int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *memory) {
    struct memory plain;
    int code = nvmlDeviceGetMemoryInfo(device, &plain);
    memory->total = plain.total, memory->free = plain.free, memory->used = plain.used, memory->reserved = 0;
    return code;
}

/* Fill in what there is room for; `count` is how many there are then, as NVML counts. */
static int processes(struct device *device, char kind, unsigned *count, struct process *made, struct old_process *old) {
    unsigned room = made || old ? *count : 0, found = 0;
    for (int at = 0;; at++) {
        char key[64], answer[64], of = 'C';
        unsigned pid;
        unsigned long long mib = 0;
        if (device->slot == NOT_THERE) snprintf(key, sizeof key, "gpu.%d.process.%d", device->gpu, at);
        else snprintf(key, sizeof key, "gpu.%d.slot.%d.process.%d", device->gpu, device->slot, at);
        if (!text(key, answer, sizeof answer) || sscanf(answer, "%u:%llu:%c", &pid, &mib, &of) < 2) break;
        if (of != kind) continue;
        if (found < room && made) made[found] = (struct process){pid, mib << 20, ~0u, ~0u};
        if (found < room && old) old[found] = (struct old_process){pid, mib << 20};
        found++;
    }
    *count = found;
    return error_of(device) ? error_of(device) : found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(NAME, KIND) \
    int NAME(struct device *device, unsigned *count, struct old_process *made) { \
        return processes(device, KIND, count, NULL, made); \
    } \
    int NAME##_v2(struct device *device, unsigned *count, struct process *made) { \
        return processes(device, KIND, count, made, NULL); \
    } \
    int NAME##_v3(struct device *device, unsigned *count, struct process *made) { \
        return processes(device, KIND, count, made, NULL); \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, 'C')
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, 'G')
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, 'M')

int nvmlDeviceGetProcessUtilization(
    struct device *device, struct sample *samples, unsigned *count, unsigned long long since
) {
    unsigned room = samples ? *count : 0, found = 0;
    struct timespec now;
    (void)since;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int at = 0;; at++) {
        char key[64], answer[64], of;
        unsigned pid, sm = 0;
        unsigned long long mib;
        snprintf(key, sizeof key, "gpu.%d.process.%d", device->gpu, at);
        if (!text(key, answer, sizeof answer) || sscanf(answer, "%u:%llu:%c:%u", &pid, &mib, &of, &sm) < 2) break;
        unsigned long long at_us = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
        if (found < room) samples[found] = (struct sample){pid, at_us, sm, 0, 0, 0};
        found++;
    }
    *count = found;
    return error_of(device) ? error_of(device) : found > room ? INSUFFICIENT_SIZE : found ? SUCCESS : NOT_FOUND;
}

static void place(int gpu, struct pci *pci) {
    char key[64];
    unsigned function;
    memset(pci, 0, sizeof *pci);
    pci->bus = gpu >= ELSEWHERE ? (unsigned)gpu - ELSEWHERE + 1 : 0x10u + (unsigned)gpu;
    snprintf(key, sizeof key, "gpu.%d.bus", gpu);
    if (gpu >= 0 && text(key, pci->bus_id, sizeof pci->bus_id))
        sscanf(pci->bus_id, "%x:%x:%x.%u", &pci->domain, &pci->bus, &pci->device, &function);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->legacy_id, sizeof pci->legacy_id, "%s", pci->bus_id + 4);
}

int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci *pci) {
    place(device->gpu, pci);
    return error_of(device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device) {
    struct pci pci;
    for (int gpu = 0; gpu < number("count", 0) && gpu < MAX_GPUS; gpu++) {
        place(gpu, &pci);
        *device = &wholes[gpu];
        if (!strcasecmp(bus_id, pci.bus_id) || !strcasecmp(bus_id, pci.legacy_id)) return error_of(*device);
    }
    return NOT_FOUND;
}

int nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending) {
    int code = measure(device, "mig", current);
    *pending = *current;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *count) {
    *count = MAX_SLOTS;
    return error_of(device);
}

/* The driver says of an empty slot now the one, now the other. */
int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned slot, struct device **part) {
    int gpu_instance, compute_instance;
    if (slot >= MAX_SLOTS) return INVALID_ARGUMENT;
    *part = &parts[device->gpu][slot];
    if (instance(*part, &gpu_instance, &compute_instance)) return error_of(device);
    return slot % 2 ? INVALID_ARGUMENT : NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(struct device *part, unsigned *id) {
    int compute_instance;
    return instance(part, (int *)id, &compute_instance) ? error_of(part) : NOT_FOUND;
}

int nvmlDeviceGetComputeInstanceId(struct device *part, unsigned *id) {
    int gpu_instance;
    return instance(part, &gpu_instance, (int *)id) ? error_of(part) : NOT_FOUND;
}

/* Of an instance: how many slices it has, and how much memory. */
int nvmlDeviceGetAttributes_v2(struct device *device, struct attributes *attributes) {
    char name[96], *profile;
    struct memory memory;
    if (device->slot == NOT_THERE) return NOT_SUPPORTED;
    nvmlDeviceGetName(device, name, sizeof name);
    nvmlDeviceGetMemoryInfo(device, &memory);
    memset(attributes, 0, sizeof *attributes);
    if ((profile = strstr(name, " MIG "))) attributes->gpu_slices = attributes->compute_slices = (unsigned)atoi(profile + 5);
    attributes->memory_mb = memory.total >> 20;
    return error_of(device);
}

int nvmlDeviceGetUtilizationRates(struct device *device, struct rates *rates) {
    rates->memory = (unsigned)of_gpu(device->gpu, "memory_util", 0);
    return measure(device, "util", &rates->gpu);
}

int nvmlDeviceGetPowerUsage(struct device *device, unsigned *milliwatts) {
    return measure(device, "milliwatts", milliwatts);
}

int nvmlDeviceGetPowerManagementLimit(struct device *device, unsigned *milliwatts) {
    return measure(device, "limit", milliwatts);
}

int nvmlDeviceGetEnforcedPowerLimit(struct device *device, unsigned *milliwatts) {
    return measure(device, "limit", milliwatts);
}

int nvmlDeviceGetPersistenceMode(struct device *device, unsigned *on) {
    *on = 0;
    return error_of(device);
}

int nvmlDeviceGetComputeMode(struct device *device, unsigned *mode) {
    *mode = 0;
    return error_of(device);
}

int nvmlDeviceGetPerformanceState(struct device *device, unsigned *state) {
    *state = 0;
    return error_of(device);
}

int nvmlDeviceGetTemperature(struct device *device, unsigned sensor, unsigned *celsius) {
    return sensor ? INVALID_ARGUMENT : measure(device, "celsius", celsius);
}

static void link_field(struct device *device, struct field *field);

int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields) {
    for (int at = 0; at < count; at++) {
        fields[at].code = NOT_SUPPORTED;
        link_field(device, &fields[at]);
        if (fields[at].id == MEMORY_TEMPERATURE)
            fields[at].code = measure(device, "memory_celsius", &fields[at].value.u);
        if (fields[at].id == POWER_AVERAGE || fields[at].id == POWER_INSTANT)
            fields[at].code = measure(device, "milliwatts", &fields[at].value.u), fields[at].type = UNSIGNED;
        if (fields[at].id == RECOVERY_ACTION) fields[at].code = measure(device, "recovery", &fields[at].value.u);
    }
    return error_of(device);
}

/* The number at a place of a row of them, 4000:1000. */
static int of_row(const struct device *device, const char *what, int at, unsigned long long *answer) {
    char key[64], row[64], *rest = row, *word = NULL;
    snprintf(key, sizeof key, "gpu.%d.%s", device->gpu, what);
    if (error_of(device)) return error_of(device);
    if (device->slot != NOT_THERE || !text(key, row, sizeof row)) return NOT_SUPPORTED;
    for (int place = 0; place <= at; place++)
        if (!(word = strsep(&rest, ":."))) return NOT_SUPPORTED;
    *answer = strtoull(word, NULL, 0);
    return SUCCESS;
}

static int small_of_row(const struct device *device, const char *what, int at, unsigned *answer) {
    unsigned long long found = 0;
    int code = of_row(device, what, at, &found);
    *answer = (unsigned)found;
    return code;
}

int nvmlDeviceGetBrand(struct device *device, unsigned *brand) { return measure(device, "brand", brand); }

int nvmlDeviceGetNumGpuCores(struct device *device, unsigned *cores) { return measure(device, "cores", cores); }

int nvmlDeviceGetMemoryBusWidth(struct device *device, unsigned *bits) { return measure(device, "bus_width", bits); }

int nvmlDeviceGetPcieReplayCounter(struct device *device, unsigned *count) { return measure(device, "replays", count); }

int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor) {
    unsigned first = 0, second = 0;
    int code = small_of_row(device, "arch", 0, &first);
    if (!code) code = small_of_row(device, "arch", 1, &second);
    *major = (int)first, *minor = (int)second;
    return code;
}

int nvmlDeviceGetEccMode(struct device *device, unsigned *current, unsigned *pending) {
    int code = measure(device, "ecc", current);
    *pending = *current;
    return code;
}

int nvmlDeviceGetBAR1MemoryInfo(struct device *device, struct bar1 *bar1) {
    int code = of_row(device, "bar1", 0, &bar1->used);
    if (!code) code = of_row(device, "bar1", 1, &bar1->total);
    bar1->used <<= 20, bar1->total <<= 20, bar1->free = bar1->total - bar1->used;
    return code;
}

/* Types: graphics, SM, memory, video. */
static int clock_of(const struct device *device, const char *what, unsigned type, unsigned *mhz) {
    return small_of_row(device, what, type == 2, mhz);
}

int nvmlDeviceGetClockInfo(struct device *device, unsigned type, unsigned *mhz) {
    return clock_of(device, "clock", type, mhz);
}

int nvmlDeviceGetMaxClockInfo(struct device *device, unsigned type, unsigned *mhz) {
    return clock_of(device, "clock_max", type, mhz);
}

int nvmlDeviceGetMaxPcieLinkGeneration(struct device *device, unsigned *generation) {
    return small_of_row(device, "pcie", 0, generation);
}

int nvmlDeviceGetMaxPcieLinkWidth(struct device *device, unsigned *lanes) {
    return small_of_row(device, "pcie", 1, lanes);
}

int nvmlDeviceGetCurrPcieLinkGeneration(struct device *device, unsigned *generation) {
    return small_of_row(device, "pcie", 0, generation);
}

int nvmlDeviceGetCurrPcieLinkWidth(struct device *device, unsigned *lanes) {
    return small_of_row(device, "pcie", 1, lanes);
}

/* Directions: 0 out, 1 in; KB/s. */
int nvmlDeviceGetPcieThroughput(struct device *device, unsigned direction, unsigned *kilobytes) {
    return small_of_row(device, "throughput", !direction, kilobytes);
}

int nvmlDeviceGetTotalEnergyConsumption(struct device *device, unsigned long long *millijoules) {
    return of_row(device, "energy", 0, millijoules);
}

int nvmlDeviceGetMemoryErrorCounter(
    struct device *device, unsigned kind, unsigned since, unsigned where, unsigned long long *count
) {
    return kind == 1 && !since && where < 3 ? of_row(device, "ecc_errors", (int)where, count) : NOT_SUPPORTED;
}

static int codec(const struct device *device, const char *what, unsigned *percent, unsigned *period_us) {
    *period_us = 167000;
    return measure(device, what, percent);
}

int nvmlDeviceGetEncoderUtilization(struct device *device, unsigned *percent, unsigned *period_us) {
    return codec(device, "enc", percent, period_us);
}

int nvmlDeviceGetDecoderUtilization(struct device *device, unsigned *percent, unsigned *period_us) {
    return codec(device, "dec", percent, period_us);
}

int nvmlDeviceGetTopologyCommonAncestor(struct device *one, struct device *other, unsigned *level) {
    char key[64];
    int lower = one->gpu < other->gpu ? one->gpu : other->gpu;
    snprintf(key, sizeof key, "level.%d.%d", lower, one->gpu + other->gpu - lower);
    *level = (unsigned)number(key, 50);
    return error_of(one) ? error_of(one) : error_of(other);
}

static int link_end(struct device *device, unsigned link, int *end) {
    char what[32];
    if (error_of(device)) return error_of(device);
    if (!of_gpu(device->gpu, "links", 0)) return NOT_SUPPORTED;
    if (link >= of_gpu(device->gpu, "links", 0)) return INVALID_ARGUMENT;
    snprintf(what, sizeof what, "link.%u", link);
    *end = (int)of_gpu(device->gpu, what, NOT_THERE);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(struct device *device, unsigned link, unsigned *active) {
    int end = NOT_THERE, code = link_end(device, link, &end);
    *active = end != NOT_THERE;
    return code;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *device, unsigned link, unsigned *type) {
    int end = NOT_THERE, code = link_end(device, link, &end);
    *type = end == A_SWITCH ? 2 : 0; /* NVML_NVLINK_DEVICE_TYPE_SWITCH, else _GPU */
    return code;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *device, unsigned link, struct pci *pci) {
    int end = NOT_THERE, code = link_end(device, link, &end);
    place(end, pci);
    return code;
}

int nvmlDeviceGetSupportedEventTypes(struct device *device, unsigned long long *types) {
    unsigned found = 0;
    int code = measure(device, "events", &found);
    *types = found;
    return code;
}

int nvmlEventSetCreate(unsigned long long **set) {
    *set = calloc(1, sizeof **set);
    return SUCCESS;
}

int nvmlEventSetFree(unsigned long long *set) {
    free(set);
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(struct device *device, unsigned long long types, unsigned long long *set) {
    *set |= types;
    return error_of(device);
}

int nvmlEventSetWait_v2(unsigned long long *set, struct event *event, unsigned timeout_ms) {
    struct timespec turn = {0, 5000000};
    for (unsigned waited = 0; waited <= timeout_ms; waited += 5) {
        char key[32], answer[64];
        int gpu;
        snprintf(key, sizeof key, "event.%ld", events_told);
        if (text(key, answer, sizeof answer)) {
            events_told++;
            if (sscanf(answer, "%d:%llu:%llu:%u:%u", &gpu, &event->type, &event->data, &event->gpu_instance,
                       &event->compute_instance) != 5 || !(event->type & *set)) continue;
            event->device = &wholes[gpu];
            return SUCCESS;
        }
        if (number("wait_error", 0)) return (int)number("wait_error", 0);
        nanosleep(&turn, NULL);
    }
    return TIMEOUT;
}
