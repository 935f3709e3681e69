// What each stage behind the graph passes makes, as text and for its verifier.
#pragma once

#include <string>
#include <vector>

#include "tcc/group/lower_units.h"
#include "tcc/plan/plan.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc::driver {

std::string text_of(const group::Groups& groups);
std::string text_of(const group::LoweredUnits& lowered);
std::string text_of(const schedule::ScheduledUnits& scheduled);  ///< each schedule as a comment, its kernels below it
std::string text_of(const plan::Plan& plan);

std::vector<std::string> faults_of(const group::Groups& groups);
std::vector<std::string> faults_of(const group::LoweredUnits& lowered);
std::vector<std::string> faults_of(const schedule::ScheduledUnits& scheduled);
std::vector<std::string> faults_of(const plan::Plan& plan);

/// A fault as verifiers have it: what is wrong, and behind it the node or statement, printed; it may be absent.
struct Fault {
  std::string message, statement;
};
Fault parts_of(const std::string& fault);

/// First forms one after the other, as --emit=loop prints and --from=loop reads them.
std::string print_forms(const std::vector<loop::FirstForm>& forms);
/// Kernels k0, k1, ..., as --emit=kernel prints and --from=kernel reads them, each below its comment where there is one.
std::string print_kernels(const std::vector<loop::Kernel>& kernels, const std::vector<std::string>& comments = {});

}  // namespace tcc::driver
