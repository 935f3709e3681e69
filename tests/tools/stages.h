// Stages that the command line can't enter by a text, print, or compare by themselves: what the program `stages` does with a text. Each function returns
// what is printed, and throws where something is wrong, which is exit code 1.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tcc::stages {

/// A stage is not what it should be: faults of a verifier, results that differ.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Arguments {
  std::string file, text;
  std::map<std::string, std::string> flags;  ///< of `--name=value`

  std::string flag(const std::string& name, const std::string& otherwise = "") const {
    const auto found = flags.find(name);
    return found == flags.end() ? otherwise : found->second;
  }
};

/// Fault with all of them, and `text`; nothing where there are none.
inline void require_none(const std::vector<std::string>& faults, const std::string& text) {
  if (faults.empty()) return;
  std::string message;
  for (const std::string& fault : faults) message += fault + "\n";
  throw Fault(message + text);
}

std::string interpret(const Arguments& arguments);  // rules/interpret_stage.cpp
std::string rounding(const Arguments& arguments);
std::string ranges(const Arguments& arguments);
std::string units(const Arguments& arguments);      // group/units_stage.cpp
std::string plan(const Arguments& arguments);       // plan/plan_stage.cpp
std::string overwrite(const Arguments& arguments);  // plan/overwrite_stage.cpp
std::string kernel(const Arguments& arguments);     // codegen/kernel_stage.cpp

}  // namespace tcc::stages
