// A nested function (a gcc extension), whose code is outside that of the enclosing function.

volatile int sink;

static int apply(int (*function)(int), int x) { return function(x); }

int outer(int count) {
    int inner(int x) { return x + count + sink; }
    return apply(inner, count) + inner(2);
}

int main(int count, char **words) { return words[0] ? outer(count) : 0; }
