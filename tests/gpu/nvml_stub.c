/* A libnvidia-ml.so.1 for tests: the GPUs are "minor:error:mig" words in the environment variable STUB_GPUS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, MAX_GPUS = 16 };

struct gpu { int index, minor, error, mig; };
struct memory { unsigned long long total, free, used; };
struct pci { char legacy_id[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };

static struct gpu gpus[MAX_GPUS];
static unsigned count;

int nvmlInitWithFlags(unsigned flags) {
    const char *words = getenv("STUB_GPUS");
    int used;
    (void)flags;
    count = 0;
    while (words && count < MAX_GPUS) {
        struct gpu *gpu = &gpus[count];
        if (sscanf(words, " %d:%d:%d%n", &gpu->minor, &gpu->error, &gpu->mig, &used) != 3) break;
        gpu->index = (int)count++;
        words += used;
    }
    return count ? SUCCESS : DRIVER_NOT_LOADED;
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) { return code ? "an error of the stub" : "no error"; }

int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "550.54.15");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *number) {
    *number = count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **handle) {
    if (index >= count) return INVALID_ARGUMENT;
    *handle = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(struct gpu *gpu, unsigned *minor) {
    *minor = (unsigned)gpu->minor;
    return gpu->error;
}

int nvmlDeviceGetUUID(struct gpu *gpu, char *text, unsigned size) {
    snprintf(text, size, "GPU-stub-%d", gpu->index);
    return gpu->error;
}

int nvmlDeviceGetName(struct gpu *gpu, char *text, unsigned size) {
    snprintf(text, size, "Stub GPU");
    return gpu->error;
}

int nvmlDeviceGetMemoryInfo(struct gpu *gpu, struct memory *memory) {
    memory->total = memory->free = 80ull << 30;
    memory->used = 0;
    return gpu->error;
}

int nvmlDeviceGetPciInfo_v3(struct gpu *gpu, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10u + (unsigned)gpu->index;
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return gpu->error;
}

int nvmlDeviceGetMigMode(struct gpu *gpu, unsigned *current, unsigned *pending) {
    if (gpu->mig < 0) return NOT_SUPPORTED;
    *current = *pending = (unsigned)gpu->mig;
    return gpu->error;
}
