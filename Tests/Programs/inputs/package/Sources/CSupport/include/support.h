#ifndef SUPPORT_H
#define SUPPORT_H
/// A copy of `text` in upper case, which the caller frees.
char *support_upper(const char *text);
#endif
