#include "tcc/group/lower_units.h"

#include <unordered_map>

#include "tcc/support/parallel.h"

namespace tcc::group {

LoweredUnits lower_units(const Groups& groups) {
  const int64_t num_units = static_cast<int64_t>(groups.units.size());
  std::vector<loop::FirstForm> all(groups.units.size());
  LoweredUnits result;
  result.checks.resize(groups.units.size());
  parallel_for(num_units, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t at = static_cast<size_t>(i);
      all[at] = loop::first_form(lower(*groups.graph, groups.units[at], &result.checks[at]));
    }
  });
  std::unordered_map<std::string, int> number_of;
  for (loop::FirstForm& form : all) {
    const auto [at, is_new] = number_of.emplace(form.key, static_cast<int>(result.forms.size()));
    if (is_new) result.forms.push_back(std::move(form));
    result.form_of_unit.push_back(at->second);
  }
  return result;
}

}  // namespace tcc::group
