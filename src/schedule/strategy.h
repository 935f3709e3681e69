// Ways to schedule a nest. Each target has a table of them, tried in order: the first that applies is taken, and what it and the ones before it said becomes
// the comment that `--emit=schedule` prints above the schedule.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "schedule/chooser.h"
#include "schedule/nest.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule {

/// Why a strategy does not apply to a nest, in a few words; nothing where it does, and has scheduled it.
using WhyNot = std::optional<std::string>;

/// A set of kinds of nests.
struct NestKinds {
  constexpr NestKinds(std::initializer_list<NestKind> kinds) {
    for (const NestKind kind : kinds) mask |= 1U << static_cast<unsigned>(kind);
  }
  constexpr bool contains(NestKind kind) const { return (mask >> static_cast<unsigned>(kind) & 1U) != 0; }
  unsigned mask = 0;
};

/// `Subject`: the nest as the target's strategies see it.
template <class Subject> struct Strategy {
  std::string_view name;
  NestKinds kinds;                   ///< that it is for; it is not asked about others
  WhyNot (*attempt)(Subject& nest);  ///< chooses nothing where it returns a reason
};

/// The attempts to schedule one nest.
template <class Subject> class Attempts {
 public:
  Attempts(Chooser& chooser, NestKind kind) : chooser_(chooser), kind_(kind), begin_(chooser.schedule().size()) {}

  /// Whether one of the strategies scheduled the nest: the first that applies. Where another candidate is sought, a later one does: then the nest of those
  /// before is dropped, and the last that applies stays, if `needed`, where there are too few.
  bool take_first(std::span<const Strategy<Subject>> strategies, Subject& nest, bool needed) {
    size_t left = chooser_.decisions() && has_any(strategies) ? chooser_.decisions()->pass_over(std::string(name_of(kind_))) : 0;
    const size_t size = chooser_.schedule().size();
    std::optional<Chooser> passed_over;  // the last one
    for (const Strategy<Subject>& strategy : strategies) {
      if (!strategy.kinds.contains(kind_)) continue;
      std::optional<Chooser> before;
      if (left > 0) before.emplace(chooser_);
      const Decisions::Muted muted(left > 0 ? chooser_.decisions() : nullptr);
      const WhyNot why_not = strategy.attempt(nest);
      if (why_not && chooser_.schedule().size() != size)
        internal_error("the strategy `" + std::string(strategy.name) + "` chose and then gave up");
      if (!why_not) chooser_.explain(begin_, std::string(name_of(kind_)) + ": " + std::string(strategy.name) + refused_);
      if (!why_not && left == 0) return true;
      refused_ += "\n  not " + std::string(strategy.name) + ": " + why_not.value_or("another candidate was asked for");
      if (why_not) continue;
      left--;
      passed_over.emplace(chooser_);
      chooser_.take_over(std::move(*before));
    }
    if (!needed || !passed_over) return false;
    chooser_.take_over(std::move(*passed_over));
    return true;
  }

 private:
  bool has_any(std::span<const Strategy<Subject>> strategies) const {
    return std::any_of(strategies.begin(), strategies.end(), [&](const auto& strategy) { return strategy.kinds.contains(kind_); });
  }

  Chooser& chooser_;
  const NestKind kind_;
  const size_t begin_;
  std::string refused_;
};

/// Computes the factor of a contraction that is computed, in a nest in front of it; returns the name of its first dim.
std::string compute_factors(Chooser& chooser, const Contraction& c);

namespace cpu {
void schedule_nest(Chooser& chooser, const std::string& first_dim);
}
namespace cuda {
void schedule_nest(Chooser& chooser, const std::string& first_dim);
}

}  // namespace tcc::schedule
