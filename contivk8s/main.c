/* contivk8s, the CNI plugin, as a static program: the pipe of main.py for hosts without Python.
 *
 * main.py is the reference: it says what the plugin does and why. For each call this program prints the same bytes,
 * sends the agent the same bytes and ends with the same code (tests/integration/cni/test_both_plugins.py).
 * scripts/contivk8s builds it, and defines VERSION, GIT_COMMIT and BUILD_TIME. What it reads has at most MAX_BYTES and
 * MAX_DEPTH (json.h); the kernel limits the environment.
 */
#define _GNU_SOURCE
#include "json.h"

#include <errno.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#ifndef TIMEOUT
#define TIMEOUT 90 /* seconds; a test has no time for them */
#endif
enum { MAX_BYTES = 1 << 20, SHOWN = 200, CHUNK = 1 << 16 };
#define INCOMPATIBLE "1"
#define ENVIRONMENT "4"
#define UNREADABLE "5"
#define DECODING "6"
#define TRY_AGAIN "11"
#define NOT_AVAILABLE "50"
#define BROKEN "100"
#define USAGE "Usage of contivk8s:\n  -version\n    \tShow version\n"

static const char *const supported[] = {"0.3.1", "0.4.0", "1.0.0", "1.1.0"};
enum { VERSIONS = sizeof supported / sizeof *supported };
static const struct {
    const char *name, *path, *required[3];
    int since; /* the first of the versions that has it */
} verbs[] = {
    {"ADD", "/ContivCNI.AddPod", {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"}, 0},
    {"DEL", "/ContivCNI.DelPod", {"CNI_CONTAINERID", "CNI_IFNAME", NULL}, 0},
    {"CHECK", "/ContivCNI.CheckPod", {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"}, 1},
    {"GC", "/ContivCNI.CollectPods", {NULL, NULL, NULL}, 3},
    {"STATUS", "/ContivCNI.Status", {NULL, NULL, NULL}, 3},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static struct text verb, version; /* of the call, and the version of its error object */

static void print(int fd, struct text t)
{
    for (ssize_t n = 0; t.size && (n >= 0 || errno == EINTR); t = n > 0 ? part(t.at + n, t.size - (size_t)n) : t)
        n = write(fd, t.at, t.size);
}

/* Ends the call with an error object. */
static _Noreturn void fail(const char *code, struct text msg, struct text details)
{
    if (is(verb, "STATUS") && !strcmp(code, TRY_AGAIN))
        code = NOT_AVAILABLE;
    msg = text("Contiv:$", msg);
    print(1, text("{\"cniVersion\":%,\"code\":$,\"msg\":%,\"details\":%}", version, words(code), msg, details));
    _exit(1);
}

/* Reads up to a little more than the limit. Returns less than 0, with errno, if that fails. */
static ssize_t read_all(int fd, struct text *t)
{
    char data[CHUNK];
    ssize_t n = 0;
    for (add(t, "", 0); t->size <= MAX_BYTES && ((n = read(fd, data, sizeof data)) > 0 || (n < 0 && errno == EINTR));)
        add(t, data, n > 0 ? (size_t)n : 0);
    return n;
}

static struct text environment(const char *name) { return words(getenv(name) ? getenv(name) : ""); }

/* Returns the value of a name in CNI_ARGS, `a=b;c=d`; nothing has a value if a pair lacks its "=". */
static struct text argument(const char *name)
{
    struct text found = words("");
    size_t size;
    for (const char *p = environment("CNI_ARGS").at; *p; p += size + (p[size] == ';')) {
        const char *equals = memchr(p, '=', size = strcspn(p, ";"));
        if (size && !equals)
            return words("");
        if (equals && is(part(p, (size_t)(equals - p)), name))
            found = part(equals + 1, size - (size_t)(equals + 1 - p));
    }
    return found;
}

/* Returns the trace that the runtime has this call be of, else a new one, as W3C Trace Context has it. */
static struct text trace_parent(void)
{
    static const char form[] = "00-00000000000000000000000000000000-0000000000000000-00", digits[] = "0123456789abcdef";
    unsigned char drawn[sizeof form];
    char made[sizeof form];
    struct text given = environment("TRACEPARENT");
    size_t same = 0;
    for (; same < given.size && form[same] && (form[same] == '0' ? strchr(digits, given.at[same]) != NULL : given.at[same] == '-'); same++)
        ;
    if (same == sizeof form - 1 && given.size == same)
        return given;
    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
        memset(drawn, 1, sizeof drawn);
    for (size_t i = 0; i < sizeof form; i++)
        made[i] = form[i] == '0' && i > 2 && i < 53 ? digits[drawn[i] & 15] : i == 54 ? '1' : form[i];
    return text("$", words(made));
}

static struct text request_body(struct text netconf)
{
    static const char *const names[] = {"K8S_POD_NAME", "K8S_POD_NAMESPACE", "K8S_POD_INFRA_CONTAINER_ID", "CNI_NETNS",
                                        "CNI_IFNAME", "CNI_CONTAINERID", "CNI_ARGS", "netconf"};
    struct text body = words("");
    for (int i = 0; i < 8; i++) {
        struct text value = i == 7 ? netconf : i < 3 ? argument(names[i]) : environment(names[i]);
        if (value.size)
            body = text("$$%:%", body, words(body.size ? "," : ""), words(names[i]), value);
    }
    return text("{$}", body);
}

static struct text stripped(struct text t)
{
    for (; t.size && strchr(" \t\n\r\f\v", *t.at) && *t.at; t.at++, t.size--)
        ;
    for (; t.size && strchr(" \t\n\r\f\v", t.at[t.size - 1]) && t.at[t.size - 1]; t.size--)
        ;
    return t;
}

/* Posts a request to the agent; returns its reply. */
static struct text exchange(struct text where, struct text request, struct text trace)
{
    struct text reply = {0};
    struct timeval limit = {TIMEOUT, 0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ssize_t n = 0;
    if (where.size >= sizeof address.sun_path || memchr(where.at, 0, where.size))
        fail(TRY_AGAIN, words("the agent does not answer"), text("$: no path of a socket", where));
    memcpy(address.sun_path, where.at, where.size);
    int agent = socket(AF_UNIX, SOCK_STREAM, 0);
    if (agent < 0 || setsockopt(agent, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) ||
        setsockopt(agent, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit))
        n = -1;
    while (n >= 0 && (n = connect(agent, (struct sockaddr *)&address, sizeof address)) < 0 && errno == EINTR)
        n = 0;
    for (; n >= 0 && request.size; request = part(request.at + n, request.size - (size_t)n))
        if ((n = send(agent, request.at, request.size, MSG_NOSIGNAL)) < 0 && errno == EINTR)
            n = 0;
    if (n < 0 || read_all(agent, &reply) < 0) {
        char why[64];
        snprintf(why, sizeof why, "nothing for %d s, ", TIMEOUT);
        fail(TRY_AGAIN, words("the agent does not answer"),
             errno == EAGAIN ? text("$: $$", where, words(why), trace) : text("$: $", where, words(strerror(errno))));
    }
    return reply;
}

static _Noreturn void refuse(struct text status, struct text body, struct text where)
{
    struct text said = text("HTTP $: $", status, stripped(part(body.at, body.size < SHOWN ? body.size : SHOWN)));
    if (starts(status, "403"))
        fail(BROKEN, words("access denied"), text("$: run the plugin as root, or as the user of netplugin", said));
    if (starts(status, "404"))
        fail(BROKEN, words("page not found"), text("$: install the contivk8s of the netplugin that listens at $", said, where));
    said = text("$: is $ the socket of netplugin?", said, where);
    if (starts(status, "408") || starts(status, "502") || starts(status, "503") || starts(status, "504"))
        fail(TRY_AGAIN, words("the agent cannot answer now"), said);
    fail(BROKEN, words("the reply is not one of the agent"), said);
}

/* Prints the CNI result of an HTTP reply and ends the call. */
static _Noreturn void print_reply(struct text reply, struct text where, struct text trace)
{
    const char *blank = memmem(reply.at, reply.size, "\r\n\r\n", 4);
    if (reply.size > MAX_BYTES)
        fail(BROKEN, words("the agent's reply is too long"), where);
    if (!blank)
        fail(TRY_AGAIN, words("the agent closed the connection without a reply"), trace);
    struct text body = part(blank + 4, reply.size - (size_t)(blank + 4 - reply.at));
    struct text line = part(reply.at, (size_t)((char *)memmem(reply.at, reply.size, "\r\n", 2) - reply.at));
    const char *space = memchr(line.at, ' ', line.size);
    struct text status = space ? part(space + 1, line.size - (size_t)(space + 1 - line.at)) : words("");
    struct text fields = decode(body), cni = string(member(fields, "cni"));
    if (!fields.size || *fields.at != '{')
        refuse(status, body, where);
    if (cni.at) {
        print(1, cni);
        _exit(starts(status, "200") ? 0 : 1);
    }
    struct text msg = string(member(fields, "errmsg")), info = string(member(fields, "errinfo"));
    fail(BROKEN, msg.size ? msg : words("the agent's reply has no CNI result"), info.size ? info : text("HTTP $", status));
}

/* Answers the call of this environment. */
static _Noreturn void answer(struct text config)
{
    struct text missing = words(""), list = words(""), known = words("");
    if (config.size > MAX_BYTES)
        fail(DECODING, words("network configuration is too long"), words("more than 1048576 bytes"));
    struct text fields = stripped(config).size ? decode(config) : words("{}");
    if (!fields.at || *fields.at != '{')
        fail(DECODING, words(fields.at ? "network configuration is not a JSON object" : "network configuration is not JSON"),
             text("it begins with: $", stripped(part(config.at, config.size < SHOWN ? config.size : SHOWN))));
    struct text value = member(fields, "cniversion"), asked = value.at ? string(value) : words(supported[0]);
    int number = VERSIONS, called = 0;
    for (int i = VERSIONS - 1; i >= 0; i--) {
        list = text("%$$", words(supported[i]), words(list.size ? "," : ""), list);
        known = text("$$$", words(supported[i]), words(known.size ? ", " : ""), known);
        if (asked.at && is(asked, supported[i]))
            version = words(supported[number = i]);
    }
    if (is(verb, "VERSION")) {
        print(1, text("{\"cniVersion\":%,\"supportedVersions\":[$]}", asked.at ? asked : version, list));
        _exit(0);
    }
    if (!verb.size)
        fail(ENVIRONMENT, words("CNI_COMMAND is not set"), words("a container runtime runs this program"));
    while (called < VERBS && !is(verb, verbs[called].name))
        called++;
    if (called == VERBS)
        fail(ENVIRONMENT, text("unknown CNI_COMMAND: $", verb), words("known are ADD, DEL, CHECK, GC, STATUS and VERSION"));
    for (int i = 0; i < 3 && verbs[called].required[i]; i++)
        if (!environment(verbs[called].required[i]).size)
            missing = text("$$$", missing, words(missing.size ? ", " : ""), words(verbs[called].required[i]));
    if (missing.size)
        fail(ENVIRONMENT, words("required env variables missing"), missing);
    asked = asked.at ? text("'$'", asked) : words("no string");
    if (number == VERSIONS)
        fail(INCOMPATIBLE, words("incompatible CNI versions"), text("config is $, plugin supports $", asked, known));
    if (number < verbs[called].since)
        fail(INCOMPATIBLE, text("config version does not allow $", verb),
             text("config is $, $ needs $", asked, verb, words(supported[verbs[called].since])));
    struct text where = string(member(member(fields, "contiv"), "socket")), body = request_body(config);
    if (!where.size && !(where = environment("CONTIV_CNI_SOCKET")).size)
        where = words("/run/contiv/contiv-cni.sock");
    struct text trace = trace_parent();
    char length[24];
    snprintf(length, sizeof length, "%zu", body.size);
    body = text("POST $ HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\ntraceparent: $\r\nContent-Length: $\r\n"
                "Connection: close\r\n\r\n$", words(verbs[called].path), trace, words(length), body);
    trace = text("trace $", part(trace.at + 3, 32));
    print_reply(exchange(where, body, trace), where, trace);
}

/* Answers a call with arguments; returns the exit code. */
static int flags(const char *first)
{
    struct text argument = words(first);
    if (is(argument, "-version") || is(argument, "--version")) {
        print(1, words("Version: " VERSION "\nGitCommit: " GIT_COMMIT "\nBuildTime: " BUILD_TIME "\n"));
        return 0;
    }
    if (is(argument, "-h") || is(argument, "-help") || is(argument, "--help")) {
        print(2, words(USAGE));
        return 0;
    }
    print(2, text("$$", *first == '-' ? text("flag provided but not defined: $\n", argument) : words(""), words(USAGE)));
    return 2;
}

int main(int argc, char **argv)
{
    struct text config = {0};
    signal(SIGPIPE, SIG_IGN);
    if (argc > 1)
        return flags(argv[1]);
    verb = environment("CNI_COMMAND");
    version = words(supported[VERSIONS - 1]);
    if (read_all(0, &config) < 0)
        fail(UNREADABLE, words("network configuration cannot be read"), words(strerror(errno)));
    answer(config);
}
