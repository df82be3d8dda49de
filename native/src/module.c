/* The module mesos_gpu_codec. It has no state but its type; Python makes the tables and holds them. */

#include "codec.h"

/* What mesos_gpu looks at before it uses a module, which may be of another version: the rows of `fill`, and results. */
#define PROTOCOL 2

static int execute(PyObject *module)
{
    PyObject *table = PyType_FromModuleAndSpec(module, &table_spec, NULL);
    int put = table == NULL ? -1 : PyModule_AddObjectRef(module, "Table", table);
    Py_XDECREF(table);
    return put < 0 ? -1 : PyModule_AddIntConstant(module, "PROTOCOL", PROTOCOL);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "mesos_gpu_codec",
    .m_doc = "Documents of Mesos' messages to protobuf bytes and back; mesos_gpu.mesos.codec uses it.",
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit_mesos_gpu_codec(void)
{
    return PyModuleDef_Init(&MODULE);
}
