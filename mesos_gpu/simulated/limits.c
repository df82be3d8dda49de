/* Limits of memory by cgroup, as drivers have them since release 615: compiled behind mig.c, as one text.
 *
 * The program that plays the cards keeps them, and holds processes to them. Source: nvml.h, nvmlMemoryLimits.
 */

struct set_limits { const char *name_space; unsigned long long soft, hard; };
struct get_limits { const char *name_space; unsigned long long soft, hard, used; };

/* Numbers of CUresult, as the program answers, in those of nvmlReturn_t. */
static int nvml_code(int code) {
    switch (code) {
    case 0: return SUCCESS;
    case 1: return INVALID_ARGUMENT;
    case 101: return NOT_FOUND;
    case 800: return 4; /* no permission */
    default: return NOT_SUPPORTED;
    }
}

/* The card's number, where there is a program to ask; an instance has no limits. */
static int limited(const struct device *device) {
    if (getenv("SIMULATED_NVML") || device->slot != NOT_THERE) return NOT_THERE;
    return (int)of_gpu(device->gpu, "minor", NOT_THERE);
}

int nvmlDeviceSetMemoryLimits_v1(struct device *device, const struct set_limits *limits) {
    char answer[64];
    int minor = limited(device);
    if (minor < 0) return NOT_SUPPORTED;
    if (!limits || !limits->name_space) return INVALID_ARGUMENT;
    return nvml_code(ask(answer, sizeof answer, "limit %d %llu %llu %s", minor, limits->soft, limits->hard, limits->name_space));
}

int nvmlDeviceGetMemoryLimits_v1(struct device *device, struct get_limits *limits) {
    char answer[128];
    int minor = limited(device);
    if (minor < 0) return NOT_SUPPORTED;
    if (!limits || !limits->name_space) return INVALID_ARGUMENT;
    int code = ask(answer, sizeof answer, "limits %d %s", minor, limits->name_space);
    if (!code && sscanf(answer, "%llu %llu %llu", &limits->soft, &limits->hard, &limits->used) != 3) return NOT_SUPPORTED;
    return nvml_code(code);
}
