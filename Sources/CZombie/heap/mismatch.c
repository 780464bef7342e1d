// Deallocation mismatches, and when one is certain.
//
// A block of operator new that arrives in free (or the other way round) proves nothing by itself: an image with a C++
// library of its own linked in (-static-libstdc++) turns its deletes into plain frees. The mismatch is certain where the
// image that made the malloc-family call takes operator new or delete from outside, and so has none of its own, or is
// libc. Two calls that both came through our own operators are certain anyhow.
// Images that are known to do it, which the people who run them cannot repair, are passed over unless all are asked for.
// Cold; no lock.

#include "heap/mismatch.h"

#include "findings/found.h"
#include "images/module.h"
#include "platform/text.h"
#include "settings/config.h"
#include "stacks/depot.h"

// Known defects of others: an object is deleted through its base class, which has no virtual destructor, so operator
// delete is told the size of the base. Seen in Swift 6.3: 24 bytes for an object of 232, whenever the kept answers to
// cursor requests (what is at this line and column) are thrown away.
static const char *const deletes_with_size_of_base[] = {"libsourcekitdInProc.so"};

const uint32_t zg_mismatch_accepted[zg_deallocator_count] = {
#define ZG_X(name, text, mask) mask,
    ZG_DEALLOCATORS(ZG_X)
#undef ZG_X
};

static const char *const names[zg_deallocator_count] = {
#define ZG_X(name, text, mask) text,
    ZG_DEALLOCATORS(ZG_X)
#undef ZG_X
};

const char *zg_mismatch_deallocator_name(enum zg_deallocator deallocator) { return names[deallocator]; }

static const char *file_name(const char *path) {
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (*at == '/') name = at + 1;
    return name;
}

static bool is_libc(const char *path) {
    const char *name = file_name(path);
    return name[0] == 'l' && name[1] == 'i' && name[2] == 'b' && name[3] == 'c' && name[4] == '.' && name[5] == 's';
}

// The image has no C++ library of its own inside.
static bool operators_come_from_outside(uint64_t pc) {
    static const char *const operators[] = {"_Znwm", "_Znam", "_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm"};
    struct zg_module module;
    if (!zg_module_find(pc, &module)) return false;
    if (is_libc(module.path)) return true;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(operators); i++)
        if (zg_module_imports(pc, operators[i])) return true;
    return false;
}

static bool is_known_defect(const struct zg_block_view *view, enum zg_deallocator deallocator, uint64_t pc) {
    if (view->kind != zg_kind_new || deallocator != zg_deallocator_delete) return false;
    struct zg_module module;
    if (!zg_module_find(pc, &module) || !module.path) return false;
    for (size_t i = 0; i < ZG_ARRAY_COUNT(deletes_with_size_of_base); i++)
        if (zg_string_equal(file_name(module.path), deletes_with_size_of_base[i])) return true;
    return false;
}

static bool is_c_kind(enum zg_kind kind) { return kind == zg_kind_malloc || kind == zg_kind_aligned; }
static bool is_c_deallocator(enum zg_deallocator deallocator) { return deallocator < zg_deallocator_delete; }

void zg_mismatch_check(const struct zg_block_view *view, uint64_t address, enum zg_deallocator deallocator,
                       uint64_t freed_size, uint64_t caller_pc) {
    if (zg_config.dealloc_mismatch == zg_dealloc_mismatch_off) return;
    if (zg_config.dealloc_mismatch == zg_dealloc_mismatch_certain &&
        is_c_kind(view->kind) != is_c_deallocator(deallocator)) {
        uint64_t pc = caller_pc;
        if (is_c_kind(view->kind) && zg_depot_get(view->alloc_stack, &pc, 1) != 1) return;
        if (!operators_come_from_outside(pc - 1)) return;
    }
    if (zg_config.dealloc_mismatch == zg_dealloc_mismatch_certain && is_known_defect(view, deallocator, caller_pc - 1))
        return;
    zg_found_dealloc_mismatch(view, address, names[deallocator], freed_size);
}
