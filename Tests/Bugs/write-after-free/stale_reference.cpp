// The first element is written through a reference after push_back has reallocated the vector.
// finding: write-after-free
// access: write
// block: size=32 offset=0 state=quarantined
// stack-access: - (the writer is gone)
// stack-free: ~add_score
// stack-alloc: ~make_scores
// exit: 99
// detail: found_by="exit"
// options: isolated_per_context=0

#include "../bug.h"
#include <vector>

FRAME void make_scores(std::vector<long> &scores) {
    scores.reserve(4);
    for (long i = 0; i < 4; i++) scores.push_back(i);
}

FRAME void add_score(std::vector<long> &scores) {
    scores.push_back(4);
    KEEP_FRAME();
}

FRAME void set_best(long &best) { best = 1000; }

int main() {
    std::vector<long> scores;
    make_scores(scores);
    long &best = scores.front();
#ifdef FIXED
    set_best(best);
#endif
    add_score(scores);
#ifndef FIXED
    set_best(best);
#endif
    printf("%zu\n", scores.size());
}
