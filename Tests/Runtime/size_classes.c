// Size classes: every size gets the smallest class that holds it; slot numbers computed by a reciprocal are exact.
// link: runtime

#include "blocks/slab.h"
#include "check.h"
#include "heap_calls.h"
#include "process/ready.h"

int main(void) {
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        uint32_t bytes = zg_class_bytes(class);
        CHECK(bytes % 16 == 0 && bytes > 0, "a class is a multiple of 16");
        CHECK(!class || bytes > zg_class_bytes(class - 1), "classes grow");
        CHECK(zg_magazine_slots(zg_class_bytes(class)) >= 4 &&
                  zg_magazine_slots(zg_class_bytes(class)) <= ZG_MAGAZINE_SLOTS,
              "a magazine fits");
        CHECK(!class || (bytes - zg_class_bytes(class - 1)) * 4 <= bytes || bytes <= 128,
              "steps are at most a quarter");
    }
    CHECK_EQUAL(zg_class_bytes(ZG_CLASS_COUNT - 1), ZG_LARGEST_SLOT, "the last class is the largest slot");
    for (uint64_t size = 0; size <= ZG_LARGEST_SLOT; size++) {
        uint32_t class = zg_size_class(size);
        bool fits = class < ZG_CLASS_COUNT && zg_class_bytes(class) >= size;
        bool smallest = class == 0 || zg_class_bytes(class - 1) < size;
        if (!CHECK(fits && smallest, "the smallest class that fits")) fprintf(stderr, "  size %" PRIu64 "\n", size);
    }
    if (!CHECK(zg_ready(), "the heap is reserved")) return check_end();
    uint64_t state = 11, region = UINT64_C(1) << zg_slabs.region_shift;
    for (uint32_t class = 0; class < ZG_CLASS_COUNT; class++) {
        const struct zg_slab *slab = &zg_slabs.slab[class];
        uint64_t bytes = slab->slot_bytes, wrong = 0, slots = region / bytes;
        CHECK_EQUAL(bytes, zg_class_bytes(class), "the slab has its class's slots");
        CHECK_EQUAL(slab->limit, slots, "a region holds as many slots as fit");
        CHECK(zg_slab_is_valid(slab), "the slab is valid");
        CHECK_EQUAL(slab->base % zg_min(bytes & -bytes, 4096), 0, "slots have their natural alignment");
        for (int i = 0; i < 30000; i++) {
            // Test the first, the last and random slots; in each slot the first, second, last and a random byte.
            uint64_t slot = i < 100   ? (uint64_t)i
                            : i < 200 ? slots - 1 - (uint64_t)(i - 100)
                                      : work_random(&state) % slots;
            uint64_t insides[] = {0, 1, bytes - 1, work_random(&state) % bytes};
            for (int j = 0; j < 4; j++) {
                uint64_t index, interior;
                struct zg_slab *found = zg_slab_find(slab->base + slot * bytes + insides[j], &index, &interior);
                wrong += found != slab || index != slot || interior != insides[j];
            }
        }
        CHECK_EQUAL(wrong, 0, "slot numbers are exact");
    }
    return check_end();
}
