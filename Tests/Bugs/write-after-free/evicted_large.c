// A late write into a block of 512 KiB is found when other blocks push it out of the quarantine.
// finding: write-after-free
// access: write
// block: size=524288 offset=100000 language=unknown
// stack-access: - (the writer is gone)
// stack-free: drop_frame
// stack-alloc: make_frame
// exit: 134
// detail: found_by="eviction"
// options: isolated_per_context=0:quarantine_bytes=1000k

#include "../bug.h"

FRAME char *make_frame(void) {
    char *frame = malloc(1 << 19);
    frame[0] = 'f';
    return frame;
}

FRAME void drop_frame(char *frame) {
    free(frame);
    KEEP_FRAME();
}

FRAME void write_pixel(char *frame) { frame[100000] = 'w'; }

int main(void) {
    for (int i = 0; i < 64; i++) {
        char *frame = make_frame();
#ifdef FIXED
        write_pixel(frame);
#endif
        drop_frame(frame);
#ifndef FIXED
        if (i == 0) write_pixel(frame);
#endif
    }
    puts("end");
    return 0;
}
