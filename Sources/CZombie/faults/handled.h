// Tracks calls of the program's own signal handlers, which the runtime's handler makes. A fault stays recorded while
// its handler runs: it is reported if the program ends in the handler, and dropped once the handler has returned or was
// left by a jump. Signal context; no lock. Only the thread that a record is about writes the record.

#ifndef ZG_HANDLED_H
#define ZG_HANDLED_H

#define _GNU_SOURCE
#include <signal.h>

#include "faults/diagnose.h"
#include "include/zg_handled.h"
#include "threads/thread.h"

enum zg_handled_kind {
    zg_handled_signal, // a sent signal: nothing is reported
    zg_handled_fault,  // SIGSEGV or SIGBUS, with a verdict
    zg_handled_crash,  // another signal that ends programs (collect=crashes)
};

struct zg_handled {
    uint32_t is_taken;
    enum zg_handled_kind kind;
    int signal, pid, tid;
    uint32_t thread_number;
    bool is_reported;
    // Record of a sent signal in whose handler this fault happened; NULL if none.
    struct zg_handled *outer;
    // Arguments that the kernel passed to the runtime's handler. They lie on the signal stack, and are valid while the
    // program's handler runs.
    uint64_t info, context;
    // An address in the frame of the runtime's handler. The program's handler runs below this address, or on the
    // interrupted stack.
    uint64_t entry;
    uint64_t interrupted;            // interrupted stack pointer
    uint64_t stack_low, stack_bytes; // alternate stack; stack_bytes 0 if none
    uint64_t pc;
    uint64_t text_before; // end of the saved standard error text when the handler was called
    struct zg_verdict verdict;
    struct zg_handler_call *call;   // entry on the run's page; NULL if there is no room or no run
    struct zg_handled_fault *fault; // description on the run's page, or NULL
};

// Records that the program's handler is about to be called. NULL if there is no room, or if the thread is already in a
// handler for a fault: then the earlier fault is the one to report. The thread must not use another thread's state.
// `here`: an address in the frame of the runtime's handler.
struct zg_handled *zg_handled_begin(enum zg_handled_kind kind, int signal, const siginfo_t *info, const void *context,
                                    const void *here);
// Drops the record, because the handler has returned. NULL is ignored.
void zg_handled_end(struct zg_handled *handled);
// Removes the fault's description from the run's page: it was reported, or will not be.
void zg_handled_leave_page(struct zg_handled *handled);
// Call when the process is about to exit. Removes all calls of its handlers from the run's page, except `but`; with
// `from_pages`, also removes the descriptions of all faults.
void zg_handled_leave_all(const struct zg_handled *but, bool from_pages);
// Whether any thread may be in a recorded handler.
bool zg_handled_is_any(void);

// Returns the call whose handler the thread is still in, NULL if none. Drops the record if the thread has left the
// handler. The first function takes a signal's context, the second the frame of a published function.
struct zg_handled *zg_handled_around_context(const void *context);
struct zg_handled *zg_handled_around_frame(const uint64_t *frame);
// Returns the next record, behind `before` (NULL: the first), of a handler in which another thread of this process
// handles a fault that was not reported. NULL if there is none.
struct zg_handled *zg_handled_of_other_thread(const struct zg_handled *before);

// Claims room on the run's page for a description of the fault. NULL if there is no room, or if the program has often
// recovered from this instruction's faults. Complete the description with zg_handled_publish.
struct zg_handled_fault *zg_handled_claim_page(struct zg_handled *handled);
// Publishes a description of `bytes` bytes. 0: releases the room instead.
void zg_handled_publish(struct zg_handled *handled, uint64_t bytes);

// Call when the thread is about to jump to this stack pointer. Drops its record if the jump leaves the handler.
void zg_handled_jump(uint64_t sp);
// Call when a thread that has a record calls a published function. Drops the record if the handler was left.
void zg_handled_check_left(const uint64_t *frame);
// Drops all records in the child of a fork: they are about the parent's faults.
void zg_handled_after_fork_in_child(void);

#endif
