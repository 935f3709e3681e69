// Tiles of kernels that go along rows of products which stay in registers (loop/primitives/stream.cpp, chain.cpp): which one takes the least time.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "schedule/cuda/nest.h"

namespace tcc::schedule::cuda {

/// Registers of a thread that has copies made.
inline constexpr int64_t kLoadRegisters = 24;

/// What such a kernel does, for each of its scores: the results of its first products.
struct StreamWork {
  loop::VarRef row, column;
  int64_t batch = 1;            ///< how many such matrices of scores there are
  DType dtype = DType::bf16;    ///< of the factors
  int64_t multiply_adds = 0;    ///< of all products
  double operations = 0;        ///< of ordinary arithmetic
  double tail_operations = 0;   ///< more, where rows end within a tile
  bool is_triangular = false;   ///< a mask hides one half of them
  int64_t row_elements = 0;     ///< of factors in shared memory: for each row of the tile
  int64_t column_elements = 0;  ///< ... for each column, and each stage
  int64_t scores = 1;           ///< tiles of scores that are there at a time
  int64_t weights = 1;          ///< tiles of what is made of them
  int64_t result_columns = 0;   ///< of what is summed up
  int64_t registers = 0;        ///< of a thread, beside those of tiles
  int64_t tail_registers = 0;   ///< more, where rows end within a tile
};

struct StreamTile {
  int64_t rows, columns;
  int64_t stages = 0, registers = 0;  ///< registers of a thread that multiplies
  double ns = 0;
};

/// The tiles that fit, with their times.
std::vector<StreamTile> stream_tiles(const StreamWork& work, const Target& target);

/// Why these factors can't be streamed, the first reason: `lengths` of their rows.
WhyNot misfit_of_stream(const StreamWork& work, std::span<const int64_t> lengths, const Target& target);

/// Schedules the nest by the primitive, in the tile with the least time. `reduce`: what the primitive goes by; `factors`: buffers that are copied.
WhyNot stream_best(CudaNest& nest, const StreamWork& work, const char* primitive, const std::string& reduce,
                   const std::set<std::string>& factors);

}  // namespace tcc::schedule::cuda
