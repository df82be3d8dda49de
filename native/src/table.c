/* The type Table: what is known of a message type, as Python says it once. */

#include "codec.h"

#include <stdlib.h>
#include <string.h>

static const struct { const char *name; enum kind kind; enum wire wire; } KINDS[] = {
    {"other", KIND_OTHER, WIRE_VARINT},   {"absent", KIND_ABSENT, WIRE_VARINT}, {"bool", KIND_BOOL, WIRE_VARINT},
    {"bytes", KIND_BYTES, WIRE_LENGTH},   {"double", KIND_DOUBLE, WIRE_FIXED64}, {"enum", KIND_ENUM, WIRE_VARINT},
    {"int32", KIND_INT32, WIRE_VARINT},   {"int64", KIND_INT64, WIRE_VARINT},   {"map", KIND_MAP, WIRE_LENGTH},
    {"string", KIND_STRING, WIRE_LENGTH}, {"message", KIND_MESSAGE, WIRE_LENGTH}, {"uint32", KIND_UINT32, WIRE_VARINT},
    {"uint64", KIND_UINT64, WIRE_VARINT},
};

static bool wrong(const char *what)
{
    PyErr_SetString(PyExc_ValueError, what);
    return false;
}

static void free_fields(struct field *fields, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        struct field *field = &fields[at];
        Py_XDECREF(field->name);
        Py_XDECREF((PyObject *)field->inner);
        Py_XDECREF(field->numbers);
        for (size_t value = 0; value < field->value_count; value++)
            Py_DECREF(field->values[value].name);
        PyMem_Free(field->values);
    }
    PyMem_Free(fields);
}

static int by_number(const void *left, const void *right)
{
    int32_t one = ((const struct value *)left)->number, other = ((const struct value *)right)->number;
    return (one > other) - (one < other);
}

/* Take the values of an enum, a dict of numbers by name. */
static bool read_values(struct field *field, PyObject *given)
{
    if (!PyDict_CheckExact(given))
        return wrong("an enum needs a dict of numbers by name");
    field->numbers = PyDict_New();
    if (field->numbers == NULL)
        return false;
    size_t count = (size_t)PyDict_Size(given);
    field->values = PyMem_Calloc(count ? count : 1, sizeof *field->values);
    if (field->values == NULL) {
        PyErr_NoMemory();
        return false;
    }
    PyObject *name, *number;
    Py_ssize_t position = 0;
    while (field->value_count < count && PyDict_Next(given, &position, &name, &number)) {
        if (!PyUnicode_CheckExact(name) || !PyLong_CheckExact(number))
            return wrong("an enum needs a dict of numbers by name");
        int overflow;
        long long found = PyLong_AsLongLongAndOverflow(number, &overflow);
        if (overflow || found < 0 || found > INT32_MAX)
            return wrong("numbers of an enum are 0 to 2147483647");
        Py_INCREF(name);
        field->values[field->value_count++] = (struct value){(int32_t)found, name};
        if (PyDict_SetItem(field->numbers, name, number) < 0)
            return false;
    }
    qsort(field->values, field->value_count, sizeof *field->values, by_number);
    for (size_t at = 1; at < field->value_count; at++)
        if (field->values[at - 1].number == field->values[at].number)
            return wrong("two names for one number of an enum");
    return true;
}

/* Take one row: (number, name, kind, repeated, required, inner table or values of an enum). */
static bool read_field(struct field *field, PyObject *row, PyTypeObject *type, bool *required)
{
    unsigned number;
    PyObject *name, *of;
    const char *kind;
    int repeated, needed;
    if (!PyTuple_CheckExact(row) || !PyArg_ParseTuple(row, "IUsppO", &number, &name, &kind, &repeated, &needed, &of))
        return PyErr_Occurred() != NULL ? false : wrong("a field is a tuple");
    if (number < 1 || number > MAX_NUMBER || !PyUnicode_CheckExact(name))
        return wrong("a field needs a number of 1 to 63 and a name");
    field->number = number;
    Py_INCREF(name);
    field->name = name;
    PyUnicode_InternInPlace(&field->name);
    field->repeated = repeated;
    *required = needed;
    size_t known = sizeof KINDS / sizeof *KINDS, at = 0;
    while (at < known && strcmp(KINDS[at].name, kind) != 0)
        at++;
    if (at == known)
        return wrong("no such kind of field");
    field->kind = KINDS[at].kind;
    field->wire = KINDS[at].wire;
    if (field->kind == KIND_ENUM)
        return read_values(field, of);
    if (field->kind == KIND_MESSAGE || field->kind == KIND_MAP) {
        if (!Py_IS_TYPE(of, type))
            return wrong("a message needs the table of its type");
        Py_INCREF(of);
        field->inner = (struct table *)of;
    }
    return true;
}

bool is_entry(const struct table *entry)
{
    if (entry->count != 2 || entry->place[1] != 1 || entry->place[2] != 2)
        return false;
    const struct field *of_key = &entry->fields[0], *of_value = &entry->fields[1];
    return of_key->kind == KIND_STRING && !of_key->repeated && of_value->kind != KIND_MAP && !of_value->repeated;
}

static PyObject *table_fill(PyObject *self, PyObject *rows)
{
    struct table *table = (struct table *)self;
    if (!PyList_CheckExact(rows) || PyList_Size(rows) > MAX_NUMBER) {
        PyErr_SetString(PyExc_ValueError, "needs a list of up to 63 fields");
        return NULL;
    }
    size_t count = (size_t)PyList_Size(rows), made = 0;
    uint64_t required = 0;
    uint8_t place[MAX_NUMBER + 1] = {0};
    struct field *fields = PyMem_Calloc(count ? count : 1, sizeof *fields);
    PyObject *by_name = PyDict_New();
    if (fields == NULL && by_name != NULL)
        PyErr_NoMemory();
    if (fields == NULL || by_name == NULL)
        goto failed;
    for (uint32_t last = 0; made < count; last = fields[made - 1].number) {
        bool needed = false;
        PyObject *row = PyList_GetItem(rows, (Py_ssize_t)made);
        struct field *field = &fields[made++];
        Py_XINCREF(row); /* what says whether a field is required may have code of its own, which may change the list */
        bool done = row != NULL && read_field(field, row, Py_TYPE(self), &needed);
        Py_XDECREF(row);
        if (!done)
            goto failed;
        if (field->number <= last) {
            wrong("fields need the order of their numbers");
            goto failed;
        }
        PyObject *index = PyLong_FromSize_t(made - 1);
        int put = index == NULL ? -1 : PyDict_SetItem(by_name, field->name, index);
        Py_XDECREF(index);
        if (put < 0)
            goto failed;
        place[field->number] = (uint8_t)made;
        if (needed)
            required |= (uint64_t)1 << field->number;
    }
    if ((size_t)PyDict_Size(by_name) != count) {
        wrong("two fields of one name");
        goto failed;
    }
    if (!table->filled) { /* another thread may have done it, and what it put there may be in use */
        table->fields = fields;
        table->by_name = by_name;
        table->count = count;
        table->required = required;
        memcpy(table->place, place, sizeof place);
        table->filled = true;
    } else {
        free_fields(fields, made);
        Py_DECREF(by_name);
    }
    Py_RETURN_NONE;
failed:
    if (fields != NULL)
        free_fields(fields, made);
    Py_XDECREF(by_name);
    return NULL;
}

/* Return what came of it: the result, what has to be filled, or None for the unusual. */
static PyObject *outcome(PyObject *result, struct table *unfilled)
{
    if (result != NULL || PyErr_Occurred() != NULL)
        return result;
    PyObject *instead = unfilled != NULL ? (PyObject *)unfilled : Py_None;
    Py_INCREF(instead);
    return instead;
}

static PyObject *table_decode(PyObject *self, PyObject *data)
{
    struct table *unfilled = NULL;
    char *bytes;
    Py_ssize_t size;
    if (!PyBytes_CheckExact(data))
        Py_RETURN_NONE;
    if (PyBytes_AsStringAndSize(data, &bytes, &size) < 0)
        return NULL;
    PyObject *document = document_of((struct table *)self, (const unsigned char *)bytes, (size_t)size, &unfilled);
    return outcome(document, unfilled);
}

static PyObject *table_encode(PyObject *self, PyObject *document)
{
    struct table *unfilled = NULL;
    PyObject *bytes = bytes_of((struct table *)self, document, &unfilled);
    return outcome(bytes, unfilled);
}

static int table_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct table *table = (struct table *)self;
    Py_VISIT(Py_TYPE(self));
    for (size_t at = 0; at < table->count; at++)
        Py_VISIT((PyObject *)table->fields[at].inner);
    return 0;
}

static int table_clear(PyObject *self)
{
    struct table *table = (struct table *)self;
    struct field *fields = table->fields;
    size_t count = table->count;
    PyObject *by_name = table->by_name;
    table->filled = false; /* whoever still finds it finds it empty */
    table->fields = NULL;
    table->by_name = NULL;
    table->count = 0;
    free_fields(fields, count);
    Py_XDECREF(by_name);
    return 0;
}

static void table_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    table_clear(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef METHODS[] = {
    {"fill", table_fill, METH_O, "Say which fields there are; a table that is filled stays as it is."},
    {"decode", table_decode, METH_O, "Return the document of bytes, a table to be filled first, or None."},
    {"encode", table_encode, METH_O, "Return the bytes of a document, a table to be filled first, or None."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "What is known of a message type; empty at first."},
    {Py_tp_methods, METHODS},
    {Py_tp_traverse, table_traverse},
    {Py_tp_clear, table_clear},
    {Py_tp_dealloc, table_dealloc},
    {0, NULL},
};

PyType_Spec table_spec = {
    .name = "mesos_gpu_codec.Table",
    .basicsize = sizeof(struct table),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = SLOTS,
};
