// A library that calls what its program told it when it is unloaded.
void (*at_unload)(void);
static __attribute__((destructor)) void unload(void) {
    if (at_unload) at_unload();
}
