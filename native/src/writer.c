/* Documents to bytes. They are written from the last to the first, so that the length of a part is known when it is
   written.

   What a document holds stays where it is meanwhile, as no code of Python runs: the values that are looked at are of
   classes that Python itself has, and of exactly those, and nothing is made that its collector watches. An exception
   is, and when there was one nothing is looked at any more. */

#include "codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    unsigned char *buffer; /* `small`, or memory of its own */
    size_t size;           /* of it */
    size_t start;          /* of what has been written: it ends with the buffer */
    struct table **unfilled;
    unsigned char small[1024];
};

/* Return room for `size` bytes before what has been written, or NULL. It holds until the next call. */
static unsigned char *room(struct writer *writer, size_t size)
{
    if (size > writer->start) {
        size_t used = writer->size - writer->start;
        if (size > MAX_BYTES - used)
            return NULL;
        size_t larger = writer->size * 2 > used + size ? writer->size * 2 : used + size;
        unsigned char *moved = PyMem_Malloc(larger);
        if (moved == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        memcpy(moved + (larger - used), writer->buffer + writer->start, used);
        if (writer->buffer != writer->small)
            PyMem_Free(writer->buffer);
        writer->buffer = moved;
        writer->size = larger;
        writer->start = larger - used;
    }
    writer->start -= size;
    return writer->buffer + writer->start;
}

static size_t written(const struct writer *writer)
{
    return writer->size - writer->start;
}

static bool write_varint(struct writer *writer, uint64_t number)
{
    size_t size = 1;
    for (uint64_t rest = number >> 7; rest != 0; rest >>= 7)
        size++;
    unsigned char *at = room(writer, size);
    if (at == NULL)
        return false;
    for (; size > 1; size--, number >>= 7)
        *at++ = (unsigned char)(number | 0x80);
    *at = (unsigned char)number;
    return true;
}

/* Write the length of what has been written since `before`, for a field that has one, and the field's tag. */
static bool write_head(struct writer *writer, const struct field *field, size_t before)
{
    if (field->wire == WIRE_LENGTH && !write_varint(writer, written(writer) - before))
        return false;
    return write_varint(writer, (uint64_t)field->number << 3 | (uint64_t)field->wire);
}

static bool write_message(struct writer *writer, struct table *table, PyObject *document, unsigned depth);

/* Return the UTF-8 of a text, which it keeps itself; NULL for what is none. */
static const char *text_of(PyObject *value, size_t *length)
{
    Py_ssize_t size;
    if (!PyUnicode_CheckExact(value))
        return NULL;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text != NULL)
        *length = (size_t)size;
    else if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        PyErr_Clear();
    return text;
}

static bool write_text(struct writer *writer, PyObject *value)
{
    size_t length;
    const char *text = text_of(value, &length);
    unsigned char *at = text == NULL ? NULL : room(writer, length);
    if (at == NULL)
        return false;
    memcpy(at, text, length);
    return true;
}

static bool write_bytes(struct writer *writer, PyObject *value)
{
    size_t length, size;
    const char *text = text_of(value, &length);
    if (text == NULL || !base64_size(text, length, &size))
        return false;
    unsigned char *at = room(writer, size);
    return at != NULL && from_base64(text, length, at);
}

static bool write_double(struct writer *writer, PyObject *value)
{
    bool whole = PyLong_CheckExact(value);
    if (!whole && !PyFloat_CheckExact(value))
        return false;
    double number = PyFloat_AsDouble(value);
    if (whole && number == -1.0 && PyErr_Occurred() != NULL) {
        PyErr_Clear();
        return false;
    }
    if (!isfinite(number))
        return false;
    unsigned char *at = room(writer, 8);
    if (at == NULL)
        return false;
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    for (unsigned byte = 0; byte < 8; byte++)
        at[byte] = (unsigned char)(bits >> (8 * byte) & 0xff);
    return true;
}

static bool write_integer(struct writer *writer, enum kind kind, PyObject *value)
{
    int overflow;
    if (!PyLong_CheckExact(value))
        return false;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    uint64_t bits = (uint64_t)number;
    bool fits = overflow == 0;
    switch (kind) {
    case KIND_INT32: fits = fits && number >= INT32_MIN && number <= INT32_MAX; break;
    case KIND_INT64: break;
    case KIND_UINT32: fits = fits && number >= 0 && number <= UINT32_MAX; break;
    case KIND_UINT64:
        fits = fits && number >= 0;
        if (overflow > 0) {
            bits = PyLong_AsUnsignedLongLong(value);
            fits = PyErr_Occurred() == NULL;
            PyErr_Clear();
        }
        break;
    default: return false;
    }
    return fits && write_varint(writer, bits);
}

static bool write_enum(struct writer *writer, const struct field *field, PyObject *value)
{
    if (!PyUnicode_CheckExact(value))
        return false;
    PyObject *number = PyDict_GetItemWithError(field->numbers, value);
    return number != NULL && write_integer(writer, KIND_INT32, number);
}

/* Write a value and its field's tag. */
static bool write_value(struct writer *writer, const struct field *field, PyObject *value, unsigned depth)
{
    size_t before = written(writer);
    bool done = false;
    switch (field->kind) {
    case KIND_BOOL: done = (value == Py_True || value == Py_False) && write_varint(writer, value == Py_True); break;
    case KIND_BYTES: done = write_bytes(writer, value); break;
    case KIND_DOUBLE: done = write_double(writer, value); break;
    case KIND_ENUM: done = write_enum(writer, field, value); break;
    case KIND_MESSAGE: done = write_message(writer, field->inner, value, depth + 1); break;
    case KIND_STRING: done = write_text(writer, value); break;
    case KIND_ABSENT:
    case KIND_MAP:
    case KIND_OTHER: break;
    default: done = write_integer(writer, field->kind, value); break;
    }
    return done && write_head(writer, field, before);
}

struct entry {
    const char *text;
    size_t length;
    PyObject *key, *value;
};

static int in_common(const struct entry *one, const struct entry *other)
{
    return memcmp(one->text, other->text, one->length < other->length ? one->length : other->length);
}

static int by_key(const void *left, const void *right)
{
    const struct entry *one = left, *other = right;
    int order = in_common(one, other);
    return order != 0 ? order : (one->length > other->length) - (one->length < other->length);
}

/* Write the entries of a map in the order of their keys, as a deterministic message has them. Which comes first, `a` or
   `ab`, differs between protobuf libraries, so it is left to ours. */
static bool write_map(struct writer *writer, const struct field *field, PyObject *value, unsigned depth)
{
    struct table *entry = field->inner;
    if (!PyDict_CheckExact(value))
        return false;
    if (!entry->filled) {
        *writer->unfilled = entry;
        return false;
    }
    if (!is_entry(entry))
        return false;
    const struct field *of_key = &entry->fields[0], *of_value = &entry->fields[1];
    size_t count = (size_t)PyDict_Size(value), at = 0;
    struct entry *entries = PyMem_Calloc(count ? count : 1, sizeof *entries);
    if (entries == NULL) {
        PyErr_NoMemory();
        return false;
    }
    bool done = true;
    Py_ssize_t position = 0;
    for (; done && at < count && PyDict_Next(value, &position, &entries[at].key, &entries[at].value); at++)
        done = (entries[at].text = text_of(entries[at].key, &entries[at].length)) != NULL;
    if (done)
        qsort(entries, at, sizeof *entries, by_key);
    for (size_t next = 1; done && next < at; next++)
        done = in_common(&entries[next - 1], &entries[next]) != 0;
    while (done && at > 0) {
        size_t before = written(writer);
        at--;
        done = write_value(writer, of_value, entries[at].value, depth + 1) &&
               write_value(writer, of_key, entries[at].key, depth + 1) && write_head(writer, field, before);
    }
    PyMem_Free(entries);
    return done;
}

static bool write_list(struct writer *writer, const struct field *field, PyObject *values, unsigned depth)
{
    bool list = PyList_CheckExact(values);
    if (!list && !PyTuple_CheckExact(values))
        return false;
    bool done = true;
    for (Py_ssize_t at = list ? PyList_Size(values) : PyTuple_Size(values); done && at > 0; at--) {
        PyObject *value = list ? PyList_GetItem(values, at - 1) : PyTuple_GetItem(values, at - 1);
        done = value != NULL && write_value(writer, field, value, depth);
    }
    return done;
}

/* Find each value's field. Most documents have our own names, in the order of their fields. */
static bool find_fields(const struct table *table, PyObject *document, PyObject **values, uint64_t *there)
{
    PyObject *name, *value;
    Py_ssize_t position = 0;
    size_t next = 0;
    for (size_t at = 0; at < table->count; at++)
        values[at] = NULL;
    while (PyDict_Next(document, &position, &name, &value)) {
        size_t at = next;
        while (at < table->count && table->fields[at].name != name)
            at++;
        if (at == table->count) {
            PyObject *place = PyUnicode_CheckExact(name) ? PyDict_GetItemWithError(table->by_name, name) : NULL;
            if (place == NULL)
                return false;
            at = PyLong_AsSize_t(place);
            if (at >= table->count) /* what PyLong_AsSize_t fails with, too */
                return false;
        }
        next = at + 1;
        if (value != Py_None) {
            values[at] = value;
            *there |= (uint64_t)1 << table->fields[at].number;
        }
    }
    return true;
}

static bool write_message(struct writer *writer, struct table *table, PyObject *document, unsigned depth)
{
    PyObject *values[MAX_NUMBER]; /* by the place of their field; NULL where it has none */
    uint64_t there = 0;
    if (!table->filled) {
        *writer->unfilled = table;
        return false;
    }
    if (depth >= MAX_DEPTH || !PyDict_CheckExact(document))
        return false;
    if (!find_fields(table, document, values, &there) || (there & table->required) != table->required)
        return false;
    for (size_t at = table->count; at > 0; at--) {
        const struct field *field = &table->fields[at - 1];
        PyObject *value = values[at - 1];
        if (value == NULL || field->kind == KIND_ABSENT)
            continue;
        bool done = field->kind == KIND_MAP ? field->repeated && write_map(writer, field, value, depth)
                    : field->repeated       ? write_list(writer, field, value, depth)
                                            : write_value(writer, field, value, depth);
        if (!done)
            return false;
    }
    return true;
}

PyObject *bytes_of(struct table *table, PyObject *document, struct table **unfilled)
{
    struct writer writer;
    writer.buffer = writer.small;
    writer.size = writer.start = sizeof writer.small;
    writer.unfilled = unfilled;
    PyObject *bytes = NULL;
    if (write_message(&writer, table, document, 0))
        bytes = PyBytes_FromStringAndSize((const char *)writer.buffer + writer.start, (Py_ssize_t)written(&writer));
    if (writer.buffer != writer.small)
        PyMem_Free(writer.buffer);
    return bytes;
}
