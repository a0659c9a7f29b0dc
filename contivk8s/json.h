/* Texts, and JSON as main.py reads and writes it: the part of contivk8s (main.c) that knows no CNI.
 *
 * A value of a JSON text is the part of the text that it stands in; nothing is copied but strings that are asked for.
 * Nothing is freed: the program ends after one call.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEPTH = 200 }; /* levels of arrays and objects that a text may have */

/* Bytes, with NUL after them; or a part of such bytes, which has no room. `at` is NULL if there is no text at all. */
struct text {
    const char *at;
    size_t size, room;
};

static void add(struct text *t, const char *data, size_t size)
{
    if (t->room <= t->size + size) {
        t->room = 2 * (t->size + size) + 64;
        if (!(t->at = realloc((char *)t->at, t->room)))
            _exit(1);
    }
    char *end = (char *)t->at + t->size;
    if (size)
        memcpy(end, data, size);
    end[size] = 0;
    t->size += size;
}

static struct text part(const char *at, size_t size) { return (struct text){at, size, 0}; }
static struct text words(const char *s) { return part(s, strlen(s)); }
static int is(struct text t, const char *s) { return t.size == strlen(s) && !memcmp(t.at, s, t.size); }
static int starts(struct text t, const char *s) { return !strncmp(t.at, s, strlen(s)); }

/* Reads a character of UTF-8; returns its bytes. What is none has the value -1 and as many bytes as could begin one. */
static size_t character(struct text t, size_t at, long *value)
{
    const unsigned char *s = (const unsigned char *)t.at + at;
    size_t more = *s >= 0xF0 ? 3 : *s >= 0xE0 ? 2 : 1, i;
    int low = *s == 0xE0 ? 0xA0 : *s == 0xF0 ? 0x90 : 0x80, high = *s == 0xED ? 0x9F : *s == 0xF4 ? 0x8F : 0xBF;
    long c = *s & (0x3F >> more);
    *value = *s < 0x80 ? *s : -1;
    if (*s < 0xC2 || *s > 0xF4)
        return 1;
    for (i = 1; i <= more; i++, low = 0x80, high = 0xBF) {
        if (at + i == t.size || s[i] < low || s[i] > high)
            return i;
        c = c << 6 | (s[i] & 0x3F);
    }
    *value = c;
    return i;
}

/* Adds a character as UTF-8; half a surrogate pair, which is no character, as "?". */
static void add_character(struct text *t, long c)
{
    c = c >= 0xD800 && c <= 0xDFFF ? '?' : c;
    size_t more = c >= 0x10000 ? 3 : c >= 0x800 ? 2 : c >= 0x80 ? 1 : 0;
    char bytes[4] = {(char)(more ? (0xFF00 >> (more + 1) & 0xFF) | c >> 6 * more : c)};
    for (size_t i = 1; i <= more; i++)
        bytes[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3F));
    add(t, bytes, more + 1);
}

/* Adds a JSON string in ASCII; what is not UTF-8 becomes U+FFFD. */
static void add_encoded(struct text *t, struct text s)
{
    static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    long c;
    add(t, "\"", 1);
    for (size_t i = 0; i < s.size;) {
        i += character(s, i, &c);
        c = c < 0 ? 0xFFFD : c;
        const char *named = c && c < 0x80 ? strchr(special, (int)c) : NULL;
        char form[32] = {(char)c};
        if (named)
            snprintf(form, sizeof form, "\\%c", letters[named - special]);
        else if (c >= 0x10000)
            snprintf(form, sizeof form, "\\u%04lx\\u%04lx", 0xD7C0 + (c >> 10), 0xDC00 | (c & 0x3FF));
        else if (c < ' ' || c > '~')
            snprintf(form, sizeof form, "\\u%04lx", c);
        add(t, form, strlen(form));
    }
    add(t, "\"", 1);
}

/* Returns a format in which each $ stands for a text, and each % for its JSON string. */
static struct text text(const char *format, ...)
{
    struct text t = {0};
    va_list texts;
    va_start(texts, format);
    for (add(&t, "", 0); *format; format++) {
        struct text s = *format == '$' || *format == '%' ? va_arg(texts, struct text) : part(format, 1);
        *format == '%' ? add_encoded(&t, s) : add(&t, s.at, s.size);
    }
    va_end(texts);
    return t;
}

/* These return what follows blanks, digits, a string, a number, a value; NULL if there is none. NUL ends the text. */
static const char *skip_blanks(const char *p) { return p + strspn(p, " \t\r\n"); }
static const char *skip_digits(const char *p) { return strspn(p, "0123456789") ? p + strspn(p, "0123456789") : NULL; }

static const char *skip_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    for (; *p != '"'; p++) {
        if ((unsigned char)*p < ' ')
            return NULL;
        if (*p == '\\' && (!*++p || !strchr("\"\\/bfnrtu", *p) || (*p == 'u' && strspn(p + 1, "0123456789abcdefABCDEF") < 4)))
            return NULL;
    }
    return p + 1;
}

static const char *skip_number(const char *p)
{
    p += *p == '-';
    p = *p == '0' ? p + 1 : skip_digits(p);
    if (p && *p == '.')
        p = skip_digits(p + 1);
    if (p && (*p == 'e' || *p == 'E'))
        p = skip_digits(p + 1 + (p[1] == '+' || p[1] == '-'));
    return p;
}

static const char *skip_value(const char *p, int depth)
{
    char last = *p == '{' ? '}' : ']';
    if (!strncmp(p, "true", 4) || !strncmp(p, "null", 4) || !strncmp(p, "false", 5))
        return p + (*p == 'f' ? 5 : 4);
    if (*p != '{' && *p != '[')
        return *p == '"' ? skip_string(p) : skip_number(p);
    if (depth == MAX_DEPTH)
        return NULL;
    if (*(p = skip_blanks(p + 1)) == last)
        return p + 1;
    for (;; p = skip_blanks(p + 1)) {
        if (last == '}') {
            if (!(p = skip_string(p)) || *(p = skip_blanks(p)) != ':')
                return NULL;
            p = skip_blanks(p + 1);
        }
        if (!(p = skip_value(p, depth + 1)) || (*(p = skip_blanks(p)) != last && *p != ','))
            return NULL;
        if (*p == last)
            return p + 1;
    }
}

/* Returns the value of a JSON text; no text if it is none. */
static struct text decode(struct text t)
{
    const char *begin = skip_blanks(t.at), *after = skip_value(begin, 0);
    long c = after && skip_blanks(after) == t.at + t.size ? 0 : -1;
    for (size_t i = 0; i < t.size && c >= 0;)
        i += character(t, i, &c);
    return c < 0 ? (struct text){0} : part(begin, (size_t)(after - begin));
}

static long hexadecimal(const char *p) { return strtol((char[]){p[0], p[1], p[2], p[3], 0}, NULL, 16); }

/* Returns what a JSON string says; no text for another value. */
static struct text string(struct text value)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (!value.size || *value.at != '"')
        return (struct text){0};
    struct text t = text("");
    for (const char *p = value.at + 1; *p != '"'; p++) {
        if (*p != '\\') {
            add(&t, p, 1);
        } else if (*++p != 'u') {
            add(&t, meant + (strchr(letters, *p) - letters), 1);
        } else {
            long c = hexadecimal(p + 1), low = c >> 10 == 0x36 && !strncmp(p + 5, "\\u", 2) ? hexadecimal(p + 7) : 0;
            int pair = low >> 10 == 0x37;
            add_character(&t, pair ? 0x10000 + ((c & 0x3FF) << 10) + (low & 0x3FF) : c);
            p += pair ? 10 : 4;
        }
    }
    return t;
}

/* Whether a key is this name, in lower case, for Go's decoder: in any case, and two letters beside ASCII fold. */
static int is_named(struct text key, const char *name)
{
    long c = 0;
    for (size_t i = 0; i < key.size; name++) {
        i += character(key, i, &c);
        c = c == 0x17F ? 's' : c == 0x212A ? 'k' : c >= 'A' && c <= 'Z' ? c + 32 : c;
        if (!*name || c != *name)
            return 0;
    }
    return !*name;
}

/* Returns the last value of this name that is not null; no text if there is none, or `object` is another value. */
static struct text member(struct text object, const char *name)
{
    struct text found = {0};
    if (!object.size || *object.at != '{')
        return found;
    for (const char *p = skip_blanks(object.at + 1); *p == '"'; p = skip_blanks(p + (*p == ','))) {
        const char *after = skip_string(p), *value = skip_blanks(skip_blanks(after) + 1), *end = skip_value(value, 0);
        if (*value != 'n' && is_named(string(part(p, (size_t)(after - p))), name))
            found = part(value, (size_t)(end - value));
        p = skip_blanks(end);
    }
    return found;
}
