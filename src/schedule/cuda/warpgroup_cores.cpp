// Matmuls on the tensor cores of a warpgroup: tiles of up to 128 x 256 or 256 x 128 that the copy engine brings to shared memory, wgmma on them.
//
//   split(i, 128) split(j, 256) ... fuse(i_0, j_0) split(i_0_j_0, 132) bind(i_0_j_0_1, block) split(k, 64) tile(v0, i_1, j_1)
//   stage(a1, shared, at=k_0, by=loops, swizzle=3, panels=64) stage(a0, ...) tensorize(v0, m64nNk16, 2, 1) pipeline_tiles(k_0, 3, 232, 40) epilogue(v0)
//
// There are as many blocks as the chip has room for, and each takes one tile after the other. Which tile: the one with the least time by two rates, that of the
// tensor cores and that at which a multiprocessor gets operands from the L2 cache. What a block does with results overlaps with the copies of its next tile, not
// with its products: those of another block of the multiprocessor go on. Few threads take long for arithmetic beside the product, such as gelu or its gradient.
//
// An instruction that takes no transposed factor gets a copy of one with the sum inside (turned_factor.h), where that and the product take less time than
// mma.sync, which reads such a factor word by word.
#include <algorithm>
#include <numeric>
#include <optional>

#include "schedule/cost.h"
#include "schedule/cuda/forms.h"
#include "schedule/cuda/matmul.h"
#include "schedule/cuda/split_factors.h"
#include "schedule/cuda/turned_factor.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/primitives.h"
#include "tcc/loop/tensor_map.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Fewer rows or columns are better read as they are; a shorter sum fills no step.
constexpr int64_t kFewRows = 32, kShortestSum = 48;
constexpr int64_t kMostStages = 6;
/// Registers of a thread for the results of instructions, at most; for all results.
constexpr int64_t kMostAccumulators = 128, kMostResults = 192;
/// Columns whose rows in 16 bits are pieces for whole parts of a warp.
constexpr int64_t kWholeColumns = 32;
/// The warpgroup that has copies made, and the registers that it keeps of each thread; those of one that multiplies, beside its accumulators, where stores are
/// masked, and for each result whose rows end within pieces.
constexpr int64_t kLoadThreads = 128, kLoadRegisters = 40, kOtherRegisters = 32, kMaskRegisters = 8, kRaggedRegisters = 18;

/// Of the time that ordinary arithmetic takes; parts of f32 are memory, too.
constexpr double kWorthSplitting = 0.85;

struct WarpgroupTile {
  int64_t m, n, groups_m, groups_n;
  int64_t stages = 2, blocks = 1;             ///< blocks: that a multiprocessor has room for
  int64_t registers = 0, load_registers = 0;  ///< of a thread that multiplies, that has copies made
  bool in_pieces = false;                     ///< what is stored leaves through shared memory
  double ns = 0;                              ///< of the whole product
  double efficiency = 1;                      ///< share of the rate of the tensor cores that the loads allow
  int64_t threads() const { return 128 * groups_m * groups_n; }
};

/// What a nest stores along its columns, and the bytes of which all rows are multiples, at most 16.
struct Stored {
  std::vector<DType> dtypes;  ///< empty: something else is stored, too
  int64_t piece_bytes = 16;
  bool ragged = false;  ///< rows end within a piece, in padding
};

/// A contraction in one of its forms.
struct Problem {
  const Contraction& c;
  const Form& form;
  const TensorCore& core;
  const Target& target;
  Stored stored;
  bool a_transposed, b_transposed;
  int64_t size = 2, step = 64;  ///< bytes of an element; of the sum, that a stage has
  bool split = false;           ///< the factors are f32, the instruction multiplies their parts
  double ops = 0;               ///< arithmetic of one result, beside its sum

  /// Of the sum, that is added up before it joins the rest.
  int64_t apart() const { return split ? kSummedApart : step; }
  /// Stages of one tile.
  int64_t steps() const { return (split ? kPairsOfParts : 1) * ceil_div(form.length(), apart()) * (apart() / step); }
  /// Registers of a thread for one result.
  int64_t registers() const { return split ? 2 : 1; }

  int64_t tiles(int64_t m, int64_t n) const { return iterations(form.batch) * ceil_div(form.rows(), m) * ceil_div(form.columns(), n); }
};

/// Shared memory of the rows that leave through it.
int64_t leaving_bytes(const Problem& problem, const WarpgroupTile& tile) {
  int64_t bytes = 0;
  for (const DType dtype : problem.stored.dtypes) bytes += tile.m * (tile.n * size_bytes(dtype) + 16) + 128;
  return bytes;
}

/// The stages that the ring has when the shared memory of a multiprocessor is that of so many blocks.
int64_t stages_of(const Problem& problem, const WarpgroupTile& tile, int64_t blocks) {
  const Target& target = problem.target;
  constexpr int64_t kAlignment = 1024;
  const int64_t room = std::min(target.shared_bytes, target.multiprocessor_shared_bytes / blocks - target.block_reserved_bytes) -
                       (tile.in_pieces ? leaving_bytes(problem, tile) : 0) - 2 * kAlignment;
  return std::min(room / ((tile.m + tile.n) * problem.step * problem.size), kMostStages);
}

/// The registers of a thread when so many blocks share a multiprocessor equally; the assembler gives it no more.
int64_t equal_share(const WarpgroupTile& tile, int64_t blocks, const Target& target) {
  return std::min<int64_t>(target.multiprocessor_registers / blocks / (tile.threads() + kLoadThreads) / 8 * 8,
                           target.thread_registers / 8 * 8);
}

/// What who copies leaves to who multiplies, where that is worth it: with one block.
void share_registers(WarpgroupTile& tile, const Target& target) {
  tile.load_registers = tile.registers = equal_share(tile, tile.blocks, target);
  if (tile.blocks > 1 || tile.groups_m * tile.groups_n == 1) return;
  tile.load_registers = kLoadRegisters;
  tile.registers = (target.multiprocessor_registers - kLoadThreads * kLoadRegisters) / tile.threads() / 8 * 8;
}

/// Fills in what follows from the size of a tile; false when it does not fit.
bool measure(const Problem& problem, WarpgroupTile& tile) {
  const Target& target = problem.target;
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  tile.in_pieces = !problem.stored.dtypes.empty();
  for (const DType dtype : problem.stored.dtypes) {
    const int64_t piece = std::max<int64_t>(problem.stored.piece_bytes / size_bytes(dtype), 1);
    tile.in_pieces = tile.in_pieces && tile.m * tile.n / piece % tile.threads() == 0;
  }
  if (stages_of(problem, tile, 1) < 3) tile.in_pieces = false;
  const int64_t steps = problem.steps(), least = std::min<int64_t>(3, steps + 1);
  const bool masked = !tile.in_pieces && (problem.form.rows() % tile.m != 0 || problem.form.columns() % tile.n != 0);
  const bool ragged = tile.in_pieces && (problem.stored.ragged || problem.stored.piece_bytes < 16);
  const int64_t of_stores = masked ? kMaskRegisters : ragged ? kRaggedRegisters * static_cast<int64_t>(problem.stored.dtypes.size()) : 0;
  const int64_t needed = tile.m * tile.n / tile.threads() * problem.registers() + kOtherRegisters + of_stores;
  if (equal_share(tile, 1, target) < needed || stages_of(problem, tile, 1) < 2) return false;
  tile.blocks = equal_share(tile, 2, target) >= needed && stages_of(problem, tile, 2) >= least ? 2 : 1;
  share_registers(tile, target);
  tile.stages = std::max<int64_t>(stages_of(problem, tile, tile.blocks), 2);

  const double core = target.cores, mma_ns = 2.0 * real(tile.m * tile.n * problem.step) / (problem.core.flops_per_ns / core);
  const double load_ns = real((tile.m + tile.n) * problem.step * problem.size) / (target.cache_bytes_per_ns / core);
  tile.efficiency = mma_ns / std::max(mma_ns, load_ns);
  const double rounds = real(ceil_div(problem.tiles(tile.m, tile.n), target.cores * tile.blocks));
  const double store_ns = real(tile.m * tile.n * problem.size) / (target.cache_bytes_per_ns / core);
  const double busy = std::min(1.0, real(tile.threads()) / target.busy_threads);
  const double leave_ns = store_ns + real(tile.m * tile.n) * problem.ops / (target.flops_per_ns / 2 / core * busy);
  const double products_ns = real(steps) * std::max(mma_ns, load_ns);    // of one tile
  const double latency_ns = target.second_kernel_ns - target.launch_ns;  // of the first copies
  const double round_ns = tile.blocks == 1 ? products_ns + leave_ns : std::max(2 * products_ns, products_ns + leave_ns);
  tile.ns = rounds * round_ns + (tile.blocks == 1 ? 0 : leave_ns) + latency_ns;
  return true;
}

/// The tiles that two warpgroups can compute, or one.
std::vector<WarpgroupTile> tiles_for(const Problem& problem) {
  std::vector<WarpgroupTile> tiles;
  const int64_t panel = kPanelBytes / problem.size;
  const auto add = [&](int64_t m, int64_t n, int64_t groups_m, int64_t groups_n) {
    const int64_t columns = n / groups_n;
    if (!problem.form.box.empty() && num_elements(problem.form.box) != m) return;
    if (columns > problem.core.most_n || m * n / (128 * groups_m * groups_n) > kMostAccumulators) return;
    if (m * n / (128 * groups_m * groups_n) * problem.registers() > kMostResults) return;
    if ((problem.b_transposed && columns % panel != 0) || (problem.a_transposed && m % panel != 0)) return;
    WarpgroupTile tile{m, n, groups_m, groups_n};
    // Half of a tile may be empty, not more.
    const bool fits = (m <= 64 || problem.form.rows() > m / 2) && (n <= 64 || problem.form.columns() > n / 2);
    if (!fits || !measure(problem, tile)) return;
    // Where a warp takes no whole rows of pieces, stores from registers under a mask would cost more than the empty part of a wider tile.
    const bool whole_pieces = tile.in_pieces && problem.stored.piece_bytes == 16;
    if (whole_pieces || n % kWholeColumns == 0 || n < kWholeColumns) tiles.push_back(tile);
  };
  for (int64_t n = 256; n >= 32; n -= 16) {  // of two that take the same time, the wider one reads less from shared memory
    add(128, n, 2, 1);
    if (n % kWholeColumns != 0) continue;  // other warpgroups have no registers left for pieces that divide no warp
    add(256, n, 2, 1);
    add(192, n, 3, 1);
    add(64, n, 1, 1);
    if (n % 64 == 0) add(64, n, 1, 2);
  }
  for (const int64_t n : {16, 8}) {
    if (problem.form.columns() <= n) add(64, n, 1, 1);
  }
  return tiles;
}

/// A copy in whole panels; nothing, with a reason, where its rows are not some.
WhyNot stage_panels(Chooser& chooser, const std::string& factor, const std::string& at, int64_t panel, bool in_boxes) {
  const Unit staged = stage_by_loops(chooser.unit(), factor, at, std::nullopt, in_boxes);
  WhyNot why_not;
  walk(staged.body, [&](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    if (!copy || copy->source->name != factor) return;
    const std::vector<int64_t>& extents = copy->destination->extents;
    if (extents.size() != 2 || extents.back() % panel != 0)
      why_not = "rows of " + std::to_string(extents.back()) + " elements of `" + factor + "` are not whole panels";
  });
  if (why_not) return why_not;
  std::vector<Argument> arguments{Chooser::arg(factor), Chooser::arg("shared"), Chooser::key("at", at), Chooser::key("by", "loops")};
  if (in_boxes) arguments.push_back(Chooser::key("masks", "sum"));  // what fills boxes up is read past the ends of images
  arguments.insert(arguments.end(), {{"swizzle", int64_t{3}}, {"panels", panel}});
  chooser.add("stage", std::move(arguments));
  return std::nullopt;
}

/// Tiles one after the other, `blocks` at a time; those next to each other share columns of b in the L2 cache.
void bind_rounds(Chooser& chooser, const std::vector<std::string>& batch, const Merged& names, const WarpgroupTile& size, int64_t blocks) {
  const std::vector<std::string> inside{names.m + "_1", names.n + "_1"};
  const std::string tile = fuse_everything(chooser, order_tiles(chooser, batch, {names.m, size.m}, {names.n, size.n}, inside));
  if (chooser.extent(tile) <= blocks) return chooser.bind(tile, "block");
  chooser.split(tile, blocks);
  chooser.reorder({tile + "_1", tile + "_0", inside[0], inside[1]});
  chooser.bind(tile + "_1", "block");
}

/// Tiles, and copies of both factors for each step of the sum; a reason where the copy engine can't make them.
WhyNot schedule_copies(Chooser& chooser, const Contraction& c, const Merged& names, const Problem& problem, const WarpgroupTile& tile,
                       Sum& sum) {
  const std::vector<std::string> batch = batch_dims(c, names);
  sum = problem.split ? split_factors(chooser, c, kSummedApart)
                      : Sum{c.accumulator, c.accumulator, names.k, c.a.buffer->name, c.b.buffer->name};
  split_into_tiles(chooser, names.m, tile.m);
  split_into_tiles(chooser, names.n, tile.n);
  bind_rounds(chooser, batch, names, tile, problem.target.cores * tile.blocks);
  split_into_tiles(chooser, sum.k, problem.step);
  chooser.add("tile", {Chooser::arg(sum.whole), Chooser::arg(names.m + "_1"), Chooser::arg(names.n + "_1")});
  if (problem.split) chooser.add("tile", {Chooser::arg(sum.products), Chooser::arg(names.m + "_1"), Chooser::arg(names.n + "_1")});
  for (const std::string& factor : {sum.b, sum.a}) {
    if (WhyNot why_not = stage_panels(chooser, factor, sum.k + "_0", kPanelBytes / problem.size, !problem.form.box.empty())) return why_not;
  }
  return misfit_of_copies(chooser.unit(), {sum.a, sum.b});
}

void schedule_products(Chooser& chooser, const Sum& sum, const Problem& problem, const WarpgroupTile& tile) {
  chooser.add("tensorize", {Chooser::arg(sum.products), Chooser::arg(std::string(problem.core.name)), Chooser::arg(tile.groups_m),
                            Chooser::arg(tile.groups_n)});
  chooser.add("pipeline_tiles",
              {Chooser::arg(sum.k + "_0"), Chooser::arg(tile.stages), Chooser::arg(tile.registers), Chooser::arg(tile.load_registers)});
  if (!tile.in_pieces) return;
  std::vector<Argument> arguments{Chooser::arg(sum.whole)};
  if (problem.stored.piece_bytes < 16) arguments.push_back({"bytes", problem.stored.piece_bytes});
  chooser.add("epilogue", std::move(arguments));
}

/// Adds what the access stores, if rows of the columns of the form are contiguous there; false otherwise. Where rows have padding, the last piece may reach
/// into it.
bool add_stored(Stored& stored, const Access& access, const Form& form) {
  int64_t run = 1;
  for (size_t i = form.n.size(); i-- > 0;) {
    if (stride_of(access, form.n[i].get()) != run) return false;
    run *= form.n[i]->extent;
  }
  int64_t multiple = std::gcd(16 / size_bytes(access.buffer->dtype), access.flat.constant());
  const bool padded = access.buffer->row_padding() > 0 && form.n.size() == 1 && access.indices.back() == Index(form.n.back());
  if (!padded) multiple = std::gcd(multiple, run);
  for (const Term& term : access.flat.terms()) {
    const bool is_column = std::any_of(form.n.begin(), form.n.end(), [&](const VarRef& var) { return var == term.atom.var; });
    if (!is_column) multiple = std::gcd(multiple, term.coefficient);
  }
  stored.dtypes.push_back(access.buffer->dtype);
  stored.piece_bytes = std::min(stored.piece_bytes, multiple * size_bytes(access.buffer->dtype));
  stored.ragged = stored.ragged || run % multiple != 0;
  return true;
}

Stored stored_in_pieces(const Loop& nest, const Form& form) {
  Stored stored;
  for (const Access& access : accesses_of(nest.body)) {
    if (!access.store || stride_of(access, form.n.back().get()) != 1) continue;
    if (!add_stored(stored, access, form)) return {};
  }
  return stored;
}

/// The same products with the sides exchanged: the tile then lies the other way round, rows of the result along its columns.
Contraction exchanged(Contraction c) {
  std::swap(c.a, c.b);
  std::swap(c.m_dims, c.n_dims);
  return c;
}
Form exchanged(Form form) {
  std::swap(form.m, form.n);
  std::swap(form.a_width, form.b_width);
  return form;
}

/// A form and a tile, before it is known whether the copy engine can do the copies.
struct Candidate {
  Contraction c;  ///< with the sides of the form
  Form form;
  WarpgroupTile tile;
  bool exchanged = false;               ///< the sides of the form are not those of the contraction
  bool turn_a = false, turn_b = false;  ///< first copied with the sum inside
  double ns = 0;                        ///< of the whole product and of the copies before it
};

/// Arithmetic of one result of the nest, beside its sum. That it is rounded is part of storing it, not so for others made of it.
double ops_of_result(const Loop& nest) {
  Loop rest = nest;
  std::erase_if(rest.body, [](const Stmt& stmt) { return std::holds_alternative<Reduce>(stmt.node); });
  for (Stmt& stmt : rest.body) {
    auto* store = std::get_if<Store>(&stmt.node);
    if (!store) continue;
    if (store->value->kind == Expr::Kind::op && store->value->op == Op::cast_) store->value = store->value->args[0];
    break;
  }
  return measure_work({Stmt{rest}}).ops / static_cast<double>(iterations(nest.dims));
}

Problem problem_of(const Contraction& c, const Form& form, const Loop& nest, const TensorCore& core, const Target& target) {
  const bool split = std::find(core.dtypes.begin(), core.dtypes.end(), c.a.dtype()) == core.dtypes.end();
  const int64_t size = size_bytes(split ? DType::bf16 : c.a.dtype());
  return {c,
          form,
          core,
          target,
          stored_in_pieces(nest, form),
          !is_contiguous(c.a, form.k),
          !is_contiguous(c.b, form.k),
          size,
          form.sum_box.empty() ? kPanelBytes / size : num_elements(form.sum_box),
          split,
          ops_of_result(nest)};
}

/// Another form or tile than the best one, where that is to be taken. `tiles_of`: all tiles of each form; the best one of it is that of its candidate.
std::optional<Candidate> decide_form_and_tile(const Chooser& chooser, const std::vector<Candidate>& forms,
                                              const std::vector<std::vector<WarpgroupTile>>& tiles_of) {
  std::vector<std::pair<size_t, size_t>> options;
  std::vector<double> times;
  for (size_t form = 0; form < forms.size(); form++) {
    for (size_t tile = 0; tile < tiles_of[form].size(); tile++) {
      options.emplace_back(form, tile);
      times.push_back(tiles_of[form][tile].ns + forms[form].ns - forms[form].tile.ns);
    }
  }
  if (options.empty()) return std::nullopt;
  const auto best = static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  const size_t taken = chooser.decide("form and tile", times, best);
  if (taken == best) return std::nullopt;
  const auto [form, tile] = options[taken];
  Candidate other = forms[form];
  other.tile = tiles_of[form][tile];
  other.ns = times[taken];
  return other;
}

/// The best tile of each form, the one with the least time first; in front of them the one that is to be taken, where that is another.
std::vector<Candidate> candidates_for(const Contraction& given, const Loop& nest, const TensorCore& core, const Chooser& chooser) {
  const Target& target = chooser.target();
  const std::string& dim = nest.dims[0].var->name;
  std::vector<Candidate> candidates;
  std::vector<std::vector<WarpgroupTile>> tiles_of;  // of each candidate, as it was found
  std::vector<Form> forms = forms_of(given, nest);
  // Windows of images are no steps of one dim.
  if (given.k_dims.size() > 1 && !given.a.guarded && !given.b.guarded) {
    for (size_t i = 0, count = forms.size(); i < count; ++i)
      forms.push_back(with_steps_of_one_dim(forms[i], kPanelBytes / size_bytes(given.a.dtype())));
  }
  for (size_t i = 0, count = forms.size(); i < count; ++i) {
    if (!is_windowed(given, forms[i])) continue;
    for (const int64_t rows : {64, 128, 192, 256})
      forms.push_back(in_boxes(given, forms[i], rows, kPanelBytes / size_bytes(given.a.dtype())));
  }
  if (core.transposed) {
    for (Form& form : forms_of_image_sums(given, kPanelBytes / size_bytes(given.a.dtype()))) forms.push_back(std::move(form));
  }
  for (const Form& form_given : forms) {
    // Few rows are the columns of a tile: an instruction takes as few as eight.
    const bool exchange = form_given.rows() <= kFewRows && form_given.box.empty() && form_given.sum_box.empty();
    const Form form = exchange ? exchanged(form_given) : form_given;
    const Contraction c = exchange ? exchanged(given) : given;
    if (form.rows() <= kFewRows || (!exchange && form.columns() < kFewRows)) continue;
    if (exchange && iterations(form.batch) * ceil_div(form.rows(), core.m) < target.cores / 2) continue;  // cut sums do better
    const bool a_turned = !is_contiguous(c.a, form.k), b_turned = !is_contiguous(c.b, form.k);
    Candidate candidate{c, form, {}, exchange};
    candidate.turn_a = a_turned && !(core.transposed && is_contiguous(c.a, form.m));
    candidate.turn_b = b_turned && !(core.transposed && is_contiguous(c.b, form.n));
    const bool turns = candidate.turn_a || candidate.turn_b;
    if (form.filled_to > 0 && form.box.empty() && turns) continue;  // copies bring the dims of the sum into one order
    if ((candidate.turn_a && !can_turn(chooser, dim, c.a, form.k)) || (candidate.turn_b && !can_turn(chooser, dim, c.b, form.k))) continue;
    Problem problem = problem_of(c, form, nest, core, target);
    if (problem.split && form.filled_to > 0) continue;  // parts of factors are made with the dims of the sum in one order
    problem.a_transposed = a_turned && !candidate.turn_a;
    problem.b_transposed = b_turned && !candidate.turn_b;
    const std::vector<WarpgroupTile> tiles = tiles_for(problem);
    const auto best = std::min_element(tiles.begin(), tiles.end(), [](const auto& x, const auto& y) { return x.ns < y.ns; });
    if (best == tiles.end()) continue;
    candidate.tile = *best;
    candidate.ns = best->ns + (candidate.turn_a ? turn_ns(chooser, c.a) : 0) + (candidate.turn_b ? turn_ns(chooser, c.b) : 0) +
                   (problem.split ? split_ns(c.a, target) + split_ns(c.b, target) : 0);
    candidates.push_back(candidate);
    tiles_of.push_back(tiles);
  }
  std::optional<Candidate> other = decide_form_and_tile(chooser, candidates, tiles_of);
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& x, const auto& y) { return x.ns < y.ns; });
  if (other) candidates.insert(candidates.begin(), std::move(*other));
  return candidates;
}

/// How the sum is cut, with the tile for the parts. Nothing: it stays whole.
struct Cut {
  int64_t parts;
  WarpgroupTile tile;
  double ns;  ///< of the whole product
};
std::optional<Cut> cut_of(const Chooser& chooser, const Problem& problem, const Merged& merged, const WarpgroupTile& whole) {
  const Contraction& c = merged.contraction;
  const bool as_merged = !problem.form.sum_box.empty();
  if (!as_merged && (!c.contiguous || c.contiguous->name != merged.n))
    return std::nullopt;                                                       // rows and columns would be others in the parts
  if (problem.form.rows() != iterations(problem.form.m)) return std::nullopt;  // a nest with masks isn't cut
  MatmulShape shape{iterations(problem.form.batch),
                    problem.form.rows(),
                    problem.form.columns(),
                    problem.form.length(),
                    problem.apart(),
                    problem.core.flops_per_ns / problem.target.cores / (problem.split ? kPairsOfParts : 1)};
  shape.bytes_read = bytes_of(*c.a.buffer) + bytes_of(*c.b.buffer);
  shape.zeros_past_the_end = zeros_past_the_end(merged);
  std::vector<WarpgroupTile> tiles = tiles_for(problem);
  Problem of_part = problem;
  of_part.stored = {};  // parts are f32, and not what the nest stores
  std::erase_if(tiles, [&](WarpgroupTile tile) { return !measure(of_part, tile); });
  std::vector<TileShape> shapes;
  for (const WarpgroupTile& tile : tiles) shapes.push_back({tile.m, tile.n, tile.efficiency});
  const SplitK cut = choose_split_k(std::span<const TileShape>(shapes), {whole.m, whole.n, whole.efficiency}, shape, chooser);
  return cut.parts == 1 ? std::nullopt : std::optional<Cut>({cut.parts, tiles[cut.tile], cut.ns});
}

/// The contraction after the copies that the candidate needs before it.
Contraction turned(Chooser& chooser, const Candidate& candidate) {
  if (!candidate.turn_a && !candidate.turn_b) return candidate.c;
  if (candidate.turn_a) turn(chooser, candidate.c.a, candidate.form.k);
  if (candidate.turn_b) turn(chooser, candidate.c.b, candidate.form.k);
  const std::optional<Contraction> result = as_contraction(chooser.find(candidate.c.dims[0]->name));
  if (!result) internal_error("the contraction `" + candidate.c.accumulator + "` of copied factors is none");
  return candidate.exchanged ? exchanged(*result) : *result;
}

/// Schedules the nest in the form of the candidate; nothing is done, with a reason, where the copy engine can't do the copies.
WhyNot schedule_candidate(Chooser& chooser, const Candidate& candidate, const TensorCore& core) {
  const Target& target = chooser.target();
  Chooser trial = chooser;
  const Contraction c = turned(trial, candidate);
  const Loop nest = std::get<Loop>(trial.find(c.dims[0]->name).node);
  const Merged merged = merge(trial, c, candidate.form);
  const Problem problem = problem_of(c, candidate.form, nest, core, target);
  const std::optional<Cut> cut = cut_of(chooser, problem, merged, candidate.tile);
  if (problem.split) {
    const double whole_ns = candidate.ns - candidate.tile.ns + (cut ? cut->ns : candidate.tile.ns);
    if (whole_ns > kWorthSplitting * fma_ns(c, target)) return "ordinary arithmetic takes no more time than parts of f32 in bf16";
  }
  Chooser copies = trial;
  Sum sum;
  if (WhyNot why_not = schedule_copies(copies, merged.contraction, merged, problem, candidate.tile, sum)) return why_not;
  const std::string first = merged.contraction.dims[0]->name;
  if (cut) {
    Chooser parts = trial;
    const Merged part = cut_sum(parts, merged, cut->parts, problem.apart(), !problem.form.sum_box.empty());
    // What the parts store is f32, and not what the nest stores.
    Problem of_part = problem;
    of_part.stored = {};
    WarpgroupTile tile = cut->tile;
    Sum of_sum;
    if (!measure(of_part, tile)) internal_error("a tile of the parts of `" + c.accumulator + "` does not fit");
    if (!schedule_copies(parts, part.contraction, part, of_part, tile, of_sum)) {
      schedule_products(parts, of_sum, of_part, tile);
      schedule_sum_of_parts(parts, first);
      chooser.take_over(std::move(parts));
      return std::nullopt;
    }
  }
  schedule_products(copies, sum, problem, candidate.tile);
  chooser.take_over(std::move(copies));
  return std::nullopt;
}

}  // namespace

// Of a factor that is computed as it is read, or has 8 bits, the copy engine can only move what is in memory: it is computed before, where that takes less time
// than copies that compute.
WhyNot warpgroups_after_factor(CudaNest& nest) {
  if (!nest.nest.contraction) return nest.nest.not_contraction;
  const Target& target = nest.target();
  const Contraction c = with_wide_bytes(*nest.nest.contraction, target);
  const bool is_a = c.a.computed || (c.a.narrowed && c.a.bits() == 8);
  const Factor &wide = is_a ? c.a : c.b, &other = is_a ? c.b : c.a;
  if (!wide.narrowed || wide.bits() > 8 || other.narrowed || other.dtype() != wide.dtype())
    return "no factor is computed in the dtype of the other";
  const TensorCore* core = target.warpgroup_core(wide.dtype());
  if (!core) return "no instruction of a warpgroup takes " + std::string(tcc::name_of(wide.dtype())) + " on " + target.name;
  if (c.dtype != DType::f32 || c.length() < kShortestSum) return "a sum of " + std::to_string(c.length()) + " is short";
  const std::optional<double> in_copies = tensor_cores_ns(*nest.nest.contraction, nest.loop(), target);
  Chooser trial = nest.chooser;
  const std::string factor = compute_factors(trial, c);
  CudaNest rest{trial, recognise(trial.find(nest.first()))};
  if (!rest.nest.contraction) return rest.nest.not_contraction;
  const std::vector<Candidate> candidates = candidates_for(*rest.nest.contraction, rest.loop(), *core, trial);
  if (candidates.empty()) return "no form has rows and columns for a tile, and contiguous factors";
  const double values = static_cast<double>(iterations(is_a ? c.m_dims : c.n_dims) * iterations(c.batch_dims) * c.length());
  const double before_ns = target.second_kernel_ns + 2 * values * size_bytes(wide.dtype()) / target.bytes_per_ns;
  if (in_copies && candidates.front().ns + before_ns >= *in_copies) return "copies that compute the factor take less time";
  if (WhyNot why_not = warpgroup_cores(rest)) return why_not;
  schedule_nest(trial, factor);
  nest.chooser.take_over(std::move(trial));
  return std::nullopt;
}

WhyNot warpgroup_cores(CudaNest& nest) {
  if (!nest.nest.contraction) return nest.nest.not_contraction;
  const Contraction& c = *nest.nest.contraction;
  const Target& target = nest.target();
  const DType dtype = c.a.dtype();
  const bool split = dtype == DType::f32 && !target.allow_tf32;
  if (split && !target.split_f32) return "products of f32 are those of IEEE 754";
  const TensorCore* core = target.warpgroup_core(split ? DType::bf16 : dtype);
  if (!core) return "no instruction of a warpgroup takes " + std::string(tcc::name_of(dtype)) + " on " + target.name;
  const bool takes = split ? c.b.dtype() == dtype : core->takes(dtype, c.b.dtype());
  if (WhyNot why_not = misfit_of_factors(c, takes, kShortestSum)) return why_not;
  if (c.a.narrowed || c.b.narrowed) return "a factor is rounded as it is read";
  if (c.a.dilated || c.b.dilated) return "a factor has zeros between its elements";
  const std::vector<Candidate> candidates = candidates_for(c, nest.loop(), *core, nest.chooser);
  WhyNot why_not = "no form has rows and columns for a tile, and contiguous factors";
  for (const Candidate& candidate : candidates) {
    const bool turns = candidate.turn_a || candidate.turn_b;
    if (const std::optional<double> without = turns ? tensor_cores_ns(c, nest.loop(), target) : std::nullopt;
        without && candidate.ns >= *without) {
      why_not = "the product takes less time than copies with the sum inside";
      continue;
    }
    why_not = schedule_candidate(nest.chooser, candidate, *core);
    if (!why_not) break;
  }
  return why_not;
}

}  // namespace tcc::schedule::cuda

namespace tcc::schedule {

bool prefers_channels_last(DType dtype, const Target& target) {
  if (!target.is_cuda() || (dtype == DType::f32 && !target.allow_tf32)) return false;
  const TensorCore* core = target.warpgroup_core(dtype);
  return core && core->takes(dtype, dtype);
}

}  // namespace tcc::schedule
