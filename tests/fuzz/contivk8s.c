/* A libFuzzer target for contivk8s in C: whole calls, with the input for what the program reads.
 *
 * The input is an environment variable's value (the verb or CNI_ARGS), NUL, the configuration, 0x1E, the agent's reply.
 * The system's calls are replaced, and what a call allocated is freed after it. `make explore` builds and runs it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

static jmp_buf ended;
static const char *verb_given, *arguments_given;
static struct {
    const char *at;
    size_t size;
} inputs[2]; /* of stdin and of the agent's socket */
static void *blocks[1 << 20];
static size_t used;

static void *fuzz_realloc(void *old, size_t size)
{
    void *block = realloc(old, size);
    for (size_t i = used; old && i > 0; i--)
        if (blocks[i - 1] == old) {
            blocks[i - 1] = block;
            return block;
        }
    if (used == sizeof blocks / sizeof *blocks)
        abort();
    return blocks[used++] = block;
}

static ssize_t fuzz_read(int fd, void *data, size_t room)
{
    size_t n = inputs[fd].size < room ? inputs[fd].size : room;
    memcpy(data, inputs[fd].at, n);
    inputs[fd].at += n;
    inputs[fd].size -= n;
    return (ssize_t)n;
}

/* Reads all that is written, so that the sanitizers see it. */
static ssize_t fuzz_write(int fd, const void *data, size_t size)
{
    volatile char sum = (char)fd;
    for (size_t i = 0; i < size; i++)
        sum = (char)(sum + ((const char *)data)[i]);
    return (ssize_t)size;
}

static char *fuzz_getenv(const char *name)
{
    if (!strcmp(name, "CNI_COMMAND"))
        return (char *)verb_given;
    if (!strcmp(name, "CNI_ARGS"))
        return (char *)arguments_given;
    return (char *)(strcmp(name, "CONTIV_CNI_SOCKET") ? "x" : "/s");
}

#define _exit(code) longjmp(ended, 1 + (code))
#define realloc fuzz_realloc
#define read fuzz_read
#define write fuzz_write
#define getenv fuzz_getenv
#define socket(...) 1
#define setsockopt(...) 0
#define connect(...) 0
#define send(fd, data, size, flags) fuzz_write(fd, data, size)
#define signal(...) (void)0
#define main plugin_main
#include "../../contivk8s/main.c"
#undef realloc

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const known[] = {"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"};
    char *copy = malloc(size + 1);
    memcpy(copy, data, size);
    copy[size] = 0;
    size_t first = strlen(copy), rest = first < size ? first + 1 : size;
    const char *reply = memchr(copy + rest, 0x1E, size - rest);
    size_t stdin_size = reply ? (size_t)(reply - copy) - rest : size - rest;
    inputs[0].at = copy + rest;
    inputs[0].size = stdin_size;
    inputs[1].at = reply ? reply + 1 : copy + size;
    inputs[1].size = reply ? size - rest - stdin_size - 1 : 0;
    verb_given = first && copy[0] < 6 ? known[(unsigned char)copy[0] % 6] : copy;
    arguments_given = first ? copy + 1 : copy;
    char *argv[] = {"contivk8s", copy, NULL};
    if (!setjmp(ended))
        plugin_main(first && copy[0] == '-' ? 2 : 1, argv);
    for (; used; used--)
        free(blocks[used - 1]);
    free(copy);
    return 0;
}
