// Writes the JSON keys of a crash. Signal context; no lock, no allocation.

#define _GNU_SOURCE
#include "findings/crash.h"

#include <signal.h>

#include "findings/annotations.h"

const char *zg_crash_signal_name(int signal) {
    switch (signal) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGABRT: return "SIGABRT";
    case SIGILL: return "SIGILL";
    case SIGTRAP: return "SIGTRAP";
    case SIGFPE: return "SIGFPE";
    case SIGSYS: return "SIGSYS";
    case SIGXCPU: return "SIGXCPU";
    case SIGXFSZ: return "SIGXFSZ";
    default: return NULL;
    }
}

void zg_crash_put_json(struct zg_text *text, const struct zg_crash *crash) {
    if (crash->signal) {
        zg_text_string(text, ",\"signal\":");
        zg_text_json_string(text, zg_crash_signal_name(crash->signal));
    } else {
        zg_text_string(text, ",\"status\":");
        zg_text_decimal(text, (uint64_t)crash->status);
    }
    zg_text_string(text, ",\"code\":");
    zg_text_signed(text, crash->code);
    if (crash->message) {
        zg_text_string(text, ",\"message\":");
        zg_text_json_string(text, crash->message);
    }
    zg_text_string(text, ",\"registers\":{");
    bool is_first = true;
    for (int i = 0; i < ZG_ARCH_REGISTER_COUNT; i++) {
        if (!(crash->registers.known >> i & 1)) continue;
        if (!is_first) zg_text_char(text, ',');
        is_first = false;
        zg_text_json_string(text, zg_arch_register_names[i]);
        zg_text_char(text, ':');
        zg_text_json_hex(text, crash->registers.value[i]);
    }
    if (ZG_ARCH_REGISTER_COUNT <= ZG_ARCH_PC) {
        zg_text_string(text, ",\"pc\":");
        zg_text_json_hex(text, crash->registers.pc);
    }
    zg_text_char(text, '}');
    zg_annotations_put(text);
}
