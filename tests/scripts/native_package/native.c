/* A module in C, which pip can install only where there is a compiler and Python's headers. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *add(PyObject *self, PyObject *args) {
    double left, right;
    if (!PyArg_ParseTuple(args, "dd", &left, &right)) return NULL;
    return PyFloat_FromDouble(left + right);
}

static PyMethodDef methods[] = {{"add", add, METH_VARARGS, "The sum of two numbers."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "native", NULL, -1, methods};

PyMODINIT_FUNC PyInit_native(void) { return PyModule_Create(&module); }
