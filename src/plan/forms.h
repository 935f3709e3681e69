// The distinct first forms of a model's units, each scheduled and cut into kernels once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tcc/group/group.h"
#include "tcc/loop/loop.h"
#include "tcc/plan/plan.h"
#include "tcc/schedule/schedule.h"

namespace tcc::plan {

struct Form {
  std::string text;                 ///< of the first form
  std::vector<loop::Param> params;  ///< of the unit
  schedule::Schedule schedule;
  std::vector<loop::Kernel> kernels;
  std::vector<double> costs_ns;              ///< of each kernel
  std::vector<loop::BufferRef> temporaries;  ///< pass between the kernels
};

struct Forms {
  std::vector<std::shared_ptr<const Form>> forms;      ///< in the order of their first units
  std::vector<int> of_unit;                            ///< for each unit, its form
  std::vector<std::vector<group::IndexCheck>> checks;  ///< of each unit
};

/// Lowers all units, on all threads; equal texts become one form. Those that the cache (null: none) has for the target are not scheduled again.
Forms make_forms(const Graph& graph, const group::Groups& groups, const schedule::Target& target, FormCache* cache);

}  // namespace tcc::plan
