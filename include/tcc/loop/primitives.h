// The primitives of schedules: loop passes that obey. Each is one file in src/loop/primitives/ and changes how a unit is run, never what it computes
// (floating-point sums may re-associate, as reduce allows).
//
// Loops, scalars and buffers are named without '%'. Where a primitive must copy code (tails, accumulators) the copies are named after the original:
// `i_1.tail`, `i_1.init`, `i_1.out` are copies of `i_1`, and a primitive that names `i_1` means all of them.
// An impossible request throws an Error (usage, "invalid-schedule") that says what was found; `apply` adds which primitive it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// dim -> dim_0 (outer, ceil(extent / factor)) and dim_1 (inner, factor), side by side. A remainder is masked by `where`.
/// A factor beyond the extent is the extent; with `pad` it stays, masked.
Unit split(const Unit& unit, const std::string& dim, int64_t factor, bool pad = false);
/// Gives the remainder that split left under a mask its own code: another reduce or loop after the first, or an `if` on the outer dims.
Unit peel(const Unit& unit, const std::string& dim);
/// Two neighbouring dims of one loop -> one dim `outer_inner`.
Unit fuse(const Unit& unit, const std::string& outer, const std::string& inner);
/// The named dims of one perfect nest, outermost first, in the places that they hold together.
Unit reorder(const Unit& unit, const std::vector<std::string>& order);
/// Where the iterations of a dim run.
Unit bind(const Unit& unit, const std::string& dim, Bind kind);
/// Interchanges the reduce that defines `accumulator` with the named dims of the map around it: their accumulators live in a buffer. A named dim of
/// the reduce itself keeps partial results apart until the end. `apart`, unless empty, a dim of the reduce: what the dims inside it compute is summed from
/// zero, then added.
Unit tile(const Unit& unit, const std::string& accumulator, const std::vector<std::string>& dims, Space space,
          const std::string& apart = "");
/// The let `scalar`, computed alike in several loops over a row, is computed once, into a buffer.
Unit cache(const Unit& unit, const std::string& scalar, Space space);
/// The let `scalar` is computed for all iterations that it depends on before its nest (`where`: top), into a temporary. Its axes are the loops, outermost
/// first; with `sum_first` those of reduces come before all others. `dtype`: not the let, but the factor of this dtype that reads it.
Unit compute_at(const Unit& unit, const std::string& scalar, const std::string& where, bool sum_first = false,
                std::optional<DType> dtype = std::nullopt);
/// What the terms of the sum round to 16 bits and widen again they keep in f32.
Unit skip_rounding(const Unit& unit, const std::string& accumulator);
/// Lets before the reduce that only its terms read go into it.
Unit sink_lets(const Unit& unit, const std::string& accumulator);
/// Merges the reduce `second`, a sum of exp(x - first) * y, into the reduce `first`, a maximum.
Unit fuse_online_reduction(const Unit& unit, const std::string& first, const std::string& second);
/// Copies what the code inside the dim `at` reads of `buffer` into a scratch or shared buffer first. `order`: its axes, slowest first; empty: as they are.
/// `phases` p: along the last axis of the copy, elements p apart become neighbours (what a strided convolution reads).
/// `panels` p: pieces of p elements of the last axis are stored one after the other, each with all of the other axes.
/// In global memory, `at` is `top`: the copy is of all that the unit reads, before its first nest.
/// `joined`, unless -1: this axis and the one after it are read as one, at %x / n and %x mod n.
Unit stage(const Unit& unit, const std::string& buffer, Space space, const std::string& at, const std::vector<int64_t>& order,
           int64_t phases = 1, int64_t panels = 0, int64_t joined = -1);
/// The same in shared memory, with an axis for each loop inside that the reads follow, in place of the axes of the buffer. `dtype`: what the reads are cast to.
/// `of_sums_alone`: of the masks around the reads, only those of sums mask the copy.
Unit stage_by_loops(const Unit& unit, const std::string& buffer, const std::string& at, std::optional<DType> dtype = std::nullopt,
                    bool of_sums_alone = false);
/// How the shared copy of `buffer` that stage made lies in the banks: rows padded by `pad` elements, or 16-byte chunks swizzled by `swizzle_bits` bits (0: none).
Unit lay_out_shared(const Unit& unit, const std::string& buffer, int swizzle_bits, int64_t pad, int64_t panel);
/// Adds a dim `dim_owner` to a loop that scatters to where data says: each owner makes the updates of its own part of the result, in the order of the others.
Unit own_updates(const Unit& unit, const std::string& dim, int64_t owners);
/// Products of the tile of `accumulator` with a zero that a select makes are skipped; not a number times such a zero counts as zero.
Unit skip_zeros(const Unit& unit, const std::string& accumulator);
/// The register tile of `accumulator`, a sum of products of two shared buffers, is computed by tensor cores and spread over warps_m x warps_n warps.
Unit tensorize(const Unit& unit, const std::string& accumulator, const std::string& shape, int64_t warps_m, int64_t warps_n);
/// The copies to shared memory in the body of the `for` dim run up to stages - 1 iterations ahead; its last iterations become a loop of their own.
Unit pipeline(const Unit& unit, const std::string& dim, int stages);
Unit pipeline_tiles(const Unit& unit, const std::string& dim, int stages, int math_registers, int load_registers);
/// The finished register tile of `accumulator` leaves through shared memory, so that warps write whole rows in pieces of so many bytes, a power of two.
Unit epilogue(const Unit& unit, const std::string& accumulator, int64_t piece_bytes = 16);
/// Spreads a reduce dim over the lanes of a warp, or the threads of a block; every one of them has the result.
Unit reduce_across(const Unit& unit, const std::string& dim, Bind kind);
/// A reduce over one long dim -> partial results of `parts` pieces in a temporary, then a nest that combines them. With `multiple` the pieces are multiples
/// of it, and the last one reads zeros past the end: for sums of products of which both factors end there.
Unit split_reduce(const Unit& unit, const std::string& accumulator, int64_t parts, int64_t multiple = 0);
/// The sum of products of f32 becomes one of products of bf16: of the parts of each factor, which nests of their own make. `apart`: terms that are summed from
/// zero before they join the rest.
Unit split_factors(const Unit& unit, const std::string& accumulator, int64_t apart);
/// What the dims of a reduce inside `dim` compute, those over lanes and threads excepted, is reduced by itself and then joins the rest.
Unit two_level_sum(const Unit& unit, const std::string& dim);

/// Products within the sum `sum` (product_chain.h): tiles of `rows` x `columns` of them, with `stages` copies of what lies along the columns under way. The
/// warps that multiply get `math_registers` a thread, those that copy `load_registers`.
Unit chain(const Unit& unit, const std::string& sum, int64_t rows, int64_t columns, int stages, int math_registers, int load_registers);
/// Rows of a product of matrices that are normalised and used up by a second product (streamed_rows.h), `maximum` the name of theirs: tiles of `rows` x `columns`
/// of them in registers, by tensor cores of warpgroups. `stages` of the ring of each factor that is read along the rows; registers as in pipeline_tiles.
Unit stream(const Unit& unit, const std::string& maximum, int64_t rows, int64_t columns, int stages, int math_registers,
            int load_registers);

}  // namespace tcc::loop
