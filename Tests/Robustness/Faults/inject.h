// Included before every source of a test build (-include): redirects the runtime's system calls, and the libc functions
// that make system calls for it, to inject.c. The sources do not mention this header, so a normal build contains
// nothing of it.

#ifndef ZG_TESTS_FAULTS_INJECT_H
#define ZG_TESTS_FAULTS_INJECT_H

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "images/loader.h"
#include "platform/arch.h"

long zg_inject_syscall(long number, long a, long b, long c, long d, long e, long f);
void *zg_inject_dlsym(void *handle, const char *symbol);
int zg_inject_key_create(pthread_key_t *key, void (*destructor)(void *));
int zg_inject_setspecific(pthread_key_t key, const void *value);

#ifndef ZG_THE_INJECTOR
#define zg_arch_syscall zg_inject_syscall
#define libcs_search zg_inject_dlsym
#define libcs_key_create zg_inject_key_create
#define libcs_set_specific zg_inject_setspecific
#define libcs_set_stack_size pthread_attr_setstacksize
// The macros above rename functions that the sources declare with a glibc symbol version. Injected ones have none.
#undef ZG_SINCE_FIRST_GLIBC
#define ZG_SINCE_FIRST_GLIBC(symbol)
#endif

#endif
