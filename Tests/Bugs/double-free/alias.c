// Two fields of a record point to the same buffer; the cleanup of the record frees both.
// finding: double-free
// access: free
// block: size=100 offset=0 state=quarantined language=unknown
// stack-access: drop_record
// stack-free: drop_record
// stack-alloc: make_buffer
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

struct record {
    char *input;
    char *output;
};

FRAME char *make_buffer(void) {
    char *buffer = malloc(100);
    strcpy(buffer, "text");
    return buffer;
}

FRAME void drop_record(struct record *record) {
    free(record->input);
    free(record->output);
    KEEP_FRAME();
}

int main(void) {
    struct record record = {make_buffer(), NULL};
#ifdef FIXED
    record.output = make_buffer();
#else
    record.output = record.input;
#endif
    puts(record.output);
    drop_record(&record);
    return 0;
}
