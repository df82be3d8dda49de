/* A libnvidia-ml.so.1 for tests. What it answers stands in a file of key=value lines that the environment variable
 * STUB_FILE names; it is read anew at every call, so a test can change the machine while a program runs on it.
 *
 *   init=9                 nvmlInit fails with this code             count=4      so many GPUs
 *   driver=550.54.15       the driver's version                      count_error=999
 *   event.N=GPU:TYPE:DATA:GI:CI   event N, from 0; wait_error=15: what waiting gives after the last of them
 *   level.A.B=20           common ancestor of GPUs A < B, else 50
 *   gpu.N.error=15         every call on GPU N fails so              gpu.N.minor=5       (N)
 *   gpu.N.used=, total=    memory in MiB                             gpu.N.util=37       percent, else not supported
 *   gpu.N.milliwatts=      power, else not supported                 gpu.N.celsius=      else not supported
 *   gpu.N.mig=1            in MIG mode; without: knows no MIG        gpu.N.slot.S=GI:CI  instance; without: empty
 *   gpu.N.link.L=M         NVLink L leads to GPU M, 99: a switch     gpu.N.links=6       so many links are there
 *   gpu.N.recovery=1       the driver's advice, else it knows none   gpu.N.events=8      supported types, else no
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, TIMEOUT = 10,
    MAX_GPUS = 16, MAX_SLOTS = 7, A_SWITCH = 99, RECOVERY_ACTION = 230, NOT_THERE = -1
};

struct device { int gpu, slot; };
struct memory { unsigned long long total, free, used; };
struct pci { char legacy_id[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };
struct rates { unsigned gpu, memory; };
struct event { struct device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
struct field { unsigned id, scope; int64_t timestamp, latency; int type, code; union { double d; unsigned u; } value; };

static struct device wholes[MAX_GPUS], parts[MAX_GPUS][MAX_SLOTS];
static long events_told;

static int text(const char *key, char *answer, size_t size) {
    char line[256];
    const char *path = getenv("STUB_FILE");
    size_t length = strlen(key);
    int found = 0;
    FILE *file = path ? fopen(path, "re") : NULL;
    while (file && !found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) || line[length] != '=') continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(answer, size, "%s", line + length + 1);
        found = 1;
    }
    if (file) fclose(file);
    return found;
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
    return (int)number("init", getenv("STUB_FILE") ? SUCCESS : DRIVER_NOT_LOADED);
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) { return code ? "an error of the stub" : "no error"; }

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    snprintf(version, size, "550.54.15");
    text("driver", version, size);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)number("count", 0);
    return (int)number("count_error", SUCCESS);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
    if (index >= number("count", 0)) return INVALID_ARGUMENT;
    *device = &wholes[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device) {
    int gpu, slot, end = 0, compute;
    if (sscanf(uuid, "GPU-stub-%d%n", &gpu, &end) == 1 && !uuid[end] && gpu < number("count", 0)) {
        *device = &wholes[gpu];
        return error_of(*device);
    }
    if (sscanf(uuid, "MIG-stub-%d-%d%n", &gpu, &slot, &end) == 2 && end && gpu < number("count", 0)) {
        *device = &parts[gpu][slot % MAX_SLOTS];
        return instance(*device, &gpu, &compute) ? error_of(*device) : NOT_FOUND;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetMinorNumber(struct device *device, unsigned *minor) {
    *minor = (unsigned)of_gpu(device->gpu, "minor", device->gpu);
    return error_of(device);
}

int nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned size) {
    if (device->slot == NOT_THERE) snprintf(uuid, size, "GPU-stub-%d", device->gpu);
    else snprintf(uuid, size, "MIG-stub-%d-%d", device->gpu, device->slot);
    return error_of(device);
}

int nvmlDeviceGetName(struct device *device, char *name, unsigned size) {
    snprintf(name, size, device->slot == NOT_THERE ? "Stub GPU" : "Stub GPU MIG 1g.10gb");
    return error_of(device);
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *memory) {
    unsigned long long part = device->slot == NOT_THERE ? 1 : 8;
    memory->total = ((unsigned long long)of_gpu(device->gpu, "total", 81920) << 20) / part;
    memory->used = ((unsigned long long)of_gpu(device->gpu, "used", 0) << 20) / part;
    memory->free = memory->total - memory->used;
    return error_of(device);
}

static void place(int gpu, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10u + (unsigned)gpu;
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
}

int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci *pci) {
    place(device->gpu, pci);
    return error_of(device);
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

int nvmlDeviceGetUtilizationRates(struct device *device, struct rates *rates) {
    rates->memory = 0;
    return measure(device, "util", &rates->gpu);
}

int nvmlDeviceGetPowerUsage(struct device *device, unsigned *milliwatts) {
    return measure(device, "milliwatts", milliwatts);
}

int nvmlDeviceGetTemperature(struct device *device, unsigned sensor, unsigned *celsius) {
    return sensor ? INVALID_ARGUMENT : measure(device, "celsius", celsius);
}

int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields) {
    for (int at = 0; at < count; at++) {
        fields[at].code = NOT_SUPPORTED;
        if (fields[at].id == RECOVERY_ACTION) fields[at].code = measure(device, "recovery", &fields[at].value.u);
    }
    return error_of(device);
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
    *type = end == A_SWITCH ? 2 : 0;
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
