// A library whose destructor calls a function that the program has set.
void (*at_unload)(void);
static __attribute__((destructor)) void unload(void) {
    if (at_unload) at_unload();
}
