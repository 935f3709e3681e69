// What the strategies for CUDA share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/strategy.h"

namespace tcc::schedule::cuda {

/// Threads of a block where nothing speaks for another number.
inline constexpr int64_t kThreads = 256;

/// Of a nest of rows: its loops over a row. Of a reduction: its reduces.
struct Rows {
  std::vector<std::string> dims;   ///< of the map, by name
  std::vector<std::string> loops;  ///< the first dim of each loop
  std::vector<std::string> sums;   ///< the results of reduces
  int64_t count = 1, longest = 1;  ///< rows; elements of the longest loop
  int along = 0, across = 0;       ///< contiguity along rows, and from row to row
  bool plain = true;               ///< no loops within those
  bool masked = false, scatters = false;
};

/// A nest while a schedule is sought for it.
struct CudaNest {
  Chooser& chooser;
  const Nest nest;
  Rows rows = {};                        ///< of nests of rows and of reductions
  std::optional<double> stream_ns = {};  ///< time of the kernel, once one of the strategies for tiles in registers has scheduled it

  const std::string& first() const { return nest.first; }
  const Target& target() const { return chooser.target(); }
  const loop::Loop& loop() const { return std::get<loop::Loop>(chooser.find(nest.first).node); }
};

// The strategies, in files of their names but for those that share one.
WhyNot transpose(CudaNest& nest);
WhyNot scatter_in_order(CudaNest& nest);  // scatter.cpp
WhyNot streamed_rows(CudaNest& nest);
WhyNot chained_products(CudaNest& nest);
WhyNot vectors_per_thread(CudaNest& nest);  // pointwise.cpp
WhyNot element_per_thread(CudaNest& nest);
WhyNot row_per_thread(CudaNest& nest);  // rows.cpp
WhyNot row_per_warp(CudaNest& nest);
WhyNot row_per_block(CudaNest& nest);
WhyNot strided_reduction(CudaNest& nest);
WhyNot strided_sum_in_parts(CudaNest& nest);  // strided_reduction.cpp
WhyNot split_reduction(CudaNest& nest);       // reduction.cpp
WhyNot contiguous_reduction(CudaNest& nest);
WhyNot result_per_thread(CudaNest& nest);
WhyNot warpgroup_cores(CudaNest& nest);
WhyNot warpgroups_after_factor(CudaNest& nest);  // warpgroup_cores.cpp
WhyNot tensor_cores(CudaNest& nest);
WhyNot conv(CudaNest& nest);
WhyNot shared_tiles(CudaNest& nest);
WhyNot conv_wgrad(CudaNest& nest);
WhyNot rows_by_matrix(CudaNest& nest);  // result_per_warp.cpp
WhyNot result_per_warp(CudaNest& nest);
WhyNot direct(CudaNest& nest);
WhyNot factor_before(CudaNest& nest);  // strategies.cpp

/// Factors of 8 bits that no instruction takes are multiplied in the 16 bits of the other factor, or both in f16.
Contraction with_wide_bytes(Contraction c, const Target& target);
/// Time of the contraction by the strategy `tensor_cores`, its sum whole; nothing where it does not apply.
std::optional<double> tensor_cores_ns(const Contraction& c, const loop::Loop& nest, const Target& target);

/// All of the dims (neighbours, outermost first) as one, whatever that does to indices.
std::string fuse_everything(Chooser& chooser, const std::vector<std::string>& dims);
/// The iterations of the dims, one for each thread or `per_thread` unrolled ones, over as many blocks as it takes.
void spread_over_threads(Chooser& chooser, const std::vector<std::string>& dims, int64_t threads, int64_t per_thread);
/// Unrolls what one thread runs in order, so that its loads don't wait for each other. `first`: a dim of the loop.
void load_together(Chooser& chooser, const std::string& first);
/// Elements of one access of up to 16 bytes along a dim that every access inside can have; 1 when there is none. The dim is a multiple of it, or ends where
/// rows with padding do.
int64_t vector_width(const Chooser& chooser, const std::vector<Access>& accesses, const loop::Dim& dim, bool need_store);
/// A warp, or from rows of some length on a block, for each row. `outer`: the dims of the map; `loops`: the first dim of each loop over a row.
void spread_rows(Chooser& chooser, const std::vector<std::string>& outer, const std::vector<std::string>& loops, int64_t longest);
/// Whether the results of a reduction are rows of contiguous elements.
bool is_along_memory(const Rows& rows);
/// Schedules the reduces of a nest, one of the two of a sum that was cut: rows where one has at least so many elements, else a thread for each result.
void schedule_reduces(Chooser& chooser, const std::string& first_dim, int64_t shortest_row);
/// So many are worth a warp when parts of a strided sum are joined.
inline constexpr int64_t kShortestJoined = 64;

}  // namespace tcc::schedule::cuda
