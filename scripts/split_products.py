#!/usr/bin/env python3
"""Simulates products of f32 by products of parts in bf16, with the sums of tensor cores, and prints their errors beside those of multiply-adds.

Tensor cores are taken to add 16 products at a time to an accumulator: all are aligned to the largest one, cut off at 2^-24 of it, added exactly, and the
sum is cut off to f32. The error is the root mean square over that of the results, in units of 2^-24. Needs numpy.
"""
import argparse

import numpy as np

PAIRS = ((1, 0), (0, 2), (0, 1), (2, 0), (1, 1), (0, 0))
TERMS_AT_A_TIME = 16


def parts_of(x):
    def high(values):
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    first = high(x)
    rest = x - first
    middle = high(rest)
    return first, middle, rest - middle


def toward_zero(x):
    nearest = x.astype(np.float32)
    return np.where(np.abs(nearest.astype(np.float64)) > np.abs(x), np.nextafter(nearest, np.float32(0)), nearest)


def add_as_tensor_cores(accumulator, products):
    largest = np.maximum(np.abs(products).max(1), np.abs(accumulator.astype(np.float64)))
    unit = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1))) - 24)
    return toward_zero(np.trunc(accumulator / unit) * unit + (np.trunc(products / unit[:, None]) * unit[:, None]).sum(1))


def by_parts(x, y, apart):
    x_parts, y_parts = parts_of(x), parts_of(y)
    total = np.zeros(len(x), np.float32)
    for i, j in PAIRS:
        for first in range(0, x.shape[1], apart):
            accumulator = np.zeros(len(x), np.float32)
            for k in range(first, min(first + apart, x.shape[1]), TERMS_AT_A_TIME):
                some = slice(k, k + TERMS_AT_A_TIME)
                accumulator = add_as_tensor_cores(accumulator, x_parts[i][:, some].astype(np.float64) * y_parts[j][:, some])
            total += accumulator
    return total


def by_multiply_adds(x, y):
    total = np.zeros(len(x), np.float32)
    for k in range(x.shape[1]):
        total = (total + x[:, k].astype(np.float64) * y[:, k]).astype(np.float32)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sums", type=int, default=300)
    parser.add_argument("--apart", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    options = parser.parse_args()
    random = np.random.default_rng(1)
    draws = {
        "normal": lambda shape: random.standard_normal(shape).astype(np.float32),
        "uniform in 0 to 1": lambda shape: random.random(shape).astype(np.float32),
    }
    for name, draw in draws.items():
        print(f"{name:18s} terms  multiply-adds" + "".join(f"{apart:8d}" for apart in options.apart))
        for length in (64, 256, 1024, 4096):
            x, y = draw((options.sums, length)), draw((options.sums, length))
            exact = (x.astype(np.float64) * y).sum(1)
            unit = np.sqrt((exact**2).mean()) * 2.0**-24
            errors = [np.sqrt(((sums - exact) ** 2).mean()) / unit for sums in [by_multiply_adds(x, y)] + [by_parts(x, y, apart) for apart in options.apart]]
            print(f"{'':18s} {length:5d}  {errors[0]:13.2f}" + "".join(f"{error:8.2f}" for error in errors[1:]), flush=True)


if __name__ == "__main__":
    main()
