// Keeps a table of images that may have been unloaded. Entries are only appended; each is complete before `image_count`
// includes it.

#define _GNU_SOURCE
#include "images/unloaded.h"

#include <link.h>

#include "platform/text.h"

#define MOST_IMAGES 256
#define PATH_BYTES 256
#define BUILD_ID_BYTES 32

struct image {
    uint64_t start, end, bias;
    uint32_t build_id_bytes;
    uint8_t build_id[BUILD_ID_BYTES];
    char path[PATH_BYTES];
};

// Programs that close no library never touch this table, so it takes no memory in them.
static struct image images[MOST_IMAGES];
static uint32_t image_count;
// Number of images before the first dlopen, plus 1; 0 if not yet known.
static uint32_t first_opened;
static uint32_t noting;
static uint64_t seen_unload_count; // dlpi_subs at the last check: how many images the loader has unloaded

static int count_image(struct dl_phdr_info *info, size_t bytes, void *count) {
    (void)info, (void)bytes;
    ++*(uint32_t *)count;
    return 0;
}

void zg_unloaded_note_first(void) {
    if (__atomic_load_n(&first_opened, __ATOMIC_RELAXED)) return;
    uint32_t count = 0;
    dl_iterate_phdr(count_image, &count);
    __atomic_store_n(&first_opened, count + 1, __ATOMIC_RELAXED);
}

static int note_closed(struct dl_phdr_info *info, size_t bytes, void *count) {
    (void)bytes;
    *(uint64_t *)count = info->dlpi_subs;
    return 1;
}

bool zg_unloaded_has_changed(void) {
    uint64_t count = 0;
    dl_iterate_phdr(note_closed, &count);
    return __atomic_exchange_n(&seen_unload_count, count, __ATOMIC_RELAXED) != count;
}

static bool is_same(const struct image *image, const struct zg_module *module) {
    return image->start == module->start && image->bias == module->bias && zg_string_equal(image->path, module->path);
}

static void add(const struct zg_module *module) {
    for (uint32_t i = 0; i < image_count; i++)
        if (is_same(&images[i], module)) return;
    // A truncated path would name another file.
    if (image_count == MOST_IMAGES || zg_string_length(module->path) >= PATH_BYTES) return;
    struct image *image = &images[image_count];
    *image = (struct image){.start = module->start, .end = module->end, .bias = module->bias};
    zg_string_copy(image->path, module->path, sizeof image->path);
    if (module->build_id_bytes <= BUILD_ID_BYTES) {
        image->build_id_bytes = module->build_id_bytes;
        for (uint32_t i = 0; i < module->build_id_bytes; i++) image->build_id[i] = module->build_id[i];
    }
    __atomic_store_n(&image_count, image_count + 1, __ATOMIC_RELEASE);
}

// dl_iterate_phdr lists images in load order, so the images from before the first dlopen come first.
static int note_image(struct dl_phdr_info *info, size_t bytes, void *position) {
    (void)bytes;
    if (++*(uint32_t *)position < first_opened || !info->dlpi_name || !*info->dlpi_name) return 0;
    struct zg_module module;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
            if (zg_module_find(info->dlpi_addr + header->p_vaddr, &module)) add(&module);
            return 0;
        }
    }
    return 0;
}

void zg_unloaded_note_loaded(void) {
    // Does nothing while another thread executes this function, because that thread notes the same images.
    if (!first_opened || __atomic_exchange_n(&noting, 1, __ATOMIC_ACQUIRE)) return;
    uint32_t position = 0;
    dl_iterate_phdr(note_image, &position);
    __atomic_store_n(&noting, 0, __ATOMIC_RELEASE);
}

bool zg_unloaded_find(uint64_t address, struct zg_module *module) {
    bool found = zg_module_find(address, module);
    uint32_t count = __atomic_load_n(&image_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++) {
        struct image *image = &images[i];
        if (address < image->start || address >= image->end || (found && is_same(image, module))) continue;
        if (found) return false;
        found = true;
        *module = (struct zg_module){.start = image->start,
                                     .end = image->end,
                                     .bias = image->bias,
                                     .path = image->path,
                                     .build_id = image->build_id,
                                     .build_id_bytes = image->build_id_bytes};
    }
    return found;
}
