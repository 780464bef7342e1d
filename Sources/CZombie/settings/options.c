// Parses ZGUARD_OPTIONS by the table in zg_options.h.
// Cold: runs at the start of a guarded process, and in zguard itself. Takes no lock, allocates nothing.

#include "include/zg_options.h"

#include "platform/text.h"

#define ZG_PLACE_bool(name) 0
#define ZG_PLACE_number(name) 0
#define ZG_PLACE_bytes(name) 0
#define ZG_PLACE_percent(name) 0
#define ZG_PLACE_choice(name) 0
#define ZG_PLACE_words(name) 0
#define ZG_PLACE_path(name) offsetof(struct zg_options, name)
#define ZG_PLACE_names ZG_PLACE_path
#define ZG_LIST(...) #__VA_ARGS__
#define ZG_VISIBILITY_shown true
#define ZG_VISIBILITY_hidden false

const struct zg_option_info zg_option_table[zg_option_count] = {
#define ZG_X(name, kind, initial, least, most, choices, group, visibility, text, details)                              \
    {#name, zg_option_##kind, initial, least, most, ZG_LIST choices, sizeof #name - 1, ZG_PLACE_##kind(name)},
    ZG_OPTIONS(ZG_X)
#undef ZG_X
};

const struct zg_option_description zg_option_descriptions[zg_option_count] = {
#define ZG_X(name, kind, initial, least, most, choices, group, visibility, text, details)                              \
    {zg_option_group_##group, ZG_VISIBILITY_##visibility, text, details},
    ZG_OPTIONS(ZG_X)
#undef ZG_X
};

const char *const zg_option_group_titles[zg_option_group_count] = {
#define ZG_X(name, title) title,
    ZG_OPTION_GROUPS(ZG_X)
#undef ZG_X
};

const struct zg_option_alias zg_option_aliases[zg_option_alias_count] = {
#define ZG_X(alias, name) {#alias, zg_option_name_##name},
    ZG_OPTION_ALIASES(ZG_X)
#undef ZG_X
};

const char *const zg_option_kind_names[zg_option_kind_count] = {
#define ZG_X(name) #name,
    ZG_OPTION_KINDS(ZG_X)
#undef ZG_X
};

static char *path_of(struct zg_options *options, int index) { return (char *)options + zg_option_table[index].path; }

#define ZG_CLEAR_bool(name)
#define ZG_CLEAR_number(name)
#define ZG_CLEAR_bytes(name)
#define ZG_CLEAR_percent(name)
#define ZG_CLEAR_choice(name)
#define ZG_CLEAR_words(name)
#define ZG_CLEAR_path(name) options->name[0] = 0;
#define ZG_CLEAR_names ZG_CLEAR_path

void zg_options_defaults(struct zg_options *options) {
    for (int i = 0; i < zg_option_count; i++) options->value[i] = zg_option_table[i].initial;
#define ZG_X(name, kind, initial, least, most, choices, group, visibility, text, details) ZG_CLEAR_##kind(name)
    ZG_OPTIONS(ZG_X)
#undef ZG_X
}

// Copies the first name of the list "a, b, c" to `choice` and advances `list` to the next one. False at the list's end.
static bool next_choice(const char **list, char *choice, uint64_t capacity) {
    if (!**list) return false;
    uint64_t count = 0;
    for (; **list && **list != ','; (*list)++)
        if (count + 1 < capacity) choice[count++] = **list;
    while (**list == ',' || **list == ' ') (*list)++;
    choice[count] = 0;
    return true;
}

// Parses decimal digits. If `suffix`, a letter k, m, g or t may follow (powers of 1024).
static bool parse_number(const char *text, bool suffix, int64_t *value) {
    uint64_t number = 0;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (number > (UINT64_C(1) << 62) / 10) return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    if (suffix && *text) {
        int shift = 0;
        switch (*text | 0x20) {
        case 'k': shift = 10; break;
        case 'm': shift = 20; break;
        case 'g': shift = 30; break;
        case 't': shift = 40; break;
        default: return false;
        }
        if (number >> (62 - shift)) return false;
        number <<= shift;
        text++;
    }
    *value = (int64_t)number;
    return !*text;
}

// Parses "5%", "2.5%", or such a number without the sign. The value is in tenths of a percent.
static bool parse_percent(const char *text, int64_t *value) {
    uint64_t number = 0;
    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (number > 1000) return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    number *= 10;
    if (*text == '.') {
        if (text[1] < '0' || text[1] > '9') return false;
        number += (uint64_t)(text[1] - '0');
        text += 2;
    }
    if (*text == '%') text++;
    *value = (int64_t)number;
    return !*text;
}

static bool parse_bool(const char *text, int64_t *value) {
    static const char *const words[2][4] = {{"0", "no", "false", "off"}, {"1", "yes", "true", "on"}};
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < 4; i++)
            if (zg_string_equal(text, words[v][i])) {
                *value = v;
                return true;
            }
    return false;
}

static bool parse_choice(const char *text, const char *choices, int64_t *value) {
    char choice[32];
    for (int64_t i = 0; next_choice(&choices, choice, sizeof choice); i++)
        if (zg_string_equal(text, choice)) {
            *value = i;
            return true;
        }
    return false;
}

// Parses "a,c" to a bit mask. "none" and the empty string give 0.
static bool parse_words(const char *text, const char *choices, int64_t *value) {
    char word[32];
    int64_t index;
    *value = 0;
    if (zg_string_equal(text, "none")) return true;
    while (next_choice(&text, word, sizeof word)) {
        if (!parse_choice(word, choices, &index)) return false;
        *value |= INT64_C(1) << index;
    }
    return true;
}

static void describe_expected(struct zg_text *text, const struct zg_option_info *option) {
    switch (option->kind) {
    case zg_option_bool: zg_text_string(text, "0 or 1"); return;
    case zg_option_path: zg_text_string(text, "a path of at most 511 bytes without ':'"); return;
    case zg_option_names: zg_text_string(text, "names separated by commas, of at most 511 bytes"); return;
    case zg_option_percent: zg_text_string(text, "0 to 100, with or without %"); return;
    case zg_option_number:
    case zg_option_bytes:
        zg_text_decimal(text, (uint64_t)option->least);
        zg_text_string(text, " to ");
        zg_text_decimal(text, (uint64_t)option->most);
        if (option->kind == zg_option_bytes) zg_text_string(text, " bytes, suffixes k, m, g, t");
        return;
    case zg_option_words: zg_text_string(text, "none or a list of: "), zg_text_string(text, option->choices); return;
    case zg_option_choice: {
        char choice[32];
        const char *list = option->choices;
        for (int i = 0; next_choice(&list, choice, sizeof choice); i++) {
            if (i) zg_text_string(text, *list ? ", " : " or ");
            zg_text_string(text, choice);
        }
    }
    }
}

static bool set_value(struct zg_options *options, int index, const char *value) {
    const struct zg_option_info *option = &zg_option_table[index];
    int64_t parsed = 0;
    switch (option->kind) {
    case zg_option_path:
    case zg_option_names:
        if (zg_string_length(value) >= ZG_OPTION_PATH_BYTES) return false;
        zg_string_copy(path_of(options, index), value, ZG_OPTION_PATH_BYTES);
        return true;
    case zg_option_bool:
        if (!parse_bool(value, &parsed)) return false;
        break;
    case zg_option_choice:
        if (!parse_choice(value, option->choices, &parsed)) return false;
        break;
    case zg_option_words:
        if (!parse_words(value, option->choices, &parsed)) return false;
        break;
    case zg_option_percent:
        if (!parse_percent(value, &parsed) || parsed < option->least || parsed > option->most) return false;
        break;
    case zg_option_number:
    case zg_option_bytes:
        if (!parse_number(value, option->kind == zg_option_bytes, &parsed)) return false;
        if (parsed < option->least || parsed > option->most) return false;
        break;
    }
    options->value[index] = parsed;
    return true;
}

// Option values of each profile. Options not listed for a profile keep their default.
static const struct {
    int64_t profile;
    enum zg_option option;
    int64_t value;
} profile_values[] = {
    {zg_profile_fence, zg_option_name_isolated_per_context, ZG_FENCE_ALL},
    {zg_profile_fence, zg_option_name_isolated_bytes, INT64_C(1) << 40},
    {zg_profile_fence, zg_option_name_isolated_overhead, ZG_NO_LIMIT_PERCENT},
    {zg_profile_fence, zg_option_name_stack_overhead, ZG_NO_LIMIT_PERCENT},
    {zg_profile_fence, zg_option_name_history_per_object, 8},
    {zg_profile_fence, zg_option_name_overread_ms, 0},
    // About half of the kernel's default limit (vm.max_map_count, 65530).
    {zg_profile_fence, zg_option_name_mappings, 32000},
    {zg_profile_fence, zg_option_name_retired_bytes, INT64_C(16) << 30},
    {zg_profile_sample, zg_option_name_sample_rate, 10000},
    {zg_profile_sample, zg_option_name_isolated_bytes, INT64_C(1) << 20},
    {zg_profile_sample, zg_option_name_overread_ms, 0},
    {zg_profile_sample, zg_option_name_witnesses, 0},
    {zg_profile_sample, zg_option_name_collect, zg_collect_crashes | zg_collect_stalls},
};

static void set_profile(struct zg_options *options, int64_t profile) {
    options->value[zg_option_name_profile] = profile;
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(profile_values); i++) {
        enum zg_option option = profile_values[i].option;
        options->value[option] = zg_option_table[option].initial;
    }
    for (uint64_t i = 0; i < ZG_ARRAY_COUNT(profile_values); i++)
        if (profile_values[i].profile == profile) options->value[profile_values[i].option] = profile_values[i].value;
}

// Returns the Levenshtein distance of two names of at most 63 bytes.
static int edit_distance(const char *a, const char *b) {
    uint8_t row[64];
    int columns = 0;
    for (; b[columns] && columns < 63; columns++) row[columns] = (uint8_t)(columns + 1);
    int distance = columns;
    for (int i = 0; a[i] && i < 63; i++) {
        int diagonal = i;
        distance = i + 1;
        for (int j = 0; j < columns; j++) {
            int above = row[j];
            int cheapest = diagonal + (a[i] != b[j]);
            if (above + 1 < cheapest) cheapest = above + 1;
            if (distance + 1 < cheapest) cheapest = distance + 1;
            diagonal = above;
            row[j] = (uint8_t)(distance = cheapest);
        }
    }
    return distance;
}

// Returns the option whose name or alias is most similar to `name`; -1 if all differ by more than three edits.
static int nearest_option(const char *name) {
    int nearest = -1, best = 4;
    for (int i = 0; i < zg_option_count; i++) {
        int distance = edit_distance(name, zg_option_table[i].name);
        if (distance < best) best = distance, nearest = i;
    }
    for (int i = 0; i < zg_option_alias_count; i++) {
        int distance = edit_distance(name, zg_option_aliases[i].name);
        if (distance < best) best = distance, nearest = (int)zg_option_aliases[i].option;
    }
    return nearest;
}

// Returns the option of that name or alias, or -1.
static int find_option(const char *name) {
    // Many names begin alike: compare lengths first.
    uint64_t bytes = zg_string_length(name);
    for (int i = 0; i < zg_option_count; i++)
        if (zg_option_table[i].name_bytes == bytes && zg_string_equal(name, zg_option_table[i].name)) return i;
    for (int i = 0; i < zg_option_alias_count; i++)
        if (zg_string_equal(name, zg_option_aliases[i].name)) return (int)zg_option_aliases[i].option;
    return -1;
}

// Applies the profile before all other options, wherever it is in the text. The last known profile counts.
static void apply_profile(struct zg_options *options, const char *text) {
    static const char name[] = "profile=";
    while (*text) {
        uint64_t i = 0;
        while (name[i] && text[i] == name[i]) i++;
        char value[16];
        uint64_t count = 0;
        int64_t profile;
        if (!name[i]) {
            for (text += i; *text && *text != ':'; text++)
                if (count + 1 < sizeof value) value[count++] = *text;
            value[count] = 0;
            if (parse_choice(value, zg_option_table[zg_option_name_profile].choices, &profile))
                set_profile(options, profile);
        }
        while (*text && *text != ':') text++;
        if (*text) text++;
    }
}

int zg_options_parse(struct zg_options *options, const char *text,
                     void (*report)(const struct zg_option_error *error, void *context), void *context) {
    char value[ZG_OPTION_PATH_BYTES + 1];
    apply_profile(options, text);
    while (*text) {
        struct zg_option_error error = {.what = zg_option_ok};
        uint64_t name_count = 0, value_count = 0;
        bool too_long = false;
        for (; *text && *text != ':' && *text != '='; text++)
            if (name_count + 1 < sizeof error.name) error.name[name_count++] = *text;
        bool has_value = *text == '=';
        if (has_value) text++;
        for (; *text && *text != ':'; text++)
            if (value_count + 1 < sizeof value) value[value_count++] = *text;
            else too_long = true;
        value[value_count] = 0;
        if (*text == ':') text++;
        if (!name_count && !has_value) continue; // empty entry, as in "a=1::b=2"

        struct zg_text expected;
        zg_text_init(&expected, error.expected, sizeof error.expected);
        int index = find_option(error.name);
        if (index < 0) {
            error.what = zg_option_unknown;
            int nearest = nearest_option(error.name);
            if (nearest >= 0) zg_text_string(&expected, zg_option_table[nearest].name);
        } else if (!has_value || too_long || !set_value(options, index, value)) {
            error.what = zg_option_bad_value;
            describe_expected(&expected, &zg_option_table[index]);
        }
        if (error.what == zg_option_ok) continue;
        zg_string_copy(error.value, value, sizeof error.value);
        report(&error, context);
        if (error.what == zg_option_bad_value) return 0;
    }
    return 1;
}
