// A method of a deleted object dereferences a pointer member.
// finding: use-after-free
// access: read
// block: size=24 offset=0 state=quarantined
// stack-access: Parser::peek
// stack-free: delete_parser
// stack-alloc: make_parser
// exit: 139
// confidence: inferred
// options: isolated_per_context=0

#include "../bug.h"

class Parser {
  public:
    explicit Parser(const char *text) : position(text) {}
    FRAME int peek() {
        int character = *position;
        HOLD(this);
        return character;
    }

  private:
    const char *position;
    long unused[2] = {1, 2};
};

FRAME Parser *make_parser() {
    Parser *parser = new Parser("text");
    HOLD(parser);
    return parser;
}

FRAME void delete_parser(Parser *parser) {
    delete parser;
    KEEP_FRAME();
}

int main() {
    Parser *parser = make_parser();
#ifndef FIXED
    delete_parser(parser);
#endif
    printf("%c\n", parser->peek());
#ifdef FIXED
    delete_parser(parser);
#endif
}
