// A comparison operator calls itself instead of comparing the members.
// finding: stack-overflow
// stack-access: Name::operator==
// exit: 139

#include "../bug.h"

struct Name {
    long key;
    FRAME bool operator==(const Name &other) const {
#ifdef FIXED
        bool equal = key == other.key;
#else
        bool equal = *this == other;
#endif
        KEEP_FRAME();
        return equal;
    }
};

int main() {
    Name first = {1}, second = {2};
    printf("%d\n", first == second);
}
