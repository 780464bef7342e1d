// Describes a fault on a freed object in terms of its class: the method, the property, the kind of access.
// Cold, any context.

#ifndef ZG_DESCRIBE_H
#define ZG_DESCRIBE_H

#include "findings/finding.h"
#include "platform/text.h"
#include "zombies/swift_names.h"
#include "zombies/zombie.h"

// Sets access, member and details of a finding from the trap word that was used and the offset into it.
void zg_describe_trap(struct zg_finding *finding, const struct zg_zombie_hit *hit);
// Adds details of the blocks before and after an address. Each may be NULL if there is none.
void zg_describe_neighbours(struct zg_finding *finding, const struct zg_block_view *before,
                            const struct zg_block_view *after);
// Writes the name of the property that the finding is about. Returns false if there is none or it is unknown.
bool zg_describe_member(const struct zg_finding *finding, struct zg_text *text);
// Writes the name of the property at byte `byte` of the object. Returns false if there is none or it is unknown.
bool zg_describe_property(const struct zg_finding *finding, uint64_t byte, struct zg_text *text);
// Writes the name of the class of the finding's object (level 0) or of a superclass (1 and up). Returns false if there
// is none.
bool zg_describe_class(const struct zg_finding *finding, int level, struct zg_text *text);

#endif
