// Remembers images that dlclose may unload, because stacks of blocks that outlive a plugin still contain its addresses.
// Noting images is cold and takes the loader's lock, as dlclose does. Looking them up takes no lock and may happen in a
// signal handler.

#ifndef ZG_UNLOADED_H
#define ZG_UNLOADED_H

#include "images/module.h"

// Call before the program opens its first library: images loaded by then are assumed to stay.
void zg_unloaded_note_first(void);
// Whether images were unloaded since the last call. Also notices images that libc opened and closed for itself.
bool zg_unloaded_has_changed(void);
// Call before a library is closed: remembers all images that were opened since zg_unloaded_note_first.
void zg_unloaded_note_loaded(void);
// Finds the image that contained an address of an older stack, loaded or unloaded. False if the image is unknown, or if
// several images were at this address in turn. `path` and `build_id` stay valid.
bool zg_unloaded_find(uint64_t address, struct zg_module *module);

#endif
