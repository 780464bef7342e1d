// What the compiler calls by itself, at places of its own choosing.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin
const void *swift_retain_n(const void *object, uint32_t count);
void swift_release_n(const void *object, uint32_t count);
const void *swift_nonatomic_retain(const void *object);
void swift_nonatomic_release(const void *object);
const void *_Nullable swift_tryRetain(const void *object);
const void *swift_bridgeObjectRetain(const void *object);
void swift_bridgeObjectRelease(const void *object);
size_t swift_retainCount(const void *object);
size_t malloc_usable_size(void *_Nullable block);
#pragma clang assume_nonnull end
