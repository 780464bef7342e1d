// Calls of the program's own handlers for signals that come to us first. A fault that such a handler is called for is kept as long as the handler
// runs: it is reported if the program ends in there, and forgotten once the handler has returned or was left by a jump.
// Signal context; no lock. A record is written by the thread that it is about.

#ifndef ZG_HANDLED_H
#define ZG_HANDLED_H

#define _GNU_SOURCE
#include <signal.h>

#include "faults/diagnose.h"
#include "include/zg_handled.h"
#include "threads/thread.h"

enum zg_handled_kind {
    zg_handled_signal, // sent by somebody: nothing is reported
    zg_handled_fault,  // SIGSEGV or SIGBUS, with a verdict
    zg_handled_crash,  // another signal that ends programs (collect=crashes)
};

struct zg_handled {
    uint32_t is_taken;
    enum zg_handled_kind kind;
    int signal, pid, tid;
    uint32_t thread_number;
    bool is_reported;
    struct zg_handled *outer; // a signal that somebody has sent, in whose handler the fault was; NULL: none
    // What the kernel has handed to our handler: on the signal's stack, and valid as long as the program's handler runs.
    uint64_t info, context;
    // An address in the frame of our handler, below which the program's handler runs, or on the interrupted stack.
    uint64_t entry;
    uint64_t interrupted;            // the stack pointer that was
    uint64_t stack_low, stack_bytes; // the alternate stack, where there is one
    uint64_t pc;
    uint64_t text_before; // where the words to standard error ended then
    struct zg_verdict verdict;
    struct zg_handler_call *call;   // on the page of the run; NULL: no room, or no run
    struct zg_handled_fault *fault; // the same
};

// A handler of the program's is about to be called. NULL where the calling thread has a record of a fault already, in whose handler it is and which
// stays the one to report, or where there is no room. The thread has not borrowed another's state. `here`: an address in the frame of our handler.
struct zg_handled *zg_handled_begin(enum zg_handled_kind kind, int signal, const siginfo_t *info, const void *context,
                                    const void *here);
// The handler has returned. NULL is ignored.
void zg_handled_end(struct zg_handled *handled);
// What the page of the run has of the fault goes: it was reported, or is not to be.
void zg_handled_leave_page(struct zg_handled *handled);
// The process is about to exit: on the page no handler of it runs any more, but for `but`; `from_pages`: nor does the page have its faults.
void zg_handled_leave_all(const struct zg_handled *but, bool from_pages);
// Whether any thread may be in such a handler.
bool zg_handled_is_any(void);

// The call whose handler the thread is still in, NULL where it is in none. Such a record goes away where the thread is seen to have left. From a
// signal's context, and from a published function.
struct zg_handled *zg_handled_around_context(const void *context);
struct zg_handled *zg_handled_around_frame(const uint64_t *frame);
// The next call of another thread of this process in whose handler a fault waits, after `before` (NULL: the first); NULL: there is none.
struct zg_handled *zg_handled_of_other_thread(const struct zg_handled *before);

// Whether a finding of this fault is worth writing to the page of the run: an instruction whose faults are recovered from is left out after some
// times. Claims the room for it; the text is complete with zg_handled_publish.
struct zg_handled_fault *zg_handled_claim_page(struct zg_handled *handled);
// `bytes` is 0 where there is none.
void zg_handled_publish(struct zg_handled *handled, uint64_t bytes);

// The thread leaves for this stack pointer by a jump.
void zg_handled_jump(uint64_t sp);
// The thread, which has a record, has called a published function.
void zg_handled_look(const uint64_t *frame);
// In a child of a fork, in which the handler was called for the parent's fault.
void zg_handled_after_fork_in_child(void);

#endif
