#include "support.h"
#include <ctype.h>
#include <string.h>

extern char *strdup(const char *);

char *support_upper(const char *text) {
    char *copy = strdup(text);
    for (char *at = copy; at && *at; at++) *at = (char)toupper((unsigned char)*at);
    return copy;
}
