// Makes the table of .eh_frame_hdr for a static executable that the linker made without one (gcc -static).

#ifndef ZG_FRAME_INDEX_H
#define ZG_FRAME_INDEX_H

// Reads the executable's section headers, and gives its image the table (zg_module_set_frames). Without section headers
// or without memory, stacks end at the first frame. Start-up.
void zg_frame_index_make(void);

#endif
