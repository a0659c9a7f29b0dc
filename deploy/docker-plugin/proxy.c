/* proxy LISTEN TARGET: the whole of the managed Docker plugin.
 *
 * It forwards each connection at the unix socket LISTEN, where docker connects, to the unix socket TARGET, where the
 * agent listens, outside of the plugin. Three things are its own, all for the time in which the agent is away:
 *
 * - An engine that starts asks a driver what it is, once; without an answer it starts late, or without the driver. What
 *   shows no state is answered here, with the same words as the agent's (netplugin/libnetwork/server.py).
 * - Any other request waits until the agent listens, or until docker gives it up.
 * - A request whose agent ended without an answer goes to the next one. Docker would repeat it without its body.
 *
 * One process per connection, which has one request: the agent closes after each answer. Linked statically, for the
 * plugin has no other file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define TYPE "application/vnd.docker.plugins.v1.2+json"
enum {
    BACKLOG = 512,
    HEAD = 4096,          /* bytes; the first line has at most some hundred */
    HEAD_TIME = 10000,    /* milliseconds for the first line to arrive */
    DRAIN_TIME = 2000,    /* milliseconds for a client to close after its answer */
    RETRY = 100,          /* milliseconds between attempts to connect to the agent */
    CHUNK = 65536,
    KEPT = 2 << 20,       /* bytes of a request that can be repeated; the agent takes half of that */
};

static const struct {
    const char *call, *answer;
} shown[] = {
    {"/Plugin.Activate", "{\"Implements\": [\"NetworkDriver\", \"IpamDriver\"], \"Err\": \"\"}"},
    {"/Plugin.Deactivate", "{\"Err\": \"\"}"},
    {"/NetworkDriver.GetCapabilities", "{\"Scope\": \"global\", \"Err\": \"\"}"},
    {"/NetworkDriver.DiscoverNew", "{\"Err\": \"\"}"},
    {"/NetworkDriver.DiscoverDelete", "{\"Err\": \"\"}"},
    {"/IpamDriver.GetCapabilities", "{\"RequiresMACAddress\": false, \"RequiresRequestReplay\": false, \"Err\": \"\"}"},
    {"/IpamDriver.GetDefaultAddressSpaces",
     "{\"LocalDefaultAddressSpace\": \"contivLocal\", \"GlobalDefaultAddressSpace\": \"contivGlobal\", \"Err\": \"\"}"},
};

static int address(const char *path, struct sockaddr_un *a)
{
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof a->sun_path) {
        fprintf(stderr, "%s: longer than a socket's path may be\n", path);
        return -1;
    }
    strcpy(a->sun_path, path);
    return 0;
}

static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        size -= n;
    }
    return 0;
}

/* Reads until the first line of a request is complete; returns the bytes read, -1 if it does not arrive. */
static ssize_t read_head(int client, char *head)
{
    size_t size = 0;
    while (!memchr(head, '\n', size)) {
        struct pollfd p = {client, POLLIN, 0};
        if (size == HEAD || poll(&p, 1, HEAD_TIME) <= 0)
            return -1;
        ssize_t n = read(client, head + size, HEAD - size);
        if (n <= 0)
            return -1;
        size += n;
    }
    return size;
}

/* Returns the answer to a request that shows no state, NULL for any other. */
static const char *shown_to(const char *head, size_t size)
{
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        char line[HEAD];
        int length = snprintf(line, sizeof line, "POST %s HTTP/", shown[i].call);
        if (size >= (size_t)length && !memcmp(head, line, length))
            return shown[i].answer;
    }
    return NULL;
}

static int answer(int client, const char *body)
{
    char text[HEAD];
    int length = snprintf(text, sizeof text,
                          "HTTP/1.1 200 OK\r\nContent-Type: " TYPE "\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                          strlen(body), body);
    if (write_all(client, text, length))
        return 1;
    /* Closing with bytes unread would reset the connection, and the answer could be lost with it. */
    shutdown(client, SHUT_WR);
    for (char rest[HEAD];;) {
        struct pollfd p = {client, POLLIN, 0};
        if (poll(&p, 1, DRAIN_TIME) <= 0 || read(client, rest, sizeof rest) <= 0)
            return 0;
    }
}

/* Waits a moment; whether the client has gone. */
static int has_gone(int client)
{
    struct pollfd p = {client, POLLRDHUP, 0};
    return poll(&p, 1, RETRY) > 0;
}

/* Connects to the agent, however long that takes, and sends it what is kept; -1 when the client has gone. */
static int send_to(const struct sockaddr_un *agent, int client, const char *kept, size_t size)
{
    for (;;) {
        int server = socket(AF_UNIX, SOCK_STREAM, 0);
        if (server >= 0 && !connect(server, (const struct sockaddr *)agent, sizeof *agent) &&
            !write_all(server, kept, size))
            return server;
        if (server >= 0)
            close(server);
        if (has_gone(client))
            return -1;
    }
}

/* Forwards the rest of a request that begins with the head, and its answer. */
static int relay(int client, const struct sockaddr_un *agent, const char *head, size_t head_size)
{
    static char kept[KEPT], data[CHUNK];
    size_t size = head_size; /* of the request so far; what exceeds `kept` cannot be repeated */
    int answered = 0;
    memcpy(kept, head, head_size);
    int server = send_to(agent, client, kept, size);
    while (server >= 0) {
        struct pollfd p[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
        int ended = 0;
        if (poll(p, 2, -1) < 0)
            continue;
        if (p[0].revents) {
            ssize_t n = read(client, data, sizeof data);
            if (n <= 0)
                return 0;
            if (size + n <= sizeof kept)
                memcpy(kept + size, data, n);
            size += n;
            ended = write_all(server, data, n);
        }
        if (p[1].revents && !ended) {
            ssize_t n = read(server, data, sizeof data);
            ended = n <= 0;
            if (n > 0 && write_all(client, data, n))
                return 0;
            answered |= n > 0;
        }
        if (ended && (answered || size > sizeof kept || has_gone(client)))
            return 0;
        if (ended) {
            close(server);
            server = send_to(agent, client, kept, size);
        }
    }
    return 0;
}

static int serve(int client, const struct sockaddr_un *agent)
{
    char head[HEAD];
    ssize_t size = read_head(client, head);
    if (size < 0)
        return 1;
    const char *body = shown_to(head, size);
    if (body)
        return answer(client, body);
    return relay(client, agent, head, size);
}

static void end(int number)
{
    (void)number;
    _exit(0);
}

int main(int argc, char **argv)
{
    struct sockaddr_un own, agent;
    if (argc != 3) {
        fprintf(stderr, "usage: proxy LISTEN TARGET\n");
        return 2;
    }
    if (address(argv[1], &own) || address(argv[2], &agent))
        return 2;
    /* The first process of a container ends by no signal that it does not handle. */
    signal(SIGTERM, end);
    signal(SIGINT, end);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    unlink(argv[1]);
    umask(0177);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&own, sizeof own) || listen(listener, BACKLOG)) {
        perror(argv[1]);
        return 1;
    }
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0)
            continue;
        if (fork() == 0) {
            close(listener);
            _exit(serve(client, &agent));
        }
        close(client);
    }
}
