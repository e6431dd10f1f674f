/* What is done for every event, in C: ids, a first look for secrets, and the short way of admission.

   None of it is needed, and none of it decides anything by itself. `clock.py`, `redact.py` and `log/admission.py` hold the rules, in Python; this
   answers sooner where the answer is plain, and hands everything else back. docs/decisions/0011 says what it gains, and how it is held to
   the same answers. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <datetime.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

/* --- ids: UUIDv7 as clock.py makes them */

enum { ID_LENGTH = 36, POOL = 240, CHANCE = 8 };
static uint64_t last_stamp;
static unsigned char pool[POOL];
static int pool_left;

static void write_hex(char *to, uint64_t value, int digits)
{
    for (int n = digits - 1; n >= 0; n--, value >>= 4)
        to[n] = "0123456789abcdef"[value & 15];
}

static PyObject *make_uuid7(PyObject *self, PyObject *unused)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    /* Milliseconds, then twelve bits of their fraction. */
    uint64_t stamp = ((uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000) * 4096 + (uint64_t)(now.tv_nsec % 1000000) * 4096 / 1000000;
    last_stamp = stamp = stamp > last_stamp ? stamp : last_stamp + 1;
    if (pool_left < CHANCE) {
        if (getentropy(pool, POOL) != 0)
            return PyErr_SetFromErrno(PyExc_OSError);
        pool_left = POOL;
    }
    uint64_t chance;
    memcpy(&chance, pool + (pool_left -= CHANCE), CHANCE);
    PyObject *text = PyUnicode_New(ID_LENGTH, 127);
    if (text == NULL)
        return NULL;
    char *to = (char *)PyUnicode_1BYTE_DATA(text);
    write_hex(to, stamp >> 28, 8);
    write_hex(to + 9, stamp >> 12, 4);
    write_hex(to + 15, stamp, 3);
    write_hex(to + 20, chance >> 48, 3);
    write_hex(to + 24, chance, 12);
    to[8] = to[13] = to[18] = to[23] = '-';
    to[14] = '7';
    to[19] = '8';
    return text;
}

static PyObject *start_afresh(PyObject *self, PyObject *unused)
{
    pool_left = 0;
    Py_RETURN_NONE;
}

/* --- words: whether one of some literals stands in a text, whatever its capitals */

enum { BUCKETS = 64, MOST_WORDS = 1024, SHORTEST = 3, HEAD = 4 };

typedef struct {
    PyObject_HEAD
    PyObject *words;           /* a tuple of bytes, in lower case */
    Py_ssize_t openers;        /* from this one on they count only where a word of the text begins */
    uint16_t first[BUCKETS + 1]; /* of each bucket; neighbours share one, so they should be sorted */
    uint32_t head[MOST_WORDS]; /* the first SHORTEST bytes of each word */
    uint64_t at[HEAD][256];    /* the buckets with a word that has this byte at its first, second, third, fourth place, or is shorter */
} Words;

static inline unsigned char small(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static int is_alphanumeric(unsigned char c)
{
    return (c >= '0' && c <= '9') || (small(c) >= 'a' && small(c) <= 'z');
}

/* Whether a word may begin here: behind anything but letters and digits, or behind an escape of JSON such as \n or \u2192. */
static int is_opening(const unsigned char *text, const unsigned char *start)
{
    Py_ssize_t before = text - start;
    return before == 0 || !is_alphanumeric(text[-1]) || (before >= 2 && text[-2] == '\\') || (before >= 6 && text[-6] == '\\' && text[-5] == 'u');
}

static inline uint32_t head_of(const unsigned char *text)
{
    return (uint32_t)small(text[0]) | (uint32_t)small(text[1]) << 8 | (uint32_t)small(text[2]) << 16;
}

static int stands_at(const unsigned char *text, const unsigned char *end, PyObject *word)
{
    const unsigned char *wanted = (const unsigned char *)PyBytes_AS_STRING(word);
    Py_ssize_t length = PyBytes_GET_SIZE(word);
    if (end - text < length)
        return 0;
    for (Py_ssize_t n = 0; n < length; n++)
        if (small(text[n]) != wanted[n])
            return 0;
    return 1;
}

static int words_found(Words *self, const unsigned char *text, Py_ssize_t length)
{
    const unsigned char *start = text, *end = text + length;
    for (; end - text >= SHORTEST; text++) {
        uint64_t left = self->at[0][text[0]] & self->at[1][text[1]] & self->at[2][text[2]] & self->at[3][text[3]]; /* at the end a byte 0 follows */
        for (; left; left &= left - 1) {
            int bucket = __builtin_ctzll(left);
            for (Py_ssize_t n = self->first[bucket]; n < self->first[bucket + 1]; n++)
                if (self->head[n] == head_of(text) && stands_at(text, end, PyTuple_GET_ITEM(self->words, n)) && (n < self->openers || is_opening(text, start)))
                    return 1;
        }
    }
    return 0;
}

static PyObject *words_in(PyObject *self, PyObject *raw)
{
    if (!PyBytes_Check(raw))
        return PyErr_Format(PyExc_TypeError, "bytes are needed, not %s", Py_TYPE(raw)->tp_name);
    return PyBool_FromLong(words_found((Words *)self, (const unsigned char *)PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw)));
}

/* The numbers of all words that are in a text, each at most once for every place. */
static PyObject *words_all_in(PyObject *object, PyObject *raw)
{
    if (!PyBytes_Check(raw))
        return PyErr_Format(PyExc_TypeError, "bytes are needed, not %s", Py_TYPE(raw)->tp_name);
    Words *self = (Words *)object;
    const unsigned char *start = (const unsigned char *)PyBytes_AS_STRING(raw), *text = start, *end = text + PyBytes_GET_SIZE(raw);
    PyObject *found = PySet_New(NULL);
    for (; found != NULL && end - text >= SHORTEST; text++) {
        uint64_t left = self->at[0][text[0]] & self->at[1][text[1]] & self->at[2][text[2]] & self->at[3][text[3]]; /* at the end a byte 0 follows */
        for (; left; left &= left - 1) {
            int bucket = __builtin_ctzll(left);
            for (Py_ssize_t n = self->first[bucket]; n < self->first[bucket + 1]; n++) {
                if (self->head[n] != head_of(text) || !stands_at(text, end, PyTuple_GET_ITEM(self->words, n)) || (n >= self->openers && !is_opening(text, start)))
                    continue;
                PyObject *number = PyLong_FromSsize_t(n);
                if (number == NULL || PySet_Add(found, number) < 0) {
                    Py_XDECREF(number);
                    Py_DECREF(found);
                    return NULL;
                }
                Py_DECREF(number);
            }
        }
    }
    return found;
}

static PyObject *words_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *anywhere, *openers;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &anywhere, &PyTuple_Type, &openers))
        return NULL;
    Words *self = (Words *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->words = PySequence_Concat(anywhere, openers);
    if (self->words == NULL || PyTuple_GET_SIZE(self->words) > MOST_WORDS) {
        Py_DECREF(self);
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "at most %d words", MOST_WORDS);
    }
    Py_ssize_t count = PyTuple_GET_SIZE(self->words);
    self->openers = PyTuple_GET_SIZE(anywhere);
    for (int bucket = 0; bucket <= BUCKETS; bucket++)
        self->first[bucket] = (uint16_t)((bucket * count + BUCKETS - 1) / BUCKETS);
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *word = PyTuple_GET_ITEM(self->words, n);
        if (!PyBytes_CheckExact(word) || PyBytes_GET_SIZE(word) < SHORTEST) {
            Py_DECREF(self);
            return PyErr_Format(PyExc_ValueError, "a word is bytes, %d or more", SHORTEST);
        }
        int bucket = (int)(n * BUCKETS / count);
        self->head[n] = head_of((const unsigned char *)PyBytes_AS_STRING(word));
        for (int place = 0; place < HEAD; place++)
            for (int c = 0; c < 256; c++)
                if (place >= PyBytes_GET_SIZE(word) || small((unsigned char)c) == (unsigned char)PyBytes_AS_STRING(word)[place])
                    self->at[place][c] |= UINT64_C(1) << bucket;
    }
    return (PyObject *)self;
}

static void words_dealloc(PyObject *self)
{
    Py_XDECREF(((Words *)self)->words);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef words_methods[] = {
    {"found_in", words_in, METH_O, "Whether one of the words stands in these bytes."},
    {"numbers_in", words_all_in, METH_O, "The numbers of all words in these bytes."},
    {NULL},
};

static PyTypeObject WordsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fleetlore._quick.Words",
    .tp_doc = "Literals in lower case, looked for whatever the capitals of a text.",
    .tp_basicsize = sizeof(Words),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = words_new,
    .tp_dealloc = words_dealloc,
    .tp_methods = words_methods,
};

/* --- admission: an event as programs make them, without id and time, into the record to store */

/* How a field of the envelope is checked. Python passes the fields in, in the envelope's order, each with the name of its check; there is no
   list of them here. */
enum { C_ABSENT, C_OWN_ID, C_TIME, C_KIND, C_NAME, C_TEXT, C_ID, C_CHOICE, C_VERSION, C_DATA, C_ORIGIN, C_SOME_TEXT, C_NUMBER, C_EMPTY, C_ZERO, CHECKS };
static const char *const check_names[CHECKS] = {
    "absent", "own id", "time", "kind", "name", "text", "id", "choice", "version", "data", "origin", "some text", "number", "empty", "zero",
};
enum { MOST_FIELDS = 64, TIME_LENGTH = 27, DEEPEST = 32 };

/* What the Python side brings along; each is asked only where the quick way cannot know. */
enum { P_EVENT, P_RECORD, P_ENCODE, P_NOW, P_NEW_ID, P_SCOPES_OF_NAMES, P_PAYLOAD_OF, P_CONVERT, P_SUSPECTS, P_WORDS, P_UTC, P_FIELDS, P_CHOICES, P_VERSION, P_ORIGIN, P_ORIGIN_FIELDS, PARTS };
static char *part_names[PARTS + 2] = {
    "event", "record", "encode", "now", "new_id", "scopes_of_names", "payload_of", "convert", "suspects", "words", "utc", "fields", "choices", "version", "origin", "origin_fields", "longest", NULL,
};

typedef struct {
    PyObject_HEAD
    PyObject *part[PARTS];
    Py_ssize_t offset[MOST_FIELDS], origin_offset[MOST_FIELDS];
    int check[MOST_FIELDS], origin_check[MOST_FIELDS];
    Py_ssize_t fields, origin_fields, names;
    Py_ssize_t id, at, kind, data, actor, agent; /* the first name is the actor, the second the agent that acts where no actor is named */
    Py_ssize_t longest;
} Admitter;

static int is_small_int(PyObject *value)
{
    int overflow = 1;
    if (PyLong_CheckExact(value))
        PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0;
}

static int is_plain_json(PyObject *value, int depth);

static int is_plain_dict(PyObject *dict, int depth)
{
    PyObject *key, *item;
    Py_ssize_t place = 0;
    while (PyDict_Next(dict, &place, &key, &item))
        if (!PyUnicode_CheckExact(key) || !is_plain_json(item, depth))
            return 0;
    return 1;
}

static int is_plain_list(PyObject *list, int depth)
{
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(list); n++)
        if (!is_plain_json(PyList_GET_ITEM(list, n), depth))
            return 0;
    return 1;
}

/* Whether a value comes back from JSON as it is; nothing here runs Python, so that nothing changes meanwhile. */
static int is_plain_json(PyObject *value, int depth)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyUnicode_Type || value == Py_None || type == &PyBool_Type)
        return 1;
    if (type == &PyLong_Type)
        return is_small_int(value);
    if (type == &PyFloat_Type)
        return Py_IS_FINITE(PyFloat_AS_DOUBLE(value));
    if (depth >= DEEPEST)
        return 0;
    return (type == &PyDict_Type && is_plain_dict(value, depth + 1)) || (type == &PyList_Type && is_plain_list(value, depth + 1));
}

static int is_uuid(PyObject *text)
{
    if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text) || PyUnicode_GET_LENGTH(text) != ID_LENGTH)
        return 0;
    const char *at = (const char *)PyUnicode_1BYTE_DATA(text);
    for (int n = 0; n < ID_LENGTH; n++) {
        int is_hyphen = n == 8 || n == 13 || n == 18 || n == 23;
        if (is_hyphen ? at[n] != '-' : !((at[n] >= '0' && at[n] <= '9') || (at[n] >= 'a' && at[n] <= 'f')))
            return 0;
    }
    return 1;
}

static int is_text_or_none(PyObject *value)
{
    return value == Py_None || PyUnicode_CheckExact(value);
}

static int is_choice(Admitter *self, PyObject *value)
{
    if (!PyUnicode_CheckExact(value))
        return 0;
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(self->part[P_CHOICES]); n++)
        if (PyUnicode_Compare(value, PyTuple_GET_ITEM(self->part[P_CHOICES], n)) == 0)
            return 1;
    return 0;
}

static int is_version(Admitter *self, PyObject *value)
{
    int overflow;
    return PyLong_CheckExact(value) && PyLong_AsLongAndOverflow(value, &overflow) == PyLong_AsLong(self->part[P_VERSION]) && overflow == 0;
}

static int is_utc_time(Admitter *self, PyObject *at)
{
    return PyDateTime_CheckExact(at) && PyDateTime_DATE_GET_TZINFO(at) == self->part[P_UTC];
}

static int passes(Admitter *self, int check, PyObject *value);

/* Whether an origin says no more than where an event comes from. */
static int is_plain_origin(Admitter *self, PyObject *origin)
{
    if (Py_TYPE(origin) != (PyTypeObject *)self->part[P_ORIGIN])
        return 0;
    for (Py_ssize_t n = 0; n < self->origin_fields; n++) {
        PyObject *value = *(PyObject **)((char *)origin + self->origin_offset[n]);
        if (value == NULL || !passes(self, self->origin_check[n], value))
            return 0;
    }
    return 1;
}

static int passes(Admitter *self, int check, PyObject *value)
{
    switch (check) {
    case C_ORIGIN:
        return value == Py_None || is_plain_origin(self, value);
    case C_NUMBER:
        return value == Py_None || is_small_int(value);
    case C_EMPTY:
        return PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 0;
    case C_ZERO:
        return is_small_int(value) && PyLong_AsLongLong(value) == 0;
    case C_ABSENT:
        return value == Py_None;
    case C_KIND:
    case C_SOME_TEXT:
        return PyUnicode_CheckExact(value);
    case C_NAME:
    case C_TEXT:
        return is_text_or_none(value);
    case C_OWN_ID:
    case C_ID:
        return value == Py_None || is_uuid(value);
    case C_TIME:
        return value == Py_None || is_utc_time(self, value);
    case C_CHOICE:
        return is_choice(self, value);
    case C_VERSION:
        return is_version(self, value);
    default:
        return PyDict_CheckExact(value) && is_plain_json(value, 0);
    }
}

/* Whether every field can be judged here; the rest is for Python. */
static int is_plain_event(Admitter *self, PyObject *const *field)
{
    for (Py_ssize_t n = 0; n < self->fields; n++)
        if (!passes(self, self->check[n], field[n]))
            return 0;
    if ((field[self->id] == Py_None) != (field[self->at] == Py_None))
        return 0; /* one of both is rare */
    return field[self->actor] != Py_None || field[self->agent] != Py_None;
}

static int read_fields(Admitter *self, PyObject *event, PyObject **field)
{
    for (Py_ssize_t n = 0; n < self->fields; n++)
        if ((field[n] = *(PyObject **)((char *)event + self->offset[n])) == NULL)
            return 0;
    return 1;
}

/* The scopes that the names come to; NULL without an error where a name is none, or anything else went wrong. */
static PyObject *find_scopes(Admitter *self, PyObject *const *field)
{
    PyObject *names = PyTuple_New(self->names);
    if (names == NULL)
        return NULL;
    for (Py_ssize_t n = 0, next = 0; n < self->fields; n++)
        if (self->check[n] == C_NAME)
            PyTuple_SET_ITEM(names, next++, Py_NewRef(field[n]));
    PyObject *scopes = PyObject_CallOneArg(self->part[P_SCOPES_OF_NAMES], names);
    Py_DECREF(names);
    return scopes;
}

/* Whether the data fits what is known of its kind. */
static int fits_kind(Admitter *self, PyObject *const *field)
{
    PyObject *payload = PyObject_CallOneArg(self->part[P_PAYLOAD_OF], field[self->kind]);
    if (payload == NULL || payload == Py_None) {
        Py_XDECREF(payload);
        return payload == Py_None;
    }
    PyObject *arguments[] = {field[self->data], payload};
    PyObject *converted = PyObject_Vectorcall(self->part[P_CONVERT], arguments, 2, NULL);
    Py_DECREF(payload);
    Py_XDECREF(converted);
    return converted != NULL;
}

/* The JSON, if no secret can be in it. */
static PyObject *clean_body(Admitter *self, PyObject *event)
{
    PyObject *body = PyObject_CallOneArg(self->part[P_ENCODE], event);
    if (body == NULL || !PyBytes_CheckExact(body) || PyBytes_GET_SIZE(body) > self->longest)
        goto refused;
    if (words_found((Words *)self->part[P_WORDS], (const unsigned char *)PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))) {
        PyObject *answer = PyObject_CallOneArg(self->part[P_SUSPECTS], body);
        int is_clean = answer == Py_False;
        Py_XDECREF(answer);
        if (!is_clean)
            goto refused;
    }
    return body;
refused:
    Py_XDECREF(body);
    return NULL;
}

static void write_number(char *to, int value, int digits)
{
    for (int n = digits - 1; n >= 0; n--, value /= 10)
        to[n] = (char)('0' + value % 10);
}

static void write_time(char *to, PyObject *at)
{
    memcpy(to, "0000-00-00T00:00:00.000000Z", TIME_LENGTH);
    write_number(to, PyDateTime_GET_YEAR(at), 4);
    write_number(to + 5, PyDateTime_GET_MONTH(at), 2);
    write_number(to + 8, PyDateTime_GET_DAY(at), 2);
    write_number(to + 11, PyDateTime_DATE_GET_HOUR(at), 2);
    write_number(to + 14, PyDateTime_DATE_GET_MINUTE(at), 2);
    write_number(to + 17, PyDateTime_DATE_GET_SECOND(at), 2);
    write_number(to + 20, PyDateTime_DATE_GET_MICROSECOND(at), 6);
}

/* How long the quoted agent is that stands at the head of the rest, `,"agent":"…"`; 0 where it does not. */
static Py_ssize_t length_of_agent(const char *rest, Py_ssize_t length)
{
    static const char key[] = ",\"agent\":\"";
    Py_ssize_t n = sizeof key - 1;
    if (length < n || memcmp(rest, key, (size_t)n) != 0)
        return 0;
    while (n < length && rest[n] != '"')
        n += rest[n] == '\\' ? 2 : 1;
    return n < length ? n + 1 : 0;
}

/* How long the id and the time are that a body begins with, `{"id":"…","at":"…"`; 0 where it does not. */
static Py_ssize_t length_of_stamp(const char *body, Py_ssize_t length)
{
    static const char id_key[] = "{\"id\":\"", at_key[] = "\",\"at\":\"";
    Py_ssize_t n = (Py_ssize_t)(sizeof id_key + sizeof at_key - 2) + ID_LENGTH;
    if (length < n || memcmp(body, id_key, sizeof id_key - 1) != 0 || memcmp(body + sizeof id_key - 1 + ID_LENGTH, at_key, sizeof at_key - 1) != 0)
        return 0;
    while (n < length && body[n] != '"')
        n++;
    return n < length ? n + 1 : 0;
}

/* {"id":"…","at":"…", and then the body, with the agent as actor where none is named. NULL without an error: the body is not as it should be. */
static PyObject *stamped(PyObject *body, PyObject *kind, int needs_actor, int has_stamp, PyObject *id, PyObject *at)
{
    static const char id_key[] = "{\"id\":\"", at_key[] = "\",\"at\":\"", kind_key[] = "\"kind\":\"", actor_key[] = ",\"actor\"", agent_key[] = ",\"agent\"";
    const char *from = PyBytes_AS_STRING(body);
    Py_ssize_t length = PyBytes_GET_SIZE(body), named = 0;
    if (has_stamp) {
        /* The time may be written in another way: what follows it is kept, with the comma in place of the brace. */
        Py_ssize_t skipped = length_of_stamp(from, length);
        if (skipped == 0)
            return NULL;
        from += skipped;
        length -= skipped;
    }
    Py_ssize_t head = (Py_ssize_t)sizeof kind_key + PyUnicode_GET_LENGTH(kind) + 1;
    if (length <= head || memcmp(from + 1, kind_key, sizeof kind_key - 1) != 0)
        return NULL;
    if (needs_actor && (named = length_of_agent(from + head, length - head)) == 0)
        return NULL;
    Py_ssize_t added = named ? named - (Py_ssize_t)(sizeof agent_key - 1) + (Py_ssize_t)(sizeof actor_key - 1) : 0;
    PyObject *raw = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(sizeof id_key + sizeof at_key - 2) + ID_LENGTH + TIME_LENGTH + 2 + length - 1 + added);
    if (raw == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(raw);
#define PUT(source, size) (memcpy(to, (source), (size_t)(size)), to += (size))
    PUT(id_key, sizeof id_key - 1);
    PUT(PyUnicode_1BYTE_DATA(id), ID_LENGTH);
    PUT(at_key, sizeof at_key - 1);
    write_time(to, at);
    to += TIME_LENGTH;
    PUT("\",", 2);
    PUT(from + 1, head - 1);
    if (named) {
        PUT(actor_key, sizeof actor_key - 1);
        PUT(from + head + sizeof agent_key - 1, named - (Py_ssize_t)(sizeof agent_key - 1));
    }
    PUT(from + head, length - head);
#undef PUT
    return raw;
}

static int nibble(char digit)
{
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}

/* The sixteen bytes of an id. */
static PyObject *key_of(PyObject *id)
{
    const char *from = (const char *)PyUnicode_1BYTE_DATA(id);
    char key[16];
    for (int n = 0; n < 16; n++, from += 2) {
        from += *from == '-';
        key[n] = (char)(nibble(from[0]) << 4 | nibble(from[1]));
    }
    return PyBytes_FromStringAndSize(key, sizeof key);
}

/* Microseconds since 1970; days by Howard Hinnant's days_from_civil, for years that begin in March. */
static PyObject *moment_of(PyObject *at)
{
    int month = PyDateTime_GET_MONTH(at), year = PyDateTime_GET_YEAR(at) - (month <= 2);
    int64_t of_era = year % 400, of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + PyDateTime_GET_DAY(at) - 1;
    int64_t days = year / 400 * INT64_C(146097) + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
    int64_t seconds = ((days * 24 + PyDateTime_DATE_GET_HOUR(at)) * 60 + PyDateTime_DATE_GET_MINUTE(at)) * 60 + PyDateTime_DATE_GET_SECOND(at);
    return PyLong_FromLongLong(seconds * 1000000 + PyDateTime_DATE_GET_MICROSECOND(at));
}

static PyObject *make_record(Admitter *self, PyObject *const *field, PyObject *scopes, PyObject *body)
{
    PyObject *id = NULL, *at = NULL, *raw = NULL, *key = NULL, *moment = NULL, *record = NULL;
    int has_stamp = field[self->id] != Py_None;
    id = has_stamp ? Py_NewRef(field[self->id]) : PyObject_CallNoArgs(self->part[P_NEW_ID]);
    at = has_stamp ? Py_NewRef(field[self->at]) : PyObject_CallNoArgs(self->part[P_NOW]);
    if (id == NULL || at == NULL || !is_uuid(id) || !is_utc_time(self, at))
        goto done;
    raw = stamped(body, field[self->kind], field[self->actor] == Py_None, has_stamp, id, at);
    if (raw == NULL || PyBytes_GET_SIZE(raw) > self->longest)
        goto done;
    if ((key = key_of(id)) == NULL || (moment = moment_of(at)) == NULL)
        goto done;
    PyObject *arguments[] = {id, at, field[self->kind], scopes, raw, key, moment, has_stamp ? Py_False : Py_True};
    record = PyObject_Vectorcall(self->part[P_RECORD], arguments, sizeof arguments / sizeof *arguments, NULL);
done:
    Py_XDECREF(id);
    Py_XDECREF(at);
    Py_XDECREF(key);
    Py_XDECREF(moment);
    Py_XDECREF(raw);
    return record;
}

static PyObject *admit(PyObject *object, PyObject *event)
{
    Admitter *self = (Admitter *)object;
    PyObject *field[MOST_FIELDS], *scopes = NULL, *body = NULL, *record = NULL;
    if (Py_TYPE(event) != (PyTypeObject *)self->part[P_EVENT] || !read_fields(self, event, field) || !is_plain_event(self, field))
        Py_RETURN_NONE;
    /* Encoded before anything runs that could let another thread change the data. */
    if ((body = clean_body(self, event)) != NULL && (scopes = find_scopes(self, field)) != NULL && fits_kind(self, field))
        record = make_record(self, field, scopes, body);
    Py_XDECREF(scopes);
    Py_XDECREF(body);
    if (record != NULL)
        return record;
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return NULL; /* Ctrl-C is nobody's mistake */
    PyErr_Clear();   /* Python finds it again, and says it */
    Py_RETURN_NONE;
}

/* Where a field lies in an event: every one of them is a slot. */
static Py_ssize_t offset_of(PyObject *type, const char *name)
{
    PyObject *slot = PyObject_GetAttrString(type, name);
    Py_ssize_t offset = -1;
    if (slot != NULL && Py_IS_TYPE(slot, &PyMemberDescr_Type) && ((PyMemberDescrObject *)slot)->d_member->type == T_OBJECT_EX)
        offset = ((PyMemberDescrObject *)slot)->d_member->offset;
    Py_XDECREF(slot);
    if (offset < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s is not a slot", name);
    return offset;
}

static int find_check(PyObject *name)
{
    for (int n = 0; n < CHECKS; n++)
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, check_names[n]) == 0)
            return n;
    PyErr_Format(PyExc_ValueError, "there is no check %R", name);
    return -1;
}

/* Learn the checks and places of a struct's fields: pairs of a name and its check. Returns how many there are. */
static Py_ssize_t learn_checks(PyObject *type, PyObject *fields, int *checks, Py_ssize_t *offsets)
{
    Py_ssize_t count = PyTuple_GET_SIZE(fields);
    if (count > MOST_FIELDS) {
        PyErr_Format(PyExc_ValueError, "at most %d fields", MOST_FIELDS);
        return -1;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        const char *name;
        PyObject *check;
        if (!PyTuple_Check(PyTuple_GET_ITEM(fields, n)) || !PyArg_ParseTuple(PyTuple_GET_ITEM(fields, n), "sO", &name, &check))
            return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "a field is a pair of texts"), -1);
        if ((checks[n] = find_check(check)) < 0 || (offsets[n] = offset_of(type, name)) < 0)
            return -1;
    }
    return count;
}

/* Learn the envelope's fields, in the envelope's order. */
static int learn_fields(Admitter *self, PyObject *event, PyObject *fields)
{
    if ((self->fields = learn_checks(event, fields, self->check, self->offset)) < 0)
        return -1;
    self->names = 0;
    self->id = self->at = self->kind = self->data = self->actor = self->agent = -1;
    for (Py_ssize_t n = 0; n < self->fields; n++) {
        if (self->check[n] == C_OWN_ID)
            self->id = n;
        if (self->check[n] == C_TIME)
            self->at = n;
        if (self->check[n] == C_KIND)
            self->kind = n;
        if (self->check[n] == C_DATA)
            self->data = n;
        if (self->check[n] == C_NAME && self->names++ < 2)
            *(self->names == 1 ? &self->actor : &self->agent) = n;
    }
    if (self->id < 0 || self->at < 0 || self->kind < 0 || self->data < 0 || self->agent < 0) {
        PyErr_SetString(PyExc_ValueError, "an envelope has an id, a time, a kind, data, an actor and an agent");
        return -1;
    }
    return 0;
}

static int admitter_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    Admitter *self = (Admitter *)object;
    PyObject *part[PARTS];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$O!OOOOOOOOO!OO!O!O!O!O!n", part_names, &PyType_Type, &part[P_EVENT], &part[P_RECORD], &part[P_ENCODE],
                                     &part[P_NOW], &part[P_NEW_ID], &part[P_SCOPES_OF_NAMES], &part[P_PAYLOAD_OF], &part[P_CONVERT],
                                     &part[P_SUSPECTS], &WordsType, &part[P_WORDS], &part[P_UTC], &PyTuple_Type, &part[P_FIELDS],
                                     &PyTuple_Type, &part[P_CHOICES], &PyLong_Type, &part[P_VERSION], &PyType_Type, &part[P_ORIGIN],
                                     &PyTuple_Type, &part[P_ORIGIN_FIELDS], &self->longest))
        return -1;
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(part[P_CHOICES]); n++)
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(part[P_CHOICES], n))) {
            PyErr_SetString(PyExc_TypeError, "choices are texts");
            return -1;
        }
    if (learn_fields(self, part[P_EVENT], part[P_FIELDS]) < 0)
        return -1;
    if ((self->origin_fields = learn_checks(part[P_ORIGIN], part[P_ORIGIN_FIELDS], self->origin_check, self->origin_offset)) < 0)
        return -1;
    for (int n = 0; n < PARTS; n++)
        Py_XSETREF(self->part[n], Py_NewRef(part[n]));
    return 0;
}

static int admitter_traverse(PyObject *self, visitproc visit, void *arg)
{
    for (int n = 0; n < PARTS; n++)
        Py_VISIT(((Admitter *)self)->part[n]);
    return 0;
}

static int admitter_clear(PyObject *self)
{
    for (int n = 0; n < PARTS; n++)
        Py_CLEAR(((Admitter *)self)->part[n]);
    return 0;
}

static void admitter_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    admitter_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef admitter_methods[] = {
    {"admit", admit, METH_O, "The record to store; None where the event is not as plain as that."},
    {NULL},
};

static PyTypeObject AdmitterType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fleetlore._quick.Admitter",
    .tp_doc = "The short way of admission.",
    .tp_basicsize = sizeof(Admitter),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = admitter_init,
    .tp_traverse = admitter_traverse,
    .tp_clear = admitter_clear,
    .tp_dealloc = admitter_dealloc,
    .tp_methods = admitter_methods,
};

static PyMethodDef functions[] = {
    {"uuid7", make_uuid7, METH_NOARGS, "A new id: RFC 9562 version 7, ascending within a process."},
    {"start_afresh", start_afresh, METH_NOARGS, "A forked child would otherwise draw the same random bits as its parent."},
    {NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "fleetlore._quick", .m_doc = "What is done for every event, in C.", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__quick(void)
{
    PyDateTime_IMPORT;
    if (PyDateTimeAPI == NULL)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddType(made, &WordsType) < 0 || PyModule_AddType(made, &AdmitterType) < 0 || PyModule_AddIntConstant(made, "INTERFACE", 5) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
