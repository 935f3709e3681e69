#include "tcc/ops/combiner.h"

#include <array>
#include <limits>
#include <string>

#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

struct Row {
  Combiner combiner;
  std::string_view name, scatter_name;  ///< empty: not there
  Op reduction, pointwise;
};

constexpr std::array kRows = {
    Row{Combiner::sum, "sum", "add", Op::reduce_sum_, Op::add_},       Row{Combiner::prod, "prod", "mul", Op::reduce_prod_, Op::mul_},
    Row{Combiner::max, "max", "max", Op::reduce_max_, Op::max_},       Row{Combiner::min, "min", "min", Op::reduce_min_, Op::min_},
    Row{Combiner::and_, "and", "", Op::reduce_and_, Op::and_},         Row{Combiner::or_, "or", "", Op::reduce_or_, Op::or_},
    Row{Combiner::assign, "", "assign", Op::identity_, Op::identity_},
};

const Row& row_of(Combiner combiner) { return kRows[static_cast<size_t>(combiner)]; }

std::optional<Combiner> find(std::string_view Row::* column, std::string_view name) {
  for (const Row& row : kRows) {
    if (!name.empty() && row.*column == name) return row.combiner;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Combiner combiner) { return row_of(combiner).name; }
std::string_view scatter_name_of(Combiner combiner) { return row_of(combiner).scatter_name; }
std::optional<Combiner> combiner_named(std::string_view name) { return find(&Row::name, name); }
std::optional<Combiner> scatter_combiner_named(std::string_view name) { return find(&Row::scatter_name, name); }
Op pointwise_of(Combiner combiner) { return row_of(combiner).pointwise; }

Combiner combiner_of(Op reduction) {
  for (const Row& row : kRows) {
    if (row.reduction == reduction && row.combiner != Combiner::assign) return row.combiner;
  }
  internal_error("`" + std::string(name_of(reduction)) + "` is not a reduction");
}

Identity identity_of(Combiner combiner, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int bits = size_bits(dtype);
  const int64_t all_bits = dtype == DType::boolean ? 1 : is_signed_integer(dtype) || bits == 64 ? -1 : (int64_t{1} << bits) - 1;
  const int64_t lowest = is_signed_integer(dtype) ? std::numeric_limits<int64_t>::min() >> (64 - bits) : 0;
  switch (combiner) {
    case Combiner::sum:
    case Combiner::or_: return {0, 0};
    case Combiner::prod: return {1, 1};
    case Combiner::and_: return {0, all_bits};
    case Combiner::max: return {-kInfinity, lowest};
    case Combiner::min: return {kInfinity, is_signed_integer(dtype) ? ~lowest : all_bits};
    case Combiner::assign: break;
  }
  internal_error("`assign` has no identity");
}

}  // namespace tcc
