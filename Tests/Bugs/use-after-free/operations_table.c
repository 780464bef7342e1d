// A function pointer is read from the operations table of a freed device and called.
// finding: use-after-free
// access: read|call
// block: size=56 offset=0 state=quarantined language=unknown
// stack-access: use_device
// stack-free: drop_device
// stack-alloc: make_device
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

struct device;
struct operations {
    int (*open)(struct device *device);
    int (*status)(struct device *device);
};
struct device {
    const struct operations *operations;
    long registers[6];
};

FRAME int device_status(struct device *device) { return (int)device->registers[0]; }

static const struct operations plain = {device_status, device_status};

FRAME struct device *make_device(void) {
    struct device *device = malloc(sizeof *device);
    device->operations = &plain;
    device->registers[0] = 4;
    return device;
}

FRAME void drop_device(struct device *device) {
    free(device);
    KEEP_FRAME();
}

FRAME int use_device(struct device *device) {
    int status = device->operations->status(device);
    HOLD(device);
    return status;
}

int main(void) {
    struct device *device = make_device();
#ifndef FIXED
    drop_device(device);
#endif
    printf("%d\n", use_device(device));
#ifdef FIXED
    drop_device(device);
#endif
    return 0;
}
