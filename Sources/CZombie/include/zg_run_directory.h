// The directory of a run: the files through which the processes that `zguard run` starts and zguard itself find each
// other, and the messages that processes send. Shared with readers outside.
//
// The directory is TMPDIR/zguard.XXXXXX/SECRET/, and the option report_path leads to `findings` in it. The outer
// directory can be listed by its owner alone, so only who has the environment of the run knows SECRET: knowing the path
// is the permission to add findings. Where zguard runs as root, processes of the run may continue as another user; they
// cannot open `findings`, and create a file of their own beside it, which the directory's sticky bit keeps others from
// removing.

#ifndef ZG_RUN_DIRECTORY_H
#define ZG_RUN_DIRECTORY_H

#include <stdint.h>

// X: any letter or digit.
#define ZG_RUN_FINDINGS "findings" // raw findings: a file, or a link to one beside the report that it will become
#define ZG_RUN_FINDINGS_PATTERN "/zguard.XXXXXX/XXXXXXXXXXXXXXXXXXXXXXXX/" ZG_RUN_FINDINGS
#define ZG_RUN_OWN_FINDINGS "own-"   // begins the name of a file of raw findings of one process: own-PID-RANDOM
#define ZG_RUN_COVERAGE "coverage"   // a link to the page of the run (zg_coverage.h)
#define ZG_RUN_SOCKET "socket"       // of zguard's (SOCK_SEQPACKET), for struct zg_run_message
#define ZG_RUN_UNWRITTEN "unwritten" // counts findings that no file took, by its size, downwards
#define ZG_RUN_UNKNOWN "untold"      // counts processes that cannot map the page of the run, likewise

// A path of a Unix socket has 108 bytes with its NUL (unix(7)): zguard chooses a short enough directory.
enum { ZG_RUN_PATH_BYTES = 108 };

enum zg_run_message_kind {
    zg_message_wrote, // a raw finding was written
    zg_message_dying, // the process wants its threads' stacks taken: zg_collector.h
    zg_message_pulse, // a thread of the process is to be watched for stalls: zg_stalls.h
};

// One packet of one connection. The kernel says who sent it (SO_PEERCRED), and a message is about its sender alone.
struct zg_run_message {
    uint32_t kind;         // enum zg_run_message_kind
    uint32_t index;        // of the request or the pulse, on the page of the run
    uint64_t place, nonce; // zg_message_dying: where the struct zg_dying_process is, and the number in it
};

#endif
