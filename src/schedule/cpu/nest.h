// A nest on the host while a schedule is sought for it: the strategies, and what they share.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedule/cost.h"
#include "schedule/strategy.h"

namespace tcc::schedule::cpu {

/// What an item of the pool should take, so that handing it out costs little.
inline constexpr double kItemNs = 6000;
inline constexpr int64_t kMaxItems = 32;

/// Beside the products, in half cycles: a vector of columns that comes from the second-level cache.
inline constexpr double kExposedLoad = 0.6;
/// ... and what it takes whatever else is done meanwhile: tiles of few rows are as fast as such vectors come.
inline constexpr int64_t kStreamedVector = 3;
/// The zeros that fill the last panel of a constant are in the library: it may take that much more than the weight.
inline constexpr double kLargestPadding = 1.25;

/// What a nest may be made into; no longer where it is what such a strategy left of another nest.
struct May {
  bool spread = true;  ///< im2col
  bool split = true;   ///< split_reduction
};

/// Unrolled steps of the sum, `steps` elements of the rows' operand, whose neighbouring rows are `stride` elements apart. An element that several rows read
/// is loaded once, and kept until the last of them has read it.
struct Window {
  int64_t steps = 1, stride = 1;
  /// Elements that are kept at a time by a tile of so many rows.
  int64_t kept(int64_t rows) const { return stride >= steps ? 1 : std::max<int64_t>(1, stride == 1 ? rows - 1 : rows); }
};

class CpuNest {
 public:
  CpuNest(Chooser& chooser, Nest nest, May may) : c_(chooser), kind_(nest.kind), first_(std::move(nest.first)), may_(may) {}

  /// Fuses neighbouring dims of the nest and of the loops inside, and measures what all strategies go by; `im2col` comes before.
  void prepare();

  // The strategies, each for the kinds that the table in strategies.cpp says.

  WhyNot scatter_in_order();  // pointwise.cpp
  WhyNot vectors();           // pointwise.cpp
  WhyNot vectors_of_rows();   // rows.cpp
  WhyNot vectors_along_rows();
  WhyNot split_reduction();
  WhyNot vectors_along_sum();
  WhyNot vectors_of_results();
  WhyNot vectors_of_scans();
  WhyNot scans_in_order();
  /// A convolution whose rows of results are shorter than a vector, or are read with a stride: its input is spread out, what is left is a matrix product.
  WhyNot im2col();  // conv.cpp
  /// What an item reads of the images is copied first, with its padding, so that the inner loops load whole vectors without a mask.
  WhyNot staged_tile();  // conv.cpp
  /// The same where an element is read for one channel alone: a plane at a time, tiles of its rows.
  WhyNot staged_planes();  // conv.cpp
  /// A panel of columns is copied first, each row of it neighbouring vectors, and then read by all tiles of rows.
  WhyNot packed_panels();  // panels.cpp
  /// Constant weights of which the results are not neighbours, those of a convolution: vectors of output channels, out of panels made before.
  WhyNot channels_in_vectors();  // channels.cpp
  WhyNot partial_sums();         // contraction.cpp
  WhyNot few_rows_of_computed();
  WhyNot register_tile();
  WhyNot factor_before();  ///< strategies.cpp: the factor is computed in a nest in front, the rest is another nest

 private:
  const loop::Loop& nest() const { return std::get<loop::Loop>(c_.find(dims_[0]).node); }

  /// Time of the nest on one core, as if it were all vectors.
  double single_core_ns() const;
  /// Items of the pool that the work is worth.
  int64_t wanted_items() const { return wanted_items_; }
  void choose_items();
  int64_t widest_lanes() const;

  /// Vector width for a loop of this extent: several registers where the body is short, a divisor where there is one.
  static int64_t width(int64_t extent, int64_t lanes, bool costly);

  /// Binds leading dims of `outer` to the pool, so that there are enough items and each is worth handing out. One dim is always bound: the nest stays one
  /// loop, whatever happens inside it.
  void parallelize(const std::vector<std::string>& outer);

  /// About extent / pieces, a divisor of the extent when one is near.
  static int64_t nice_chunk(int64_t extent, int64_t pieces);

  bool costly_body() const;
  void for_each_expr(const std::function<void(const loop::ExprPtr&)>& f) const;
  bool scatters() const;
  /// Vectors of a dim, with code of its own for a remainder.
  void split_vectors(const std::string& dim, int64_t w);
  /// Vectors of neighbouring rows, the last dim of the map.
  void rows_in_vectors();

  // Rows and reductions: rows.cpp.

  void prepare_rows();
  void prepare_reduction();
  /// No loops within: what a vector dim may hold.
  static bool is_plain(const loop::Stmt& stmt);
  /// Values that cost much and are computed again in a later loop over the row are kept.
  void keep_costly();

  /// The operand of a contraction to be packed, and the dims of the map around it.
  struct Panels {
    Access packed;
    const loop::Dim* columns = nullptr;
    const loop::Dim* rows = nullptr;
    size_t axis = 0;                         ///< of the packed buffer: that of the columns
    bool joined = false;                     ///< the columns are this axis and the next one
    bool constant = false;                   ///< the packed operand is one
    std::vector<std::string> outer, inside;  ///< other dims: those that the panel depends on; those that only the other operand does
    int64_t depth = 1;                       ///< terms of the sum
  };
  bool is_constant(const loop::BufferRef& buffer) const;
  WhyNot find_channels(Panels& panels, Access& image) const;
  /// Of a convolution: what neighbouring pixels share of a row of the image.
  Window window_of(const Access& image, const loop::Var* pixels) const;
  WhyNot find_panels(Panels& panels) const;
  WhyNot find_axis(Panels& panels) const;
  bool is_box(const loop::Index& index) const;

  // Contractions: contraction.cpp.

  struct Operands {
    Access a, b, c;
  };
  /// The operand of a contraction that moves along the vectors, with a stride or a border, and the other one.
  struct Image {
    Access moving, other;
    const loop::Dim* vector = nullptr;
    int64_t stride = 1;
    bool odd = false;  ///< rows of a window's results are no whole vectors
  };
  WhyNot find_image(Image& image) const;
  void prepare_contraction();
  const loop::Reduce& reduce() const;
  Operands operands() const;
  static bool moves(const Access& access, const loop::Var* var) { return access.flat.uses(var); }

  struct TileSize {
    int64_t rows = 1, vectors = 1;
    double cost = 0;  ///< of all rows and columns, for each term of the sum, in half cycles
  };
  /// What an item of the pool covers: panels, and tiles of rows.
  struct Shares {
    int64_t panels = 1, tiles = 1;
  };
  /// The dims of a convolution that an item covers, all but the tiled ones; last the one that walks over the image.
  struct Walk {
    std::vector<std::string> dims;
    const loop::Dim* along = nullptr;
  };
  Walk dims_of_items(const Access& moving, const Access& other, const std::vector<std::string>& tiled) const;
  /// Copies what is read of the images inside the dim (`top`: all of it), in vectors where their elements are neighbours.
  void stage_image(const Access& moving, int64_t stride, const std::string& at);
  /// Where items are too few, several make the same copy, each for a part of the tiles of rows: how many tiles, so that the copies pay still.
  int64_t tiles_of_part(int64_t tiles, int64_t parts, const Packing& packing) const;
  /// Those of the map that are tiled, as they were: the loops of Panels go when a dim is cut.
  struct PanelDims {
    loop::VarRef columns, rows;
  };
  /// Cuts columns and rows into tiles; returns the dims of a tile's columns.
  std::vector<std::string> split_panel(const PanelDims& dims, const TileSize& tile);
  /// The loops of a product of panels: items of the pool over `order`, in each those of `inside`, and the register tile.
  void multiply_panels(const PanelDims& dims, const TileSize& tile, std::vector<std::string> order, const std::vector<std::string>& inside,
                       const std::vector<std::string>& registers);
  /// The copy: before each use of the panels inside the dim, or once before the nest.
  void stage_panels(const Panels& panels, int64_t width, const std::string& at);
  Shares share_panels(const Panels& panels, const TileSize& tile, const Packing& packing);

  static bool is_power(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

  /// What becomes of columns that do not fill a tile: a narrower tile of their own; a tile that computes more and drops it; the same, in tiles of a power of
  /// two columns only, whose results are stored by code of their own.
  enum class Rest : uint8_t { narrow, padded, peeled };

  /// Register tiles, what they spend in half cycles: two products, or two loads, a cycle, and sums that wait four cycles for their last product.
  /// Accumulators, the vectors and the broadcasts fit in the registers. `exposed`: what the load of a vector of columns costs beside the products.
  std::vector<TileSize> tiles(const loop::Dim* rows, int64_t columns, Rest rest, double exposed = 0.1, const Window& window = {}) const;
  /// The one that spends least.
  static size_t cheapest(const std::vector<TileSize>& tiles);
  /// The one to take, of those.
  TileSize choose_tile(const loop::Dim* rows, int64_t columns, Rest rest, double exposed = 0.1, const Window& window = {}) const;
  /// Rows of an operand that may be read side by side: no more than a first-level cache holds where all of them are in the same sets.
  int64_t most_rows(const loop::Dim& rows) const;

  /// Several registers of a tile's row: one vector where their elements are a power of two, otherwise unrolled vectors that are, since LLVM takes others
  /// apart into elements wherever they live longer than a block of code. Returns the names.
  std::vector<std::string> split_columns(const std::string& dim, int64_t columns);

  /// The part of a split of leading dims that goes to the pool, and what stays inside. Remainders are masked.
  struct Items {
    std::vector<std::string> parallel, inside;
  };
  Items split_items(const std::vector<std::string>& outer, int64_t most_inside);

  /// Unrolls all steps of a small window, or a few of a long sum.
  void unroll_steps(const std::vector<loop::Dim>& reduced);

  /// The dim to unroll: the longest along which the operand that moves with `vector` stands still.
  static const loop::Dim* rows_dim(const std::vector<loop::Dim>& dims, const Access& moving, const Access& other, const loop::Var* vector);

  /// The register tile of the sum: rows (none: one), unrolled registers of a row, elements of a register.
  /// `apart`: what the dims of the sum inside this one give is summed apart; empty: none.
  void tile_registers(const std::string& sum, const std::string& row, const std::vector<std::string>& registers,
                      const std::string& apart = "");
  /// For sums over several dims, such as those of convolutions: the dim inside of which they are summed apart, split for it where need be.
  std::string two_level_sum(const std::vector<loop::Dim>& reduced);

  Chooser& c_;
  const NestKind kind_;
  const std::string first_;
  const May may_;
  std::vector<std::string> dims_;  ///< of the map, fused
  int64_t wanted_items_ = 1;
  int64_t lanes_ = 8;
  bool costly_ = false;

  // Rows and reductions.
  std::vector<std::string> loops_;   ///< a dim of each loop over a row, of each reduce: the last one that is left
  int along_ = 0, across_ = 0;       ///< contiguity along rows, and from row to row
  int64_t longest_ = 1, terms_ = 1;  ///< of a loop's last dim; of a reduce
  int64_t across_extent_ = 1;        ///< of the last dim of the map

  // Contractions.
  std::string sum_;
  Operands operands_;
  std::vector<loop::Dim> map_, reduced_;  ///< dims after fusion
  const loop::Dim* vector_ =
      nullptr;  ///< of `map_`: contiguous in the result and an operand, constant or contiguous in the other; null: none
};

/// Schedules the nest whose first dim has this name.
void schedule_nest(Chooser& chooser, const std::string& first_dim, May may);

}  // namespace tcc::schedule::cpu
