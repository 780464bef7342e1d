// Deletes an object through a base class without a virtual destructor, for known_defects.c, with the calls that a C++
// compiler would emit.

#include <stddef.h>

void *operator_new(size_t size) __asm__("_Znwm");
void operator_delete(void *object, size_t size) __asm__("_ZdlPvm");

void delete_as_base(void);
void delete_as_base(void) {
    operator_delete(operator_new(232), 24);
    __asm__ volatile(""); // prevents a tail call, so that this library is the caller
}
