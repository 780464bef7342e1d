// Declares aliases of Swift runtime functions that otherwise only compiler-generated code calls (see runtime.c).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin
const void *runtime_retain_n(const void *object, uint32_t count);
void runtime_release_n(const void *object, uint32_t count);
const void *runtime_nonatomic_retain(const void *object);
void runtime_nonatomic_release(const void *object);
const void *_Nullable runtime_tryRetain(const void *object);
const void *runtime_bridgeObjectRetain(const void *object);
void runtime_bridgeObjectRelease(const void *object);
size_t runtime_retainCount(const void *object);
int runtime_fork(void); // Swift marks fork() as unavailable
size_t malloc_usable_size(void *_Nullable block);
#pragma clang assume_nonnull end
