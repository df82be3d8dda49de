/* Bytes to documents. Only `next_varint` and `take` look at what a message has left, and whether there is as much. */

#include "codec.h"

#include <math.h>
#include <string.h>

/* A message's bytes that are not read yet. They are a bytes object's, which the caller of `decode` holds. */
struct reader {
    const unsigned char *at, *end;
    struct table **unfilled;
};

static bool at_end(const struct reader *reader)
{
    return reader->at == reader->end;
}

/* Read a number. False if it is not whole, has more than 64 bits, or is written longer than it is. */
static bool next_varint(struct reader *reader, uint64_t *number)
{
    uint64_t found = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (at_end(reader))
            return false;
        unsigned char byte = *reader->at++;
        if (shift == 63 && byte > 1)
            return false;
        found |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = found;
            return byte != 0 || shift == 0;
        }
    }
    return false;
}

/* Return the next `size` bytes and go past them; NULL if there are fewer. */
static const unsigned char *take(struct reader *reader, uint64_t size)
{
    if ((uint64_t)(reader->end - reader->at) < size)
        return NULL;
    const unsigned char *taken = reader->at;
    reader->at += (size_t)size;
    return taken;
}

/* Read a length and that many bytes, as a reader of their own. */
static bool next_part(struct reader *reader, struct reader *part)
{
    uint64_t size;
    if (!next_varint(reader, &size))
        return false;
    const unsigned char *taken = take(reader, size);
    if (taken == NULL)
        return false;
    *part = (struct reader){taken, taken + (size_t)size, reader->unfilled};
    return true;
}

/* Go past a field that the type does not have. False for groups. */
static bool skip(struct reader *reader, uint64_t tag)
{
    uint64_t ignored;
    struct reader part;
    switch (tag & 7) {
    case WIRE_VARINT: return next_varint(reader, &ignored);
    case WIRE_FIXED64: return take(reader, 8) != NULL;
    case WIRE_LENGTH: return next_part(reader, &part);
    case WIRE_FIXED32: return take(reader, 4) != NULL;
    default: return false;
    }
}

static PyObject *read_message(struct reader *reader, struct table *table, unsigned depth);

static PyObject *read_double(struct reader *reader)
{
    const unsigned char *bytes = take(reader, 8);
    if (bytes == NULL)
        return NULL;
    uint64_t bits = 0;
    for (unsigned at = 0; at < 8; at++)
        bits |= (uint64_t)bytes[at] << (8 * at);
    double number;
    memcpy(&number, &bits, sizeof number);
    if (isfinite(number))
        return PyFloat_FromDouble(number);
    /* JSON has no number for these. */
    return PyUnicode_FromString(isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
}

static PyObject *read_text(struct reader *part)
{
    PyObject *text = PyUnicode_DecodeUTF8((const char *)part->at, part->end - part->at, NULL);
    if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        PyErr_Clear();
    return text;
}

/* Return the name of an enum's number, or NULL: the protobuf library takes others for fields that it does not know. */
static PyObject *name_of(const struct field *field, uint64_t number)
{
    size_t low = 0, high = field->value_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found = (uint64_t)field->values[middle].number;
        if (found == number) {
            Py_INCREF(field->values[middle].name);
            return field->values[middle].name;
        }
        if (found < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static PyObject *read_number(const struct field *field, uint64_t number)
{
    switch (field->kind) {
    case KIND_BOOL: return number > 1 ? NULL : PyBool_FromLong((long)number);
    case KIND_ENUM: return name_of(field, number);
    case KIND_INT32: /* a negative one has its sign in all 64 bits */
        if (number > INT32_MAX && number < (uint64_t)INT32_MIN)
            return NULL;
        return PyLong_FromLongLong((long long)number);
    case KIND_INT64: return PyLong_FromLongLong((long long)number);
    case KIND_UINT32: return number <= UINT32_MAX ? PyLong_FromUnsignedLongLong(number) : NULL;
    case KIND_UINT64: return PyLong_FromUnsignedLongLong(number);
    default: return NULL;
    }
}

/* Return the value of a field whose tag has been read. */
static PyObject *read_value(struct reader *reader, const struct field *field, unsigned depth)
{
    struct reader part;
    uint64_t number;
    switch (field->wire) {
    case WIRE_VARINT: return next_varint(reader, &number) ? read_number(field, number) : NULL;
    case WIRE_FIXED64: return read_double(reader);
    case WIRE_LENGTH: break;
    default: return NULL;
    }
    if (!next_part(reader, &part))
        return NULL;
    switch (field->kind) {
    case KIND_STRING: return read_text(&part);
    case KIND_BYTES: return to_base64(part.at, (size_t)(part.end - part.at));
    case KIND_MESSAGE: return read_message(&part, field->inner, depth + 1);
    default: return NULL;
    }
}

/* Put one entry of a map: its key, then its value, both there and the key for the first time. */
static bool read_entry(struct reader *reader, const struct field *field, PyObject *map, unsigned depth)
{
    struct table *entry = field->inner;
    struct reader part;
    uint64_t tag;
    if (!entry->filled) {
        *reader->unfilled = entry;
        return false;
    }
    if (!is_entry(entry))
        return false;
    const struct field *of_key = &entry->fields[0], *of_value = &entry->fields[1];
    if (!next_part(reader, &part) || !next_varint(&part, &tag) || tag != (1 << 3 | WIRE_LENGTH))
        return false;
    PyObject *key = read_value(&part, of_key, depth), *value = NULL;
    bool put = false;
    if (key != NULL && next_varint(&part, &tag) && tag == (2 << 3 | (uint64_t)of_value->wire)) {
        Py_ssize_t before = PyDict_Size(map);
        value = read_value(&part, of_value, depth + 1); /* the entry is a message, too */
        put = value != NULL && at_end(&part) && PyDict_SetItem(map, key, value) == 0 && PyDict_Size(map) > before;
    }
    Py_XDECREF(value);
    Py_XDECREF(key);
    return put;
}

/* Read one more of a field of many into its list or map. */
static bool read_one_more(struct reader *reader, const struct field *field, PyObject *many, unsigned depth)
{
    if (field->kind == KIND_MAP)
        return read_entry(reader, field, many, depth);
    PyObject *value = read_value(reader, field, depth);
    if (value == NULL)
        return false;
    int put = PyList_Append(many, value);
    Py_DECREF(value);
    return put == 0;
}

/* Return the document of a message that takes all of `reader`. Its known fields must come in the order of their
   numbers, as all that writes protobuf writes them: so each is there once, and the document has their order. */
static PyObject *read_message(struct reader *reader, struct table *table, unsigned depth)
{
    uint64_t seen = 0, tag;
    uint32_t last = 0;
    PyObject *many = NULL; /* the list or map of the field `last` */
    if (!table->filled) {
        *reader->unfilled = table;
        return NULL;
    }
    if (depth >= MAX_DEPTH)
        return NULL;
    PyObject *document = PyDict_New();
    if (document == NULL)
        return NULL;
    while (!at_end(reader)) {
        if (!next_varint(reader, &tag) || tag >> 3 == 0 || tag > UINT32_MAX)
            goto failed;
        uint8_t place = tag >> 3 <= MAX_NUMBER ? table->place[tag >> 3] : 0;
        if (place == 0 || table->fields[place - 1].kind == KIND_ABSENT) {
            if (!skip(reader, tag))
                goto failed;
            continue;
        }
        const struct field *field = &table->fields[place - 1];
        if ((tag & 7) != (uint64_t)field->wire || field->number < last || field->kind == KIND_OTHER)
            goto failed;
        if (field->number > last) {
            Py_CLEAR(many);
            last = field->number;
            seen |= (uint64_t)1 << last;
            PyObject *value;
            if (field->repeated)
                value = many = field->kind == KIND_MAP ? PyDict_New() : PyList_New(0);
            else
                value = read_value(reader, field, depth);
            if (value == NULL)
                goto failed;
            int put = PyDict_SetItem(document, field->name, value);
            if (!field->repeated)
                Py_DECREF(value);
            if (put < 0)
                goto failed;
        }
        else if (!field->repeated)
            goto failed;
        if (field->repeated && !read_one_more(reader, field, many, depth))
            goto failed;
    }
    if ((seen & table->required) != table->required)
        goto failed;
    Py_XDECREF(many);
    return document;
failed:
    Py_XDECREF(many);
    Py_DECREF(document);
    return NULL;
}

PyObject *document_of(struct table *table, const unsigned char *data, size_t size, struct table **unfilled)
{
    struct reader reader = {data, data + size, unfilled};
    return read_message(&reader, table, 0);
}
