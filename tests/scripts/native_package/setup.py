"""The package `native`: one module in C."""

from setuptools import Extension, setup

setup(name="native", version="1.0", ext_modules=[Extension("native", ["native.c"])])
