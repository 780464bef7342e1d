// Images that dlclose may have unloaded: stacks of blocks that outlive a plugin still lead into it.
// Noting them is cold and takes the loader's lock, as dlclose does; looking them up takes none and may happen in a handler.

#ifndef ZG_UNLOADED_H
#define ZG_UNLOADED_H

#include "images/module.h"

// Before the first library is opened by the program: what is loaded now stays.
void zg_unloaded_note_first(void);
// Images have gone since it was asked last, whoever closed them: libc closes what it has opened for itself.
bool zg_unloaded_has_changed(void);
// Before a library is closed: remembers all images that were opened since.
void zg_unloaded_note_loaded(void);
// The image that an address in an older stack lay in: one that is loaded, or one that is gone. False where that cannot be
// told: several images have been there, one after the other. `path` and `build_id` stay valid.
bool zg_unloaded_find(uint64_t address, struct zg_module *module);

#endif
