/* base64 as Python's b64encode writes it (RFC 4648, section 4): padded, the last bits zero, nothing else in it. */

#include "codec.h"

static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

PyObject *to_base64(const unsigned char *data, size_t size)
{
    char small[128] = "";
    if (size > MAX_BYTES)
        return NULL;
    size_t length = (size + 2) / 3 * 4, at = 0, put = 0;
    char *text = length <= sizeof small ? small : PyMem_Malloc(length);
    if (text == NULL)
        return PyErr_NoMemory();
    for (; at < size; at += 3) {
        size_t left = size - at;
        uint32_t bits = (uint32_t)data[at] << 16;
        bits |= left > 1 ? (uint32_t)data[at + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)data[at + 2] : 0;
        text[put++] = LETTERS[bits >> 18];
        text[put++] = LETTERS[bits >> 12 & 63];
        text[put++] = left > 1 ? LETTERS[bits >> 6 & 63] : '=';
        text[put++] = left > 2 ? LETTERS[bits & 63] : '=';
    }
    PyObject *made = PyUnicode_DecodeASCII(text, (Py_ssize_t)length, NULL);
    if (text != small)
        PyMem_Free(text);
    return made;
}

bool base64_size(const char *text, size_t length, size_t *size)
{
    if (length % 4 != 0 || length > MAX_BYTES)
        return false;
    *size = length / 4 * 3;
    if (length > 0 && text[length - 1] == '=')
        *size -= text[length - 2] == '=' ? 2 : 1;
    return true;
}

/* Return the six bits of a letter, or -1. */
static int bits_of(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

bool from_base64(const char *text, size_t length, unsigned char *data)
{
    size_t size, put = 0;
    if (!base64_size(text, length, &size))
        return false;
    for (size_t at = 0; at < length; at += 4) {
        uint32_t bits = 0;
        size_t bytes = size - put < 3 ? size - put : 3;
        for (size_t letter = 0; letter < 4; letter++) {
            bool padding = letter > bytes;
            int six = padding ? (text[at + letter] == '=' ? 0 : -1) : bits_of(text[at + letter]);
            if (six < 0)
                return false;
            bits = bits << 6 | (uint32_t)six;
        }
        if (bytes < 3 && (bits & (bytes == 1 ? 0xffffu : 0xffu)) != 0)
            return false;
        for (size_t byte = 0; byte < bytes; byte++)
            data[put++] = (unsigned char)(bits >> (16 - 8 * byte) & 0xff);
    }
    return true;
}
