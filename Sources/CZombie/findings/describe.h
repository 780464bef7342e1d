// What a fault on a dead object means in the words of its class: the method, the property, the kind of access.
// Cold, any context.

#ifndef ZG_DESCRIBE_H
#define ZG_DESCRIBE_H

#include "findings/finding.h"
#include "platform/text.h"
#include "zombies/swift_names.h"
#include "zombies/zombie.h"

// Sets access, member and details of a finding from where the trap was touched.
void zg_describe_trap(struct zg_finding *finding, const struct zg_zombie_hit *hit);
// The blocks on both sides of an address, NULL where there is none.
void zg_describe_neighbours(struct zg_finding *finding, const struct zg_block_view *before,
                            const struct zg_block_view *after);
// Name of the property that the finding is about. False where there is none, or it is not known.
bool zg_describe_member(const struct zg_finding *finding, struct zg_text *text);
// The same for the property at a byte of the object.
bool zg_describe_property(const struct zg_finding *finding, uint64_t byte, struct zg_text *text);
// Name of the class that the finding's object is of, 0, and of its superclasses, 1 and so on. False where there is none.
bool zg_describe_class(const struct zg_finding *finding, int level, struct zg_text *text);

#endif
