// Drops its privileges, as a server's worker does, and writes into its run's coverage page. Tries to make zguard stop a
// thread of process PID, which is not part of the run. usage: asks WHAT PID USER
//   request    asks, in the page and by a message, for the stacks of PID, as if PID were crashing
//   heartbeat  registers a wait heartbeat, busy for long, with PID as process and thread
//   thread     registers a wait heartbeat with its own process ID, but with PID as thread
// zguard recognizes a process by an address and the nonce there. Both match in PID too, because both programs are
// linked at the same fixed address.

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "zg_coverage.h"
#include "zg_run_directory.h"

enum { FIXED = 0x400000 }; // load address of both programs, which have equal bytes there: \177ELF…

static struct zg_coverage_page *find_page(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "/memfd:zguard-coverage")) return (void *)strtoul(line, NULL, 16);
    return NULL;
}

static void send_message(uint32_t kind, uint32_t index, uint64_t nonce) {
    const char *options = getenv("ZGUARD_OPTIONS");
    const char *path = options ? strstr(options, "report_path=") : NULL;
    if (!path) return;
    char name[256];
    snprintf(name, sizeof name, "%s", path + 12);
    name[strcspn(name, ":")] = 0;
    char *end = strrchr(name, '/');
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.*s/%s", (int)(end - name), name, ZG_RUN_SOCKET);
    int file = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct zg_run_message message = {kind, index, FIXED, nonce};
    if (connect(file, (void *)&address, sizeof address) == 0) send(file, &message, sizeof message, MSG_NOSIGNAL);
    close(file);
}

int main(int count, char **words) {
    if (count != 4) return 2;
    const char *what = words[1];
    uint32_t victim = (uint32_t)atoi(words[2]);
    struct zg_coverage_page *page = find_page();
    uint64_t nonce = *(uint64_t *)FIXED;
    if (!page) return 3;
    if (setgid((gid_t)atoi(words[3])) || setuid((uid_t)atoi(words[3]))) return 4;
    prctl(PR_SET_DUMPABLE, 1);
    for (int round = 0; round < 30; round++) {
        if (!strcmp(what, "request")) {
            struct zg_collector_request *request = &page->collector.requests[3];
            request->pid = victim;
            __atomic_store_n(&request->state, zg_request_asked, __ATOMIC_RELEASE);
            send_message(zg_message_dying, 3, nonce);
        } else {
            struct zg_heartbeat *heartbeat = &page->heartbeats.heartbeats[7];
            heartbeat->pid = !strcmp(what, "heartbeat") ? victim : (uint32_t)getpid();
            heartbeat->tid = victim;
            heartbeat->number = 1;
            heartbeat->place = FIXED;
            heartbeat->nonce = nonce;
            heartbeat->waits = heartbeat->times = heartbeat->calls = heartbeat->singles = ZG_HEARTBEAT_WAITS;
            heartbeat->busy_since = 1;
            __atomic_store_n(&heartbeat->state, zg_heartbeat_beats, __ATOMIC_RELEASE);
            page->heartbeats.is_wanted = 1;
            page->heartbeats.stall_ms = 100;
            send_message(zg_message_heartbeat, 7, 0);
        }
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    page->heartbeats.heartbeats[7].state = zg_heartbeat_free;
    puts("asked");
    return 0;
}
