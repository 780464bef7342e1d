// Finds the message with which a program or its language runtime ended the process. Signal context; no lock.

#ifndef ZG_CRASH_MESSAGE_H
#define ZG_CRASH_MESSAGE_H

#include "platform/base.h"

// Looks up libc's symbol for use in signal context. Call once, at start-up.
void zg_crash_message_start(void);
// Copies the message of a program that dies of this signal. `is_own`: the process raised the signal itself. False if no
// message is known.
bool zg_crash_message_find(int signal, bool is_own, char *message, uint64_t capacity);

#endif
