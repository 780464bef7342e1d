// A function frees a buffer of an object, and the object's destructor frees the buffer again.
// finding: double-free
// access: free
// block: size=80 offset=0 state=quarantined
// stack-access: Document::~Document
// stack-free: close_document
// stack-alloc: Document::Document
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

struct Document {
    char *text;
    FRAME Document() : text(static_cast<char *>(malloc(80))) { strcpy(text, "text"); }
    FRAME ~Document() {
        free(text);
        KEEP_FRAME();
    }
};

FRAME void close_document(Document &document) {
    free(document.text);
#ifdef FIXED
    document.text = nullptr;
#endif
    KEEP_FRAME();
}

int main() {
    Document document;
    puts(document.text);
    close_document(document);
}
