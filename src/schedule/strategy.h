// Ways to schedule a nest. Each target has a table of them, tried in order: the first that applies is taken, and what it and the ones before it said becomes
// the comment that `--emit=schedule` prints above the schedule.
#pragma once

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

  /// Whether one of the strategies scheduled the nest.
  bool take_first(std::span<const Strategy<Subject>> strategies, Subject& nest) {
    for (const Strategy<Subject>& strategy : strategies) {
      if (!strategy.kinds.contains(kind_)) continue;
      const size_t before = chooser_.schedule().size();
      const WhyNot why_not = strategy.attempt(nest);
      if (!why_not) {
        chooser_.explain(begin_, std::string(name_of(kind_)) + ": " + std::string(strategy.name) + refused_);
        return true;
      }
      if (chooser_.schedule().size() != before) internal_error("the strategy `" + std::string(strategy.name) + "` chose and then gave up");
      refused_ += "\n  not " + std::string(strategy.name) + ": " + *why_not;
    }
    return false;
  }

 private:
  Chooser& chooser_;
  const NestKind kind_;
  const size_t begin_;
  std::string refused_;
};

namespace cpu {
void schedule_nest(Chooser& chooser, const std::string& first_dim);
}
namespace cuda {
void schedule_nest(Chooser& chooser, const std::string& first_dim);
}

}  // namespace tcc::schedule
