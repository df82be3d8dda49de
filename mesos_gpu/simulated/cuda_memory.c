/* Device memory: taken of the card, with what is in it in this process's own. Compiled behind cuda.c, as one text. */

struct piece { void *at; size_t bytes; unsigned long long number; struct context *context; struct piece *next; };
static struct piece *pieces;
static pthread_mutex_t pieces_guard = PTHREAD_MUTEX_INITIALIZER;

static void forget_memory(const struct context *context) {
    pthread_mutex_lock(&pieces_guard);
    for (struct piece **to = &pieces; *to;) {
        struct piece *piece = *to;
        if (piece->context != context) { to = &piece->next; continue; }
        *to = piece->next;
        munmap(piece->at, piece->bytes);
        free(piece);
    }
    pthread_mutex_unlock(&pieces_guard);
}

/* The piece that an address lies in; the caller holds the guard. */
static struct piece *piece_of(unsigned long long at) {
    for (struct piece *piece = pieces; piece; piece = piece->next)
        if (at >= (uintptr_t)piece->at && at < (uintptr_t)piece->at + piece->bytes) return piece;
    return NULL;
}

EXPORT int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    char answer[64];
    CONTEXT(current());
    if (!bytes || !pointer) return INVALID_VALUE;
    int code = ask(answer, sizeof answer, "alloc %d %zu", current()->id, bytes);
    if (code) return code;
    struct piece *piece = calloc(1, sizeof *piece);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!piece || at == MAP_FAILED) {
        free(piece);
        ask(answer, sizeof answer, "free %llu", strtoull(answer, NULL, 10));
        return OUT_OF_MEMORY;
    }
    *piece = (struct piece){at, bytes, strtoull(answer, NULL, 10), current(), NULL};
    pthread_mutex_lock(&pieces_guard);
    piece->next = pieces, pieces = piece;
    pthread_mutex_unlock(&pieces_guard);
    *pointer = (uintptr_t)at;
    return OK;
}

EXPORT int cuMemFree_v2(unsigned long long pointer) {
    char answer[64];
    READY();
    if (!pointer) return OK;
    pthread_mutex_lock(&pieces_guard);
    struct piece *piece = piece_of(pointer), **to = &pieces;
    if (!piece || (uintptr_t)piece->at != pointer) {
        pthread_mutex_unlock(&pieces_guard);
        return INVALID_VALUE;
    }
    while (*to != piece) to = &(*to)->next;
    *to = piece->next;
    pthread_mutex_unlock(&pieces_guard);
    ask(answer, sizeof answer, "sync %d", piece->context->id); /* freeing waits for the kernels that may use it */
    int code = ask(answer, sizeof answer, "free %llu", piece->number);
    munmap(piece->at, piece->bytes);
    free(piece);
    return code;
}

EXPORT int cuMemAllocPitch_v2(unsigned long long *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    (void)element;
    *pitch = (width + 511) / 512 * 512;
    return cuMemAlloc_v2(pointer, *pitch * height);
}
EXPORT int cuMemAllocAsync(unsigned long long *pointer, size_t bytes, void *stream) {
    (void)stream;
    return cuMemAlloc_v2(pointer, bytes);
}
EXPORT int cuMemFreeAsync(unsigned long long pointer, void *stream) { (void)stream; return cuMemFree_v2(pointer); }
EXPORT int cuMemAllocManaged(unsigned long long *pointer, size_t bytes, unsigned flags) {
    (void)pointer, (void)bytes, (void)flags;
    READY();
    return NOT_SUPPORTED;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    char answer[128];
    unsigned long long free, total, mine, shown;
    CONTEXT(current());
    int code = ask(answer, sizeof answer, "left %d", current()->id); /* it may have been restored onto another card */
    if (code) return code;
    if (sscanf(answer, "%llu %llu %llu", &free, &total, &mine) != 3) return NO_ANSWER;
    shown = devices[current()->device].bytes; /* of a part of a card the table says the part */
    if (shown < total) total = shown, free = mine >= shown ? 0 : shown - mine < free ? shown - mine : free;
    if (free_bytes) *free_bytes = free;
    if (total_bytes) *total_bytes = total;
    return OK;
}

EXPORT int cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long pointer) {
    READY();
    pthread_mutex_lock(&pieces_guard);
    struct piece *piece = piece_of(pointer);
    if (piece && base) *base = (uintptr_t)piece->at;
    if (piece && size) *size = piece->bytes;
    pthread_mutex_unlock(&pieces_guard);
    return piece ? OK : INVALID_VALUE;
}

EXPORT int cuPointerGetAttribute(void *value, int attribute, unsigned long long pointer) {
    READY();
    pthread_mutex_lock(&pieces_guard);
    struct piece *piece = piece_of(pointer);
    int device = piece ? piece->context->device : 0;
    void *context = piece ? piece->context : NULL;
    pthread_mutex_unlock(&pieces_guard);
    if (!piece) return INVALID_VALUE;
    switch (attribute) {
    case 1: *(void **)value = context; return OK;
    case 2: *(unsigned *)value = 2; return OK; /* device memory */
    case 3: case 4: *(unsigned long long *)value = pointer; return OK;
    case 8: *(unsigned *)value = 0; return OK; /* not managed */
    case 9: *(int *)value = device; return OK;
    default: return INVALID_VALUE;
    }
}

EXPORT int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    (void)flags;
    READY();
    return (*pointer = malloc(bytes ? bytes : 1)) ? OK : OUT_OF_MEMORY;
}
EXPORT int cuMemAllocHost_v2(void **pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }
EXPORT int cuMemFreeHost(void *pointer) { READY(); free(pointer); return OK; }
EXPORT int cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
    (void)pointer, (void)bytes, (void)flags;
    READY();
    return OK;
}
EXPORT int cuMemHostUnregister(void *pointer) { (void)pointer; READY(); return OK; }
EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long *device, void *host, unsigned flags) {
    (void)flags;
    READY();
    *device = (uintptr_t)host;
    return OK;
}

/* Copies and fills wait for what was queued before them, and are done then: also those that need not be. */
static int after_all(void) {
    char answer[64];
    CONTEXT(current());
    return ask(answer, sizeof answer, "sync %d", current()->id);
}

static int is_ours(unsigned long long pointer, size_t bytes) {
    pthread_mutex_lock(&pieces_guard);
    struct piece *piece = piece_of(pointer);
    int fits = piece && pointer + bytes <= (uintptr_t)piece->at + piece->bytes;
    pthread_mutex_unlock(&pieces_guard);
    return fits;
}

static int copy(void *to, const void *from, size_t bytes, int to_device, int from_device) {
    int code = after_all();
    if (code || !bytes) return code;
    if (to_device && !is_ours((uintptr_t)to, bytes)) return INVALID_VALUE;
    if (from_device && !is_ours((uintptr_t)from, bytes)) return INVALID_VALUE;
    memmove(to, from, bytes);
    return OK;
}

#define AT(P) ((void *)(uintptr_t)(P))
#define COPY(NAME, TO, FROM, TO_EXPRESSION, FROM_EXPRESSION, TO_DEVICE, FROM_DEVICE) \
    EXPORT int NAME##_v2(TO to, FROM from, size_t bytes) { \
        return copy(TO_EXPRESSION, FROM_EXPRESSION, bytes, TO_DEVICE, FROM_DEVICE); \
    } \
    EXPORT int NAME##Async_v2(TO to, FROM from, size_t bytes, void *stream) { \
        (void)stream; \
        return copy(TO_EXPRESSION, FROM_EXPRESSION, bytes, TO_DEVICE, FROM_DEVICE); \
    }
COPY(cuMemcpyHtoD, unsigned long long, const void *, AT(to), from, 1, 0)
COPY(cuMemcpyDtoH, void *, unsigned long long, to, AT(from), 0, 1)
COPY(cuMemcpyDtoD, unsigned long long, unsigned long long, AT(to), AT(from), 1, 1)
EXPORT int cuMemcpy(unsigned long long to, unsigned long long from, size_t bytes) {
    return copy(AT(to), AT(from), bytes, 0, 0);
}
EXPORT int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void *stream) {
    (void)stream;
    return copy(AT(to), AT(from), bytes, 0, 0);
}

#define FILL(NAME, TYPE) \
    EXPORT int NAME##_v2(unsigned long long to, TYPE value, size_t count) { \
        int code = after_all(); \
        if (code) return code; \
        if (count && !is_ours(to, count * sizeof value)) return INVALID_VALUE; \
        for (size_t at = 0; at < count; at++) ((TYPE *)AT(to))[at] = value; \
        return OK; \
    } \
    EXPORT int NAME##Async(unsigned long long to, TYPE value, size_t count, void *stream) { \
        (void)stream; \
        return NAME##_v2(to, value, count); \
    }
FILL(cuMemsetD8, unsigned char)
FILL(cuMemsetD16, unsigned short)
FILL(cuMemsetD32, unsigned)
