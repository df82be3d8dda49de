/* A libcuda.so.1 for GPUs that are not there: the driver API that small programs use, over the program that plays cards.
 *
 * Devices are this process's own (connection.c). Memory is taken of the card, and refused when it is full; what is in it
 * lies in the memory of this process. Kernels take time on the card and compute nothing (cuda_work.c).
 * Functions, numbers and layouts: NVIDIA's CUDA Driver API, cuda.h.
 */
enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201, INVALID_HANDLE = 400, SYMBOL_NOT_FOUND = 500, NOT_READY = 600, NOT_SUPPORTED = 801,
    DRIVER_VERSION = 12040, MOST_DEVICES = 254, MOST_NESTED = 64, CHIP_MAJOR = 8, CHIP_MINOR = 0, CHIP_SMS = 108
};
#define EXPORT __attribute__((visibility("default")))

struct device { int minor; char uuid[64], name[96], bus[32]; unsigned long long bytes; };
struct context { int id, device, primary, uses, alive; unsigned flags; };
struct uuid { unsigned char bytes[16]; };

static struct device devices[MOST_DEVICES];
static int device_count, is_initialized;
static pid_t initialized_by;
static int anchor = -1; /* stays open as long as the process lives: with it the driver forgets it */
static struct context primaries[MOST_DEVICES];
static __thread struct context *stack[MOST_NESTED];
static __thread int depth;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void parse_uuid(const char *text, struct uuid *uuid) {
    int digits = 0;
    memset(uuid, 0, sizeof *uuid);
    for (text = strchr(text, '-') ? strchr(text, '-') + 1 : text; *text && digits < 32; text++) {
        int value = *text >= '0' && *text <= '9' ? *text - '0' : (*text | 32) >= 'a' && (*text | 32) <= 'f' ? (*text | 32) - 87 : -1;
        if (value < 0) continue;
        uuid->bytes[digits / 2] |= (unsigned char)(digits % 2 ? value : value << 4);
        digits++;
    }
}

/* CUDA_VISIBLE_DEVICES, by index or UUID, in its order; what follows an unknown one does not count. */
static void keep_visible(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    static struct device kept[MOST_DEVICES];
    int found = 0;
    if (!visible) return;
    while (*visible) {
        size_t length = strcspn(visible, ",");
        char word[80], *end;
        snprintf(word, sizeof word, "%.*s", (int)length, visible);
        long index = strtol(word, &end, 10);
        int at = *word && !*end && index >= 0 && index < device_count ? (int)index : -1;
        for (int one = 0; at < 0 && one < device_count && strlen(word) > 4; one++)
            if (!strncmp(devices[one].uuid, word, strlen(word))) at = one;
        if (at < 0 || found == MOST_DEVICES) break;
        kept[found++] = devices[at];
        visible += length + (visible[length] == ',');
    }
    memcpy(devices, kept, sizeof *kept * found);
    device_count = found;
}

static void read_devices(void) {
    char line[512];
    FILE *file = open_table();
    device_count = 0;
    while (file && device_count < MOST_DEVICES && fgets(line, sizeof line, file)) {
        char *field[7], *rest = line;
        int fields = 0;
        line[strcspn(line, "\n")] = 0;
        while (fields < 7 && (field[fields] = strsep(&rest, "\t"))) fields++;
        if (line[0] == '#' || fields < 7 || !may_open(field[0])) continue;
        struct device *device = &devices[device_count++];
        device->minor = atoi(field[0]), device->bytes = strtoull(field[4], NULL, 10) << 20;
        snprintf(device->uuid, sizeof device->uuid, "%s", field[2]);
        snprintf(device->name, sizeof device->name, "%s", field[3]);
        snprintf(device->bus, sizeof device->bus, "%s", field[5]);
    }
    if (file) fclose(file);
    keep_visible();
}

EXPORT int cuInit(unsigned flags) {
    int code = OK;
    if (flags) return INVALID_VALUE;
    pthread_mutex_lock(&guard);
    if (is_initialized && initialized_by != getpid()) code = NOT_INITIALIZED; /* a child of fork, as with the real one */
    else if (!is_initialized) {
        read_devices();
        if (!device_count) code = NO_DEVICE;
        else if ((anchor = connected()) < 0) code = NO_ANSWER;
        else is_initialized = 1, initialized_by = getpid();
    }
    pthread_mutex_unlock(&guard);
    return code;
}

static int ready(void) { return is_initialized && initialized_by == getpid() ? OK : NOT_INITIALIZED; }

#define READY() do { int not_ready = ready(); if (not_ready) return not_ready; } while (0)
#define DEVICE(N) do { READY(); if ((N) < 0 || (N) >= device_count) return INVALID_DEVICE; } while (0)

EXPORT int cuDriverGetVersion(int *version) {
    if (!version) return INVALID_VALUE;
    *version = DRIVER_VERSION;
    return OK;
}

EXPORT int cuDeviceGetCount(int *count) { READY(); *count = device_count; return OK; }

EXPORT int cuDeviceGet(int *device, int ordinal) { DEVICE(ordinal); *device = ordinal; return OK; }

EXPORT int cuDeviceGetName(char *name, int length, int device) {
    DEVICE(device);
    if (length <= 0) return INVALID_VALUE;
    snprintf(name, length, "%s", devices[device].name);
    return OK;
}

EXPORT int cuDeviceGetUuid(struct uuid *uuid, int device) { DEVICE(device); parse_uuid(devices[device].uuid, uuid); return OK; }
EXPORT int cuDeviceGetUuid_v2(struct uuid *uuid, int device) { return cuDeviceGetUuid(uuid, device); }

/* A limit of the process's cgroup is what it sees as all of the memory. */
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    char answer[128];
    unsigned long long free, total;
    DEVICE(device);
    int code = ask(answer, sizeof answer, "room %d", devices[device].minor);
    if (code) return code;
    if (sscanf(answer, "%llu %llu", &free, &total) != 2) return NO_ANSWER;
    *bytes = devices[device].bytes < total ? devices[device].bytes : total;
    return OK;
}
EXPORT int cuDeviceTotalMem(unsigned *bytes, int device) {
    size_t found;
    int code = cuDeviceTotalMem_v2(&found, device);
    if (!code) *bytes = (unsigned)found;
    return code;
}

EXPORT int cuDeviceComputeCapability(int *major, int *minor, int device) {
    DEVICE(device);
    *major = CHIP_MAJOR, *minor = CHIP_MINOR;
    return OK;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    unsigned domain = 0, bus = 0, slot = 0;
    DEVICE(device);
    sscanf(devices[device].bus, "%x:%x:%x", &domain, &bus, &slot);
    switch (attribute) {
    case 1: case 2: case 3: *value = attribute == 3 ? 64 : 1024; break; /* threads of a block, and of its dimensions */
    case 4: *value = 1024; break;
    case 5: *value = 2147483647; break;
    case 6: case 7: *value = 65535; break;
    case 8: case 81: *value = attribute == 8 ? 49152 : 167936; break; /* shared memory: of a block, of a multiprocessor */
    case 9: *value = 65536; break;
    case 10: *value = 32; break; /* warp */
    case 11: *value = 2147483647; break;
    case 12: case 82: *value = 65536; break;
    case 13: *value = 1410000; break;
    case 14: *value = 512; break;
    case 15: case 31: case 40: case 41: *value = 1; break; /* overlap, kernels at a time, engines, unified addresses */
    case 16: *value = CHIP_SMS; break;
    case 33: *value = (int)bus; break;
    case 34: *value = (int)slot; break;
    case 50: *value = (int)domain; break;
    case 36: *value = 1215000; break;
    case 37: *value = 5120; break;
    case 38: *value = 41943040; break;
    case 39: *value = 2048; break;
    case 75: *value = CHIP_MAJOR; break;
    case 76: *value = CHIP_MINOR; break;
    case 97: *value = 166912; break;
    case 106: *value = 32; break;
    default: *value = 0; /* no managed memory, no pools, no graphics: what is not said is not there */
    }
    return OK;
}

EXPORT int cuDeviceGetPCIBusId(char *bus, int length, int device) {
    DEVICE(device);
    const char *found = devices[device].bus;
    snprintf(bus, length, "%s", strlen(found) > 12 ? found + strlen(found) - 12 : found);
    return OK;
}

EXPORT int cuDeviceGetByPCIBusId(int *device, const char *bus) {
    READY();
    for (*device = 0; *device < device_count; ++*device) {
        const char *found = devices[*device].bus;
        size_t shorter = strlen(bus) < strlen(found) ? strlen(bus) : strlen(found);
        if (!strcasecmp(bus + strlen(bus) - shorter, found + strlen(found) - shorter)) return OK;
    }
    return INVALID_DEVICE;
}

EXPORT int cuDeviceCanAccessPeer(int *can, int one, int other) { DEVICE(one); DEVICE(other); *can = 0; return OK; }

/* --- contexts --- */

static struct context *current(void) { return depth ? stack[depth - 1] : NULL; }

#define CONTEXT(C) do { READY(); if (!(C) || !(C)->alive) return INVALID_CONTEXT; } while (0)

static int begin_context(struct context *context, int device, unsigned flags) {
    char answer[64];
    int code = ask(answer, sizeof answer, "context %d", devices[device].minor);
    if (code) return code;
    context->id = atoi(answer), context->device = device, context->flags = flags, context->alive = 1;
    return OK;
}

static void forget_memory(const struct context *context);

static int end_context(struct context *context) {
    char answer[64];
    int code = ask(answer, sizeof answer, "close %d", context->id);
    forget_memory(context);
    context->alive = 0;
    for (int at = 0; at < depth; at++)
        if (stack[at] == context) stack[at] = NULL;
    while (depth && !stack[depth - 1]) depth--;
    return code;
}

EXPORT int cuCtxCreate_v2(struct context **made, unsigned flags, int device) {
    DEVICE(device);
    if (depth == MOST_NESTED) return INVALID_VALUE;
    struct context *context = calloc(1, sizeof *context);
    if (!context) return OUT_OF_MEMORY;
    int code = begin_context(context, device, flags);
    if (code) { free(context); return code; }
    stack[depth++] = *made = context;
    return OK;
}
EXPORT int cuCtxCreate(struct context **made, unsigned flags, int device) { return cuCtxCreate_v2(made, flags, device); }
EXPORT int cuCtxCreate_v3(struct context **made, void *affinity, int count, unsigned flags, int device) {
    return affinity || count ? NOT_SUPPORTED : cuCtxCreate_v2(made, flags, device);
}
EXPORT int cuCtxCreate_v4(struct context **made, void *parameters, unsigned flags, int device) {
    return parameters ? NOT_SUPPORTED : cuCtxCreate_v2(made, flags, device);
}

EXPORT int cuCtxDestroy_v2(struct context *context) { CONTEXT(context); return end_context(context); }
EXPORT int cuCtxDestroy(struct context *context) { return cuCtxDestroy_v2(context); }

EXPORT int cuCtxPushCurrent_v2(struct context *context) {
    CONTEXT(context);
    if (depth == MOST_NESTED) return INVALID_VALUE;
    stack[depth++] = context;
    return OK;
}
EXPORT int cuCtxPopCurrent_v2(struct context **context) {
    READY();
    if (!depth) return INVALID_CONTEXT;
    if (context) *context = stack[depth - 1];
    depth--;
    return OK;
}
EXPORT int cuCtxSetCurrent(struct context *context) {
    READY();
    if (context && !context->alive) return INVALID_CONTEXT;
    if (depth) depth--;
    if (context) stack[depth++] = context;
    return OK;
}
EXPORT int cuCtxGetCurrent(struct context **context) { READY(); *context = current(); return OK; }
EXPORT int cuCtxGetDevice(int *device) { CONTEXT(current()); *device = current()->device; return OK; }
EXPORT int cuCtxGetFlags(unsigned *flags) { CONTEXT(current()); *flags = current()->flags; return OK; }
EXPORT int cuCtxGetApiVersion(struct context *context, unsigned *version) {
    (void)context;
    READY();
    *version = 3020;
    return OK;
}
EXPORT int cuCtxGetId(struct context *context, unsigned long long *id) {
    if (!context) context = current();
    CONTEXT(context);
    *id = (unsigned)context->id;
    return OK;
}
EXPORT int cuCtxSynchronize(void) {
    char answer[64];
    CONTEXT(current());
    return ask(answer, sizeof answer, "sync %d", current()->id);
}
EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    CONTEXT(current());
    if (least) *least = 0;
    if (greatest) *greatest = 0;
    return OK;
}
EXPORT int cuCtxGetLimit(size_t *value, int limit) { (void)limit; CONTEXT(current()); *value = 1024; return OK; }
EXPORT int cuCtxSetLimit(int limit, size_t value) { (void)limit, (void)value; CONTEXT(current()); return OK; }
EXPORT int cuCtxGetCacheConfig(int *config) { CONTEXT(current()); *config = 0; return OK; }
EXPORT int cuCtxSetCacheConfig(int config) { (void)config; CONTEXT(current()); return OK; }

EXPORT int cuDevicePrimaryCtxRetain(struct context **context, int device) {
    int code = OK;
    DEVICE(device);
    pthread_mutex_lock(&guard);
    struct context *primary = &primaries[device];
    if (!primary->alive) code = begin_context(primary, device, primary->flags);
    if (!code) primary->primary = 1, primary->uses++, *context = primary;
    pthread_mutex_unlock(&guard);
    return code;
}
EXPORT int cuDevicePrimaryCtxReset_v2(int device) {
    int code = OK;
    DEVICE(device);
    pthread_mutex_lock(&guard);
    if (primaries[device].alive) code = end_context(&primaries[device]);
    primaries[device].uses = 0;
    pthread_mutex_unlock(&guard);
    return code;
}
EXPORT int cuDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    int code = OK;
    DEVICE(device);
    pthread_mutex_lock(&guard);
    if (!primaries[device].uses) code = INVALID_CONTEXT;
    else if (!--primaries[device].uses) code = end_context(&primaries[device]);
    pthread_mutex_unlock(&guard);
    return code;
}
EXPORT int cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }
EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    DEVICE(device);
    if (flags) *flags = primaries[device].flags;
    if (active) *active = primaries[device].alive;
    return OK;
}
EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
    DEVICE(device);
    primaries[device].flags = flags;
    return OK;
}
EXPORT int cuDevicePrimaryCtxSetFlags(int device, unsigned flags) { return cuDevicePrimaryCtxSetFlags_v2(device, flags); }
