// A program calls libc functions that allocate: names, character sets, locales, sorting, regular expressions, time.

#define _GNU_SOURCE
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <pwd.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int compare(const void *left, const void *right) {
    const int *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void keep(void *key) { (void)key; }

int main(void) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found = NULL;
    printf("%d\n", getaddrinfo("127.0.0.1", "80", &hints, &found));
    freeaddrinfo(found);

    char in[] = "gr\xfc\xdf", out[20] = "", *from = in, *to = out;
    size_t left = strlen(in), room = sizeof out - 1;
    iconv_t converter = iconv_open("UTF-8", "ISO-8859-1");
    printf("%zu %s\n", iconv(converter, &from, &left, &to, &room), out);
    iconv_close(converter);

    printf("%d\n", setlocale(LC_ALL, "C") != NULL);
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    freelocale(locale);

    static int numbers[20000];
    for (int i = 0; i < 20000; i++) numbers[i] = (int)((unsigned)i * 2654435761u >> 8);
    qsort(numbers, 20000, sizeof *numbers, compare);
    int sorted = 1;
    for (int i = 1; i < 20000; i++) sorted &= numbers[i - 1] <= numbers[i];
    printf("%d\n", sorted);

    regex_t expression;
    regmatch_t match[2];
    regcomp(&expression, "([a-z]+)[0-9]{2,}", REG_EXTENDED);
    printf("%d", regexec(&expression, "-- word123 --", 2, match, 0));
    printf(" %d %d\n", (int)match[1].rm_so, (int)match[1].rm_eo);
    regfree(&expression);

    void *tree = NULL;
    for (int i = 0; i < 100; i++) tsearch(&numbers[i * 37], &tree, compare);
    tdestroy(tree, keep);

    printf("%d\n", getpwuid(0) != NULL);
    time_t moment = 86400;
    char text[30];
    strftime(text, sizeof text, "%Y-%m-%d", gmtime(&moment));
    puts(text);
    return 0;
}
