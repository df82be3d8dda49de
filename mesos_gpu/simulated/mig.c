/* MIG instances that can be made and destroyed: compiled behind nvml.c, as one text.
 *
 * The GPUs of the file that SIMULATED_NVML names are divided as an A100 of 40 GB is. An instance is a line
 *   gpu.N.slot.S=GI:CI:PROFILE:START:SIZE
 * that is written into that file; CI is -1 until its compute instance is made. Lines without PROFILE, as tests write
 * them, are instances of 1g.5gb at S. Processes on it: gpu.N.slot.S.process.P=PID:MIB:KIND.
 *
 * Without that file the program that plays the cards has the instances: they are listed (nvml.c), and the agent alone
 * makes and destroys them. NVML needs root for that, too.
 */

enum { IN_USE = 19, INSUFFICIENT_RESOURCES = 23, PROFILES = 7, NO_COMPUTE_INSTANCE = -1, NO_PERMISSION = 4 };

static int is_file(void) { return getenv("SIMULATED_NVML") != NULL; }

struct placement { unsigned start, size; };
struct instance_info { struct device *device; unsigned id, profile; struct placement placement; };
struct profile_info {
    unsigned version, id, peers, slices, instances, multiprocessors, copy, decoders, encoders, jpegs, flows;
    unsigned long long memory_mb;
    char name[96];
};
struct compute_profile_info {
    unsigned version, id, slices, instances, multiprocessors, copy, decoders, encoders, jpegs, flows;
    char name[96];
};
struct made { int gpu_instance, compute_instance; unsigned profile, start, size; };

/* `index` is the number to ask by, `id` the number to create by, `starts` a bit for each slice it may begin at. */
static const struct { unsigned index, id, slices, size, starts, instances; unsigned long long mb; const char *name; }
profiles[PROFILES] = {
    {0, 19, 1, 1, 0x7f, 7, 4864, "MIG 1g.5gb"},     {7, 20, 1, 1, 0x7f, 1, 4864, "MIG 1g.5gb+me"},
    {9, 15, 1, 2, 0x55, 4, 9856, "MIG 1g.10gb"},    {1, 14, 2, 2, 0x15, 3, 9856, "MIG 2g.10gb"},
    {2, 9, 3, 4, 0x11, 2, 20096, "MIG 3g.20gb"},    {3, 5, 4, 4, 0x01, 1, 20096, "MIG 4g.20gb"},
    {4, 0, 7, 8, 0x01, 1, 40448, "MIG 7g.40gb"},
};

static int profile_of(unsigned id) {
    for (int at = 0; at < PROFILES; at++)
        if (profiles[at].id == id) return at;
    return NOT_THERE;
}

static int made_at(const struct device *part, struct made *made) {
    char key[64], answer[64];
    *made = (struct made){0, 0, 19, (unsigned)part->slot, 1};
    snprintf(key, sizeof key, "gpu.%d.slot.%d", part->gpu, part->slot);
    return text(key, answer, sizeof answer) &&
           sscanf(answer, "%d:%d:%u:%u:%u", &made->gpu_instance, &made->compute_instance, &made->profile, &made->start,
                  &made->size) >= 2;
}

/* Put this line into the file in place of the one there; without one, take it out. */
static void write_slot(const struct device *part, const struct made *made) {
    char key[64], line[256], aside[512];
    const char *path = getenv("SIMULATED_NVML");
    snprintf(key, sizeof key, "gpu.%d.slot.%d", part->gpu, part->slot);
    snprintf(aside, sizeof aside, "%s.made", path);
    FILE *old = fopen(path, "re"), *new = fopen(aside, "we");
    while (old && new && fgets(line, sizeof line, old))
        if (strncmp(line, key, strlen(key)) || line[strlen(key)] != '=') fputs(line, new);
    if (new && made)
        fprintf(new, "%s=%d:%d:%u:%u:%u\n", key, made->gpu_instance, made->compute_instance, made->profile, made->start,
                made->size);
    if (old) fclose(old);
    if (new) fclose(new);
    rename(aside, path);
}

int nvmlDeviceGetGpuInstanceProfileInfoV(struct device *device, unsigned index, struct profile_info *info) {
    if (!is_file()) return NO_PERMISSION;
    if (of_gpu(device->gpu, "mig", 0) != 1) return NOT_SUPPORTED;
    for (int at = 0; at < PROFILES; at++) {
        if (profiles[at].index != index) continue;
        unsigned version = info->version;
        memset(info, 0, sizeof *info);
        info->version = version, info->id = profiles[at].id, info->slices = profiles[at].slices;
        info->instances = profiles[at].instances, info->memory_mb = profiles[at].mb;
        strcpy(info->name, profiles[at].name);
        return error_of(device);
    }
    return NOT_SUPPORTED;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    struct device *device, unsigned id, struct placement *placements, unsigned *count
) {
    if (!is_file()) return NO_PERMISSION;
    int profile = profile_of(id);
    unsigned found = 0;
    if (profile == NOT_THERE) return NOT_SUPPORTED;
    for (unsigned start = 0; start < 8; start++) {
        if (!(profiles[profile].starts >> start & 1)) continue;
        if (placements && found < *count) placements[found] = (struct placement){start, profiles[profile].size};
        found++;
    }
    *count = found;
    return error_of(device);
}

/* A handle of a GPU instance, and of its compute instance, is that of the MIG device in the slot. */
int nvmlDeviceGetGpuInstances(struct device *device, unsigned id, struct device **instances, unsigned *count) {
    if (!is_file()) return NO_PERMISSION;
    struct made made;
    *count = 0;
    for (int slot = 0; slot < MAX_SLOTS; slot++)
        if (made_at(&parts[device->gpu][slot], &made) && made.profile == id)
            instances[(*count)++] = &parts[device->gpu][slot];
    return error_of(device);
}

int nvmlGpuInstanceGetInfo(struct device *part, struct instance_info *info) {
    if (!is_file()) return NO_PERMISSION;
    struct made made;
    if (!made_at(part, &made)) return NOT_FOUND;
    *info = (struct instance_info){&wholes[part->gpu], (unsigned)made.gpu_instance, made.profile, {made.start, made.size}};
    return error_of(part);
}

int nvmlDeviceCreateGpuInstanceWithPlacement(
    struct device *device, unsigned id, const struct placement *where, struct device **instance
) {
    if (!is_file()) return NO_PERMISSION;
    struct made made;
    int profile = profile_of(id), empty = NOT_THERE, highest = 0;
    unsigned taken = 0, there = 0;
    if (error_of(device)) return error_of(device);
    if (profile == NOT_THERE || !(profiles[profile].starts >> where->start & 1)) return INVALID_ARGUMENT;
    for (int slot = MAX_SLOTS - 1; slot >= 0; slot--) {
        if (!made_at(&parts[device->gpu][slot], &made)) { empty = slot; continue; }
        taken |= ((1u << made.size) - 1) << made.start;
        there += made.profile == id;
        if (made.gpu_instance > highest) highest = made.gpu_instance;
    }
    unsigned wanted = ((1u << profiles[profile].size) - 1) << where->start;
    if (empty == NOT_THERE || taken & wanted || there >= profiles[profile].instances) return INSUFFICIENT_RESOURCES;
    if (of_gpu(device->gpu, "create_error", SUCCESS) && where->start == (unsigned)of_gpu(device->gpu, "create_error_at", 0))
        return (int)of_gpu(device->gpu, "create_error", SUCCESS);
    *instance = &parts[device->gpu][empty];
    made = (struct made){highest + 1, NO_COMPUTE_INSTANCE, id, where->start, profiles[profile].size};
    write_slot(*instance, &made);
    return SUCCESS;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    struct device *part, unsigned index, unsigned engine, struct compute_profile_info *info
) {
    if (!is_file()) return NO_PERMISSION;
    static const unsigned slices[] = {1, 2, 3, 4, 7};
    struct made made;
    if (!made_at(part, &made)) return NOT_FOUND;
    if (engine || index >= sizeof slices / sizeof *slices) return NOT_SUPPORTED;
    if (slices[index] > profiles[profile_of(made.profile)].slices) return NOT_SUPPORTED;
    unsigned version = info->version;
    memset(info, 0, sizeof *info);
    info->version = version, info->id = index, info->slices = slices[index], info->instances = 1;
    return error_of(part);
}

int nvmlGpuInstanceGetComputeInstances(struct device *part, unsigned id, struct device **instances, unsigned *count) {
    if (!is_file()) return NO_PERMISSION;
    static const unsigned slices[] = {1, 2, 3, 4, 7};
    struct made made;
    *count = 0;
    if (!made_at(part, &made)) return NOT_FOUND;
    if (made.compute_instance != NO_COMPUTE_INSTANCE && slices[id] == profiles[profile_of(made.profile)].slices)
        instances[(*count)++] = part;
    return error_of(part);
}

int nvmlGpuInstanceCreateComputeInstance(struct device *part, unsigned id, struct device **instance) {
    if (!is_file()) return NO_PERMISSION;
    struct made made;
    (void)id;
    if (!made_at(part, &made)) return NOT_FOUND;
    if (made.compute_instance != NO_COMPUTE_INSTANCE) return INSUFFICIENT_RESOURCES;
    made.compute_instance = 0;
    write_slot(*instance = part, &made);
    return SUCCESS;
}

static int is_used(const struct device *part) {
    char key[64], answer[64];
    snprintf(key, sizeof key, "gpu.%d.slot.%d.process.0", part->gpu, part->slot);
    return text(key, answer, sizeof answer);
}

int nvmlComputeInstanceDestroy(struct device *part) {
    if (!is_file()) return NO_PERMISSION;
    struct made made;
    if (!made_at(part, &made)) return NOT_FOUND;
    if (is_used(part)) return IN_USE;
    made.compute_instance = NO_COMPUTE_INSTANCE;
    write_slot(part, &made);
    return SUCCESS;
}

int nvmlGpuInstanceDestroy(struct device *part) {
    if (!is_file()) return NO_PERMISSION;
    struct made made;
    if (!made_at(part, &made)) return NOT_FOUND;
    if (made.compute_instance != NO_COMPUTE_INSTANCE) return IN_USE;
    write_slot(part, NULL);
    return SUCCESS;
}
