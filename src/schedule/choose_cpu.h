// The choice of a schedule for one nest on the host: what choose_cpu.cpp, choose_cpu_rows.cpp, choose_cpu_contract.cpp and choose_cpu_window.cpp share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "schedule/chooser.h"

namespace tcc::schedule {

/// What an item of the pool should take, so that handing it out costs little.
inline constexpr double kItemNs = 6000;
inline constexpr int64_t kMaxItems = 32;

class CpuNest {
 public:
  CpuNest(Chooser& chooser, std::string first) : c_(chooser), first_(std::move(first)) {}

  void run(bool may_spread = true, bool may_share = true);

 private:
  const loop::Loop& nest() const { return std::get<loop::Loop>(c_.find(dims_[0]).node); }

  /// Time of the nest on one core, as if it were all vectors.
  double single_core_ns() const;
  int64_t widest_lanes() const;

  /// Vector width for a loop of this extent: several registers where the body is short, a divisor where there is one.
  static int64_t width(int64_t extent, int64_t lanes, bool costly);

  /// Binds leading dims of `outer` to the pool, so that there are enough items and each is worth handing out. One dim is always bound: the nest stays one
  /// loop, whatever happens inside it.
  void parallelize(const std::vector<std::string>& outer);

  /// About extent / pieces, a divisor of the extent when one is near.
  static int64_t nice_chunk(int64_t extent, int64_t pieces);
  void vectors(const std::string& dim, int64_t w);

  // Pointwise nests.
  bool costly_body() const;
  void for_each_expr(const std::function<void(const loop::ExprPtr&)>& f) const;
  bool scatters() const;
  void pointwise();

  /// Vectors of a dim that may have a copy for a remainder, which gets its own remainder.
  void split_vectors(const std::string& dim, int64_t w);
  void one_item();

  // Rows, reductions, scans: choose_cpu_rows.cpp.

  /// Loads and stores that are contiguous along the dim, less those that jump.
  static int contiguity(const std::vector<Access>& accesses, const loop::Var* var);
  void rows();

  /// No loops within: what a vector dim may hold.
  static bool is_plain(const loop::Stmt& stmt);
  void vectors_of_rows();

  /// Values that cost much and are computed again in a later loop over the row are kept.
  void keep_costly();
  static int count_costly(const loop::Unit& unit);
  void reduction();
  /// A reduce of which there are too few to keep the pool busy is cut into parts, a nest of their own; both nests are scheduled then. `items`: how many
  /// there are as it is.
  bool share_out(const std::string& last_reduced, int64_t items);
  void ordered();

  // Contractions: choose_cpu_contract.cpp; those that read windows of an image: choose_cpu_window.cpp.

  struct Operands {
    Access a, b, c;
  };

  /// A convolution whose rows of results are shorter than a vector: its input is spread out (im2col), what is left is a product along contiguous memory.
  bool spread_window(const loop::Loop& loop);
  const loop::Reduce& reduce() const;
  Operands operands() const;
  static bool moves(const Access& access, const loop::Var* var) { return access.flat.uses(var); }

  struct TileSize {
    int64_t rows = 1, vectors = 1;
  };
  static bool is_power(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

  /// The register tile that spends least, in half cycles: two products, or two loads, a cycle, and sums that wait four cycles for their last product.
  /// Accumulators, the vectors and one broadcast fit in the registers. Columns that are left over become a narrower tile of their own, or, where `padded`,
  /// are computed and dropped.
  TileSize best_tile(int64_t rows, int64_t columns, int64_t lanes, bool padded) const;

  /// Several registers of a tile's row: one vector where their elements are a power of two, otherwise unrolled vectors that are, since LLVM takes others
  /// apart into elements wherever they live longer than a block of code. Gives the names.
  std::vector<std::string> split_columns(const std::string& dim, int64_t columns);
  void contraction();

  /// The part of a split of leading dims that goes to the pool, and what stays inside. Remainders are masked.
  struct Items {
    std::vector<std::string> parallel, inside;
  };
  Items split_items(const std::vector<std::string>& outer, int64_t most_inside);

  /// A convolution: what an item reads of the image is copied first, with its padding, so that the inner loops load whole vectors without a mask.
  bool staged_tile(const std::string& sum, const Operands& o, const std::vector<loop::Dim>& dims, const std::vector<loop::Dim>& reduced,
                   const loop::Dim& vector);

  /// Unrolls all steps of a small window, or a few of a long sum.
  void unroll_steps(const std::vector<loop::Dim>& reduced);

  /// The dim to unroll: the longest along which the operand that moves with `vector` stands still.
  static const loop::Dim* rows_dim(const std::vector<loop::Dim>& dims, const Access& moving, const Access& other, const loop::Var* vector);
  void register_tile(const std::string& sum, const Operands& o, const std::vector<loop::Dim>& dims, const std::vector<loop::Dim>& reduced,
                     const loop::Dim& vector);

  /// The register tile of the sum: rows (none: one), unrolled registers of a row, elements of a register.
  /// `apart`: what the dims of the sum inside this one give is summed apart; empty: none.
  void tile_registers(const std::string& sum, const std::string& row, const std::vector<std::string>& registers,
                      const std::string& apart = "");
  /// For sums over several dims, such as those of convolutions: the dim inside of which they are summed apart, split for it where need be.
  std::string sum_apart(const std::vector<loop::Dim>& reduced);
  void partial_sums(const std::string& sum, const Operands& o, const std::vector<loop::Dim>& dims, const loop::Dim& reduced);

  Chooser& c_;
  std::string first_;
  std::vector<std::string> dims_;
  bool may_share_ = true;
  double work_ns_ = 0;
  int64_t lanes_ = 8;
  bool costly_ = false;
};

}  // namespace tcc::schedule
