// The directory of a run: the files through which zguard and the processes that `zguard run` starts communicate.
// Also the messages that processes send. Readers outside use these names and layouts.
//
// The directory is TMPDIR/zguard.XXXXXX/SECRET/, and the option report_path is `findings` in it. Only the owner can
// list the outer directory, so only processes with the environment of the run know SECRET: the path is the permission
// to add findings. If zguard runs as root, processes of the run may change to another user. Such a process cannot open
// `findings` and creates a file of its own beside it. The directory's sticky bit protects this file from removal by
// other users.

#ifndef ZG_RUN_DIRECTORY_H
#define ZG_RUN_DIRECTORY_H

#include <stdint.h>

// In ZG_RUN_FINDINGS_PATTERN, an X stands for any letter or digit.
#define ZG_RUN_FINDINGS "findings" // raw findings: a file, or a link to a file beside the report that zguard will write
#define ZG_RUN_FINDINGS_PATTERN "/zguard.XXXXXX/XXXXXXXXXXXXXXXXXXXXXXXX/" ZG_RUN_FINDINGS
#define ZG_RUN_OWN_FINDINGS "own-"   // prefix of one process's file of raw findings: own-PID-RANDOM
#define ZG_RUN_PAIR_LOG "pairs-"     // prefix of one process's pair log (stacks/pair_log.h): pairs-PID-RANDOM
#define ZG_RUN_WATCHED "watched"     // allocation stacks that earlier runs watched (stacks/watched.c)
#define ZG_RUN_COVERAGE "coverage"   // link to the page of the run (zg_coverage.h)
#define ZG_RUN_SOCKET "socket"       // zguard's SOCK_SEQPACKET socket, for struct zg_run_message
#define ZG_RUN_UNWRITTEN "unwritten" // counts lost findings: each shortens the file by one byte
// File of focused stacks, named by the option `focus`. It has a line for each stack: the stack's identity
// (stacks/identity.h) in 16 hexadecimal digits, and a letter for the placement of the stack's blocks in their pages
// (ZG_RUN_FOCUS_LETTERS[enum zg_focus]).
#define ZG_RUN_FOCUS "focus"
#define ZG_RUN_FOCUS_LETTERS "?ExS"
enum { ZG_RUN_FOCUS_MOST = 1024 };
// File that counts processes that cannot map the page of the run: each shortens the file by one byte.
#define ZG_RUN_UNMAPPED "untold"

// Size of a Unix socket path including its NUL (unix(7)). zguard chooses a short enough directory.
enum { ZG_RUN_PATH_BYTES = 108 };

enum zg_run_message_kind {
    zg_message_wrote,     // wrote a raw finding
    zg_message_dying,     // asks for the stacks of its threads (zg_collector.h)
    zg_message_heartbeat, // asks for a thread to be watched for stalls (zg_stalls.h)
    zg_message_ending,    // asks for a search for leaks before the process ends (zg_collector.h)
    zg_message_holders,   // asks for a search for pointers to the freed block of a finding (zg_collector.h)
};

// A message is one packet on a connection of its own. The kernel names the sender (SO_PEERCRED), and a message is
// always about its sender.
struct zg_run_message {
    uint32_t kind;  // enum zg_run_message_kind
    uint32_t index; // index of the request or the wait heartbeat, on the page of the run
    // zg_message_dying, …_ending, …_holders: address of the struct zg_dying_process, and the nonce in it.
    uint64_t place, nonce;
};

#endif
