/* What is set of a card, its limits and its modes, and what these cards do not know: compiled behind nvml.c, as one text.
 *
 * Asked for by py3nvml with its py3smi, and by zeus. Nothing can be set here, as by who is not root.
 */
struct old_pci { char id[16]; unsigned domain, bus, device, device_id, subsystem_id, reserved[4]; };
struct temperature { unsigned version; int sensor, celsius; };

/* The struct of older bindings is shorter. */
int nvmlDeviceGetPciInfo_v2(struct device *device, struct old_pci *old) {
    struct pci pci;
    place(device->gpu, &pci);
    memset(old, 0, sizeof *old);
    memcpy(old->id, pci.legacy_id, sizeof old->id);
    old->domain = pci.domain, old->bus = pci.bus, old->device = pci.device;
    return error_of(device);
}

int nvmlDeviceGetPciInfo(struct device *device, struct old_pci *old) { return nvmlDeviceGetPciInfo_v2(device, old); }

int nvmlDeviceGetPowerState(struct device *device, unsigned *state) {
    return nvmlDeviceGetPerformanceState(device, state);
}

int nvmlDeviceGetTemperatureV(struct device *device, struct temperature *temperature) {
    return temperature->sensor ? INVALID_ARGUMENT : measure(device, "celsius", (unsigned *)&temperature->celsius);
}

/* No display is connected to them. */
int nvmlDeviceGetDisplayMode(struct device *device, unsigned *on) {
    *on = 0;
    return error_of(device);
}

int nvmlDeviceGetDisplayActive(struct device *device, unsigned *on) { return nvmlDeviceGetDisplayMode(device, on); }

int nvmlDeviceGetPowerManagementMode(struct device *device, unsigned *on) {
    int code = measure(device, "limit", on);
    *on = 1;
    return code;
}

int nvmlDeviceGetPowerManagementDefaultLimit(struct device *device, unsigned *milliwatts) {
    return measure(device, "limit", milliwatts);
}

int nvmlDeviceGetPowerManagementLimitConstraints(struct device *device, unsigned *least, unsigned *most) {
    int code = measure(device, "limit", most);
    *least = code ? 0 : *most / 2;
    return code;
}

/* NVML's number of what a compute capability belongs to, Kepler to Blackwell. */
int nvmlDeviceGetArchitecture(struct device *device, unsigned *architecture) {
    unsigned major = 0, minor = 0;
    int code = small_of_row(device, "arch", 0, &major);
    if (!code) code = small_of_row(device, "arch", 1, &minor);
    *architecture = major < 7 ? major - (major > 3) - (major == 3) : major == 7 ? 5 + (minor >= 5)
        : major == 8 ? 7 + (minor == 9) : major;
    return code;
}

static int supported(const struct device *device, int memory, unsigned *count, unsigned *mhz) {
    unsigned room = *count, clocks[2];
    int code = small_of_row(device, "clock_max", memory, &clocks[0]);
    if (!code && small_of_row(device, "clock_least", memory, &clocks[1]))
        code = small_of_row(device, "clock", memory, &clocks[1]);
    if (code) return code;
    *count = clocks[0] == clocks[1] ? 1 : 2;
    if (!mhz || room < *count) return INSUFFICIENT_SIZE;
    memcpy(mhz, clocks, *count * sizeof *mhz);
    return SUCCESS;
}

/* The highest and the one that they idle at. */
int nvmlDeviceGetSupportedMemoryClocks(struct device *device, unsigned *count, unsigned *mhz) {
    return supported(device, 1, count, mhz);
}

int nvmlDeviceGetSupportedGraphicsClocks(struct device *device, unsigned memory_mhz, unsigned *count, unsigned *mhz) {
    (void)memory_mhz;
    return supported(device, 0, count, mhz);
}

/* What is known to NVML and not to these GPUs; a program that finds no such function complains at length. */
#define UNKNOWN(NAME) \
    int NAME(void) { return NOT_SUPPORTED; }
UNKNOWN(nvmlDeviceGetAccountingBufferSize)
UNKNOWN(nvmlDeviceGetAccountingMode)
UNKNOWN(nvmlDeviceGetAccountingPids)
UNKNOWN(nvmlDeviceGetAccountingStats)
UNKNOWN(nvmlDeviceGetApplicationsClock)
UNKNOWN(nvmlDeviceGetAutoBoostedClocksEnabled)
UNKNOWN(nvmlDeviceGetBoardId)
UNKNOWN(nvmlDeviceGetBoardPartNumber)
UNKNOWN(nvmlDeviceGetBridgeChipInfo)
UNKNOWN(nvmlDeviceGetCurrentDriverModel)
UNKNOWN(nvmlDeviceGetDefaultApplicationsClock)
UNKNOWN(nvmlDeviceGetDriverModel)
UNKNOWN(nvmlDeviceGetDriverModel_v2)
UNKNOWN(nvmlDeviceGetFanSpeed)
UNKNOWN(nvmlDeviceGetFanSpeed_v2)
UNKNOWN(nvmlDeviceGetGpuOperationMode)
UNKNOWN(nvmlDeviceGetInforomImageVersion)
UNKNOWN(nvmlDeviceGetInforomVersion)
UNKNOWN(nvmlDeviceGetMultiGpuBoard)
UNKNOWN(nvmlDeviceGetNumFans)
UNKNOWN(nvmlDeviceGetPendingDriverModel)
UNKNOWN(nvmlDeviceGetRemappedRows)
UNKNOWN(nvmlDeviceGetRetiredPages)
UNKNOWN(nvmlDeviceGetRetiredPagesPendingStatus)
UNKNOWN(nvmlDeviceGetTemperatureThreshold)
UNKNOWN(nvmlDeviceGetVbiosVersion)
UNKNOWN(nvmlDeviceResetGpuLockedClocks)
UNKNOWN(nvmlDeviceResetMemoryLockedClocks)
UNKNOWN(nvmlDeviceSetGpuLockedClocks)
UNKNOWN(nvmlDeviceSetMemoryLockedClocks)
UNKNOWN(nvmlDeviceSetPersistenceMode)
UNKNOWN(nvmlDeviceSetPowerManagementLimit)
