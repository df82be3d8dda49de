/* Documents to protobuf bytes and back, for mesos_gpu.mesos.messages: what the three parts of the module share.

   Whatever is not surely what mesos_gpu.mesos.codec.plans and the protobuf library make of it is "unusual": nothing is
   returned, and Python decides. So no error has words here, and no rule has to be known but the usual one.

   A function that fails returns NULL or false, with an exception set (memory) or without (unusual). */

#ifndef MESOS_GPU_CODEC_H
#define MESOS_GPU_CODEC_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest number that a field may have: the fields that were seen are bits of an uint64_t. */
#define MAX_NUMBER 63
/* Messages in messages. The protobuf library takes 100, and the entry of a map is one; it may judge what is deeper. */
#define MAX_DEPTH 48
/* Bytes in the largest message that is written here. */
#define MAX_BYTES ((size_t)1 << 30)

enum kind {
    KIND_OTHER,  /* to be left to Python, wherever it is met */
    KIND_ABSENT, /* documents may have it, and messages have not: not written, and gone past as what is unknown */
    KIND_BOOL,
    KIND_BYTES,
    KIND_DOUBLE,
    KIND_ENUM,
    KIND_INT32,
    KIND_INT64,
    KIND_MAP,
    KIND_MESSAGE,
    KIND_STRING,
    KIND_UINT32,
    KIND_UINT64,
};

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LENGTH = 2, WIRE_FIXED32 = 5 };

struct value { /* of an enum */
    int32_t number;
    PyObject *name;
};

struct field {
    uint32_t number;
    enum kind kind;
    enum wire wire;
    bool repeated;
    PyObject *name;       /* as documents have it */
    struct table *inner;  /* of a message, or of a map's entries; NULL for others */
    PyObject *numbers;    /* of an enum: number by name; NULL for others */
    struct value *values; /* of an enum, in the order of their numbers */
    size_t value_count;
};

/* The fields of a type, in the order of their numbers. It is filled once and does not change any more, so that pointers
   into it hold as long as somebody holds it. */
struct table {
    PyObject_HEAD
    bool filled;
    size_t count;
    struct field *fields;
    PyObject *by_name; /* place among the fields, by name */
    uint64_t required; /* bits of the numbers of fields that must be there */
    uint8_t place[MAX_NUMBER + 1]; /* among the fields, of a number, and one more; 0: there is no such field */
};

extern PyType_Spec table_spec;

/* Return whether a filled table is that of a map's entries as they are usual: a text as key, then one value. */
bool is_entry(const struct table *entry);

/* Return the document of a message, or NULL. `unfilled` is then a table (borrowed) that has to be filled first, if
   there is one. */
PyObject *document_of(struct table *table, const unsigned char *data, size_t size, struct table **unfilled);

/* Return the bytes of a document, or NULL, in the same way. */
PyObject *bytes_of(struct table *table, PyObject *document, struct table **unfilled);

/* Return the text of bytes in base64, or NULL. */
PyObject *to_base64(const unsigned char *data, size_t size);

/* Return how many bytes a text in base64 stands for; false if it is none, or written in another way than ours. */
bool base64_size(const char *text, size_t length, size_t *size);

/* Write those bytes. False if the text is no base64 after all. */
bool from_base64(const char *text, size_t length, unsigned char *data);

#endif
