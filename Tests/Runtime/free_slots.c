// Free slots of a size class: taken from the lowest address on, none twice and none lost, in classes of every size.
// link: runtime

#include <string.h>
#include <sys/mman.h>

#include "blocks/free_slots.h"
#include "check.h"

enum { MOST = 64 * ZG_FREE_GROUP_SLOTS * 3, BATCH = 64 };

static unsigned char is_free[MOST];
static uint64_t free_count;

static void put(struct zg_free_slots *free, uint64_t slot) {
    uint32_t number = (uint32_t)slot;
    zg_free_slots_put(free, &number, 1);
    is_free[slot] = 1;
    free_count++;
}

// Takes slots, and compares them with the lowest free ones of the model.
static void take(struct zg_free_slots *free, uint32_t most) {
    uint32_t slots[BATCH], count = zg_free_slots_take(free, slots, most);
    CHECK_EQUAL(count, zg_min(most, free_count), "as many slots as there are");
    uint64_t lowest = 0, wrong = 0;
    for (uint32_t i = count; i-- > 0;) {
        while (lowest < MOST && !is_free[lowest]) lowest++;
        wrong += slots[i] != lowest;
        is_free[slots[i]] = 0;
    }
    free_count -= count;
    CHECK_EQUAL(wrong, 0, "the lowest slots, in descending order");
    CHECK_EQUAL(free->count, free_count, "as many are left");
}

static void compare(const struct zg_free_slots *free, uint64_t slots) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < slots; i++) wrong += zg_free_slots_has(free, i) != is_free[i];
    CHECK_EQUAL(wrong, 0, "the bitmap has the slots of the model");
}

int main(void) {
    // Only the bits of the slots that the class has are accessible.
    uint64_t bytes = zg_round_up(zg_free_slots_bytes(MOST), ZG_PAGE_BYTES), state = 7, sparse = MOST - 40000;
    char *table = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct zg_free_slots free = {.end = (uint64_t *)(table + bytes)};
    if (!CHECK(table != MAP_FAILED, "memory for the bits")) return check_end();
    CHECK_EQUAL(zg_free_slots_bytes(0), 0, "no slot takes no bytes");
    CHECK_EQUAL(zg_free_slots_bytes(1), zg_free_slots_bytes(ZG_FREE_GROUP_SLOTS), "a group takes its bytes at once");
    for (uint64_t slots = 1, had = 0; slots <= MOST;
         had = slots, slots = slots < MOST ? zg_min(slots * 3, MOST) : MOST + 1) {
        uint64_t accessible = zg_round_up(zg_free_slots_bytes(slots), ZG_PAGE_BYTES);
        CHECK_EQUAL(mprotect(table + bytes - accessible, accessible, PROT_READ | PROT_WRITE), 0,
                    "the bits are accessible");
        zg_free_slots_grow(&free, slots);
        compare(&free, slots);
        // The class's newest slots become free, and stay so while it grows.
        for (uint64_t slot = slots - zg_min(slots - had, 70); slot < slots; slot++)
            if (!is_free[slot]) put(&free, slot);
        for (int round = 0; round < 200; round++) {
            for (int i = 0; i < 20; i++) {
                uint64_t slot = work_random(&state) % slots;
                if (!is_free[slot]) put(&free, slot);
            }
            take(&free, (uint32_t)(work_random(&state) % (BATCH + 1)));
        }
        compare(&free, slots);
    }
    while (free_count) take(&free, BATCH);
    take(&free, BATCH);
    put(&free, sparse);
    put(&free, 3);
    take(&free, 1);
    put(&free, 5);
    take(&free, 2);
    put(&free, MOST - 1);
    take(&free, BATCH);
    compare(&free, MOST);
    CHECK_EQUAL(free_count, 0, "no slot is left");
    return check_end();
}
