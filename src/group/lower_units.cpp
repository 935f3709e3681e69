#include "tcc/group/lower_units.h"

#include <mutex>
#include <optional>
#include <unordered_map>

#include "group/structure.h"
#include "tcc/support/parallel.h"

namespace tcc::group {

using SharedForm = std::shared_ptr<const loop::FirstForm>;

struct LoweringCache::Impl {
  std::mutex mutex;
  std::unordered_map<std::string, SharedForm> forms;  ///< by structure
};

LoweringCache::LoweringCache() : impl_(std::make_unique<Impl>()) {}
LoweringCache::~LoweringCache() = default;

LoweredUnits lower_units(const Groups& groups, LoweringCache* cache) {
  const size_t num_units = groups.units.size();
  LoweredUnits result;
  result.checks.resize(num_units);
  // Of units with the same structure the first is lowered.
  std::vector<std::optional<std::string>> structures(num_units);
  parallel_each(num_units, [&](size_t i) { structures[i] = structure_of(groups.units[i]); });
  std::unordered_map<std::string, size_t> first_of;
  std::vector<size_t> first(num_units), distinct;
  for (size_t i = 0; i < num_units; ++i) {
    first[i] = structures[i] ? first_of.emplace(*structures[i], i).first->second : i;
    if (first[i] == i) distinct.push_back(i);
  }
  std::vector<SharedForm> forms(num_units);
  if (cache) {
    const std::lock_guard lock(cache->impl().mutex);
    for (const size_t i : distinct) {
      if (!structures[i]) continue;
      if (const auto known = cache->impl().forms.find(*structures[i]); known != cache->impl().forms.end()) forms[i] = known->second;
    }
  }
  parallel_each(distinct.size(), [&](size_t number) {
    const size_t i = distinct[number];
    if (!forms[i]) {
      forms[i] = std::make_shared<const loop::FirstForm>(loop::first_form(lower(*groups.graph, groups.units[i], &result.checks[i])));
    }
  });
  if (cache) {
    const std::lock_guard lock(cache->impl().mutex);
    for (const size_t i : distinct) {
      if (structures[i]) cache->impl().forms.emplace(*structures[i], forms[i]);
    }
  }
  // Units of different structures may have the same loops.
  std::unordered_map<std::string, int> number_of;
  for (const size_t i : first) {
    const auto [at, is_new] = number_of.emplace(forms[i]->key, static_cast<int>(result.forms.size()));
    if (is_new) result.forms.push_back(*forms[i]);
    result.form_of_unit.push_back(at->second);
  }
  return result;
}

}  // namespace tcc::group
