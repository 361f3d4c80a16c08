/* The hook command that agents run, in C: it does what `bus/shim/main.py` and the files beside it do, without an interpreter.
 *
 * Agents' settings call it in front of the command that runs without it:
 *
 *     HOOK PY -I -S /abs/bus/launcher.py AGENT EVENT ANSWERFILE [closed | later | open TEXT]
 *
 * It reads the same answer file, sends the same bytes, keeps the same deadlines and writes the same files. It becomes that other
 * command before it has read anything of stdin where a call is not one for it: TLS, an answer file of another form, an event
 * without a line, a host name instead of an address. It starts Python for what is rare in the middle of a call: the condition of
 * a stop, a server that has moved to another address, and the drainer of a spool.
 *
 * It needs POSIX and the C library, and nothing else. Functions that can fail return -1 and leave the reason in `failure`.
 */

#define _GNU_SOURCE
#define _DARWIN_C_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

#define VERSION "0.1.0" /* the package's version; a test holds it */
#ifndef SOURCE
#define SOURCE "unknown" /* a hash of this file, which the build passes in */
#endif

#define HEADER "fleethook-answers 1"
#define STOP_HEADER "fleethook-stop 1"
#define BY "hook-command/" VERSION
#define MAX_STDIN (16u * 1024 * 1024 - 5)
#define MAX_ANSWER_FILE (16u * 1024 * 1024)
#define MAX_REPLY (256u * 1024 * 1024) /* more than any answer: who sends this is no server of ours */
#define MOST_HEAD 65536
#define MOST_DEPTH 500 /* of arrays in arrays, in a reply of what is no server of ours */
#define SPOOL_LIMIT (64ll * 1024 * 1024)
#define HEAD_ROOM 5 /* the longest head of a msgpack `bin` */

/* Seconds, as in the files that this one follows. */
#define CONNECT_S 0.25
#define ACK_S 1.0
#define OUTAGE_S 2.0
#define OUTAGE_PART 0.2
#define MARKED_S 0.25
#define RETRY_S 10.0
#define SLICE_S 1.0
#define LATE_S 2.0
#define AGAIN_S 5.0
#define GAP_S 2.0
#define SEND_S 1.0
#define SEND_BYTES 2097152.0
#define LOOK_S 0.5

#define DRAINER "import sys;sys.path.insert(0,sys.argv[2]);from bus.shim.spool import main;sys.exit(main(sys.argv[1:2]))"
#define CHECK "import sys;sys.path.insert(0,sys.argv[2]);from bus.stop_check import main;sys.exit(main(sys.argv[3:]))"
#define DOES_NOT_FIT 10
#define RESOLVER                                                                                                           \
    "import _socket,sys\n"                                                                                                 \
    "for row in _socket.getaddrinfo(sys.argv[1],int(sys.argv[2]),0,_socket.SOCK_STREAM):\n"                                \
    "    sys.stdout.write(str(row[4][0])+chr(10))"

extern char **environ;

static char **words;                    /* argv */
static const char *mode = "", *said = ""; /* the words after the answer file: `closed`, `later`, or `open` and a text */

/* ---------------------------------------------------------------------------------------------- bytes */

typedef struct {
    const char *at;
    size_t len;
} Bytes;

typedef struct {
    char *at;
    size_t len, room;
} Buffer;

static void give_up(const char *why);

static Bytes text_of(const char *text) { return (Bytes){text, strlen(text)}; }

static bool same(Bytes one, Bytes other) {
    return one.len == other.len && (one.len == 0 || memcmp(one.at, other.at, one.len) == 0);
}

static bool is(Bytes one, const char *text) { return same(one, text_of(text)); }

static bool starts(Bytes one, const char *text) {
    size_t len = strlen(text);
    return one.len >= len && memcmp(one.at, text, len) == 0;
}

static bool ends(Bytes one, const char *text) {
    size_t len = strlen(text);
    return one.len >= len && memcmp(one.at + one.len - len, text, len) == 0;
}

/* Where `text` begins in `one`, from `from` on; -1 if it is not there. */
static ssize_t find(Bytes one, size_t from, const char *text) {
    size_t len = strlen(text);
    while (from < one.len && one.len - from >= len) {
        const char *found = memchr(one.at + from, text[0], one.len - from - len + 1);
        if (found == NULL) return -1;
        if (memcmp(found, text, len) == 0) return found - one.at;
        from = (size_t)(found - one.at) + 1;
    }
    return -1;
}

/* The part up to the next `mark`, which `rest` loses with the mark; everything if there is none. */
static Bytes cut(Bytes *rest, char mark) {
    const char *found = rest->len ? memchr(rest->at, mark, rest->len) : NULL;
    Bytes part = {rest->at, found ? (size_t)(found - rest->at) : rest->len};
    size_t gone = found ? part.len + 1 : part.len;
    if (gone) rest->at += gone;
    rest->len -= gone;
    return part;
}

static void *taken(size_t size) {
    void *memory = malloc(size ? size : 1);
    if (memory == NULL) give_up("MemoryError");
    return memory;
}

/* Room for `more` bytes behind what is in the buffer. */
static char *grow(Buffer *buffer, size_t more) {
    if (more > SIZE_MAX / 4 || buffer->len > SIZE_MAX / 4) give_up("MemoryError");
    size_t need = buffer->len + more;
    if (need > buffer->room) {
        size_t room = buffer->room ? buffer->room : 512;
        while (room < need) room *= 2;
        char *wider = realloc(buffer->at, room);
        if (wider == NULL) give_up("MemoryError");
        buffer->at = wider;
        buffer->room = room;
    }
    return buffer->at + buffer->len;
}

static void add(Buffer *buffer, Bytes more) {
    if (more.len == 0) return;
    memcpy(grow(buffer, more.len), more.at, more.len);
    buffer->len += more.len;
}

static void add_text(Buffer *buffer, const char *text) { add(buffer, text_of(text)); }

__attribute__((format(printf, 2, 3))) static void add_format(Buffer *buffer, const char *format, ...) {
    char short_text[128];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(short_text, sizeof short_text, format, args);
    va_end(args);
    if (len > 0) add(buffer, (Bytes){short_text, (size_t)len < sizeof short_text ? (size_t)len : sizeof short_text - 1});
}

static Bytes view(const Buffer *buffer) { return (Bytes){buffer->at, buffer->len}; }

static void drop(Buffer *buffer) {
    free(buffer->at);
    *buffer = (Buffer){0};
}

static Bytes copied(Bytes from) {
    char *memory = taken(from.len);
    if (from.len) memcpy(memory, from.at, from.len);
    return (Bytes){memory, from.len};
}

/* Bytes as a C string, with an ending; they hold no zero (`read_plan` looks). */
static char *path_of(Bytes name, const char *end) {
    size_t more = strlen(end);
    char *path = taken(name.len + more + 1);
    if (name.len) memcpy(path, name.at, name.len);
    memcpy(path + name.len, end, more + 1);
    return path;
}

/* One word of a command: `$<length>\r\n<bytes>\r\n`. */
static void add_word(Buffer *buffer, Bytes word) {
    add_format(buffer, "$%zu\r\n", word.len);
    add(buffer, word);
    add_text(buffer, "\r\n");
}

static void add_words(Buffer *buffer, int count, ...) {
    va_list args;
    va_start(args, count);
    for (int at = 0; at < count; at++) add_word(buffer, va_arg(args, Bytes));
    va_end(args);
}

static Bytes number_word(char *room, size_t size, double number) {
    int len = snprintf(room, size, "%lld", (long long)number);
    return (Bytes){room, len > 0 ? (size_t)len : 0};
}

static Bytes seconds_word(char *room, size_t size, double seconds) {
    int len = snprintf(room, size, "%.3f", seconds);
    return (Bytes){room, len > 0 ? (size_t)len : 0};
}

/* A whole number as Python's int() reads it; false if it is none. Saturates at 2^62. */
static bool read_int(Bytes text, long long *number) {
    const char *blanks = " \t\n\r\v\f";
    while (text.len && strchr(blanks, text.at[0]) && text.at[0]) text.at++, text.len--;
    while (text.len && strchr(blanks, text.at[text.len - 1]) && text.at[text.len - 1]) text.len--;
    bool minus = text.len && text.at[0] == '-', digit = false;
    if (text.len && (text.at[0] == '-' || text.at[0] == '+')) text.at++, text.len--;
    long long value = 0;
    for (size_t at = 0; at < text.len; at++) {
        char one = text.at[at];
        if (one == '_' && digit) {
            digit = false;
            continue;
        }
        if (one < '0' || one > '9') return false;
        digit = true;
        value = value > (1ll << 58) ? 1ll << 62 : value * 10 + (one - '0');
    }
    *number = minus ? -value : value;
    return digit;
}

/* Digits and nothing else, of at most `most`; false otherwise. */
static bool read_digits(Bytes text, long long most, long long *number) {
    long long value = 0;
    if (text.len == 0 || text.len > 15) return false;
    for (size_t at = 0; at < text.len; at++) {
        if (text.at[at] < '0' || text.at[at] > '9') return false;
        value = value * 10 + (text.at[at] - '0');
    }
    *number = value;
    return value <= most;
}

static int hex_digit(char one) {
    if (one >= '0' && one <= '9') return one - '0';
    if (one >= 'a' && one <= 'f') return one - 'a' + 10;
    if (one >= 'A' && one <= 'F') return one - 'A' + 10;
    return -1;
}

static bool read_hex(Bytes text, Bytes *raw) {
    if (text.len % 2) return false;
    char *memory = taken(text.len / 2);
    for (size_t at = 0; at < text.len; at += 2) {
        int high = hex_digit(text.at[at]), low = hex_digit(text.at[at + 1]);
        if (high < 0 || low < 0) {
            free(memory);
            return false;
        }
        memory[at / 2] = (char)(high << 4 | low);
    }
    *raw = (Bytes){memory, text.len / 2};
    return true;
}

/* ---------------------------------------------------------------------------------------------- time */

static double monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double wall_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double changed_at(const struct stat *file) {
#ifdef __APPLE__
    return (double)file->st_mtimespec.tv_sec + (double)file->st_mtimespec.tv_nsec / 1e9;
#else
    return (double)file->st_mtim.tv_sec + (double)file->st_mtim.tv_nsec / 1e9;
#endif
}

static void pause_for(double seconds) {
    if (seconds <= 0) return;
    struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR) {
    }
}

static double least(double one, double other) { return one < other ? one : other; }
static double most_of(double one, double other) { return one > other ? one : other; }

/* ---------------------------------------------------------------------------------------------- failures */

typedef enum { NO_ANSWER, OS_ERROR, OTHER } Kind;

typedef struct {
    Kind kind;
    bool connection, timeout, missing; /* the Python class: ConnectionError, TimeoutError, FileNotFoundError */
    char text[640];                    /* what the record says */
} Failure;

static Failure failure;

__attribute__((format(printf, 2, 3))) static int fail(Kind kind, const char *format, ...) {
    va_list args;
    failure = (Failure){.kind = kind};
    va_start(args, format);
    vsnprintf(failure.text, sizeof failure.text, format, args);
    va_end(args);
    return -1;
}

static int fail_os(int code) {
    fail(OS_ERROR, "%s", strerror(code));
    failure.connection = code == EPIPE || code == ESHUTDOWN || code == ECONNABORTED || code == ECONNREFUSED || code == ECONNRESET;
    failure.timeout = code == ETIMEDOUT;
    failure.missing = code == ENOENT;
    return -1;
}

static int fail_late(const char *text) {
    fail(OS_ERROR, "%s", text);
    failure.timeout = true;
    return -1;
}

static int fail_connection(const char *text) {
    fail(OS_ERROR, "%s", text);
    failure.connection = true;
    return -1;
}

/* NoAnswer with a word of the other side: what is not ASCII becomes U+FFFD. */
static int fail_with_word(const char *before, Bytes word) {
    char text[sizeof failure.text];
    size_t len = 0;
    for (size_t at = 0; at < word.len && len + 4 < sizeof text - 64; at++) {
        unsigned char one = (unsigned char)word.at[at];
        if (one >= 0x80) {
            memcpy(text + len, "\xef\xbf\xbd", 3);
            len += 3;
        } else {
            text[len++] = one ? (char)one : ' ';
        }
    }
    text[len] = 0;
    return fail(NO_ANSWER, "%s%s", before, text);
}

static bool failed_with(const char *end) { return failure.kind == NO_ANSWER && ends(text_of(failure.text), end); }

static bool failed_as(const char *text) { return failure.kind == NO_ANSWER && strcmp(failure.text, text) == 0; }

/* Whether a server said that it will answer soon (RETURNS in `bus/shim/outage.py`). */
static bool returns(void) {
    static const char *const codes[] = {"LOADING",  "BUSY",       "MASTERDOWN",  "OOM",     "EXHAUSTED", "UNBLOCKED",
                                        "READONLY", "NOREPLICAS", "CLUSTERDOWN", "MISCONF", "MAXCLIENTS"};
    for (size_t at = 0; at < sizeof codes / sizeof *codes; at++)
        if (failed_with(codes[at])) return true;
    return false;
}

/* ---------------------------------------------------------------------------------------------- output */

/* Waits until the descriptor is ready: 1; 0 if the time is up. */
static int wait_for(int fd, short what, double until) {
    for (;;) {
        double rest = (until - monotonic()) * 1000;
        struct pollfd one = {fd, what, 0};
        int limit = rest <= 0 ? 0 : rest >= 1e9 ? 1000000000 : (int)rest + ((double)(int)rest < rest);
        int got = poll(&one, 1, limit);
        if (got > 0) return 1;
        if (got == 0 && monotonic() >= until) return 0;
        if (got < 0 && errno != EINTR) return 0;
    }
}

/* Writes all of it if the reader takes it in time, in pieces that a pipe accepts without blocking when it polls as writable. */
static void write_out(int fd, Bytes data, double end) {
    while (data.len && wait_for(fd, POLLOUT, end)) {
        ssize_t done = write(fd, data.at, data.len < 4096 ? data.len : 4096);
        if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (done <= 0) return; /* no reader: the exit code still counts */
        data.at += done;
        data.len -= (size_t)done;
    }
}

/* The answer of a hook command that cannot start, as the launcher gives it. Does not return. */
static void give_up(const char *why) {
    bool closed = strcmp(mode, "closed") == 0;
    char text[512];
    snprintf(text, sizeof text, "fleethook: this hook fails closed and cannot be answered (%s).\nRun `fleethook doctor`.\n", why);
    write_out(closed ? 2 : 1, text_of(closed ? text : said), monotonic() + 1);
    _exit(closed ? 2 : 0);
}

/* Becomes the same hook command in Python, which answers or says why it cannot. Does not return. */
static void by_python(void) {
    signal(SIGPIPE, SIG_DFL);
    execv(words[1], words + 1);
    signal(SIGPIPE, SIG_IGN);
    give_up(strerror(errno));
}

/* ---------------------------------------------------------------------------------------------- the answer file */

typedef struct {
    const char *path;
    Bytes prefix, host, spool, name, gateway;
    Bytes auth[2];
    long long db;
    bool is_unix;
    Bytes address;
    long long port;
    bool publish, skip;
    double deadline, patience;
    int code;
    Bytes out, err, policy;
} Plan;

typedef struct {
    bool there;
    Bytes fields[8];
    int count; /* more than the fields that are kept, if there are more */
} Row;

/* The file's bytes, at most `most` (then it counts as unreadable); -1 if it cannot be read. */
static int read_file(const char *path, size_t most, Buffer *into) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    for (;;) {
        ssize_t got = read(fd, grow(into, 16384), 16384);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 || into->len + (size_t)got > most) {
            close(fd);
            return -1;
        }
        if (got == 0) break;
        into->len += (size_t)got;
    }
    close(fd);
    return 0;
}

static Row split_row(Bytes line) {
    Row row = {.there = true};
    for (;;) {
        bool more = line.len && memchr(line.at, '\t', line.len) != NULL;
        Bytes field = cut(&line, '\t');
        if (row.count < 8) row.fields[row.count] = field;
        row.count++;
        if (!more) return row;
    }
}

static bool is_address(Bytes text, long long port) {
    unsigned char raw[16];
    char *address = path_of(text, "");
    bool fine = inet_pton(memchr(text.at, ':', text.len) ? AF_INET6 : AF_INET, address, raw) == 1 && port > 0;
    free(address);
    return fine;
}

/* Reads the answer file; false for every file that is not certainly one for this program: then Python reads it. */
static bool read_plan(Plan *plan, const char *path, Bytes event) {
    enum { AGENT, AUTH, DB, GATEWAY, HOST, NAME, PREFIX, SERVER, SPOOL, KEYS };
    static const char *const keys[] = {"agent", "auth", "db", "gateway", "host", "name", "prefix", "server", "spool"};
    static Buffer raw; /* the plan points into it */
    Row known[KEYS] = {0}, mine = {0}, any = {0};

    if (read_file(path, MAX_ANSWER_FILE, &raw) < 0) return false;
    Bytes rest = view(&raw);
    if (rest.len == 0 || rest.at[rest.len - 1] != '\n' || memchr(rest.at, 0, rest.len)) return false;
    if (!is(cut(&rest, '\n'), HEADER)) return false;
    while (rest.len) {
        Bytes line = cut(&rest, '\n');
        Row row = split_row(line);
        for (int key = 0; key < KEYS; key++)
            if (is(row.fields[0], keys[key])) known[key] = row;
        if (is(row.fields[0], "event") && row.count > 1) {
            /* The name moves to the front, so that all eight fields after the word `event` have room. */
            Bytes after = line;
            cut(&after, '\t');
            if (same(row.fields[1], event)) mine = split_row(after);
            if (is(row.fields[1], "*")) any = split_row(after);
        }
    }
    for (int key = 0; key < KEYS; key++) {
        bool optional = key == NAME || key == GATEWAY;
        if (known[key].there ? known[key].count < 2 : !optional) return false;
    }
    plan->path = path;
    plan->prefix = known[PREFIX].fields[1];
    plan->host = known[HOST].fields[1];
    plan->spool = known[SPOOL].fields[1];
    plan->name = known[NAME].there ? known[NAME].fields[1] : text_of("");
    plan->gateway = known[GATEWAY].there ? known[GATEWAY].fields[1] : text_of("");
    if (known[AUTH].count != 3 || !read_hex(known[AUTH].fields[1], &plan->auth[0])) return false;
    if (!read_hex(known[AUTH].fields[2], &plan->auth[1])) return false;
    if (!read_digits(known[DB].fields[1], INT_MAX, &plan->db) || (plan->db && plan->gateway.len)) return false;
    Row server = known[SERVER];
    plan->is_unix = is(server.fields[1], "unix");
    plan->address = server.count > 2 ? server.fields[2] : text_of("");
    if (plan->address.len == 0 || plan->spool.len == 0) return false;
    if (plan->is_unix) {
        if (server.count != 3 || plan->address.len >= sizeof((struct sockaddr_un *)NULL)->sun_path) return false;
    } else {
        if (!is(server.fields[1], "tcp") || server.count != 4) return false;
        if (!read_digits(server.fields[3], 65535, &plan->port) || !is_address(plan->address, plan->port)) return false;
    }
    Row line = mine.there ? mine : any;
    long long deadline, code, patience;
    if (!line.there || line.count < 7 || !read_digits(line.fields[2], 1ll << 40, &deadline)) return false;
    if (!read_digits(line.fields[3], 255, &code)) return false;
    if (!read_hex(line.fields[4], &plan->out) || !read_hex(line.fields[5], &plan->err)) return false;
    plan->skip = is(line.fields[1], "skip");
    plan->publish = is(line.fields[1], "publish");
    plan->deadline = (double)deadline / 1000;
    plan->code = (int)code;
    plan->policy = line.fields[6];
    plan->patience = 0;
    bool digits = line.count > 7 && line.fields[7].len > 0; /* else a word of a later version, which Python skips too */
    for (size_t at = 0; digits && at < line.fields[7].len; at++)
        digits = line.fields[7].at[at] >= '0' && line.fields[7].at[at] <= '9';
    if (digits && !read_digits(line.fields[7], 1ll << 40, &patience)) return false;
    if (digits) plan->patience = (double)patience / 1000;
    return true;
}

/* ---------------------------------------------------------------------------------------------- one call */

typedef struct {
    int code;
    Bytes out, err;
} Answer;

typedef struct {
    Plan *plan;
    Bytes agent, event;
    double start, end, hard, soft;
    char id[34];
    Buffer fields; /* after the id: source, event, policy, host, by, and version if the agent says it */
    int field_count;
    Buffer body; /* with room for its head in front */
    size_t body_at;
    bool publish, kept, acked, reached, away, waits, answered, marked;
    bool broken, had, empty, returned, unserved; /* of an outage, as in `bus/shim/outage.py` */
    double window, until, pause;
    Bytes flag, provisional;
    char *flag_file, *mark;
    char why[768];
} Call;

static Bytes body_of(const Call *call) {
    if (call->body.len == 0) return text_of("");
    return (Bytes){call->body.at + call->body_at, call->body.len - call->body_at};
}

static bool is_there(const char *path) { return access(path, F_OK) == 0; }

static void random_hex(char *into, size_t bytes) {
    unsigned char raw[16];
    size_t have = 0;
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && have < bytes) {
        ssize_t got = read(fd, raw + have, bytes - have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += (size_t)got;
    }
    if (fd >= 0) close(fd);
    if (have < bytes) by_python(); /* only before stdin is read: later ids come from the first one */
    for (size_t at = 0; at < bytes; at++) snprintf(into + 2 * at, 3, "%02x", raw[at]);
}

/* An event id in the form of `bus/ids.py`. */
static void make_id(char *into, const char *chance) {
    snprintf(into, 34, "e%012llx%.20s", (unsigned long long)(wall_clock() * 1000) & 0xffffffffffffull, chance);
}

static const char *from_environment(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

/* The fields `parent`, `traceparent` and `tracestate` from the environment; returns how many words they are. */
static int add_causes(Buffer *into) {
    Bytes name = text_of(from_environment("FLEETHOOK_PARENT"));
    Bytes trace = text_of(from_environment("TRACEPARENT"));
    Bytes state = text_of(from_environment("TRACESTATE"));
    bool usable = name.len > 0 && name.len <= 64, letter = false;
    int count = 0;
    for (size_t at = 0; usable && at < name.len; at++) {
        char one = name.at[at];
        bool plain = (one >= '0' && one <= '9') || (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || one == '.';
        usable = plain || one == '-' || one == '_';
        letter = letter || plain;
    }
    if (usable && letter) {
        add_words(into, 2, text_of("parent"), name);
        count += 2;
    }
    if (trace.len > 54 && trace.len < 512) {
        add_words(into, 2, text_of("traceparent"), trace);
        count += 2;
        if (state.len > 0 && state.len < 16384) {
            add_words(into, 2, text_of("tracestate"), state);
            count += 2;
        }
    }
    return count;
}

/* The fields `folder` and `repository`; none if the directory is gone. */
static int add_folder(Buffer *into) {
    Buffer path = {0};
    for (size_t room = 1024;; room *= 2) {
        if (getcwd(grow(&path, room), room) != NULL) break;
        if (errno != ERANGE || room > (1u << 20)) {
            drop(&path);
            return 0;
        }
    }
    path.len = strlen(path.at);
    Buffer around = {0};
    add(&around, view(&path));
    while (around.len) {
        size_t len = around.len;
        add(&around, (Bytes){"/.git", 6});
        bool found = is_there(around.at);
        around.len = len;
        if (found) break;
        while (around.len && around.at[around.len - 1] != '/') around.len--;
        if (around.len) around.len--;
    }
    add_words(into, 4, text_of("folder"), view(&path), text_of("repository"), view(&around));
    drop(&path);
    drop(&around);
    return 4;
}

static void begin_call(Call *call, Plan *plan, Bytes agent, Bytes event, double start) {
    char chance[33], user[24];
    double now = monotonic();
    *call = (Call){.plan = plan, .agent = agent, .event = event, .start = start, .publish = plan->publish};
    call->end = call->hard = start + plan->deadline;
    call->flag_file = path_of(text_of(plan->path), ".stop");
    call->kept = is_there(call->flag_file);
    call->soft = call->end - least(call->kept ? 1.0 : 0.15, (call->end - now) * 0.2);
    if (plan->patience > 0) call->hard = most_of(call->end, start + plan->patience);
    random_hex(chance, 10);
    make_id(call->id, chance);
    snprintf(user, sizeof user, "%u", (unsigned)getuid());
    add_words(&call->fields, 12, text_of("source"), agent, text_of("event"), event, text_of("policy"), plan->policy,
              text_of("host"), plan->host, text_of("by"), text_of(BY), text_of("user"), text_of(user));
    call->field_count = 12;
    const char *variable = is(agent, "claude") ? "AI_AGENT" : is(agent, "qwen") ? "QWEN_CODE_STARTUP_VERSION" : "";
    Bytes of_agent = text_of(*variable ? from_environment(variable) : "");
    if (of_agent.len) {
        if (of_agent.len > 64) of_agent.len = 64;
        add_words(&call->fields, 2, text_of("version"), of_agent);
        call->field_count += 2;
    }
    call->window = least(OUTAGE_S, plan->deadline * OUTAGE_PART);
    call->pause = 0.01;
    call->mark = path_of(plan->spool, ".away");
    call->marked = is_there(call->mark);
}

/* Reads stdin as one msgpack `bin`; fails if it is too large, or does not end in time. */
static int read_stdin(Call *call) {
    Buffer body = {0};
    grow(&body, 4096);
    body.len = HEAD_ROOM;
    for (;;) {
        if (monotonic() >= call->soft || !wait_for(0, POLLIN, call->soft)) {
            drop(&body);
            return fail(NO_ANSWER, "stdin did not end");
        }
        ssize_t got = read(0, grow(&body, 65536), 65536); /* more than a pipe holds */
        if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
        if (got < 0) {
            drop(&body);
            return fail(NO_ANSWER, "stdin cannot be read");
        }
        if (got == 0) break;
        body.len += (size_t)got;
        if (body.len - HEAD_ROOM > MAX_STDIN) {
            drop(&body);
            return fail(NO_ANSWER, "payload too large");
        }
    }
    size_t size = body.len - HEAD_ROOM;
    int width = size < 256 ? 1 : size < 65536 ? 2 : 4;
    call->body_at = (size_t)(HEAD_ROOM - 1 - width);
    body.at[call->body_at] = (char)(width == 1 ? 0xc4 : width == 2 ? 0xc5 : 0xc6);
    for (int at = 0; at < width; at++) body.at[HEAD_ROOM - 1 - at] = (char)(size >> (8 * at) & 0xff);
    call->body = body;
    return 0;
}

/* ---------------------------------------------------------------------------------------------- the connection */

typedef struct {
    Plan *plan;
    int fd;
    double until;
    int greeting; /* replies to the first commands that are still to come */
    bool greeted;
    Buffer data;  /* what was read ahead */
    size_t at;    /* where the unread part begins */
    char code[41]; /* of a gateway's last error */
} Link;

typedef enum { NIL, INTEGER, BYTES } Type;

typedef struct {
    Type type;
    long long number;
    Bytes bytes;
} Value;

static bool truthy(const Value *value) {
    return value->type == INTEGER ? value->number != 0 : value->type == BYTES && value->bytes.len > 0;
}

static void close_link(Link *link) {
    if (link->fd >= 0) close(link->fd);
    link->fd = -1;
    drop(&link->data);
}

/* Connects within 250 ms; AUTH and SELECT go out with the first commands. */
static int open_link(Link *link, Plan *plan, double until) {
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } place;
    socklen_t size;
    double limit = least(until, monotonic() + CONNECT_S);

    *link = (Link){.plan = plan, .fd = -1, .until = until};
    memset(&place, 0, sizeof place);
    if (plan->is_unix) {
        place.local.sun_family = AF_UNIX;
        memcpy(place.local.sun_path, plan->address.at, plan->address.len);
        size = sizeof place.local;
    } else {
        char *address = path_of(plan->address, "");
        bool six = strchr(address, ':') != NULL;
        if (six) {
            place.six.sin6_family = AF_INET6;
            place.six.sin6_port = htons((uint16_t)plan->port);
            inet_pton(AF_INET6, address, &place.six.sin6_addr);
            size = sizeof place.six;
        } else {
            place.four.sin_family = AF_INET;
            place.four.sin_port = htons((uint16_t)plan->port);
            inet_pton(AF_INET, address, &place.four.sin_addr);
            size = sizeof place.four;
        }
        free(address);
    }
    link->fd = socket(place.any.sa_family, SOCK_STREAM, 0);
    if (link->fd < 0) return fail_os(errno);
    fcntl(link->fd, F_SETFD, FD_CLOEXEC);
    fcntl(link->fd, F_SETFL, fcntl(link->fd, F_GETFL, 0) | O_NONBLOCK);
    for (;;) {
        int code = 0;
        if (monotonic() >= limit) {
            close_link(link);
            return fail_late("TimeoutError");
        }
        if (connect(link->fd, &place.any, size) == 0) return 0;
        code = errno;
        if (code == EAGAIN) { /* a unix socket's backlog is full: a fleet's hooks fire at once */
            pause_for(0.002);
            continue;
        }
        if (code == EINPROGRESS || code == EINTR) {
            socklen_t len = sizeof code;
            if (!wait_for(link->fd, POLLOUT, limit)) {
                close_link(link);
                return fail_late("timed out");
            }
            if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0) code = errno;
            if (code == 0) return 0;
        }
        close_link(link);
        return fail_os(code);
    }
}

static int left(const Link *link) { return monotonic() >= link->until ? fail_late("TimeoutError") : 0; }

static int read_reply(Link *link, Value *value, int depth);

/* The commands that log in, if they have not gone out yet; the caller adds its own and sends all of them. */
static void begin_commands(Link *link, Buffer *commands) {
    char room[32];
    Plan *plan = link->plan;
    if (link->greeted) return;
    link->greeted = true;
    if (plan->auth[1].len && !plan->gateway.len) {
        add_format(commands, "*%d\r\n", plan->auth[0].len ? 3 : 2);
        add_words(commands, 1, text_of("AUTH"));
        if (plan->auth[0].len) add_word(commands, plan->auth[0]);
        add_word(commands, plan->auth[1]);
        link->greeting++;
    }
    if (plan->db) {
        add_text(commands, "*2\r\n");
        add_words(commands, 2, text_of("SELECT"), number_word(room, sizeof room, (double)plan->db));
        link->greeting++;
    }
}

/* Sends all bytes; fails if the credentials are refused. Empties the buffer. */
static int send_all(Link *link, Buffer *commands) {
    Bytes data = view(commands);
    int result = left(link);
    while (result == 0 && data.len) {
        ssize_t done = send(link->fd, data.at, data.len, 0); /* SIGPIPE is ignored */
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!wait_for(link->fd, POLLOUT, link->until)) result = fail_late("timed out");
            continue;
        }
        if (done < 0) {
            result = fail_os(errno);
            break;
        }
        data.at += done;
        data.len -= (size_t)done;
    }
    drop(commands);
    while (result == 0 && link->greeting) {
        Value ignored;
        link->greeting--;
        result = read_reply(link, &ignored, 0);
    }
    return result;
}

static Bytes unread(const Link *link) {
    if (link->data.at == NULL) return text_of("");
    return (Bytes){link->data.at + link->at, link->data.len - link->at};
}

/* Reads what has arrived. */
static int read_more(Link *link) {
    if (left(link) < 0) return -1;
    if (link->at) {
        memmove(link->data.at, link->data.at + link->at, link->data.len - link->at);
        link->data.len -= link->at;
        link->at = 0;
    }
    if (link->data.len > MAX_REPLY)
        return fail(NO_ANSWER, "what answers there is not %s", link->plan->gateway.len ? "a gateway" : "Redis");
    for (;;) {
        size_t size = link->data.len < 65536 ? 65536 : 1 << 18;
        ssize_t got = recv(link->fd, grow(&link->data, size), size, 0);
        if (got > 0) {
            link->data.len += (size_t)got;
            return 0;
        }
        if (got == 0) return fail_connection("closed by the server");
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) return fail_os(errno);
        if (!wait_for(link->fd, POLLIN, link->until)) return fail_late("timed out");
    }
}

/* The next reply; a status becomes bytes, and an array of two its last part. An error reply is a failure. */
static int read_reply(Link *link, Value *value, int depth) {
    ssize_t end;
    size_t seen = 0;
    long long number = 0;
    *value = (Value){NIL, 0, {NULL, 0}};
    if (depth > MOST_DEPTH) return fail(OTHER, "shim failed: RecursionError");
    while ((end = find(unread(link), seen, "\r\n")) < 0) {
        seen = unread(link).len ? unread(link).len - 1 : 0;
        if (read_more(link) < 0) return -1;
    }
    Bytes line = {unread(link).at, (size_t)end};
    char kind = line.len ? line.at[0] : 0;
    Bytes text = {line.at + (line.len ? 1 : 0), line.len ? line.len - 1 : 0};
    if (kind == '$' && !starts(text, "-")) {
        if (!read_int(text, &number) || number < 0) return fail(OTHER, "shim failed: ValueError");
        size_t head = (size_t)end + 2;
        while (unread(link).len < head + 2 + (unsigned long long)number)
            if (read_more(link) < 0) return -1;
        *value = (Value){BYTES, 0, copied((Bytes){unread(link).at + head, (size_t)number})};
        link->at += head + (size_t)number + 2;
        return 0;
    }
    link->at += (size_t)end + 2;
    if (kind == '-') {
        Bytes word = text;
        if (find(text, 0, " exhausted ") >= 0) return fail(NO_ANSWER, "redis refused: EXHAUSTED");
        if (find(text, 0, "max number of clients") >= 0) return fail(NO_ANSWER, "redis refused: MAXCLIENTS");
        return fail_with_word("redis refused: ", cut(&word, ' '));
    }
    if (kind == '*' && is(text, "2")) { /* of BLPOP: the key, and what was in it */
        Value key;
        if (read_reply(link, &key, depth + 1) < 0) return -1;
        if (key.type == BYTES) free((void *)(uintptr_t)key.bytes.at);
        return read_reply(link, value, depth + 1);
    }
    if (kind == '+') {
        *value = (Value){BYTES, 0, copied(text)};
        return 0;
    }
    if (kind == ':') {
        if (!read_int(text, &number)) return fail(OTHER, "shim failed: ValueError");
        *value = (Value){INTEGER, number, {NULL, 0}};
        return 0;
    }
    return is(text, "-1") ? 0 : fail(NO_ANSWER, "what answers there is not Redis");
}

/* Sends one command and reads its reply; waits at most `seconds` for it. `command` holds the packed command, and is emptied. */
static int exchange(Link *link, double seconds, Buffer *command, Value *value) {
    Buffer all = {0};
    link->until = monotonic() + seconds;
    begin_commands(link, &all);
    add(&all, view(command));
    drop(command);
    if (send_all(link, &all) < 0) return -1;
    return read_reply(link, value, 0);
}

/* `BLMOVE key key LEFT LEFT seconds`, or `BLPOP key seconds`: reads the answer, and the first leaves it there. */
static void add_wait(Buffer *commands, bool move, Bytes key, double seconds) {
    char room[64];
    Bytes word = seconds_word(room, sizeof room, seconds);
    if (move) {
        add_text(commands, "*6\r\n");
        add_words(commands, 6, text_of("BLMOVE"), key, key, text_of("LEFT"), text_of("LEFT"), word);
    } else {
        add_text(commands, "*3\r\n");
        add_words(commands, 3, text_of("BLPOP"), key, word);
    }
}

/* ---------------------------------------------------------------------------------------------- a gateway */

static int gateway_response(Link *link, int *status, Bytes *body) {
    ssize_t end;
    size_t seen = 0;
    while ((end = find(unread(link), seen, "\r\n\r\n")) < 0) {
        size_t have = unread(link).len;
        if (have > MOST_HEAD) return fail(NO_ANSWER, "what answers there is not a gateway");
        seen = have > 3 ? have - 3 : 0;
        if (read_more(link) < 0) return -1;
    }
    Buffer head = {0};
    add(&head, (Bytes){unread(link).at, (size_t)end});
    for (size_t at = 0; at < head.len; at++)
        if (head.at[at] >= 'A' && head.at[at] <= 'Z') head.at[at] = (char)(head.at[at] + 32);
    Bytes text = view(&head);
    long long code = 0, length = 0;
    bool fine = starts(text, "http/1.");
    if (fine) {
        Bytes number = {text.at + (text.len < 9 ? text.len : 9), text.len < 9 ? 0 : text.len - 9};
        if (number.len > 3) number.len = 3;
        fine = read_int(number, &code);
    }
    ssize_t found = find(text, 0, "\r\ncontent-length:");
    if (fine && found >= 0) {
        size_t from = (size_t)found + strlen("\r\ncontent-length:");
        ssize_t stop = find(text, from, "\r\n");
        Bytes number = {text.at + from, (stop < 0 ? text.len : (size_t)stop) - from};
        if (from < text.len) fine = read_int(number, &length) && length >= 0;
    }
    drop(&head);
    if (!fine) return fail(NO_ANSWER, "what answers there is not a gateway");
    while (unread(link).len < (size_t)end + 4 + (unsigned long long)length)
        if (read_more(link) < 0) return -1;
    *status = (int)code;
    *body = copied((Bytes){unread(link).at + end + 4, (size_t)length});
    link->at += (size_t)end + 4 + (size_t)length;
    return 0;
}

/* The body of the response; an error of the gateway is a failure. */
static int gateway_answer(Link *link, Bytes *body) {
    int status = 0;
    if (gateway_response(link, &status, body) < 0) return -1;
    if (status >= 200 && status < 300) return 0;
    ssize_t found = find(*body, 0, "\"code\":\"");
    Bytes rest = {body->at, 0};
    if (found >= 0) rest = (Bytes){body->at + found + 8, body->len - (size_t)found - 8};
    Bytes code = rest;
    if (code.len) code = cut(&(Bytes){rest.at, rest.len}, '"');
    if (code.len > 40) code.len = 40;
    if (code.len) {
        memcpy(link->code, code.at, code.len);
        link->code[code.len] = 0;
    } else {
        snprintf(link->code, sizeof link->code, "%d", status);
    }
    bool away = status == 500 || status == 502 || status == 503 || status == 504;
    if ((rest.len == 0 && away) || strcmp(link->code, "connections") == 0 || strcmp(link->code, "busy") == 0) {
        char text[32];
        snprintf(text, sizeof text, "answered %d", status);
        return fail_connection(text); /* worth another try */
    }
    if (strcmp(link->code, "no-verdict") == 0) return fail(NO_ANSWER, "no answer in time");
    if (strcmp(link->code, "no-evaluator") == 0) return fail(NO_ANSWER, "no evaluator");
    if (strcmp(link->code, "bus-away") == 0) return fail(NO_ANSWER, "redis away");
    return fail_with_word("gateway refused: ", text_of(link->code));
}

static void add_gateway_head(Buffer *request, Plan *plan, bool token) {
    add_text(request, "Host: ");
    add(request, plan->gateway);
    add_text(request, "\r\n");
    if (token && plan->auth[1].len) {
        add_text(request, "Authorization: Bearer ");
        add(request, plan->auth[1]);
        add_text(request, "\r\n");
    }
}

/* Sends entries, in the format of the spool; empties the buffer. */
static int gateway_post(Link *link, Buffer *body) {
    Plan *plan = link->plan;
    Buffer request = {0};
    add_text(&request, "POST /v1/entries HTTP/1.1\r\nHost: ");
    add(&request, plan->gateway);
    add_format(&request, "\r\nContent-Length: %zu\r\n", body->len);
    if (plan->auth[1].len) {
        add_text(&request, "Authorization: Bearer ");
        add(&request, plan->auth[1]);
        add_text(&request, "\r\n");
    }
    add_text(&request, "\r\n");
    add(&request, view(body));
    drop(body);
    return send_all(link, &request);
}

static int gateway_ping(Link *link, double seconds) {
    Buffer request = {0};
    Bytes ignored;
    link->until = monotonic() + seconds;
    add_text(&request, "GET /livez HTTP/1.1\r\n");
    add_gateway_head(&request, link->plan, false);
    add_text(&request, "\r\n");
    if (send_all(link, &request) < 0) return -1;
    return gateway_answer(link, &ignored);
}

/* Lets the call wait for as long as its agent does: a slow hook runs, or a person is asked. */
static void extend(Call *call) {
    call->waits = true;
    call->soft = call->hard - 0.15;
    call->end = call->hard;
}

/* Fails unless the gateway answers within `seconds`; asks it whether the call waits for a person. */
static int gateway_look(Call *call, double seconds) {
    Link other;
    Buffer request = {0};
    Bytes answer;
    if (open_link(&other, call->plan, monotonic() + seconds) < 0) return -1;
    if (gateway_ping(&other, seconds) < 0) {
        close_link(&other);
        return -1;
    }
    if (!call->provisional.len) {
        add_format(&request, "GET /v1/entries/%s HTTP/1.1\r\n", call->id);
        add_gateway_head(&request, call->plan, true);
        add_text(&request, "\r\n");
        if (send_all(&other, &request) == 0 && gateway_answer(&other, &answer) == 0) {
            call->provisional = answer;
            if (answer.len) extend(call);
        }
    }
    close_link(&other);
    return 0;
}

/* The answer by `until`; with `more`, waits longer while the gateway waits for a slow hook. */
static int gateway_wait(Call *call, Link *link, double until, bool more, double late, Bytes *raw) {
    for (;;) {
        link->until = least(until, monotonic() + late);
        if (gateway_answer(link, raw) == 0) return 0;
        if (!failure.timeout) return -1;
        double now = monotonic();
        if (now >= until) {
            call->acked = true;
            if (!more || now >= call->hard - 0.15) return fail(NO_ANSWER, "no answer in time");
            extend(call);
            until = call->soft;
            late = LATE_S;
        }
        if (gateway_look(call, late) < 0) return -1;
        if (call->provisional.len) {
            until = call->soft;
            late = LATE_S;
            more = true;
        }
    }
}

/* ---------------------------------------------------------------------------------------------- asking */

static bool unpack_answer(Bytes raw, Answer *answer, Bytes *flag) {
    Bytes rest = raw, head = cut(&rest, '\n'), numbers = head;
    long long sizes[4] = {0};
    int count = 0;
    if (memchr(raw.at, '\n', raw.len) == NULL) rest.len = 0;
    if (!is(cut(&numbers, ' '), "FH1") || head.len < 4) return false;
    for (bool more = true; more; count++) {
        more = memchr(numbers.at, ' ', numbers.len) != NULL;
        if (count == 4 || !read_int(cut(&numbers, ' '), &sizes[count])) return false;
        if (sizes[count] < 0 || sizes[count] > (long long)MAX_REPLY) return false;
    }
    if (count < 3 || sizes[0] > 255 || sizes[1] + sizes[2] + sizes[3] != (long long)rest.len) return false;
    *answer = (Answer){(int)sizes[0], {rest.at, (size_t)sizes[1]}, {rest.at + sizes[1], (size_t)sizes[2]}};
    *flag = (Bytes){rest.at + sizes[1] + sizes[2], (size_t)sizes[3]};
    return true;
}

static int unpack(Call *call, Bytes raw, Answer *answer) {
    if (raw.len == 0 || !unpack_answer(raw, answer, &call->flag)) return fail(NO_ANSWER, "answer not understood");
    call->answered = true;
    return 0;
}

/* Adds one entry to the stream of events. `fields` are the packed words after the id, and are emptied. */
static int add_event(Link *link, const char *id, Buffer *fields, int count) {
    Buffer commands = {0};
    Value ignored;
    if (link->plan->gateway.len) {
        Bytes answer;
        add_format(&commands, "*%d\r\n", count + 3);
        add_words(&commands, 3, text_of("events"), text_of("id"), text_of(id));
        add(&commands, view(fields));
        drop(fields);
        if (gateway_post(link, &commands) < 0) return -1;
        return gateway_answer(link, &answer);
    }
    char *stream = path_of(link->plan->prefix, "events");
    begin_commands(link, &commands);
    add_format(&commands, "*%d\r\n", count + 5);
    add_words(&commands, 5, text_of("XADD"), text_of(stream), text_of("*"), text_of("id"), text_of(id));
    add(&commands, view(fields));
    drop(fields);
    free(stream);
    if (send_all(link, &commands) < 0) return -1;
    return read_reply(link, &ignored, 0);
}

/* The reply from a server at its memory limit, which refuses BLMOVE and accepts BLPOP. The last failure is what it refused with. */
static int read_from_full(Link *link, Bytes reply, double until, Value *value) {
    Failure first = failure;
    Buffer command = {0};
    if (!failed_with(" OOM")) return -1;
    double seconds = most_of(0.001, until - monotonic());
    add_wait(&command, false, reply, seconds);
    if (exchange(link, seconds + LATE_S, &command, value) == 0) return 0;
    if (failed_with("NOPERM")) failure = first; /* our ACL is from a version that does not allow BLPOP */
    return -1;
}

/* The answer that came while a connection was lost; nil without one. */
static int find_answer(Link *link, Bytes reply, Value *value) {
    double until = link->until;
    Buffer command = {0};
    add_wait(&command, true, reply, 0.001);
    int result = exchange(link, most_of(0, until - monotonic()), &command, value);
    if (result < 0) result = read_from_full(link, reply, monotonic(), value);
    link->until = until;
    return result;
}

/* The reply by the deadline or by `longest`; nil without one. After its deadline the call waits only while there is a note
 * beside the reply key (`bus/shim/slow.py`), or may come after a lost connection. */
static int wait_longer(Call *call, Link *link, Bytes reply, double longest, Value *value) {
    double deadline = call->waits ? 0 : call->soft, until = most_of(call->soft, longest), now;
    double late = until > deadline ? LATE_S : (call->end - deadline) / 3, again = call->waits ? monotonic() + AGAIN_S : 0;
    char *note = path_of(reply, ":wait");
    int result = 0;
    *value = (Value){NIL, 0, {NULL, 0}};
    while (result == 0 && (now = monotonic()) < until) {
        double limit = most_of(0, deadline - now) + late;
        Buffer command = {0};
        Value runs;
        add_wait(&command, true, text_of(note), 0.001);
        if (exchange(link, limit, &command, &runs) < 0) {
            result = -1;
            if (!failed_with(" OOM")) break;
            add_text(&command, "*2\r\n");
            add_words(&command, 2, text_of("EXISTS"), text_of(note));
            if (exchange(link, limit, &command, &runs) < 0) break;
            result = 0;
        }
        if (runs.type == BYTES && starts(runs.bytes, "FH1 ")) call->provisional = runs.bytes;
        bool going = truthy(&runs);
        if (going) again = most_of(again, now + GAP_S);
        if (going && now >= deadline) {
            call->waits = true;
            call->soft = until;
            call->end = call->hard;
        }
        going = going || now < again;
        double seconds = most_of(0.001, least(SLICE_S, (going ? until : deadline) - now));
        add_wait(&command, true, reply, seconds);
        if (exchange(link, limit + seconds, &command, value) < 0) result = read_from_full(link, reply, now + seconds, value);
        if (result < 0 || value->type != NIL || !(going || now < deadline)) break;
    }
    free(note);
    return result;
}

/* The reply to the added request. A server that has lost everything has no such stream; a full one takes no request, and answers
 * the one that it had before the connection broke. */
static int read_added(Call *call, Link *link) {
    Value added;
    call->empty = false;
    if (read_reply(link, &added, 0) < 0) {
        if (!call->had || !failed_with(" OOM")) return -1;
    } else {
        call->empty = added.type == NIL;
    }
    call->acked = !call->empty;
    return 0;
}

/* One exchange; a repeated one looks for the answer, and adds the same id, which is evaluated once. 1: an answer; 0: none is
 * expected. */
static int ask(Call *call, Link *link, Bytes reply, Answer *answer) {
    Plan *plan = call->plan;
    char budget[32], patience[32];
    Buffer last = {0}, all = {0};
    int count = add_folder(&last);
    add_words(&last, 2, text_of("body"), body_of(call));
    count += 2 + add_causes(&last);
    if (call->publish) {
        Buffer fields = {0};
        add(&fields, view(&call->fields));
        add(&fields, view(&last));
        drop(&last);
        if (add_event(link, call->id, &fields, call->field_count + count) < 0) return -1;
        call->reached = true;
        return 0;
    }
    add_words(&last, 2, text_of("flag"), text_of(call->kept ? "kept" : "none"));
    count += 2;
    double now = monotonic(), until = link->until;
    bool more = call->hard > call->end || call->waits;
    Bytes budget_word = number_word(budget, sizeof budget, most_of(1, (call->soft - now) * 1000));
    Bytes patience_word = number_word(patience, sizeof patience, (call->hard - now) * 1000);
    count += 4 + (more ? 2 : 0) + call->field_count;
    if (plan->gateway.len) {
        Bytes raw;
        add_format(&all, "*%d\r\n", count + 1);
        add_words(&all, 5, text_of("requests"), text_of("id"), text_of(call->id), text_of("budget"), budget_word);
        if (more) add_words(&all, 2, text_of("patience"), patience_word);
        add(&all, view(&call->fields));
        add(&all, view(&last));
        drop(&last);
        double large = (double)all.len / SEND_BYTES;
        link->until = least(until, now + SEND_S + large);
        int result = gateway_post(link, &all);
        if (result == 0) result = gateway_wait(call, link, until, more, LOOK_S + large, &raw);
        if (strcmp(link->code, "no-verdict") == 0 || strcmp(link->code, "no-evaluator") == 0) call->acked = true;
        if (result < 0) return -1;
        call->reached = true;
        return unpack(call, raw, answer) < 0 ? -1 : 1;
    }
    if (call->broken) {
        Value found;
        if (find_answer(link, reply, &found) < 0) return -1;
        if (found.type == BYTES) return unpack(call, found.bytes, answer) < 0 ? -1 : 1;
    }
    double seconds = call->waits ? 0.001 : most_of(0.001, call->soft - now);
    double first = least(1.0, seconds); /* then it looks whether the call is held */
    char *alive_key = path_of(plan->prefix, "alive:evaluator"), *note = path_of(reply, ":wait");
    char *stream = path_of(plan->prefix, "requests");
    begin_commands(link, &all);
    add_text(&all, "*3\r\n");
    add_words(&all, 3, text_of("EXISTS"), text_of(alive_key), text_of(note)); /* a held call needs no evaluator now */
    if (!call->acked) {
        add_format(&all, "*%d\r\n", count + 6);
        add_words(&all, 4, text_of("XADD"), text_of(stream), text_of("NOMKSTREAM"), text_of("*"));
        add_words(&all, 6, text_of("id"), text_of(call->id), text_of("reply"), reply, text_of("budget"), budget_word);
        if (more) add_words(&all, 2, text_of("patience"), patience_word);
        add(&all, view(&call->fields));
        add(&all, view(&last));
    }
    add_wait(&all, true, reply, first);
    drop(&last);
    free(alive_key);
    free(note);
    free(stream);
    if (send_all(link, &all) < 0) return -1;
    Value alive, value;
    if (call->broken && !call->waits && left(&(Link){.until = until}) < 0) return -1;
    link->until = least(until, now + (call->waits ? 2 * ACK_S : call->broken ? until - monotonic() : ACK_S));
    if (read_reply(link, &alive, 0) < 0 || (!call->acked && read_added(call, link) < 0)) return -1;
    link->until = more ? monotonic() + seconds + ACK_S : until;
    if (!truthy(&alive) || call->empty) return fail(NO_ANSWER, "no evaluator");
    if (read_reply(link, &value, 0) < 0) {
        if (failure.kind != NO_ANSWER) return -1;
        if (read_from_full(link, reply, seconds > 0.001 ? call->soft : now, &value) < 0) return -1;
    }
    call->reached = true;
    if (value.type != BYTES && wait_longer(call, link, reply, more ? call->hard - 0.15 : call->soft, &value) < 0) return -1;
    if (value.type != BYTES) return fail(NO_ANSWER, "no answer in time");
    return unpack(call, value.bytes, answer) < 0 ? -1 : 1;
}

/* ---------------------------------------------------------------------------------------------- other processes */

/* The environment of a process that outlives the call: only what Python needs to start. */
static char **small_environment(void) {
    static const char *const kept[] = {"PATH=", "HOME=", "LANG=", "LD_LIBRARY_PATH=", "DYLD_LIBRARY_PATH="};
    static char *small[sizeof kept / sizeof *kept + 1];
    size_t count = 0;
    for (size_t name = 0; name < sizeof kept / sizeof *kept; name++)
        for (char **one = environ; *one; one++)
            if (strncmp(*one, kept[name], strlen(kept[name])) == 0) {
                small[count++] = *one;
                break;
            }
    small[count] = NULL;
    return small;
}

/* The folder from which Python imports `bus`: two above the launcher. */
static char *house(void) {
    Bytes path = text_of(words[4]);
    for (int level = 0; level < 2; level++) {
        while (path.len && path.at[path.len - 1] != '/') path.len--;
        if (path.len) path.len--;
    }
    return path_of(path, "");
}

/* In a child process: the standard descriptors, and none of the others that the agent has leaked. */
static void child_descriptors(int in, int out, bool alone) {
    int null = open("/dev/null", O_RDWR);
    if (null < 0) _exit(1);
    dup2(in >= 0 ? in : null, 0);
    dup2(out >= 0 ? out : null, 1);
    dup2(null, 2);
    if (!alone) return;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0) return;
#endif
    for (int fd = 3; fd < 65536; fd++) close(fd);
}

/* The server's address, replaced by another one of its name if there is one. Python looks it up, and may take `seconds`. */
static void resolve(Plan *plan, double seconds) {
    int ends[2];
    char port[32];
    double until = monotonic() + seconds;
    if (seconds <= 0 || plan->is_unix || pipe(ends) < 0) return;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    char *name = path_of(plan->name, "");
    snprintf(port, sizeof port, "%lld", plan->port);
    pid_t child = fork();
    if (child == 0) {
        char *command[] = {words[1], "-I", "-S", "-c", RESOLVER, name, port, NULL};
        child_descriptors(-1, ends[1], false);
        execv(words[1], command);
        _exit(1);
    }
    close(ends[1]);
    free(name);
    Buffer found = {0};
    while (child > 0 && found.len < MOST_HEAD && wait_for(ends[0], POLLIN, until)) {
        ssize_t got = read(ends[0], grow(&found, 4096), 4096);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) break;
        found.len += (size_t)got;
    }
    close(ends[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    for (Bytes rest = view(&found); rest.len && memchr(rest.at, '\n', rest.len);) {
        Bytes address = cut(&rest, '\n');
        if (address.len && !same(address, plan->address) && is_address(address, plan->port)) {
            plan->address = copied(address);
            break;
        }
    }
    drop(&found);
}

/* Starts a drainer if something is spooled: in a session of its own, without the agent's pipes and environment. */
static void drain_later(Plan *plan) {
    struct stat kept, draining, last;
    char *spool = path_of(plan->spool, ""), *set_aside = path_of(plan->spool, ".draining");
    char *lock = path_of(plan->spool, ".drain.lock");
    bool something = (stat(spool, &kept) == 0 && kept.st_size > 0) || stat(set_aside, &draining) == 0;
    /* The lock file's time is when a drain may be tried: later than now after one that failed. */
    if (!something || (stat(lock, &last) == 0 && changed_at(&last) > wall_clock())) return;
    if (fork() != 0) return;
    child_descriptors(-1, -1, true);
    setsid();
    if (fork() == 0) {
        char *command[] = {words[1], "-I", "-S", "-c", DRAINER, (char *)(uintptr_t)plan->path, house(), NULL};
        execve(words[1], command, small_environment());
    }
    _exit(0);
}

/* ---------------------------------------------------------------------------------------------- the flag of a stop */

static bool write_whole(int fd, Bytes data) {
    while (data.len) {
        ssize_t done = write(fd, data.at, data.len);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        data.at += done;
        data.len -= (size_t)done;
    }
    return true;
}

/* Whether the call fulfils the condition, by a process that can read it; true if that cannot be found out in time. */
static bool fits(Call *call, Bytes condition) {
    char end[64];
    if (call->body.len == 0) return true;
    snprintf(end, sizeof end, ".%ld.call", (long)getpid());
    char *path = path_of(text_of(call->flag_file), end);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return true;
    unlink(path);
    if (!write_whole(fd, body_of(call)) || lseek(fd, 0, SEEK_SET) < 0) {
        close(fd);
        return true; /* no space */
    }
    pid_t child = fork();
    if (child == 0) {
        char *command[] = {words[1], "-I", "-c", CHECK, "", house(), path_of(call->agent, ""), path_of(call->event, ""),
                           path_of(call->plan->host, ""), path_of(condition, ""), NULL};
        child_descriptors(fd, -1, false);
        execve(words[1], command, small_environment());
        _exit(1);
    }
    close(fd);
    if (child < 0) return true;
    int status = 0;
    while (monotonic() < call->end - 0.1) {
        pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return !(WIFEXITED(status) && WEXITSTATUS(status) == DOES_NOT_FIT);
        pause_for(0.005);
    }
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return true;
}

/* The flag's answer to this call; false if it does not stop it, or is damaged. */
static bool answer_of_flag(Call *call, Answer *answer) {
    Buffer raw = {0};
    if (read_file(call->flag_file, MAX_REPLY, &raw) < 0 || raw.len == 0) return false;
    Bytes rest = view(&raw);
    if (!is(cut(&rest, '\n'), STOP_HEADER)) return false;
    while (rest.len) {
        Row row = split_row(cut(&rest, '\n'));
        long long code;
        if (row.count < 3 || !is(row.fields[0], "event") || !same(row.fields[1], call->event)) continue;
        if (row.count != 5 && row.count != 6) return false;
        if (!read_int(row.fields[2], &code) || code < INT_MIN || code > INT_MAX) return false;
        if (!read_hex(row.fields[3], &answer->out) || !read_hex(row.fields[4], &answer->err)) return false;
        if (row.count == 6 && memchr(row.fields[5].at, 0, row.fields[5].len)) return false;
        answer->code = (int)(code & 255);
        return row.count == 5 || fits(call, row.fields[5]);
    }
    return false;
}

/* Keeps the flag of an answer, or removes what is older than the call, which began then (in seconds since 1970). */
static bool keep_flag(Call *call, double began) {
    const char *path = call->flag_file;
    struct stat known;
    char end[64];
    if (call->flag.len == 0) {
        /* Else a worker wrote it while this call waited. The clock of files is up to some milliseconds behind. */
        if (stat(path, &known) == 0 && changed_at(&known) < began - 0.1) return unlink(path) == 0 || errno == ENOENT;
        return true;
    }
    Buffer raw = {0};
    bool unchanged = read_file(path, MAX_REPLY, &raw) == 0 && same(view(&raw), call->flag);
    drop(&raw);
    if (unchanged) return true;
    snprintf(end, sizeof end, ".%ld.new", (long)getpid());
    char *fresh = path_of(text_of(path), end);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return false;
    bool whole = write_whole(fd, call->flag);
    whole = close(fd) == 0 && whole;
    if (whole && rename(fresh, path) == 0) return true;
    unlink(fresh); /* else each call would leave one on a full disk */
    return false;
}

/* ---------------------------------------------------------------------------------------------- the spool */

/* Makes the spool's folder: 1; 0 if it exists, -1 if it cannot be made. */
static int make_folder(Bytes spool) {
    while (spool.len && spool.at[spool.len - 1] != '/') spool.len--;
    if (spool.len) spool.len--;
    char *folder = path_of(spool, "");
    int result = mkdir(folder, 0700) == 0 ? 1 : errno == EEXIST ? 0 : -1;
    free(folder);
    return result;
}

/* Waits for the lock of a file until then; with `until` 0, for as long as it takes. */
static bool take_lock(int fd, double until) {
    for (;;) {
        if (flock(fd, until > 0 ? LOCK_EX | LOCK_NB : LOCK_EX) == 0) return true;
        if (errno != EINTR && errno != EWOULDBLOCK) return false;
        if (until <= 0) continue;
        double rest = until - monotonic();
        if (rest <= 0) return false;
        pause_for(least(0.001, rest));
    }
}

/* The spool, open to append and locked; creates it and its directory. -1 if that is not possible by `until`. */
static int lock_spool(Bytes spool, double until) {
    char *path = path_of(spool, "");
    int fd = -1;
    for (;;) {
        struct stat mine, there;
        fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            int made = errno == ENOENT ? make_folder(spool) : -1;
            if (made > 0 || (made == 0 && monotonic() < until)) continue; /* 0: another hook has just made it */
            break;
        }
        if (!take_lock(fd, until)) {
            close(fd);
            fd = -1;
            break;
        }
        if (fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
            break;
        close(fd); /* a drainer renamed the file while this process waited for its lock */
    }
    free(path);
    return fd;
}

/* Counts a lost record beside the spool: a decimal in `.dropped`, and what did not fit there as a file's length. */
static void count_dropped(Bytes spool) {
    for (int full = 0; full < 2; full++) {
        char *path = path_of(spool, full ? ".dropped.full" : ".dropped"), text[40];
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        free(path);
        if (fd < 0) continue; /* not even an empty file can be made */
        bool counted = false;
        struct stat known;
        if (take_lock(fd, 0) && full) {
            counted = fstat(fd, &known) == 0 && ftruncate(fd, known.st_size + 1) == 0;
        } else if (!full) {
            ssize_t got = read(fd, text, 32);
            long long total = 0;
            if (got == 0 || (got > 0 && read_int((Bytes){text, (size_t)got}, &total))) {
                int len = snprintf(text, sizeof text, "%lld\n", total + 1);
                counted = len > 0 && pwrite(fd, text, (size_t)len, 0) == len;
            }
        }
        close(fd);
        if (counted) return;
    }
}

/* Appends a record to the spool under its lock; it is counted as dropped if the spool or the disk is full. */
static void keep_record(Bytes spool, Bytes record, double until) {
    struct stat known;
    bool kept = false;
    int fd = lock_spool(spool, until);
    if (fd >= 0 && fstat(fd, &known) == 0 && known.st_size + (long long)record.len <= SPOOL_LIMIT) {
        kept = write_whole(fd, record);
        if (!kept && ftruncate(fd, known.st_size) < 0) { /* no space: remove the half record */
        }
    }
    if (!kept) count_dropped(spool);
    if (fd >= 0) close(fd);
}

/* ---------------------------------------------------------------------------------------------- failing */

/* Whether an error may be over soon: nothing listens, the connection broke, or the server is still reading its data. */
static bool may_return(Call *call, bool connected) {
    if (call->provisional.len) return true;
    if (call->publish && !call->marked) return false;
    if (failure.kind == NO_ANSWER) return returns() || ((call->away || call->empty) && failed_as("no evaluator"));
    call->away = failure.connection || failure.missing || (failure.timeout && !connected);
    return call->away;
}

/* Notes why there is no answer, and whether the server is away; true with the answer of a stop that has reached this host, or
 * the one that an evaluator left for a call that waits for a person. */
static bool after_failure(Call *call, Answer *answer) {
    if (call->acked && failure.timeout)
        snprintf(call->why, sizeof call->why, "no answer in time"); /* the server's own error comes up to 100 ms late */
    else if (failure.kind == OS_ERROR)
        snprintf(call->why, sizeof call->why, "%s away: %s", call->plan->gateway.len ? "gateway" : "redis", failure.text);
    else
        snprintf(call->why, sizeof call->why, "%s", failure.text);
    /* A publish is not tried again, so the next call that waits for an answer may. */
    bool known = failure.kind == OS_ERROR && (!call->publish || failure.timeout), unserved = failed_as("no evaluator");
    call->empty = call->empty && unserved;
    call->away = !call->acked && call->body.len && (known || call->empty || returns());
    /* The server has its data, and a fleet without evaluators is no outage. */
    if (call->returned && unserved && !call->empty && !call->plan->gateway.len) unlink(call->mark);
    size_t len = strlen(call->why);
    if (is_there(call->flag_file) && answer_of_flag(call, answer)) {
        snprintf(call->why + len, sizeof call->why - len, "; denied by the stop that this host keeps");
        return true;
    }
    if (call->provisional.len) {
        snprintf(call->why + len, sizeof call->why - len, "; the call waits for a person");
        if (unpack(call, call->provisional, answer) < 0) return false;
        call->answered = false; /* it says nothing of a stop */
        return true;
    }
    return false;
}

/* Reports that the agent fell back: to the server if it has the request, else in the spool. Then sets the mark. */
static void record_fallback(Call *call, const char *chance) {
    Buffer fields = {0}, record = {0};
    Bytes why = text_of(call->why);
    char id[34];
    int count = call->field_count;
    bool reported = false, apart = call->acked || call->body.len == 0;
    if (apart) {
        make_id(id, chance);
        add_words(&fields, 4, text_of("of"), text_of(call->id), text_of("fallback"), why);
        add(&fields, view(&call->fields));
        count += 4;
        double now = monotonic();
        Link link;
        if (open_link(&link, call->plan, now + (call->end - now) / 2) == 0) {
            /* On a connection of its own: the first one still waits for the answer. Marked as one of which a copy may be
             * spooled, since the server's word may come too late. */
            Buffer sent = {0};
            add(&sent, view(&fields));
            add_words(&sent, 2, text_of("spooled"), text_of("1"));
            reported = add_event(&link, id, &sent, count + 2) == 0;
            close_link(&link);
        }
        if (reported) call->reached = true;
        else call->away = call->end - now > 0.05; /* otherwise it had no time to answer */
    } else {
        memcpy(id, call->id, sizeof id);
        add(&fields, view(&call->fields));
        if (!call->publish) {
            add_words(&fields, 2, text_of("fallback"), why);
            count += 2;
        }
        add_words(&fields, 2, text_of("body"), body_of(call));
        count += 2 + add_causes(&fields);
    }
    if (!reported) {
        add_format(&record, "*%d\r\n", count + 3);
        add_words(&record, 3, text_of("events"), text_of("id"), text_of(id));
        add(&record, view(&fields));
        keep_record(call->plan->spool, view(&record), call->end);
    }
    drop(&fields);
    drop(&record);
    if (reported || !call->away || call->marked || call->reached) return;
    for (int turn = 0; turn < 2; turn++) { /* the mark: its time is when a call last tried for its full time, and a byte says "empty" */
        int fd = open(call->mark, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            if (call->empty) write_whole(fd, text_of("0"));
            close(fd);
            return;
        }
        if (errno != ENOENT || make_folder(call->plan->spool) < 0) return;
    }
}

/* ---------------------------------------------------------------------------------------------- the call */

/* Checks whether a server that did not answer the last call answers now; then the call goes on. The mark stays until an
 * evaluator is there too. */
static int look(Call *call, Link *link) {
    struct stat known;
    double seconds = call->until - monotonic();
    if (call->plan->gateway.len) {
        if (gateway_ping(link, seconds) < 0) return -1;
    } else {
        Buffer command = {0};
        Value ignored;
        add_text(&command, "*1\r\n");
        add_words(&command, 1, text_of("PING"));
        if (exchange(link, seconds, &command, &ignored) < 0) return -1;
    }
    call->marked = false;
    call->returned = true;
    call->unserved = stat(call->mark, &known) == 0 && known.st_size > 0;
    call->away = !call->unserved;
    return 0;
}

/* Whether this call gives a marked server the full time again: else a host that is farther from it than the moment which a mark
 * leaves would never find it again. If so, the next calls do not. */
static bool is_due(const char *mark) {
    struct stat found;
    if (stat(mark, &found) < 0) return false;
    double age = wall_clock() - (double)found.st_mtime;
    if (age >= 0 && age < RETRY_S) return false;
    return utimensat(AT_FDCWD, mark, NULL, 0) == 0;
}

/* Waits until a call whose try failed is tried again: true; false if it is not. A server that was lost may come back without its
 * data, and its evaluators need a moment to come back to it: `wait_for_return` in `bus/shim/outage.py`. */
static bool wait_for_return(Call *call, bool connected) {
    Plan *plan = call->plan;
    bool broke = connected && (failure.connection || failure.timeout), unserved = failed_as("no evaluator");
    double now = monotonic();
    if (broke && (call->acked || (plan->gateway.len && !call->broken))) call->until = now + call->window;
    if (unserved && call->away && !call->unserved) {
        call->until = most_of(call->until, now + call->window);
        call->unserved = true;
    }
    if (call->provisional.len) call->until = call->soft; /* a person's answer may come until the deadline */
    bool at_once = broke && !(call->broken || call->publish || call->marked); /* only what was under way may be lost */
    if (!at_once && (!may_return(call, connected) || now + call->pause >= least(call->until, call->soft))) return false;
    call->away = true;
    call->had = call->had || (broke && call->acked);
    /* A server that was restarted may have lost the request; an id that arrives twice is evaluated once. */
    call->acked = call->acked && (unserved || now >= call->soft);
    if (at_once) {
        call->broken = true;
        return true;
    }
    if (plan->name.len && failure.kind == OS_ERROR) resolve(plan, least(call->until, call->soft) - monotonic());
    pause_for(call->pause);
    call->pause = least(call->provisional.len ? 0.5 : 0.1, call->pause * 2);
    return true;
}

/* The answer (1), or none because it is only announced (0). A server that is away for a moment is tried again. */
static int send_call(Call *call, Bytes reply, Answer *answer) {
    if (read_stdin(call) < 0) return -1;
    double spare = (call->end - call->soft) / 3, window = call->window;
    if (call->marked && (call->publish || !is_due(call->mark))) window = MARKED_S;
    call->until = monotonic() + window;
    for (;;) {
        Link link;
        double until = call->marked ? call->until : call->soft + spare * (call->broken ? 2 : 1);
        bool connected = open_link(&link, call->plan, until) == 0;
        int result = connected ? 0 : -1;
        if (connected && call->marked) {
            result = look(call, &link);
            link.until = call->soft + spare;
        }
        if (result == 0) result = ask(call, &link, reply, answer);
        if (connected) close_link(&link);
        if (result >= 0) return result;
        Failure known = failure;
        if (known.kind == OTHER || !wait_for_return(call, connected)) {
            failure = known;
            return -1;
        }
    }
}

/* Records a fallback, sets or removes the mark, and sends spooled events; the agent has its answer already. */
static void finish(Call *call, const char *chance) {
    if (call->why[0]) record_fallback(call, chance);
    if (call->answered && call->returned) unlink(call->mark);
    if (call->answered && (call->flag.len || call->kept))
        if (!keep_flag(call, wall_clock() + call->start - monotonic())) return;
    if (call->reached) {
        char *draining = path_of(call->plan->spool, ".draining"), *spool = path_of(call->plan->spool, "");
        if (is_there(spool) || is_there(draining)) drain_later(call->plan);
    }
}

/* Opens the standard descriptors that the agent has closed: else a connection would get the number of one, and the answer would
 * go there. */
static void open_standard(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) give_up("no standard descriptors");
}

int main(int argc, char **argv) {
    double start = monotonic();
    words = argv;
    signal(SIGPIPE, SIG_IGN);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("fleethook-hook %s %s\n", VERSION, SOURCE);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    if (argc < 5 || strcmp(argv[2], "-I") != 0 || strcmp(argv[3], "-S") != 0) {
        fputs("usage: fleethook-hook PYTHON -I -S LAUNCHER AGENT EVENT ANSWERFILE [closed | later | open TEXT]\n", stderr);
        return 64;
    }
    if (argc > 8) mode = argv[8];
    if (argc > 9) said = argv[9];
    open_standard();
    if (argc < 8) by_python();
    Plan plan = {0};
    Bytes event = text_of(argv[6]);
    if (strcmp(from_environment("FLEETHOOK_NATIVE_HOOK"), "0") == 0 || !read_plan(&plan, argv[7], event)) by_python();
    if (plan.skip) return 0;
    if (strcmp(mode, "later") == 0) { /* the agent does not wait for the answer */
        plan.publish = true;
        plan.code = 0;
        plan.out = plan.err = (Bytes){0};
    }
    Call call;
    Answer answer = {plan.code, plan.out, plan.err};
    char chance[33], key[33];
    begin_call(&call, &plan, text_of(argv[5]), event, start);
    random_hex(chance, 10);
    random_hex(key, 16);
    Buffer reply = {0};
    add(&reply, plan.prefix);
    add_text(&reply, "reply:");
    add_text(&reply, key);
    if (send_call(&call, view(&reply), &answer) < 0 && !after_failure(&call, &answer))
        answer = (Answer){plan.code, plan.out, plan.err};
    write_out(1, answer.out, call.end);
    write_out(2, answer.err, call.end);
    finish(&call, chance);
    _exit(answer.code);
}
