/* Modules, kernels, streams, events, checkpoints: compiled behind cuda_memory.c, as one text.
 *
 * A kernel takes time on the card and computes nothing. How long: what MESOS_GPU_KERNEL_US says; else what its PTX says,
 * in a line `// takes NAME MICROSECONDS`; else 10 microseconds and one for each 1024 threads.
 */

enum { BEGIN_US = 10, THREADS_A_US = 1024 };

struct module { char *ptx; };
struct function { struct module *module; char name[256]; double takes_us; struct function *next; };
struct stream { struct context *context; unsigned flags; int id; };
struct event { struct context *context; long long ticket; unsigned flags; };
struct launch { unsigned grid[3], block[3], shared; struct stream *stream; void *attributes; unsigned count; };

static struct function *functions;
static int streams_made;

EXPORT int cuModuleLoadData(struct module **made, const void *image) {
    CONTEXT(current());
    if (!image || !made) return INVALID_VALUE;
    struct module *module = calloc(1, sizeof *module);
    if (!module) return OUT_OF_MEMORY;
    const unsigned char *begin = image;
    int is_binary = !memcmp(begin, "\177ELF", 4) || (begin[0] == 0x50 && begin[1] == 0xed && begin[2] == 0x55);
    if (!is_binary) module->ptx = strdup(image);
    *made = module;
    return OK;
}
EXPORT int cuModuleLoadDataEx(struct module **made, const void *image, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(made, image);
}
EXPORT int cuModuleLoadFatBinary(struct module **made, const void *image) { return cuModuleLoadData(made, image); }
EXPORT int cuModuleLoad(struct module **made, const char *path) {
    FILE *file = fopen(path, "re");
    if (!file) return 301;
    char *text = calloc(1, 16 << 20);
    size_t length = text ? fread(text, 1, (16 << 20) - 1, file) : 0;
    fclose(file);
    int code = length ? cuModuleLoadData(made, text) : INVALID_VALUE;
    free(text);
    return code;
}
EXPORT int cuModuleUnload(struct module *module) {
    READY();
    if (!module) return INVALID_HANDLE;
    free(module->ptx);
    free(module);
    return OK;
}
EXPORT int cuModuleGetLoadingMode(int *mode) { *mode = 1; return OK; }
EXPORT int cuModuleGetGlobal_v2(unsigned long long *at, size_t *bytes, struct module *module, const char *name) {
    (void)at, (void)bytes, (void)module, (void)name;
    READY();
    return SYMBOL_NOT_FOUND;
}

/* Whether PTX has such an entry: its name follows `.entry`, and ends there. */
static int has_entry(const char *ptx, const char *name) {
    size_t length = strlen(name);
    for (const char *at = ptx; (at = strstr(at, ".entry")); at++) {
        const char *found = at + 6 + strspn(at + 6, " \t\r\n");
        if (!strncmp(found, name, length) && strchr(" \t\r\n({", found[length])) return 1;
    }
    return 0;
}

static double said_us(const char *ptx, const char *name) {
    for (const char *at = ptx; at && (at = strstr(at, "// takes ")); at++) {
        char found[256];
        double us;
        if (sscanf(at, "// takes %255s %lf", found, &us) == 2 && !strcmp(found, name)) return us;
    }
    return -1;
}

EXPORT int cuModuleGetFunction(struct function **found, struct module *module, const char *name) {
    READY();
    if (!module || !name) return INVALID_HANDLE;
    if (module->ptx && !has_entry(module->ptx, name)) return SYMBOL_NOT_FOUND;
    struct function *function = calloc(1, sizeof *function);
    if (!function) return OUT_OF_MEMORY;
    function->module = module, function->takes_us = module->ptx ? said_us(module->ptx, name) : -1;
    snprintf(function->name, sizeof function->name, "%s", name);
    pthread_mutex_lock(&guard);
    function->next = functions, functions = function; /* they live as long as the process, as handles may */
    pthread_mutex_unlock(&guard);
    *found = function;
    return OK;
}

/* Libraries are modules of all contexts; kernels of them are functions. */
EXPORT int cuLibraryLoadData(struct module **made, const void *code, int *a, void **b, unsigned c, int *d, void **e, unsigned f) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return cuModuleLoadData(made, code);
}
EXPORT int cuLibraryUnload(struct module *module) { return cuModuleUnload(module); }
EXPORT int cuLibraryGetKernel(struct function **found, struct module *module, const char *name) {
    return cuModuleGetFunction(found, module, name);
}
EXPORT int cuLibraryGetModule(struct module **found, struct module *module) { READY(); *found = module; return OK; }
EXPORT int cuKernelGetFunction(struct function **found, struct function *kernel) { READY(); *found = kernel; return OK; }
EXPORT int cuFuncGetModule(struct module **found, struct function *function) { READY(); *found = function->module; return OK; }
EXPORT int cuFuncGetName(const char **name, struct function *function) { READY(); *name = function->name; return OK; }
EXPORT int cuKernelGetName(const char **name, struct function *function) { return cuFuncGetName(name, function); }
EXPORT int cuFuncGetAttribute(int *value, int attribute, struct function *function) {
    (void)function;
    READY();
    *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : attribute == 5 || attribute == 6 ? 80 : 0;
    return OK;
}
EXPORT int cuKernelGetAttribute(int *value, int attribute, struct function *kernel, int device) {
    (void)device;
    return cuFuncGetAttribute(value, attribute, kernel);
}
EXPORT int cuFuncSetAttribute(struct function *function, int attribute, int value) {
    (void)function, (void)attribute, (void)value;
    READY();
    return OK;
}
EXPORT int cuFuncSetCacheConfig(struct function *function, int config) { (void)function, (void)config; READY(); return OK; }
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, struct function *function, int threads, size_t shared) {
    (void)function, (void)shared;
    READY();
    *blocks = threads > 0 && threads <= 1024 ? 2048 / threads : 0;
    return OK;
}
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, struct function *function, int threads, size_t shared, unsigned flags) {
    (void)flags;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

/* --- streams and launches --- */

/* NULL, 1 and 2 are the default streams. */
static int stream_id(const struct stream *stream) { return (uintptr_t)stream <= 2 ? 0 : stream->id; }
static struct context *context_of(const struct stream *stream) {
    return (uintptr_t)stream <= 2 ? current() : stream->context;
}

static int launch(struct function *function, struct stream *stream, unsigned long long blocks, unsigned long long threads) {
    char answer[64];
    struct context *context = context_of(stream);
    const char *said = getenv("MESOS_GPU_KERNEL_US");
    CONTEXT(context);
    if (!function) return INVALID_HANDLE;
    if (!blocks || !threads || threads > 1024) return INVALID_VALUE;
    double us = said ? strtod(said, NULL) : function->takes_us;
    if (us < 0) us = BEGIN_US + (double)(blocks * threads) / THREADS_A_US;
    return ask(answer, sizeof answer, "launch %d %d %lld", context->id, stream_id(stream), (long long)(us * 1000));
}

EXPORT int cuLaunchKernel(
    struct function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
    unsigned block_z, unsigned shared, struct stream *stream, void **parameters, void **extra
) {
    (void)shared, (void)parameters, (void)extra;
    READY();
    return launch(function, stream, (unsigned long long)grid_x * grid_y * grid_z, (unsigned long long)block_x * block_y * block_z);
}
EXPORT int cuLaunchCooperativeKernel(
    struct function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
    unsigned block_z, unsigned shared, struct stream *stream, void **parameters
) {
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, NULL);
}
EXPORT int cuLaunchKernelEx(const struct launch *how, struct function *function, void **parameters, void **extra) {
    return cuLaunchKernel(function, how->grid[0], how->grid[1], how->grid[2], how->block[0], how->block[1], how->block[2],
                          how->shared, how->stream, parameters, extra);
}

EXPORT int cuStreamCreate(struct stream **made, unsigned flags) {
    CONTEXT(current());
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) return OUT_OF_MEMORY;
    *stream = (struct stream){current(), flags, __atomic_add_fetch(&streams_made, 1, __ATOMIC_RELAXED)};
    *made = stream;
    return OK;
}
EXPORT int cuStreamCreateWithPriority(struct stream **made, unsigned flags, int priority) {
    (void)priority;
    return cuStreamCreate(made, flags);
}
EXPORT int cuStreamDestroy_v2(struct stream *stream) {
    READY();
    if ((uintptr_t)stream <= 2) return INVALID_HANDLE;
    free(stream);
    return OK;
}
EXPORT int cuStreamGetFlags(struct stream *stream, unsigned *flags) {
    READY();
    *flags = (uintptr_t)stream <= 2 ? 0 : stream->flags;
    return OK;
}
EXPORT int cuStreamGetPriority(struct stream *stream, int *priority) { (void)stream; READY(); *priority = 0; return OK; }
EXPORT int cuStreamGetCtx(struct stream *stream, struct context **context) { READY(); *context = context_of(stream); return OK; }
EXPORT int cuStreamIsCapturing(struct stream *stream, int *status) { (void)stream; READY(); *status = 0; return OK; }
EXPORT int cuStreamSynchronize(struct stream *stream) {
    char answer[64];
    struct context *context = context_of(stream);
    CONTEXT(context);
    return ask(answer, sizeof answer, "sync %d %d", context->id, stream_id(stream));
}
EXPORT int cuStreamQuery(struct stream *stream) {
    char answer[64];
    struct context *context = context_of(stream);
    CONTEXT(context);
    return ask(answer, sizeof answer, "busy %d %d", context->id, stream_id(stream));
}
/* The kernels of a context are done one after another, so a later one never goes before an event. */
EXPORT int cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
    (void)stream, (void)flags;
    READY();
    return event ? OK : INVALID_HANDLE;
}
EXPORT int cuLaunchHostFunc(struct stream *stream, void (*call)(void *), void *data) {
    int code = cuStreamSynchronize(stream);
    if (!code) call(data);
    return code;
}
EXPORT int cuStreamAddCallback(struct stream *stream, void (*call)(struct stream *, int, void *), void *data, unsigned flags) {
    (void)flags;
    int code = cuStreamSynchronize(stream);
    if (!code) call(stream, OK, data);
    return code;
}

/* --- events --- */

EXPORT int cuEventCreate(struct event **made, unsigned flags) {
    CONTEXT(current());
    struct event *event = calloc(1, sizeof *event);
    if (!event) return OUT_OF_MEMORY;
    event->context = current(), event->flags = flags;
    *made = event;
    return OK;
}
static void forget_ticket(struct event *event) {
    char answer[64];
    if (event->ticket) ask(answer, sizeof answer, "drop %lld", event->ticket);
    event->ticket = 0;
}
EXPORT int cuEventRecord(struct event *event, struct stream *stream) {
    char answer[64];
    struct context *context = context_of(stream);
    CONTEXT(context);
    if (!event) return INVALID_HANDLE;
    forget_ticket(event);
    int code = ask(answer, sizeof answer, "record %d %d", context->id, stream_id(stream));
    if (!code) event->ticket = strtoll(answer, NULL, 10);
    return code;
}
EXPORT int cuEventRecordWithFlags(struct event *event, struct stream *stream, unsigned flags) {
    (void)flags;
    return cuEventRecord(event, stream);
}
static int reached(struct event *event, const char *how, long long *ns) {
    char answer[64];
    READY();
    if (!event) return INVALID_HANDLE;
    *ns = 0;
    if (!event->ticket) return OK;
    int code = ask(answer, sizeof answer, "%s %lld", how, event->ticket);
    if (!code) *ns = strtoll(answer, NULL, 10);
    return code;
}
EXPORT int cuEventQuery(struct event *event) { long long ns; return reached(event, "reached", &ns); }
EXPORT int cuEventSynchronize(struct event *event) { long long ns; return reached(event, "await", &ns); }
EXPORT int cuEventElapsedTime(float *ms, struct event *from, struct event *to) {
    long long begin, end;
    int code = reached(from, "reached", &begin);
    if (!code) code = reached(to, "reached", &end);
    if (code) return code;
    if (!from->ticket || !to->ticket) return INVALID_HANDLE;
    *ms = (float)((double)(end - begin) / 1e6);
    return OK;
}
EXPORT int cuEventElapsedTime_v2(float *ms, struct event *from, struct event *to) { return cuEventElapsedTime(ms, from, to); }
EXPORT int cuEventDestroy_v2(struct event *event) {
    READY();
    if (!event) return INVALID_HANDLE;
    forget_ticket(event);
    free(event);
    return OK;
}
EXPORT int cuProfilerStart(void) { return ready(); }
EXPORT int cuProfilerStop(void) { return ready(); }

/* --- checkpoints: asked of a process by its number; who asks needs no context, nor cuInit's devices --- */

struct lock_args { unsigned timeout_ms, reserved; unsigned long long more[7]; };
struct pair { struct uuid from, to; };
struct restore_args { struct pair *pairs; unsigned count; };

EXPORT int cuCheckpointProcessGetState(int pid, int *state) {
    char answer[64];
    int code = ask(answer, sizeof answer, "state %d", pid);
    if (!code) *state = atoi(answer);
    return code;
}
EXPORT int cuCheckpointProcessLock(int pid, const struct lock_args *how) {
    char answer[64];
    return ask(answer, sizeof answer, "lock %d %u", pid, how ? how->timeout_ms : 0);
}
EXPORT int cuCheckpointProcessCheckpoint(int pid, void *how) {
    char answer[64];
    (void)how;
    return ask(answer, sizeof answer, "checkpoint %d", pid);
}

/* The minor number of a GPU that the machine has, also when this process may not open it. */
static int minor_of(const struct uuid *uuid) {
    char line[512];
    int found = -1;
    FILE *file = open_table();
    while (file && found < 0 && fgets(line, sizeof line, file)) {
        char *rest = line, *minor = strsep(&rest, "\t");
        struct uuid here;
        if (line[0] == '#' || !strsep(&rest, "\t") || !rest) continue;
        parse_uuid(strsep(&rest, "\t"), &here);
        if (!memcmp(&here, uuid, sizeof here)) found = atoi(minor);
    }
    if (file) fclose(file);
    return found;
}

EXPORT int cuCheckpointProcessRestore(int pid, const struct restore_args *how) {
    char answer[64], moved[2048] = "";
    size_t length = 0;
    for (unsigned at = 0; how && at < how->count; at++) {
        int from = minor_of(&how->pairs[at].from), to = minor_of(&how->pairs[at].to);
        if (from < 0 || to < 0) return INVALID_VALUE;
        length += snprintf(moved + length, sizeof moved - length, "%s%d=%d", at ? "," : " ", from, to);
        if (length >= sizeof moved) return INVALID_VALUE;
    }
    return ask(answer, sizeof answer, "restore %d%s", pid, moved);
}
EXPORT int cuCheckpointProcessUnlock(int pid, void *how) {
    char answer[64];
    (void)how;
    return ask(answer, sizeof answer, "unlock %d", pid);
}

/* --- names --- */

static const struct { int code; const char *name, *words; } errors[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {SYMBOL_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {NO_ANSWER, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int named(int code, const char **answer, int words) {
    for (size_t at = 0; at < sizeof errors / sizeof *errors; at++)
        if (errors[at].code == code) {
            *answer = words ? errors[at].words : errors[at].name;
            return OK;
        }
    *answer = NULL;
    return INVALID_VALUE;
}
EXPORT int cuGetErrorName(int code, const char **name) { return named(code, name, 0); }
EXPORT int cuGetErrorString(int code, const char **words) { return named(code, words, 1); }

EXPORT int cuGetExportTable(const void **table, const struct uuid *uuid) {
    (void)uuid;
    *table = NULL; /* what the runtime API asks for is not published */
    return SYMBOL_NOT_FOUND;
}

/* The newest form of a function that the asker, who was made for this version, knows. */
EXPORT int cuGetProcAddress_v2(const char *symbol, void **found, int version, unsigned long long flags, int *status) {
    char name[128];
    Dl_info here;
    (void)flags;
    void *self = dladdr((void *)cuGetProcAddress_v2, &here) ? dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    *found = NULL;
    if (self && !strcmp(symbol, "cuCtxCreate"))
        *found = dlsym(self, version >= 13000 ? "cuCtxCreate_v4" : "cuCtxCreate_v2");
    for (int form = 2; self && !*found && form >= 1; form--) {
        snprintf(name, sizeof name, form == 2 ? "%s_v2" : "%s", symbol);
        *found = dlsym(self, name);
    }
    if (self) dlclose(self);
    if (status) *status = *found ? 0 : 1;
    return *found ? OK : SYMBOL_NOT_FOUND;
}
EXPORT int cuGetProcAddress(const char *symbol, void **found, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(symbol, found, version, flags, NULL);
}
