// An array is deleted twice.
// finding: double-free
// access: free
// block: size=400 offset=0 state=quarantined
// stack-access: delete_again
// stack-free: delete_scores
// stack-alloc: make_scores
// exit: 134
// confidence: exact
// options: isolated_per_context=0

#include "../bug.h"

FRAME int *make_scores(int count) {
    int *scores = new int[count];
    scores[0] = 7;
    return scores;
}

FRAME void delete_scores(int *scores) {
    delete[] scores;
    KEEP_FRAME();
}

FRAME void delete_again(int *scores) {
    delete[] scores;
    KEEP_FRAME();
}

int main() {
    int *scores = make_scores(100);
    printf("%d\n", scores[0]);
    delete_scores(scores);
#ifdef FIXED
    scores = make_scores(100);
#endif
    delete_again(scores);
}
