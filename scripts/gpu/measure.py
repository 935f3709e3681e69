"""Comparing and timing on the CUDA device."""
import statistics
import time
import traceback

import torch


def poison(tensors):
    for tensor in tensors:
        tensor.fill_(float("nan") if tensor.dtype.is_floating_point else 1)


def difference(found, expected, rtol, atol):
    """Largest |found - expected| and how far beyond the tolerance it goes (at most 1 is right)."""
    found = found.double()
    delta = (found - expected).abs()
    beyond = (delta / (atol + rtol * expected.abs())).nan_to_num(nan=float("inf")).max().item() if found.numel() else 0.0
    return delta.nan_to_num(nan=float("inf")).max().item() if found.numel() else 0.0, beyond


def time_together(functions, batches=9):
    """Median time of one call of each, ms: batches of about 20 ms between events, taken in turn so that clocks and neighbours are the same for all."""
    counts = []
    for function in functions:
        for _ in range(3):
            function()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(5):
            function()
        torch.cuda.synchronize()
        counts.append(max(3, min(2000, int(0.02 / max((time.perf_counter() - start) / 5, 1e-6)))))
    times = [[] for _ in functions]
    for _ in range(batches):
        for function, count, row in zip(functions, counts, times):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(count):
                function()
            end.record()
            end.synchronize()
            row.append(begin.elapsed_time(end) / count)
    return [statistics.median(row) for row in times]


def failure(options, label, error):
    """The row of a case that threw."""
    if options.verbose:
        traceback.print_exc()
    return False, f"{label} FAILED {str(error)[:600]}"
