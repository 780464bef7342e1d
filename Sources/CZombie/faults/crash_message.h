// What whoever ended the program said about it. Signal context; no lock.

#ifndef ZG_CRASH_MESSAGE_H
#define ZG_CRASH_MESSAGE_H

#include "platform/base.h"

// Looks up what is needed later. Start-up.
void zg_crash_message_start(void);
// The message of a program that dies of this signal; `is_own`: it was raised by the thread itself and not sent. False: none is known.
bool zg_crash_message_find(int signal, bool is_own, char *message, uint64_t capacity);

#endif
