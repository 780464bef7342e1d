// Decides whether a deallocation mismatch is certain, and reports it.
//
// A block of operator new that is passed to free (or the other way round) proves nothing by itself: an image with a C++
// library linked in (-static-libstdc++) turns its deletes into plain frees. The mismatch is certain if the image that
// called the C function (malloc, free and others) imports operator new or delete, and so contains no C++ library, or if
// that image is libc. If both calls went through the runtime's operators, the mismatch is certain, too.
// Known mismatches of libraries, which users cannot repair, are skipped unless the option dealloc_mismatch asks for
// all.
// Cold; no lock.

#include "heap/mismatch.h"

#include "findings/found.h"
#include "images/loader.h"
#include "images/module.h"
#include "platform/os.h"
#include "platform/text.h"
#include "settings/config.h"
#include "settings/stats.h"
#include "stacks/depot.h"

// Libraries with a known defect: an object is deleted through its base class, which has no virtual destructor, so
// operator delete gets the size of the base. Seen in Swift 6.3: 24 bytes for an object of 232, whenever the cached
// results of cursor requests (symbol at a line and column) are discarded.
static const char *const deletes_with_size_of_base[] = {"libsourcekitdInProc.so"};

static const char *const names[zg_deallocator_count] = {
#define ZG_X(name, text, mask) text,
    ZG_DEALLOCATORS(ZG_X)
#undef ZG_X
};

const char *zg_mismatch_deallocator_name(enum zg_deallocator deallocator) { return names[deallocator]; }

static bool is_libc(const char *path) {
    const char *name = zg_string_last_part(path);
    return name[0] == 'l' && name[1] == 'i' && name[2] == 'b' && name[3] == 'c' && name[4] == '.' && name[5] == 's';
}

// Returns true if the image at `pc` is libc, or imports operator new or delete, so that it contains no C++ library. In
// a static executable, returns true unless the program replaces the C++ operators.
static bool operators_come_from_outside(uint64_t pc) {
    static const char *const operators[] = {"_Znwm", "_Znam", "_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm"};
    struct zg_module module;
    if (zg_loader_is_static) return !zg_stats_is_degraded(zg_degradation_cxx_operators_replaced);
    if (!zg_module_find(pc, &module)) return false;
    if (is_libc(module.path)) return true;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(operators); i++)
        if (zg_module_imports(pc, operators[i])) return true;
    return false;
}

static bool is_known_defect(const struct zg_block_view *view, enum zg_deallocator deallocator, uint64_t pc) {
    if (view->family != zg_family_new || deallocator != zg_deallocator_delete) return false;
    struct zg_module module;
    if (!zg_module_find(pc, &module) || !module.path) return false;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(deletes_with_size_of_base); i++)
        if (zg_string_equal(zg_string_last_part(module.path), deletes_with_size_of_base[i])) return true;
    return false;
}

static bool is_c_kind(enum zg_alloc_family family) { return family == zg_family_malloc || family == zg_family_aligned; }
static bool is_c_deallocator(enum zg_deallocator deallocator) { return deallocator < zg_deallocator_delete; }

bool zg_mismatch_check(const struct zg_block_view *view, uint64_t address, enum zg_deallocator deallocator,
                       uint64_t freed_size, uint64_t caller_pc) {
    if (zg_config.dealloc_mismatch == zg_dealloc_mismatch_off) return false;
    if (zg_config.dealloc_mismatch == zg_dealloc_mismatch_certain &&
        is_c_kind(view->family) != is_c_deallocator(deallocator)) {
        uint64_t pc = caller_pc;
        if (is_c_kind(view->family) && zg_depot_get(view->alloc_stack, &pc, 1) != 1) return false;
        if (!operators_come_from_outside(pc - 1)) return false;
    }
    if (zg_config.dealloc_mismatch == zg_dealloc_mismatch_certain && is_known_defect(view, deallocator, caller_pc - 1))
        return false;
    zg_found_dealloc_mismatch(view, address, names[deallocator], freed_size);
    return true;
}

// Returns true if the bytes in front of `view->offset` may be an array cookie. An array of objects with a destructor
// begins with a cookie (Itanium C++ ABI, 2.7): the object count in one word, padded to the objects' alignment. The size
// of the rest of the block is a multiple of the count.
static bool has_cookie(const struct zg_block_view *view) {
    uint64_t count, offset = (uint64_t)view->offset;
    if (view->state != zg_state_live || offset < sizeof count || !zg_is_power_of_two(offset) || offset > view->size)
        return false;
    if (zg_os_read_memory(&count, view->start + offset - sizeof count, sizeof count) != sizeof count) return false;
    uint64_t bytes = view->size - offset;
    return count ? count <= bytes && bytes % count == 0 : bytes == 0;
}

bool zg_mismatch_is_cookie(uint64_t address, enum zg_deallocator deallocator, uint64_t *start) {
    static const uint64_t cookies[] = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
    struct zg_block_view view;
    bool is_array = deallocator == zg_deallocator_delete_array || deallocator == zg_deallocator_delete_array_aligned;
    bool is_inside = zg_lookup_block(address, &view);
    if (zg_config.dealloc_mismatch == zg_dealloc_mismatch_off || is_c_deallocator(deallocator)) return false;
    if (!is_array) {
        // delete was called for the first object of a new[].
        if (!is_inside || !has_cookie(&view)) return false;
        if (view.family != zg_family_new_array && view.family != zg_family_new_array_aligned) return false;
        *start = view.start;
        zg_found_dealloc_mismatch(&view, address, names[deallocator], ZG_ANY_SIZE);
        return true;
    }
    // delete[] was called for a single object: the caller took the bytes in front of the object for a cookie and passed
    // their address. This case is excluded if that address itself starts a block or lies in an array.
    if (is_inside && (!view.offset || view.family == zg_family_new_array || view.family == zg_family_new_array_aligned))
        return false;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(cookies); i++) {
        if (!zg_lookup_block(address + cookies[i], &view) || view.offset || view.state != zg_state_live) continue;
        if (view.family != zg_family_new && view.family != zg_family_new_aligned) continue;
        *start = view.start;
        zg_found_dealloc_mismatch(&view, view.start, names[deallocator], ZG_ANY_SIZE);
        return true;
    }
    return false;
}
